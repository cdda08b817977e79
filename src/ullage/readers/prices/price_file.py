"""The bytes of a price file as rows or as a document, and what the user says of it.

Most price files say neither when they were made nor whose they are: the user says so beside the file. A price without
a date is refused, for nobody could tell its age.
"""

from __future__ import annotations

import csv
import datetime
import gzip
import hashlib
import io
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.documents import json_value
from ullage.errors import InputError
from ullage.evidence import Source

Row = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class PriceProvenance:
    """What the user says of a file: when it was made, whose it is, and for which day of a history it is read."""

    dated: datetime.date | None = None
    provider: str = ""
    on: datetime.date | None = None


@dataclass(frozen=True, kw_only=True)
class PriceFile:
    """A parsed file: `header` and `rows` of a CSV, or the `document` of a JSON file."""

    file: str
    sha256: str
    provenance: PriceProvenance
    header: tuple[str, ...] = ()
    rows: Sequence[Row] = ()
    document: Any = None

    def has(self, *columns: str) -> bool:
        return set(columns) <= set(self.header)

    def date(self) -> datetime.date:
        """The date the user gave; a format that carries its own does not ask."""
        if self.provenance.dated is None:
            raise InputError(
                field=self.file,
                value=None,
                problem="does not state the date of its prices",
                fix="State it next to the file, for example dated: 2026-11-01.",
            )
        return self.provenance.dated

    def source(self, what: str, date: datetime.date) -> Source:
        return Source(what=what, where=f"{self.file} (sha256 {self.sha256[:12]})", date=date)


def parse(data: bytes, *, file: str, provenance: PriceProvenance) -> PriceFile:
    """Find out what these bytes hold; gzip is opened."""
    sha256 = hashlib.sha256(data).hexdigest()
    text = _text(data, file)
    if text.lstrip().startswith(("{", "[")):
        document = json_value(text, file=file, fix="Give the file whole, as it was written.")
        return PriceFile(file=file, sha256=sha256, provenance=provenance, document=document)
    reader = csv.DictReader(io.StringIO(text, newline=""), restkey="", strict=True)
    try:
        rows = [_row(file, number, row) for number, row in enumerate(reader, 2)]
    except csv.Error as error:
        raise _wrong(file, str(error), "is not CSV", "Give the file whole, as it was written.") from None
    header = tuple(reader.fieldnames or ())
    return PriceFile(file=file, sha256=sha256, provenance=provenance, header=header, rows=rows)


def amount(file: PriceFile, row: Row, number: int, column: str, *, signed: bool = False) -> float | None:
    """A number of a row, None where the cell is empty; anything else is an InputError that names the row.

    Prices and counts are not negative; what a bill charges, corrected, may be (`signed`).
    """
    text = row.get(column, "").strip()
    if not text or text.lower() in ("nan", "none", "null"):
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or (value < 0 and not signed):
        raise _wrong(f"{file.file}:{number}", f"{column} = {text}", "is not an amount", "Give a number from 0 on.")
    return value


def day(file: PriceFile, row: Row, number: int, column: str) -> datetime.date:
    """A date of a row."""
    text = row.get(column, "").strip()
    try:
        return datetime.date.fromisoformat(text[:10])
    except ValueError:
        raise _wrong(f"{file.file}:{number}", f"{column} = {text}", "is not a date", "Give 2026-11-15.") from None


def _row(file: str, number: int, row: dict[str, Any]) -> dict[str, str]:
    if "" in row or None in row.values():
        raise _wrong(
            f"{file}:{number}",
            next((each for each in row.values() if isinstance(each, str)), ""),
            "has not as many cells as the header",
            "Give the file whole; quote cells that hold commas.",
        )
    return row


def _text(data: bytes, file: str) -> str:
    if data.startswith(b"\x1f\x8b"):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            raise _wrong(file, f"{len(data)} bytes", "is cut short", "Copy the file again.") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _wrong(file, f"byte {error.start}", "is not UTF-8 text", "Give a CSV or JSON file.") from None
    if not text.strip():
        raise _wrong(file, "0 lines", "is empty", "Give a file with prices in it.")
    return text


def _wrong(field: str, value: object, problem: str, fix: str) -> InputError:
    return InputError(field=field, value=value, problem=problem, fix=fix)
