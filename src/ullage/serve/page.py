"""The live page, where it was built into the package; else a small page that says where to look instead."""

from __future__ import annotations

import html
import mimetypes
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

_SAFE = re.compile(r"^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*){0,3}$")
_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml",
          ".html": "text/html; charset=utf-8", ".woff2": "font/woff2", ".map": "application/json"}  # fmt: skip
_HTML = "text/html; charset=utf-8"
_NO_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Ullage</title></head>
<body><h1>Ullage</h1>
<p>The service runs. This build has no live page.</p>
<p><a href="/docs">What it answers</a> &middot; <a href="/openapi.json">the same for programs</a></p>
</body></html>
"""


def page_file(place: str) -> tuple[bytes, str] | None:
    """A file of the built page by its name below it, and its type; None where there is none of that name."""
    folder = Path(str(files("ullage.report"))) / "page"
    name = place or "index.html"
    if not place and not (folder / name).is_file():
        return _NO_PAGE.encode(), _HTML
    if not _SAFE.match(name):
        return None
    file = (folder / name).resolve()
    if not file.is_relative_to(folder.resolve()) or not file.is_file():
        return None
    guessed = _TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return file.read_bytes(), guessed


def docs_page(description: dict[str, Any]) -> bytes:
    """Every route with its summary: a table without a script, for a reader."""
    rows = [
        f"<tr><td><code>{html.escape(method.upper())} {html.escape(path)}</code></td>"
        f"<td>{html.escape(str(said.get('summary', '')))}</td></tr>"
        for path, methods in description["paths"].items()
        for method, said in methods.items()
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Ullage: what it answers</title></head>'
        "<body><h1>What it answers</h1><table><thead><tr><th>request</th><th>what it does</th></tr></thead><tbody>"
        f'{"".join(rows)}</tbody></table><p><a href="/openapi.json">The whole description</a></p></body></html>'
    ).encode()
