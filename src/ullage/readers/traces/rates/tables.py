"""Tables of rates over time: Grafana's CSV, the portals' exports, usage reports, requests a minute with token sums.

A column that counts requests makes every row a window. Grafana writes one column a series, named by its legend; reports
write a row for each window, model and project. OpenAI's usage comes as CSV and as JSON of its API, with buckets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ullage.errors import InputError, check_name
from ullage.readers.traces.aliases import plain_name, usual_columns
from ullage.readers.traces.draft import extracted, json_path, records_of, rows_of
from ullage.readers.traces.files import Glimpse, Layout
from ullage.readers.traces.numerals import NOTHING, decimal_mark, printed_number
from ullage.readers.traces.rates.names import DIMENSIONS, LABELS, dimensions_of, legend, meaning_of
from ullage.readers.traces.rates.points import ROLES, RateReader
from ullage.readers.traces.sql import moment, name, text, words

# What a mapping may call a column of rates.
MEASURED = {"requests": "count", "rate_rps": "rps", "rate_rpm": "rpm", "rate_rph": "rph"}
# Times of a report's window, before the usual names of an arrival.
_STARTS = ("starttime", "starttimeiso", "bucketstart", "windowstart", "windowstarttime", "minute", "hour", "interval")
_ENDS = ("endtime", "bucketend", "windowend", "endtimeiso")


def time_of(file: Glimpse) -> str | None:
    """The column in which a window begins."""
    for field in file.fields:
        if plain_name(field) in _STARTS:
            return field
    usual = usual_columns(file)
    return next((theirs for ours, theirs in usual.items() if ours.startswith("arrival")), None)


def _end_of(file: Glimpse, start: str) -> str | None:
    ends = [
        field
        for field in file.fields
        if plain_name(field) in _ENDS and plain_name(field)[-3:] == plain_name(start)[-3:]
    ]
    return ends[0] if ends else None


def _series_of(file: Glimpse) -> dict[str, tuple[str, str]]:
    """Columns that hold a series, with role and measure; those that tell rows apart, and times, are none."""
    time = time_of(file)
    found = {}
    for field in file.header or file.fields:
        meaning = None if field == time or ("." in field.strip(".") and file.is_nested) else meaning_of(field)
        if meaning is None and field != time and _prints_rates(file, field):
            meaning = ("requests", "")
        if meaning is not None:
            found[field] = meaning
    # Successes beside a count of all are a part of it; alone they are all that is known.
    total = [field for field, (role, _) in found.items() if role == "requests" and "succe" not in field.lower()]
    return {field: each for field, each in found.items() if each[0] != "requests" or not total or field in total}


def _recognises(file: Glimpse) -> bool:
    if (
        file.layout is Layout.LINES
        or file.has("arrival_s")
        or (file.layout is Layout.JSON_DOCUMENT and not file.is_list)
    ):
        return False
    roles = [role for role, _ in _series_of(file).values()]
    is_listed = any(
        plain_name(field) in ("requestid", "responseid", "id", "callid", "xrequestid") for field in file.fields
    )
    return time_of(file) is not None and "requests" in roles and not is_listed


def _points(files: Sequence[Glimpse]) -> str:
    return mapped_points(files, {})


def mapped_points(files: Sequence[Glimpse], mapping: Mapping[str, str]) -> str:
    """SQL for the points of tables whose columns are named by a mapping, or by what they are called."""
    file = files[0]
    for ours, theirs in mapping.items():
        check_name(theirs, file.fields, field=f"map.{ours}", fix=f"It is not a column of {file.name}.")
    if len(set(mapping.values())) < len(mapping):
        raise InputError(
            field=f"{file.name}: map",
            value=", ".join(f"{ours}={theirs}" for ours, theirs in mapping.items()),
            problem="gives one column twice",
            fix="Map each column once.",
        )
    time = next((theirs for ours, theirs in mapping.items() if ours.startswith("arrival")), None) or time_of(file)
    if time is None:
        raise InputError(
            field=f"{file.name}: time",
            value=", ".join(file.fields[:8]),
            problem="holds no column that is known as a time, which rates need",
            fix="Name it: --column arrival_time=COLUMN, or --column arrival_s=COLUMN for seconds since 1970.",
        )
    series = {field: found for field, found in _series_of(file).items() if field not in mapping.values()}
    if not mapping.keys().isdisjoint(MEASURED):
        series = {field: found for field, found in series.items() if found[0] != "requests"}
    series |= {
        theirs: ("requests", MEASURED[ours]) if ours in MEASURED else (ours, "count")
        for ours, theirs in mapping.items()
        if ours in MEASURED or ours in ROLES
    }
    dimensions = columns_of(file, mapping, {*series, time})
    end = _end_of(file, time)
    wanted = [time, *([end] if end else []), *series, *(each for each in dimensions.values() if each)]
    # Read once, however many series: a line that cannot be split is one line.
    source = f"WITH source_ AS MATERIALIZED ({rows_of(files, list(dict.fromkeys(wanted)))})"
    width = "NULL::DOUBLE" if end is None else f"{moment(name(end))} - {moment(name(time))}"
    requests = [field for field, (role, _) in series.items() if role == "requests"]
    parts = []
    for field, (role, measure) in series.items():
        told = dict(dimensions)
        stated = dimensions_of(legend(field)[1])
        if stated or "{" in field:
            listed = _listed(told, stated=stated)
        elif role == "requests" and len(requests) > 1 and told["product"] is None:
            # Legends that differ tell series apart, by whatever they were grouped by.
            listed = _listed(told, stated={"product": _legend(field)})
        else:
            listed = _listed(told)
        parts.append(
            f"SELECT {moment(name(time))} AS at_s, {text(field)} || concat_ws('/', {_listed(told, bare=True)}) AS "
            "series, "
            f"{text(role)} AS role, {printed_measure(field, measure)} AS measure, {number_in(file, field)} AS value, "
            f"{width} AS width_s, {listed}, CAST({name(time)} AS VARCHAR) AS time_ FROM source_"
        )
    return f"{source} {' UNION ALL '.join(parts)}"


def columns_of(file: Glimpse, mapping: Mapping[str, str], taken: set[str]) -> dict[str, str | None]:
    """The column of each dimension, where a table has one."""
    found: dict[str, str | None] = {}
    for dimension in DIMENSIONS:
        labels = {plain_name(label) for label in LABELS[dimension]}
        fields = [field for field in file.fields if plain_name(field) in labels and field not in taken]
        found[dimension] = mapping.get(dimension) or (fields[0] if fields else None)
    return found


def _listed(
    dimensions: Mapping[str, str | None], *, stated: Mapping[str, str] | None = None, bare: bool = False
) -> str:
    given = {each: words(name(field)) if field else "NULL::VARCHAR" for each, field in dimensions.items()}
    given |= {each: text(value) for each, value in (stated or {}).items()}
    return ", ".join(expression if bare else f'{expression} AS "{each}"' for each, expression in given.items())


def _legend(field: str) -> str:
    """A legend without its unit."""
    return re.sub(r"[\s(]*(req(uests?)?/s|reqps|rps|qps|rpm|requests?( per \w+)?)\)?$", "", field).strip() or field


def number_in(file: Glimpse, field: str) -> str:
    """A number as people's tools print it: `12.4`, `1,204`, `1.2 K`, `12 req/s`."""
    mark = decimal_mark(file.values(field), whole=False, delimiter=file.delimiter)
    return printed_number(name(field), mark)


# Units that dashboards print behind a rate of requests.
_PRINTED = {
    "rps": r"req/s|reqps|rps|qps|c/s|ops/s|/s(ec)?$",
    "rpm": r"req/m|rpm|/m(in)?$",
    "rph": r"req/h|rph|/h(our)?$",
}


def printed_measure(field: str, measure: str) -> str:
    """The measure by the column's name, or by a unit printed behind the numbers."""
    if measure:
        return text(measure)
    shown = f"lower(CAST({name(field)} AS VARCHAR))"
    cases = " ".join(
        f"WHEN regexp_matches({shown}, {text(units)}) THEN {text(each)}" for each, units in _PRINTED.items()
    )
    return f"CASE {cases} ELSE '' END"


def _prints_rates(file: Glimpse, field: str) -> bool:
    """Whether all values of a column carry the unit of a rate of requests, whatever its legend says."""
    rate = rf"[\d.,]+ ?[KMBT]? ?(?:{_PRINTED['rps']}|{_PRINTED['rpm']}|{_PRINTED['rph']})"
    values = file.values(field)
    return bool(values) and all(re.fullmatch(rate, value) for value in values if value.lower() not in NOTHING)


# ---- OpenAI's usage API --------------------------------------------------------------------------------

_USAGE = {"num_model_requests": "requests", "input_tokens": "prompt_tokens", "output_tokens": "output_tokens",
          "input_cached_tokens": "cached_tokens"}  # fmt: skip


def _is_usage(file: Glimpse) -> bool:
    return file.has_any("data[].results[].num_model_requests", "results[].num_model_requests")


def _of_usage(files: Sequence[Glimpse]) -> str:
    place = "'$.data[*]'" if files[0].has("data[].results") else None
    bucket = f"unnest(json_extract(json, {place}))" if place else "json"
    results = (
        "SELECT json_extract_string(bucket, '$.start_time') AS start_, json_extract_string(bucket, '$.end_time') AS "
        "end_, "
        f"unnest(json_extract(bucket, '$.results[*]')) AS result FROM (SELECT {bucket} AS bucket FROM "
        f"{records_of(files)})"
    )
    keys = {key: json_path(key) for key in (*_USAGE, "model", "project_id", "user_id", "api_key_id")}
    rows = extracted(f"({results})", "result", keys, beside=("start_", "end_"))
    parts = [
        f"SELECT {moment('start_')} AS at_s, concat_ws('/', model, project_id, user_id, api_key_id) AS series, "
        f"'{role}' AS role, 'count' AS measure, TRY_CAST({name(key)} AS DOUBLE) AS value, "
        f"{moment('end_')} - {moment('start_')} AS width_s, {words('model')} AS model, "
        f"COALESCE({words('user_id')}, {words('api_key_id')}) AS tenant, {words('project_id')} AS product, "
        f'NULL::VARCHAR AS "class", start_ AS time_ FROM ({rows})'
        for key, role in _USAGE.items()
    ]
    return " UNION ALL ".join(parts)


TABLE = RateReader(
    name="rates",
    title="table of requests counted over time (Grafana, CloudWatch, Azure Monitor, usage reports)",
    recognises=_recognises,
    points=_points,
)
OPENAI_USAGE = RateReader(name="openai-usage", title="OpenAI usage API answer", recognises=_is_usage, points=_of_usage)
