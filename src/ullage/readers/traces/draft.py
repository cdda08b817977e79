"""What a reader hands over: where the rows are, and how each canonical column is computed from them.

A reader is a `TraceReader`: a name, a test on glimpses and a function that drafts. It does not run a query;
`clean` does that once for all formats, so that every reader counts dropped rows the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ullage.readers.traces.files import MAX_LINE_BYTES, Glimpse, Layout, json_document, json_lines, partition_keys
from ullage.readers.traces.sql import file_list, name, text
from ullage.workload.trace import Clock

# Every CSV draft stores the lines it could not split here, to be counted.
REJECTED_LINES = "ullage_rejected_lines"


@dataclass(frozen=True, kw_only=True)
class Draft:
    """How to read some files.

    `rows` is SQL for the source's rows. `columns` gives SQL over them for each canonical column the format
    knows. `is_request` is SQL that is false for a row that is no request (a warm-up, a span of something
    else); such rows are counted under `otherwise`. `time` is SQL for the stamp as it was written, to see
    whether it carries a zone; empty where times are numbers. `unsettled` are durations whose unit nobody stated: their
    values settle it. `borrowed` are our columns with the names they were found under. `read` are the fields that were
    used, where that can be said. `raw` is SQL for what was written in a column that measures.
    """

    rows: str
    columns: Mapping[str, str]
    clock: Clock
    is_request: str = "true"
    otherwise: str = "not a request"
    time: str = ""
    block_tokens: int | None = None
    unsettled: tuple[str, ...] = ()
    borrowed: Mapping[str, str] = field(default_factory=dict)
    read: frozenset[str] | None = None
    raw: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TraceReader:
    """One format: what it is called, which files are its own, and how they are drafted."""

    name: str
    title: str
    recognises: Callable[[Glimpse], bool]
    draft: Callable[[Sequence[Glimpse]], Draft]


def rows_of(files: Sequence[Glimpse], fields: Mapping[str, str] | Sequence[str]) -> str:
    """SQL for these fields of these files, each under its own name, whatever the layout.

    Fields of JSON are key paths: `{"usage.input": '$."usage"."input"'}`; a plain list of names means
    top-level keys. A column that a table does not have is NULL.
    """
    paths = dict(fields) if isinstance(fields, Mapping) else {field: json_path(field) for field in fields}
    if files[0].layout in (Layout.JSON_LINES, Layout.JSON_DOCUMENT):
        return extracted(records_of(files), "json", paths)
    return " UNION ALL ".join(_columns_of(alike, list(paths)) for alike in _alike(files))


def records_of(files: Sequence[Glimpse]) -> str:
    """SQL for a relation with one column, `json`."""
    parts = []
    for alike in _alike(files):
        read = json_lines if alike[0].layout is Layout.JSON_LINES else json_document
        path = alike[0].records
        inside = f"json_extract(json, {text(path)})" if path else "json"
        listed = f"unnest({inside})" if "[*]" in path else inside
        parts.append(f"SELECT {listed} AS json FROM {read([file.path for file in alike], alike[0].compression)}")
    return f"({' UNION ALL '.join(parts)})"


def _alike(files: Sequence[Glimpse]) -> list[list[Glimpse]]:
    """Files that one scan can read: a folder of logs holds packed old ones beside the plain one of today."""
    groups: dict[object, list[Glimpse]] = {}
    for file in files:
        groups.setdefault((file.layout, file.compression, file.delimiter, file.header, file.records), []).append(file)
    return list(groups.values())


def _columns_of(files: Sequence[Glimpse], fields: Sequence[str]) -> str:
    present = {field for file in files for field in file.fields}
    listed = ", ".join(name(field) if field in present else f"NULL AS {name(field)}" for field in fields)
    return f"SELECT {listed}, false AS unreadable_ FROM {_table(files)}"


def extracted(source: str, column: str, paths: Mapping[str, str], beside: Sequence[str] = ()) -> str:
    """SQL that takes several paths out of a JSON column in one parse, as text, with other columns beside it."""
    listed = ", ".join(text(path) for path in paths.values())
    picked = ", ".join(f"values_[{place}] AS {name(field)}" for place, field in enumerate(paths, start=1))
    others = "".join(f", {name(each)}" for each in beside)
    return (
        f"SELECT {picked}{others}, {column} IS NULL AS unreadable_ FROM "
        f"(SELECT {column}{others}, json_extract_string({column}, [{listed}]) AS values_ FROM {source})"
    )


def json_path(*keys: str) -> str:
    """A JSON path through these keys, each taken literally.

    >>> json_path("usage", "gen_ai.input")
    '$."usage"."gen_ai.input"'
    """
    return "$" + "".join(f'."{key}"' for key in keys)


def _table(files: Sequence[Glimpse]) -> str:
    paths = [file.path for file in files]
    hive = f"hive_partitioning = {str(any(partition_keys(path) for path in paths)).lower()}"
    if files[0].layout is Layout.PARQUET:
        # Files of one folder may have gained columns over time; a single file is scanned faster without asking.
        union = f"union_by_name = {str(len(paths) > 1).lower()}"
        return f"read_parquet({file_list(paths)}, {union}, {hive})"
    columns = ", ".join(f"{text(field)}: 'VARCHAR'" for field in files[0].header)
    named = str(not files[0].is_bare).lower()
    return (
        f"read_csv({file_list(paths)}, columns = {{{columns}}}, header = {named}, auto_detect = false, "
        f"delim = {text(files[0].delimiter)}, quote = '\"', escape = '\"', compression = {text(files[0].compression)}, "
        f"max_line_size = {MAX_LINE_BYTES}, buffer_size = {2 * MAX_LINE_BYTES}, ignore_errors = true, "
        f"store_rejects = true, rejects_table = {text(REJECTED_LINES)}, "
        f"rejects_scan = {text(REJECTED_LINES + '_scan')}, {hive})"
    )
