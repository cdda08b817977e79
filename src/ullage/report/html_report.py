"""A plan as one HTML file: the page that is built from `page/`, with the plan's JSON in it as text that nothing runs.

The page's policy allows its own script and style by their hashes and nothing else, so that a name with a script in it
would stay text even where an escape were missing. Nothing is fetched, and the same plan gives the same bytes.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from ullage.errors import InputError
from ullage.foreign import visible

_PAGE = "page/report.html"
_PLACE = "<!--plan-->"
_TITLE = "<title>Ullage</title>"


def report_page() -> str:
    """The page without a plan; an InputError where this copy of Ullage was installed without it."""
    try:
        return (files("ullage.report") / _PAGE).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(
            field="report",
            value=_PAGE,
            problem="is not built in this copy of Ullage",
            fix="Run make page in the repository, or install a wheel, which holds it.",
        ) from None


def html_report(document: Mapping[str, Any], page: str, *, beside: Mapping[str, Any] | None = None) -> str:
    """The page with this plan in it, and `beside` it what was found since: drills played on it, its reconciliation."""
    title = html.escape(visible(f"{document['service']}, {document['as_of']}")).encode("ascii", "xmlcharrefreplace")
    held = f'<script type="application/json" id="plan">{_text({**document, **(beside or {})})}</script>'
    return page.replace(_TITLE, f"<title>{title.decode()}</title>", 1).replace(_PLACE, held, 1)


def _text(document: Mapping[str, Any]) -> str:
    """JSON that no HTML parser takes for markup, in ASCII."""
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
