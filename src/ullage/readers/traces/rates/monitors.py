"""Metrics as monitoring systems export them in JSON: Prometheus `query_range`, CloudWatch, Azure Monitor.

    Victoria    {"metric": {labels}, "values": [12, ...], "timestamps": [ms, ...]}, a series a line
    Prometheus  {"data": {"resultType": "matrix", "result": [{"metric": {labels}, "values": [[s, "12.4"], ...]}]}}
    CloudWatch  {"MetricDataResults": [{"Label", "Timestamps": [...], "Values": [...]}]}
                {"Label", "Datapoints": [{"Timestamp", "Sum"}]}
    Azure       {"value": [{"name": {"value"}, "timeseries": [{"metadatavalues": [...],
                                                               "data": [{"timeStamp", "total"}]}]}]}

A series without a name is what an expression gave, mostly `sum(rate(...))`. Sums of tokens in files beside it become
mean lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ullage.readers.traces.draft import extracted, json_path, records_of
from ullage.readers.traces.files import Glimpse
from ullage.readers.traces.rates.names import DIMENSIONS, LABELS, NO_ROLE, dimensions_in, first_of_its_kind, judged
from ullage.readers.traces.rates.points import RateReader
from ullage.readers.traces.sql import moment, name


def points_of(source: str, meaning: str, at: str, value: str, width: str, written: str, labels: str) -> str:
    """SQL for points out of rows of a source, each with the meaning that its metric's name has."""
    return (
        f"SELECT {at} AS at_s, CAST(series AS VARCHAR) AS series, meaning[1] AS role, meaning[2] AS measure, "
        f"TRY_CAST({value} AS DOUBLE) AS "
        "value, "
        f"{width} AS width_s, {labels}, {written} AS time_ FROM (SELECT *, {meaning} AS meaning FROM ({source})) "
        "WHERE meaning[1] <> ''"
    )


def labelled_series(source: str, times: str, values: str, *, series: str) -> str:
    """SQL for the points of series with Prometheus' labels under `metric`: one JSON value a series, in a column `one`,
    in it the JSON paths of its times and of its values, and SQL for what belongs together."""
    # Labels are taken once a series, in one parse: they may be long, and a series has thousands of points.
    paths = {"name_": json_path("metric", "__name__")}
    paths |= {label: json_path("metric", label) for labels in LABELS.values() for label in labels}
    apart = (
        # A line that is not JSON is one point without a time, so that it is counted.
        f"(SELECT one, CASE WHEN one IS NULL THEN [NULL] ELSE json_extract_string(one, '{times}') END AS times, "
        f"json_extract_string(one, '{values}') AS points, {series} AS series FROM ({source}))"
    )
    named = ", ".join(
        f'COALESCE({", ".join(name(label) for label in LABELS[each])}) AS "told_{each}"' for each in DIMENSIONS
    )
    order = first_of_its_kind("name_")
    parsed = extracted(apart, "one", paths, beside=("times", "points", "series"))
    chosen = (
        f"SELECT name_, series, times, points, {named} FROM ({parsed}) "
        f"QUALIFY {order} = min({order}) OVER (PARTITION BY ({judged('name_', NO_ROLE)})[1])"
    )
    return points_of(
        f"SELECT * EXCLUDE (times, points), unnest(times) AS at_, unnest(points) AS value_ FROM ({chosen})",
        judged("name_", "['requests', '']"),
        moment("at_"),
        "value_",
        "NULL::DOUBLE",
        "NULL",
        ", ".join(f'"told_{dimension}" AS "{dimension}"' for dimension in DIMENSIONS),
    )


def _of_prometheus(files: Sequence[Glimpse]) -> str:
    series = f"SELECT unnest(json_extract(json, '$.data.result[*]')) AS one FROM {records_of(files)}"
    return labelled_series(series, "$.values[*][0]", "$.values[*][1]", series="row_number() OVER ()")


def _of_victoria_metrics(files: Sequence[Glimpse]) -> str:
    # A long series is written over several lines.
    lines = f"SELECT json AS one FROM {records_of(files)}"
    return labelled_series(lines, "$.timestamps[*]", "$.values[*]", series="json_extract_string(one, '$.metric')")


def _of_cloudwatch(files: Sequence[Glimpse]) -> str:
    data = (
        "SELECT json_extract_string(one, '$.Label') AS series, unnest(json_extract_string(one, '$.Timestamps[*]')) "
        "AS at_, "
        "unnest(json_extract_string(one, '$.Values[*]')) AS value_, NULL AS period FROM "
        f"(SELECT unnest(json_extract(json, '$.MetricDataResults[*]')) AS one FROM {records_of(files)})"
    )
    statistics = (
        "SELECT label AS series, json_extract_string(one, '$.Timestamp') AS at_, "
        "COALESCE(json_extract_string(one, '$.Sum'), json_extract_string(one, '$.SampleCount')) AS value_, NULL AS "
        "period "
        "FROM (SELECT json_extract_string(json, '$.Label') AS label, unnest(json_extract(json, '$.Datapoints[*]')) "
        "AS one "
        f"FROM {records_of(files)})"
    )
    # A label of several parts ends in the metric: `us.anthropic.claude Invocations`.
    named = "regexp_extract(series, '[A-Za-z]+$')"
    model = "NULLIF(trim(regexp_replace(series, '[A-Za-z]+$', '')), '') AS model"
    nothing = ", ".join(f'NULL::VARCHAR AS "{each}"' for each in DIMENSIONS if each != "model")
    return points_of(
        f"{data} UNION ALL {statistics}",
        judged(named, "['requests', 'count']"),
        moment("at_"),
        "value_",
        "NULL::DOUBLE",
        "at_",
        f"{model}, {nothing}",
    )


def _of_azure_monitor(files: Sequence[Glimpse]) -> str:
    metrics = f"SELECT unnest(json_extract(json, '$.value[*]')) AS one FROM {records_of(files)}"
    lines = (
        "SELECT json_extract_string(one, '$.name.value') AS name_, unnest(json_extract(one, '$.timeseries[*]')) AS "
        "line "
        f"FROM ({metrics})"
    )
    # Labels are a list of names and values; as one object they read like any other's.
    labels = "json_group_object(lower(json_extract_string(each, '$.name.value')), json_extract_string(each, '$.value'))"
    labelled = (
        "SELECT name_, line, COALESCE((SELECT "
        f"{labels} FROM (SELECT unnest(json_extract(line, '$.metadatavalues[*]')) AS each)), '{{}}') AS metric FROM "
        f"({lines})"
    )
    points = (
        "SELECT name_ || metric::VARCHAR AS series, name_, metric, unnest(json_extract(line, '$.data[*]')) AS point "
        f"FROM ({labelled})"
    )
    value = ", ".join(f"json_extract_string(point, '$.{each}')" for each in ("total", "count"))
    return points_of(
        points,
        judged("name_", "['', '']"),
        moment("json_extract_string(point, '$.timeStamp')"),
        f"COALESCE({value})",
        "NULL::DOUBLE",
        "json_extract_string(point, '$.timeStamp')",
        dimensions_in("metric"),
    )


def _has(*fields: str) -> Callable[[Glimpse], bool]:
    return lambda file: file.has_any(*fields)


PROMETHEUS = RateReader(
    name="prometheus",
    title="Prometheus query_range answer",
    recognises=_has("data.result[].values"),
    points=_of_prometheus,
)
VICTORIA_METRICS = RateReader(
    name="victoriametrics",
    title="VictoriaMetrics export (JSON lines of /api/v1/export)",
    recognises=lambda file: file.has("metric.__name__", "values", "timestamps"),
    points=_of_victoria_metrics,
)
CLOUDWATCH = RateReader(
    name="cloudwatch",
    title="CloudWatch metric data or statistics",
    recognises=_has("MetricDataResults[].Values", "Datapoints[].Timestamp"),
    points=_of_cloudwatch,
)
AZURE_MONITOR = RateReader(
    name="azure-monitor",
    title="Azure Monitor metrics",
    recognises=_has("value[].timeseries[].data"),
    points=_of_azure_monitor,
)


def without_points(file: Glimpse) -> tuple[str, str] | None:
    """The problem and the fix for an answer of Prometheus that holds no series over time; None for other files."""
    if file.has("status", "errorType", "error"):
        return "is an error that Prometheus answered", "Read its `error`, mend the query and save the answer again."
    if not file.has("data.resultType"):
        return None
    if file.has_any("data.result[].value"):
        return "is Prometheus' answer for one moment", "Ask query_range in place of query, with start, end and step."
    return (
        "is an answer of Prometheus without a series",
        "Check the name of the metric, its labels and the times: the query matched nothing.",
    )
