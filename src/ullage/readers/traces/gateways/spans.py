"""Spans, in the three shapes in which tracing systems export them, as rows with named attributes.

    a span a record     {"name", "start_time", "end_time", "attributes": {...}, "status": {...}}
    a document of spans {"spans": [...]} as above
    OTLP                {"resourceSpans": [{"scopeSpans": [{"spans": [...]}]}]}, attributes as a list of keys

What the attributes mean is for the formats that use this: OpenTelemetry GenAI and OpenInference.
"""

from __future__ import annotations

from collections.abc import Sequence

from ullage.readers.traces.draft import extracted, json_path, records_of
from ullage.readers.traces.files import Glimpse
from ullage.readers.traces.sql import first_of, name, stamp, text, whole

# Attributes stand beside a span's own fields under this prefix.
_ATTRIBUTE = "attribute:"

_OTLP_VALUE = '{"stringValue":"VARCHAR","intValue":"VARCHAR","doubleValue":"VARCHAR","boolValue":"VARCHAR"}'
_OTLP_ATTRIBUTES = f'[{{"key":"VARCHAR","value":{_OTLP_VALUE}}}]'
# Where spans stand in a record, from the outermost shape in.
_PLACES = ("$.resourceSpans[*].scopeSpans[*].spans[*]", "$.spans[*]")
FIELDS = {
    "name": json_path("name"),
    "start_time": json_path("start_time"),
    "startTimeUnixNano": json_path("startTimeUnixNano"),
    "end_time": json_path("end_time"),
    "endTimeUnixNano": json_path("endTimeUnixNano"),
    "span_id": json_path("span_id"),
    "spanId": json_path("spanId"),
    "trace_id": json_path("trace_id"),
    "parent_span_id": json_path("parent_span_id"),
    "parentSpanId": json_path("parentSpanId"),
    "parent_id": json_path("parent_id"),
    "code": json_path("status", "code"),
    "status_code": json_path("status_code"),
}

# In OTLP JSON and in vendors' exports alike: 2 is the enum's number for an error.
IS_ERROR = "upper(COALESCE(code, status_code, '')) IN ('2', 'ERROR', 'STATUS_CODE_ERROR')"
REQUEST = first_of("span_id", "spanId")
PARENT = "NULLIF(COALESCE(parent_span_id, parentSpanId, parent_id), '')"


def has_attributes(file: Glimpse, starts: tuple[str, ...]) -> bool:
    """Whether spans of this file carry attributes that start so."""
    if file.has_any("resourceSpans"):
        return _otlp_names(file, starts)
    named = [
        field.removeprefix("spans[].").removeprefix("attributes.") for field in file.fields if "attributes" in field
    ]
    return any(each.startswith(starts) for each in named)


def _otlp_names(file: Glimpse, starts: tuple[str, ...]) -> bool:
    # Keys of OTLP attributes are values in the JSON, which a glimpse of key paths does not show.
    import gzip

    opened = gzip.open if file.compression == "gzip" else open
    with opened(file.path, "rb") as stream:
        head = stream.read(1 << 20)
    return any(f'"{start}'.encode() in head for start in starts)


def attribute(key: str) -> str:
    """SQL for an attribute's text, from either spelling of attributes."""
    listed = f"list_filter(otlp_, lambda each: each.key = {text(key)})[1].value"
    found = f"COALESCE({listed}.intValue, {listed}.doubleValue, {listed}.stringValue, {listed}.boolValue)"
    return f"CASE WHEN otlp_ IS NULL THEN {name(_ATTRIBUTE + key)} ELSE {found} END"


def spans_of(files: Sequence[Glimpse], keys: Sequence[str]) -> str:
    """SQL for one row a span: the fields above and these attributes, which `attribute` reads.

    Only what is asked for is taken out of a span: its attributes may hold the whole prompt.
    """
    found = [f"NULLIF(json_extract(json, {text(place)}), [])" for place in _PLACES]
    spans = f"(SELECT unnest({first_of(*found, '[json]')}) AS span FROM {records_of(files)})"
    listed = (
        "CASE WHEN json_type(span, '$.attributes') = 'ARRAY' "
        f"THEN from_json(json_extract(span, '$.attributes'), {text(_OTLP_ATTRIBUTES)}) END"
    )
    paths = FIELDS | {_ATTRIBUTE + key: json_path("attributes", key) for key in keys}
    return extracted(f"(SELECT span, {listed} AS otlp_ FROM {spans})", "span", paths, beside=("otlp_",))


def innermost(spans: str, is_call: str, inherited: dict[str, str]) -> str:
    """SQL for these spans with `around_`: whether a call of a model lies inside this one, which it then is.

    A client's span and the engine's below it are one request, where traces are propagated. The inner one is what the
    engine did; `inherited` are columns that the outer one may know alone, which come as `outer_` and their name.
    """
    told = ", ".join(f"{expression} AS outer_{each}" for each, expression in inherited.items())
    first = ", ".join(f"any_value(outer_{each}) AS outer_{each}" for each in inherited)
    names = ", ".join(f"outer_{each}" for each in inherited)
    calls = f"SELECT {REQUEST} AS id_, {PARENT} AS parent_, {told} FROM ({spans}) WHERE {is_call}"
    return (
        f"WITH calls_ AS MATERIALIZED ({calls}) SELECT each_.*, {names}, {REQUEST} IS NOT NULL "
        f"AND {REQUEST} IN (SELECT parent_ FROM calls_ WHERE parent_ IS NOT NULL) AS around_ FROM ({spans}) AS each_ "
        f"LEFT JOIN (SELECT id_, {first} FROM calls_ WHERE id_ IS NOT NULL GROUP BY id_) ON id_ = {PARENT}"
    )


def start_s() -> str:
    return f"COALESCE({whole('startTimeUnixNano')} / 1e9, {stamp('start_time')})"


def duration_s() -> str:
    nanoseconds = f"({whole('endTimeUnixNano')} - {whole('startTimeUnixNano')}) / 1e9"
    return f"COALESCE({nanoseconds}, {stamp('end_time')} - {stamp('start_time')})"
