"""Which files were meant, and what each looks like from outside: layout, compression, names of its fields.

Nothing here knows a format. A glimpse is what formats are recognised by.
"""

from __future__ import annotations

import csv
import enum
import glob
import io
import json
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ullage.errors import InputError
from ullage.readers.traces.sql import file_list, text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Enough to hold the first line of a log in which prompts are written out; a longer first line is cut and
# the file is then taken for a JSON document, which DuckDB parses whole.
HEAD_BYTES = 1 << 20
# DuckDB sets aside two buffers of this size for each thread; a log line with a 10 MB prompt must fit.
MAX_LINE_BYTES = 32 << 20
_LOG_LINE = re.compile(r'(?:HTTP/[\d.]+|- - -|[\]] "[^"]*)" \d{1,3}\b')
# HAProxy writes the request last, behind five times in milliseconds; before it stand its own messages of a start.
_PROXY_LINE = re.compile(r"\] +\S+ +[^/\s]+/\S+ +(?:-?\d+/){4}\+?-?\d+ +(?:-1|\d{3}) ")
_PROXY_WITHIN = 50
# The field by which such lines are told from others.
FIVE_TIMES = "five times"
_TIME_OF_DAY = re.compile(r"\d{2}:\d{2}:\d{2}")
# How far into a table one looks to see how it prints its numbers.
_SAMPLED_BYTES = 1 << 18
_SAMPLED_ROWS = 1000
# What else people give, by its first bytes: the problem and the fix.
_OTHER_FILES = {
    b"PK": ("is a ZIP archive", "Unpack it and give the files inside; gzip and zstd are read as they are."),
    b"BZh": ("is packed with bzip2", "Unpack it; gzip and zstd are read as they are."),
    b"\xfd7zXZ": ("is packed with xz", "Unpack it; gzip and zstd are read as they are."),
    b"\xff\xfe": ("is UTF-16 text", "Write it as UTF-8, for example with iconv -f UTF-16 -t UTF-8."),
    b"\xfe\xff": ("is UTF-16 text", "Write it as UTF-8, for example with iconv -f UTF-16 -t UTF-8."),
    b"SQLite format 3": ("is a SQLite database", "Export the table as CSV or Parquet."),
}
_SKIPPED_NAMES = ("_", ".")
# A request log has some dozens; a first line of more is data that lost its lines.
_MOST_COLUMNS = 2_000


class Layout(enum.Enum):
    PARQUET = "parquet"
    CSV = "csv"
    JSON_LINES = "jsonl"
    JSON_DOCUMENT = "json"
    LINES = "lines of text"


@dataclass(frozen=True, kw_only=True)
class Glimpse:
    """One file from outside.

    `fields` are column names, or key paths such as `metadata.usage` and `spans[].name`. `header` is the
    first line of a CSV file, which has fewer columns than fields where folders such as `model=a/` add some.
    `types` are the SQL types of the fields, where the file says them. `sample` are the first rows of a CSV file.
    `records` is the JSON path to the records where they stand inside an object, such as `$."data"[*]`;
    `is_list` says that a document is a list of records, and not one object; `is_bare` that a CSV file has no line of
    names, so that its header is its first row.
    """

    path: str
    layout: Layout
    compression: str
    fields: tuple[str, ...]
    delimiter: str = ","
    header: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    sample: tuple[tuple[str, ...], ...] = ()
    records: str = ""
    is_list: bool = False
    is_bare: bool = False

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def is_nested(self) -> bool:
        """Whether fields are key paths."""
        return self.layout in (Layout.JSON_LINES, Layout.JSON_DOCUMENT)

    def type_of(self, field: str) -> str:
        """The SQL type of a field, or nothing where it is text until it is read."""
        return dict(zip(self.fields, self.types, strict=False)).get(field, "")

    def values(self, field: str) -> list[str]:
        """The first values of a column of a CSV file, without what is empty."""
        if field not in self.header:
            return []
        place = self.header.index(field)
        return [value for row in self.sample if (value := row[place].strip())]

    def has(self, *fields: str) -> bool:
        return set(fields) <= set(self.fields)

    def has_any(self, *fields: str) -> bool:
        return not set(fields).isdisjoint(self.fields)


def wrapped(file: Glimpse) -> Iterator[Glimpse]:
    """What a file of JSON may hold inside an object: each list of records (`data`, `hits.hits`) and each object that a
    record stands in (`_source`, `jsonPayload`)."""
    if not file.is_nested:
        return
    inside = _inside_each(file.fields)
    for field in file.fields:
        inner = inside.get(field, ())
        if inner and field.count("[]") <= 1 and (file.is_list or file.layout is Layout.JSON_LINES or "[]" in field):
            yield _inside(file, field, inner)
        listed = inside.get(f"{field}[]", ())
        if listed and "[]" not in field:
            yield _inside(file, f"{field}[]", listed)


def _inside_each(fields: Sequence[str]) -> dict[str, list[str]]:
    """The key paths below each path, in one pass: a document of settings or of prices has tens of thousands of them."""
    inside: dict[str, list[str]] = {}
    for field in fields:
        cut = field.find(".")
        while cut >= 0:
            inside.setdefault(field[:cut], []).append(field[cut + 1 :])
            cut = field.find(".", cut + 1)
    return inside


def _inside(file: Glimpse, place: str, fields: Sequence[str]) -> Glimpse:
    keys = [(key.removesuffix("[]"), "[*]" if key.endswith("[]") else "") for key in place.split(".")]
    # A document on one line looks like a log with one record; the reader of documents has no limit on its length.
    layout = Layout.JSON_DOCUMENT if "[]" in place else file.layout
    path = "$" + "".join(f'."{key}"{every}' for key, every in keys)
    is_list = file.is_list or "[]" in place
    return replace(file, fields=tuple(fields), layout=layout, records=path, is_list=is_list)


def expand(patterns: Sequence[str]) -> list[str]:
    """The files that paths, globs and folders stand for, each once, sorted by name within each pattern."""
    found: dict[str, None] = {}
    for pattern in patterns:
        is_glob = glob.has_magic(pattern) and not os.path.exists(pattern)
        matches = sorted(glob.glob(pattern, recursive=True)) if is_glob else [pattern]
        files = [path for match in matches for path in _files_under(match)]
        if not files:
            raise InputError(
                field="trace",
                value=pattern,
                problem="names no file",
                fix="Give a file, a folder or a quoted glob such as 'logs/*.jsonl.gz'.",
            )
        for path in files:
            _refuse_unnamed(path)
        found.update(dict.fromkeys(files))
    return list(found)


def _refuse_unnamed(path: str) -> None:
    """A name in another encoding than UTF-8 reaches Python, and not the database."""
    try:
        path.encode()
    except UnicodeEncodeError:
        problem = "has a name that is not UTF-8"
        raise InputError(field="trace", value=path, problem=problem, fix="Rename it, or link to it.") from None


def _files_under(path: str) -> Iterator[str]:
    if os.path.isfile(path):
        yield path
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith(_SKIPPED_NAMES))
        yield from (os.path.join(folder, name) for name in sorted(names) if not name.startswith(_SKIPPED_NAMES))


def partition_keys(path: str) -> tuple[str, ...]:
    """The keys of folders such as `date=2026-01-01/` above a file."""
    folders = path.split(os.sep)[:-1]
    return tuple(folder.split("=", 1)[0] for folder in folders if "=" in folder)


def glimpse(connection: DuckDBPyConnection, path: str) -> Glimpse:
    """Looks at the first bytes of a file, and at no more than it needs."""
    try:
        with open(path, "rb") as stream:
            start = stream.read(HEAD_BYTES)
    except OSError as error:
        raise InputError(
            field="trace", value=path, problem=f"cannot be read ({error.strerror})", fix="Check its name and rights."
        ) from None
    if not start.strip():
        raise InputError(field="trace", value=path, problem="is empty", fix="Give a file with at least one request.")
    if start.startswith(b"PAR1"):
        described = _parquet_columns(connection, path)
        return Glimpse(
            path=path,
            layout=Layout.PARQUET,
            compression="none",
            fields=tuple(name for name, _ in described),
            types=tuple(kind for _, kind in described),
        )
    compression, head = _unpacked(connection, path, start)
    return _glimpse_of_text(connection, path, compression, _decoded(path, head))


def _unpacked(connection: DuckDBPyConnection, path: str, start: bytes) -> tuple[str, bytes]:
    if start.startswith(b"\x1f\x8b"):
        # A stream cut short still shows its head; whether the rest is whole is for the reader to say.
        try:
            return "gzip", zlib.decompressobj(wbits=31).decompress(start, HEAD_BYTES)
        except zlib.error as error:
            fix = "Copy the file again; gzip -t tests it."
            raise InputError(field="trace", value=path, problem=f"is damaged gzip ({error})", fix=fix) from None
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        # The standard library has no zstd before Python 3.14; DuckDB has.
        rows = connection.execute(f"SELECT line FROM {raw_lines([path], 'zstd')} LIMIT 50").fetchall()
        return "zstd", "\n".join(row[0] or "" for row in rows).encode()
    return "none", start


def _decoded(path: str, head: bytes) -> str:
    if b"\0" not in head:
        try:
            return head.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            # The head may end in the middle of a character.
            if error.start > len(head) - 4:
                return head[: error.start].decode("utf-8-sig")
    is_workbook = b"xl/" in head[:4096] or b"[Content_Types]" in head[:4096]
    problem, fix = next(
        (told for start, told in _OTHER_FILES.items() if head.startswith(start)),
        ("is neither text nor Parquet", "Give UTF-8 text (CSV, JSON, JSON lines; plain, gzip or zstd) or Parquet."),
    )
    if is_workbook and head.startswith(b"PK"):
        problem, fix = "is an Excel workbook", "Save its sheet as CSV UTF-8 and give that."
    raise InputError(field="trace", value=path, problem=problem, fix=fix)


def _glimpse_of_text(connection: DuckDBPyConnection, path: str, compression: str, head: str) -> Glimpse:
    first, _, rest = head.lstrip().partition("\n")
    if _is_log_line(first) and _parsed(first) is None:
        # A log says a time in each line or in none; the field stands for whether there is one.
        named = ("line", "time") if _TIME_OF_DAY.search(first) else ("line",)
        return Glimpse(path=path, layout=Layout.LINES, compression=compression, fields=named)
    if not _begins_json(head.lstrip()) and any(map(_PROXY_LINE.search, [first, *rest.split("\n")[:_PROXY_WITHIN]])):
        timed = ("line", "time", FIVE_TIMES)
        return Glimpse(path=path, layout=Layout.LINES, compression=compression, fields=timed)
    if not _begins_json(head.lstrip()):
        delimiter = max(",;\t|", key=first.count)
        names = _distinct(_header(path, first.rstrip("\r"), delimiter))
        if not 0 < len(names) <= _MOST_COLUMNS:
            many = f"has {len(names):,} columns in its first line"
            raise InputError(
                field="trace",
                value=path,
                problem=many if names else "is empty, or cut in its first line",
                fix=f"Give a table of 1 to {_MOST_COLUMNS:,} columns, named in its first line.",
            )
        return Glimpse(
            path=path,
            layout=Layout.CSV,
            compression=compression,
            fields=(*names, *partition_keys(path)),
            delimiter=delimiter,
            header=tuple(names),
            sample=_first_rows(rest, delimiter, len(names)),
        )
    records = list(_whole_lines(first, rest))
    if records:
        fields = dict.fromkeys(field for record in records for field in _key_paths(record))
        return Glimpse(path=path, layout=Layout.JSON_LINES, compression=compression, fields=tuple(fields))
    structure = _document_structure(connection, path, compression)
    return Glimpse(
        path=path,
        layout=Layout.JSON_DOCUMENT,
        compression=compression,
        fields=tuple(_key_paths(structure)),
        is_list=first[:1] == "[",
    )


def _header(path: str, first: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(first), delimiter=delimiter), [])
    except csv.Error as error:
        problem = f"has a first line that is no row of a table: {error}"
        fix = "Name the columns in the first line, and end lines with a line feed."
        raise InputError(field="trace", value=path, problem=problem, fix=fix) from None


def _first_rows(rest: str, delimiter: str, columns: int) -> tuple[tuple[str, ...], ...]:
    # The last line of a head may be cut.
    lines = rest[: min(len(rest), _SAMPLED_BYTES)].split("\n")[:_SAMPLED_ROWS]
    try:
        rows = list(csv.reader(lines[:-1] or lines, delimiter=delimiter))
    except csv.Error:
        return ()
    return tuple(tuple(row) for row in rows if len(row) == columns)


def _distinct(names: Sequence[str]) -> list[str]:
    """Names by which columns can be told apart: data frames leave their index unnamed, and joins repeat a name.

    >>> _distinct(["", "model", "Model", ""])
    ['column 1', 'model', 'Model (column 3)', 'column 4']
    """
    found: list[str] = []
    known: set[str] = set()
    for place, name in enumerate(names, 1):
        is_new = bool(name) and name.lower() not in known
        found.append(name if is_new else f"{name} (column {place})" if name else f"column {place}")
        known.add(found[-1].lower())
    return found


def _begins_json(head: str) -> bool:
    """Whether a text is a JSON object or a list of objects; a line of a log may begin with a time in brackets."""
    return head.startswith("{") or (head.startswith("[") and head[1:].lstrip()[:1] in ("{", "[", "]", '"', ""))


def _is_log_line(line: str) -> bool:
    """Whether this is a line of an access log: a request in quotes with a status code behind it."""
    return _LOG_LINE.search(line) is not None


def _whole_lines(first: str, rest: str) -> Iterator[object]:
    """The records of the first lines, where each line is one; nothing for a document over several lines."""
    lines = [first, *rest.split("\n")[:49]]
    # A log that was rotated or cut may begin in the middle of a line; a document never has a record on its second.
    if not any(isinstance(_parsed(line), dict) for line in lines[:2]):
        return
    # Optional keys are often absent from the very first record.
    for line in lines:
        record = _parsed(line)
        if isinstance(record, dict):
            yield record


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _key_paths(value: object, before: str = "", depth: int = 6) -> Iterator[str]:
    if depth == 0:
        return
    if isinstance(value, dict):
        for key, below in value.items():
            path = f"{before}.{key}" if before else key
            yield path
            yield from _key_paths(below, path, depth - 1)
    elif isinstance(value, list) and value:
        for element in value[:8]:
            yield from _key_paths(element, f"{before}[]" if before else "", depth - 1)


def _parquet_columns(connection: DuckDBPyConnection, path: str) -> list[tuple[str, str]]:
    import duckdb

    try:
        source = f"read_parquet({file_list([path])}, hive_partitioning = true)"
        sql = f"SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM {source})"
        return [(row[0], row[1]) for row in connection.execute(sql).fetchall()]
    except duckdb.Error as error:
        raise _unreadable(path, "is not whole Parquet", error) from None


def _document_structure(connection: DuckDBPyConnection, path: str, compression: str) -> object:
    import duckdb

    try:
        sql = f"SELECT json_structure(json) FROM {json_document([path], compression)} LIMIT 1"
        rows = connection.execute(sql).fetchall()
    except duckdb.Error as error:
        raise _unreadable(path, "is not whole JSON", error) from None
    return json.loads(rows[0][0]) if rows and rows[0][0] else {}


def _unreadable(path: str, problem: str, error: Exception) -> InputError:
    detail = str(error).splitlines()[0].replace(path, os.path.basename(path))
    return InputError(
        field="trace", value=path, problem=f"{problem} ({detail})", fix="It may be cut; export or copy it again."
    )


# ---- what a file is in SQL ---------------------------------------------------------------------------


def raw_lines(paths: Sequence[str], compression: str) -> str:
    """Every line as it stands."""
    return (
        f"read_csv({file_list(paths)}, columns = {{'line': 'VARCHAR'}}, header = false, auto_detect = false, "
        f"delim = '\x01', quote = '', escape = '', compression = {text(compression)}, "
        f"max_line_size = {MAX_LINE_BYTES}, buffer_size = {2 * MAX_LINE_BYTES})"
    )


def json_lines(paths: Sequence[str], compression: str) -> str:
    """One record a line as `json`; NULL for a line that is not JSON."""
    return (
        f"read_json_objects({file_list(paths)}, format = 'newline_delimited', ignore_errors = true, "
        f"compression = {text(compression)}, maximum_object_size = {MAX_LINE_BYTES})"
    )


def json_document(paths: Sequence[str], compression: str) -> str:
    """The records of whole documents as `json`: one object, several, or an array of them."""
    packed = 1 if compression == "none" else 20
    largest = max(os.path.getsize(path) for path in paths) * packed
    return (
        f"read_json_objects({file_list(paths)}, format = 'auto', compression = {text(compression)}, "
        f"maximum_object_size = {max(MAX_LINE_BYTES, largest + 1)})"
    )
