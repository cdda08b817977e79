"""GuideLLM's CSV: three header rows since 0.4 (group, status and unit, statistic), one row before.

Each row is laid out as the benchmark of a JSON report and then read as one. From 0.4 to 0.7 the column of the strategy
names its kind alone; the rate or the streams then stand in the profile, at the row's place in the run.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ullage.errors import InputError
from ullage.readers.loadtests.content import Content
from ullage.readers.loadtests.fields import Fields
from ullage.readers.loadtests.guidellm.report import point_of
from ullage.service.loadtests.loadtest import LoadTest

_STRATEGY = re.compile(r"^([a-z]+)(?:@([\d.]+))?")
_GROUPS = {
    "request_latency": ("Request Latency", "Successful Sec"),
    "time_to_first_token_ms": ("Time to First Token", "Successful ms"),
    "time_per_output_token_ms": ("Time per Output Token", "Successful ms"),
    "inter_token_latency_ms": ("Inter Token Latency", "Successful ms"),
    "requests_per_second": ("Server Throughput", "Successful Requests/Sec"),
    "request_concurrency": ("Server Throughput", "Successful Concurrency"),
    "prompt_token_count": ("Token Metrics", "Successful Input Tokens"),
    "output_token_count": ("Token Metrics", "Successful Output Tokens"),
    "output_tokens_per_second": ("Token Throughput", "Successful Output Tokens/Sec"),
}
# What a cell of percentiles lists: the extremes are in it, and the median is not, for it has a column of its own.
_LISTED = ("min", "p001", "p01", "p05", "p10", "p25", "p75", "p90", "p95", "p99", "max")
_LISTED_TITLE = "[min, 0.1, 1, 5, 10, 25, 75, 90, 95, 99, max]"

Row = dict[tuple[str, ...], str]


def recognise(content: Content) -> bool:
    return bool(content.rows) and (_has_three_headers(content) or _has_one_header(content))


def read(content: Content) -> LoadTest:
    three = _has_three_headers(content)
    heads, rows = (content.rows[:3], content.rows[3:]) if three else (content.rows[:1], content.rows[1:])
    titles = [tuple(column) for column in zip(*heads, strict=False)]
    benchmarks = [_benchmark(_row(content, titles, row, index), three) for index, row in enumerate(rows)]
    if not benchmarks:
        raise InputError(
            field=content.file,
            value=f"{len(content.rows)} rows",
            problem="has headers and no benchmark: the file is cut short",
            fix="Let GuideLLM finish, then give the file it wrote.",
        )
    return LoadTest(
        file=content.file,
        reader="guidellm_csv",
        tool="guidellm",
        tool_version=_version(titles, rows),
        format_version="CSV of 0.4 or later" if three else "CSV of 0.3 or earlier",
        points=tuple(
            point_of(Fields(each, content.file, f"row {index + 1}"), index, oldest=not three)
            for index, each in enumerate(benchmarks)
        ),
    )


def _has_three_headers(content: Content) -> bool:
    return len(content.rows) >= 3 and content.rows[0][:1] == ("Run Info",) and "Benchmark" in content.rows[0]


def _has_one_header(content: Content) -> bool:
    return {"Type", "Run Id", "Duration", "Successful Requests"} <= set(content.rows[0])


def _row(content: Content, titles: list[tuple[str, ...]], row: tuple[str, ...], index: int) -> Row:
    if len(row) != len(titles):
        raise InputError(
            field=f"{content.file}: row {index + 1}",
            value=f"{len(row)} columns",
            problem=f"the headers have {len(titles)}: the file is cut short",
            fix="Let GuideLLM finish, then give the file it wrote.",
        )
    # Later columns repeat titles for other statuses and confidence intervals; the first of a title is the value.
    found: Row = {}
    for title, cell in zip(titles, row, strict=True):
        found.setdefault(title, cell)
    return found


def _benchmark(row: Row, three: bool) -> dict[str, Any]:
    strategy = row.get(("Benchmark", "Strategy", "")) if three else row.get(("Name",))
    profile = _object(row.get(("Run Info", "Profile", "")))
    place = row.get(("Run Info", "Run Index", ""), "")
    counts = {
        name: _number(row, ("Request Counts", name.capitalize(), "") if three else (f"{name.capitalize()} Requests",))
        for name in ("successful", "errored", "incomplete")
    }
    metrics: dict[str, Any] = {"request_totals": counts}
    for name, group in _GROUPS.items():
        metrics[name] = {"successful": _statistics(row, group) if three else _old_statistics(row, name)}
    metrics["slo_attainment"] = _number(row, ("Server Throughput", "SLO Attainment", ""))
    metrics["request_goodput"] = {
        "successful": {"mean": _number(row, ("Server Throughput", "Successful Goodput/Sec", "mean"))}
    }
    delay = _number(row, ("Scheduler Metrics", "Request Targeted Start Delay Avg", "Sec"))
    return {
        "duration": _number(row, ("Timings", "Duration", "Sec") if three else ("Duration",)),
        "config": {
            "strategy": _strategy(strategy or "", profile, int(place) if place.isdecimal() else None),
            "backend": _object(row.get(("Run Info", "Backend", ""))),
            "profile": profile,
        },
        "scheduler_metrics": {"request_targeted_start_delay_avg": delay},
        "metrics": metrics,
    }


def _statistics(row: Row, group: tuple[str, str]) -> dict[str, Any]:
    return _laid_out(
        mean=_number(row, (*group, "Mean")),
        median=_number(row, (*group, "Median")),
        std_dev=_number(row, (*group, "Std Dev")),
        listed=_list(row.get((*group, "Percentiles"))),
    )


def _old_statistics(row: Row, name: str) -> dict[str, Any]:
    title = f"Successful {name.replace('_', ' ').capitalize()}"
    return _laid_out(
        mean=_number(row, (f"{title} mean",)),
        median=_number(row, (f"{title} median",)),
        std_dev=_number(row, (f"{title} std dev",)),
        listed=_list(row.get((f"{title} {_LISTED_TITLE}",))),
    )


def _laid_out(*, mean: float | None, median: float | None, std_dev: float | None, listed: list[Any]) -> dict[str, Any]:
    named = dict(zip(_LISTED, listed, strict=True)) if len(listed) == len(_LISTED) else {}
    low, high = named.pop("min", None), named.pop("max", None)
    statistics = {"mean": mean, "median": median, "std_dev": std_dev, "min": low, "max": high}
    return {**statistics, "percentiles": named}


def _strategy(text: str, profile: dict[str, Any], place: int | None) -> dict[str, Any]:
    match = _STRATEGY.match(text)
    if match is None:
        return {"type_": text}
    kind, number = match.groups()
    value = float(number) if number else _stated_by_profile(kind, profile, place)
    if value is None and kind in ("concurrent", "constant", "poisson"):
        raise InputError(
            field="Benchmark / Strategy",
            value=text,
            problem="neither this column nor the profile states the rate or the streams",
            fix="Give benchmarks.json of the same run.",
        )
    return {"type_": kind, "rate": value, "streams": value, "max_concurrency": value if kind == "throughput" else None}


def _stated_by_profile(kind: str, profile: dict[str, Any], place: int | None) -> float | None:
    """A sweep measures the rate of one request at a time and of all at once first; its rates begin at the third run."""
    lists = (("completed_strategies", 0), ("streams", 0), ("rate", 0), ("measured_rates", 2))
    for name, first in lists:
        values = profile.get(name)
        if place is None or not isinstance(values, list) or not 0 <= place - first < len(values):
            continue
        value = values[place - first]
        if isinstance(value, dict):
            value = value.get("streams" if kind == "concurrent" else "rate") if value.get("type_") == kind else None
        if isinstance(value, int | float):
            return float(value)
    return None


def _version(titles: list[tuple[str, ...]], rows: tuple[tuple[str, ...], ...]) -> str | None:
    title = ("Runtime Info", "Metadata", "")
    if title not in titles or not rows:
        return None
    return Fields(_object(rows[0][titles.index(title)]), "").text("guidellm_version")


def _number(row: Row, title: tuple[str, ...]) -> float | None:
    text = row.get(title, "")
    try:
        return float(text) if text else None
    except ValueError:
        raise InputError(
            field=" / ".join(each for each in title if each),
            value=text,
            problem="is not a number",
            fix="Give the file as GuideLLM wrote it.",
        ) from None


def _list(text: str | None) -> list[Any]:
    try:
        found = json.loads(text or "[]")
    except ValueError:
        return []
    return found if isinstance(found, list) else []


def _object(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
