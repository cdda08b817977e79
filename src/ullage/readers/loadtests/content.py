"""The bytes of a file as what they hold: JSON documents, a YAML document, rows of a CSV, or plain text.

A reader decides by content, never by the name of the file, so everything is parsed once here, before any reader looks.
"""

from __future__ import annotations

import csv
import enum
import hashlib
import json
import re
import zlib
from dataclasses import dataclass
from typing import Any

from ullage.documents import yaml_values
from ullage.errors import InputError

# What serving benchmarks print has lines of `key: value` too, and is no YAML. Logs put a time or a name before a line.
_PRINTED = re.compile(r"^(?P<before>[^\n]{0,120}?)=+ *[A-Za-z ]*Benchmark Result *=+\s*$", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# AIPerf prints its tables in boxes; a line of one may be found in any prompt, the title is not.
_TABLES = ("NVIDIA AIPerf | ", "\u2501\u2501")
_GZIP = b"\x1f\x8b"
_MOST_BYTES = 256 * 2**20
_YAML_KEY = re.compile(r"^(?:---\s*$|[A-Za-z_\"'][^,{}]*:(?:\s|$))")


class FileShape(enum.Enum):
    """What kind of file it is."""

    JSON = "JSON"
    YAML = "YAML"
    CSV = "CSV"
    TEXT = "text"


@dataclass(frozen=True, kw_only=True)
class Content:
    """A parsed file: `documents` for JSON (several may follow each other) and YAML, `rows` for CSV, `text` always."""

    file: str
    shape: FileShape
    text: str
    sha256: str
    documents: tuple[Any, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()

    @property
    def mappings(self) -> list[dict[str, Any]]:
        """The documents that are objects; where the file is one list of objects, those."""
        found = self.documents
        if len(found) == 1 and isinstance(found[0], list):
            found = tuple(found[0])
        return [each for each in found if isinstance(each, dict)]

    @property
    def first(self) -> dict[str, Any]:
        """The first object, or an empty one, for a reader that asks whether the file is its own."""
        mappings = self.mappings
        return mappings[0] if mappings else {}


def parse(data: bytes, *, file: str) -> Content:
    """Find out what these bytes hold, or say why they hold nothing that a load-test tool writes."""
    text = _decode(data, file)
    sha256 = hashlib.sha256(data).hexdigest()
    start = text.lstrip()
    if start.startswith(("{", "[")):
        return Content(file=file, shape=FileShape.JSON, text=text, sha256=sha256, documents=_json(text, file))
    printed = _printed(text)
    if printed is not None:
        return Content(file=file, shape=FileShape.TEXT, text=printed, sha256=sha256)
    if _looks_like_yaml(start):
        return Content(file=file, shape=FileShape.YAML, text=text, sha256=sha256, documents=(_yaml(text, file),))
    if "," in start.splitlines()[0]:
        try:
            rows = tuple(tuple(row) for row in csv.reader(text.splitlines()) if row)
        except csv.Error as error:
            raise _wrong(file, str(error), "is not CSV", "Give the file as the tool wrote it.") from None
        return Content(file=file, shape=FileShape.CSV, text=text, sha256=sha256, rows=rows)
    return Content(file=file, shape=FileShape.TEXT, text=text, sha256=sha256)


def _printed(text: str) -> str | None:
    """The lines of what a tool printed, without what a log or a terminal added to them; None for other files."""
    # A log of gigabytes is not searched line by line for a block that it has not.
    if "Benchmark Result" in text:
        plain = _COLOUR.sub("", text)
        if (header := _PRINTED.search(plain)) is not None:
            return _without(header["before"], plain)
    return text if all(each in text for each in _TABLES) else None


def _without(before: str, text: str) -> str:
    """The text without what a log put before its lines: the same as before the header, whatever its digits."""
    if not before.strip():
        return text
    shape = re.sub(r"\d+", r"\\d+", re.escape(before.rstrip()))
    return re.sub(rf"^{shape} ?", "", text, flags=re.MULTILINE)


def _unpacked(data: bytes, file: str) -> bytes:
    """What gzip packed, within the size that a result may have; other bytes as they are."""
    if not data.startswith(_GZIP):
        return data
    unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        found = unpack.decompress(data, _MOST_BYTES)
    except zlib.error as error:
        raise _wrong(file, f"{len(data)} bytes", f"is a damaged gzip ({error})", "Copy it again.") from None
    if unpack.unconsumed_tail:
        raise _wrong(file, f"{len(data)} bytes", f"unpacks to more than {_MOST_BYTES >> 20} MiB", "Give a part of it.")
    if not unpack.eof:
        raise _wrong(file, f"{len(data)} bytes", "is a gzip that is cut short", "Copy it again.")
    return found


def _decode(data: bytes, file: str) -> str:
    data = _unpacked(data, file)
    if b"\x00" in data[:4096]:
        raise _wrong(
            file, f"{len(data)} bytes", "is binary", "Give the text file that the tool wrote; unpack it first."
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _wrong(
            file, f"byte {error.start}", "is not UTF-8 text", "Give the text file that the tool wrote."
        ) from None
    if not text.strip():
        raise _wrong(file, f"{len(data)} bytes", "is empty", "Let the tool finish, then give the file it wrote.")
    return text


def _json(text: str, file: str) -> tuple[Any, ...]:
    """Every JSON value in the text: tools append one object after another, on one line each or not.

    The bare words Infinity and NaN are taken, which strict JSON does not have and SGLang writes.
    """
    decoder = json.JSONDecoder()
    documents: list[Any] = []
    at = _next(text, 0)
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except RecursionError:
            raise _wrong(
                file, f"value {len(documents) + 1}", "is nested too deeply to be a result", "Is it the right file?"
            ) from None
        except json.JSONDecodeError as error:
            cut = error.pos >= len(text.rstrip()) - 1 or "Unterminated" in error.msg or "Expecting value" in error.msg
            problem = "the file is cut short" if cut else f"is not JSON ({error.msg})"
            before = f" after {len(documents)} whole ones" if documents else ""
            raise _wrong(
                file,
                f"line {error.lineno}, column {error.colno}",
                problem + before,
                "Copy it again, or let the tool finish.",
            ) from None
        except ValueError:
            raise _wrong(
                file, f"value {len(documents) + 1}", "holds a number of thousands of digits", "Is it the right file?"
            ) from None
        documents.append(value)
        at = _next(text, at)
    return tuple(documents)


def _next(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _looks_like_yaml(text: str) -> bool:
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    return _YAML_KEY.match(next(lines, "")) is not None


def _yaml(text: str, file: str) -> Any:
    found = yaml_values(text, file=file, fix="Copy it again, or let the tool finish.")
    return _with_text_keys(found[0]) if found else None


def _with_text_keys(value: Any) -> Any:
    """The value with every key as text, as readers ask for keys: YAML takes a bare `on:` or `8:` for another kind."""
    if isinstance(value, dict):
        return {str(key): _with_text_keys(each) for key, each in value.items()}
    return [_with_text_keys(each) for each in value] if isinstance(value, list) else value


def _wrong(file: str, value: object, problem: str, fix: str) -> InputError:
    return InputError(field=file, value=value, problem=problem, fix=fix)
