"""Tables with a point a row: a time, a value, and a column that names the series.

    Grafana          "Time","Metric","Value": panels whose series stand below each other (and InfluxDB's _time, _field,
                     _value; Prometheus' own label __name__ in place of Metric)
    VictoriaMetrics  vllm:request_success_total,10.0.0.1:8000,1204,1793491200: /api/v1/export/csv, whose columns are in
                     the order that was asked for and have no names

A series is a metric, a legend with labels or an expression; what is neither requests nor tokens is not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from ullage.readers.traces.aliases import plain_name
from ullage.readers.traces.draft import rows_of
from ullage.readers.traces.files import Glimpse, Layout
from ullage.readers.traces.rates.monitors import points_of
from ullage.readers.traces.rates.names import (
    DIMENSIONS,
    KNOWN,
    LABELS,
    NAMED,
    TURNED,
    first_of_its_kind,
    judged,
    meaning_of,
)
from ullage.readers.traces.rates.points import RateReader
from ullage.readers.traces.rates.tables import columns_of, number_in, printed_measure, time_of
from ullage.readers.traces.sql import moment, name, text

_SERIES = ("metric", "metricname", "name", "series", "seriesname", "field", "legend", "timeseries", "measurement")
_VALUE = r"value[a-z]?|val|sample"
_METRIC = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*(:[a-zA-Z0-9_]+)*_[a-zA-Z0-9_]+")
_TIME = re.compile(r"1\d{9}(\.\d+)?|1\d{12}|1\d{15}|1\d{18}|20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d.*")
_NUMBER = re.compile(r"[-+]?\d*\.?\d+([eE][-+]?\d+)?")


def _series_of(file: Glimpse) -> str | None:
    return next((field for each in _SERIES for field in file.header if plain_name(field) == each), None)


def _value_of(file: Glimpse) -> str | None:
    found = [field for field in file.header if re.fullmatch(_VALUE, plain_name(field))]
    return found[0] if len(found) == 1 else None


def _recognises(file: Glimpse) -> bool:
    return file.layout is Layout.CSV and None not in (time_of(file), _series_of(file), _value_of(file))


def _points(files: Sequence[Glimpse]) -> str:
    file = files[0]
    time, series, value = time_of(file), _series_of(file), _value_of(file)
    assert time is not None
    assert series is not None
    assert value is not None
    # Whatever else stands in a row may tell series apart.
    return _of_rows(files, time=time, series=series, value=value)


def _of_rows(files: Sequence[Glimpse], *, time: str, series: str, value: str) -> str:
    file = files[0]
    told = columns_of(file, {}, {time, series, value})
    apart = ", ".join(f"COALESCE({name(field)}, '')" for field in file.header if field not in (time, value))
    shown = f"CAST({name(series)} AS VARCHAR)"
    metric = (
        f"CASE WHEN contains({shown}, '__name__=') THEN regexp_extract({shown}, '__name__=\"([^\"]*)\"', 1) "
        f"WHEN regexp_matches({shown}, {text(NAMED)}) THEN regexp_extract({shown}, {text(NAMED)}, 1) "
        f"WHEN starts_with({shown}, '{{') THEN NULL ELSE {shown} END"
    )
    turned = " ".join(
        f"WHEN regexp_matches({shown}, {text(pattern)}) THEN '{measure}'" for measure, pattern in TURNED.items()
    )
    # A legend beside values that carry their unit says whose requests they are.
    told_apart = f"CASE WHEN {printed_measure(value, '')} <> '' AND NOT contains({shown}, '{{') THEN {shown} END"
    labels = ", ".join(
        f'{_label(each, told[each], shown)} AS "told_{each}"' for each in DIMENSIONS if each != "product"
    )
    labels += f', COALESCE({_label("product", told["product"], shown)}, {told_apart}) AS "told_product"'
    rows = (
        f"SELECT {metric} AS metric_, CASE {turned} ELSE '' END AS turned_, {printed_measure(value, '')} AS printed_, "
        f"md5(concat_ws(chr(1), {apart})) AS series, {name(time)} AS at_, {number_in(file, value)} AS value_, {labels} "
        f"FROM ({rows_of(files, list(file.header))})"
    )
    order = first_of_its_kind("metric_")
    # Labels alone are what an expression gave.
    meaning = judged("metric_", "['requests', '']")
    chosen = f"SELECT * FROM ({rows}) QUALIFY {order} = min({order}) OVER (PARTITION BY ({meaning})[1])"
    return points_of(
        chosen,
        f"CASE WHEN printed_ <> '' THEN ['requests', printed_] WHEN turned_ <> '' THEN [({meaning})[1], turned_] "
        f"ELSE {meaning} END",
        moment("at_"),
        "value_",
        "NULL::DOUBLE",
        "CAST(at_ AS VARCHAR)",
        ", ".join(f'"told_{each}" AS "{each}"' for each in DIMENSIONS),
    )


def _label(dimension: str, column: str | None, shown: str) -> str:
    """A dimension from its column, else from a label inside the legend."""
    spelt = "|".join(LABELS[dimension])
    pattern = rf'[{{,\s](?:{spelt})="([^"]*)"'
    labelled = f"NULLIF(regexp_extract({shown}, {text(pattern)}, 1), '')"
    return labelled if column is None else f"COALESCE(NULLIF({name(column)}, ''), {labelled})"


# ---- without a line of names ---------------------------------------------------------------------------


def _place(file: Glimpse, is_one: Callable[[str], object]) -> list[int]:
    """The columns all of whose values, the first row's too, are of one kind."""
    rows = [file.header, *file.sample]
    return [at for at in range(len(file.header)) if all(is_one(row[at].strip()) for row in rows if row[at].strip())]


def _places(file: Glimpse) -> tuple[int, int, int] | None:
    """Where time, metric and value stand; none where the file is no such export."""
    if file.layout is not Layout.CSV or len(file.header) < 3:
        return None
    times = _place(file, _TIME.fullmatch)
    metrics = _place(file, _METRIC.fullmatch)
    if len(metrics) > 1:
        seen = {at: {file.header[at], *(row[at] for row in file.sample)} for at in metrics}
        metrics = [at for at in metrics if any(each in KNOWN or meaning_of(each) for each in seen[at])]
    values = [at for at in _place(file, _NUMBER.fullmatch) if at not in times]
    if len(times) != 1 or len(metrics) != 1 or len(values) != 1:
        return None
    return times[0], metrics[0], values[0]


def _points_of_bare(files: Sequence[Glimpse]) -> str:
    places = _places(files[0])
    assert places is not None
    columns = tuple(f"column {at}" for at in range(1, len(files[0].header) + 1))
    named = [replace(file, header=columns, fields=columns, is_bare=True) for file in files]
    time, metric, value = (columns[at] for at in places)
    return _of_rows(named, time=time, series=metric, value=value)


LONG = RateReader(
    name="rates-long",
    title="table with a point a row: time, metric and value (Grafana, InfluxDB)",
    recognises=_recognises,
    points=_points,
)
VICTORIA_CSV = RateReader(
    name="victoriametrics-csv",
    title="VictoriaMetrics export (CSV of /api/v1/export/csv, without a line of names)",
    recognises=lambda file: _places(file) is not None,
    points=_points_of_bare,
)
