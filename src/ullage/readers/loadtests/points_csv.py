"""A plain CSV of points, for results that no reader knows: one row a point, the unit in the name of each column.

Columns are listed in docs/reference/loadtest-formats.md. Each latency column is `<metric>_<statistic>_<unit>`, where
metric is ttft, tpot, itl or e2e, statistic is mean, std, min, max or a percentile such as p99, and unit is s or ms.
"""

from __future__ import annotations

import difflib
import re
from typing import Any

from ullage.errors import InputError
from ullage.readers.loadtests.content import Content, FileShape
from ullage.readers.loadtests.fields import MS, Fields, latency, present, rate
from ullage.service.loadtests.loadtest import (
    Definition,
    LatencySummary,
    LengthSummary,
    LoadTest,
    LoadTestSubject,
    Loop,
    OfferedLoad,
    Point,
    Tokens,
)

_METRICS = {
    "ttft": Definition.TTFT,
    "tpot": Definition.TPOT,
    "itl": Definition.ITL_POOLED,
    "e2e": Definition.E2E,
}
_LATENCY = re.compile(r"^(ttft|tpot|itl|e2e)_(mean|std|min|max|p\d{1,2}(?:\.\d+)?)_(s|ms)$")
NUMBERS = (
    "offered_rps",
    "concurrency",
    "duration_s",
    "completed",
    "failed",
    "output_tokens_per_s",
    "prompt_tokens_mean",
    "output_tokens_mean",
    "cached_prompt_tokens",
    "cached_fraction",
    "timeout_s",
    "devices",
    "tp",
    "pp",
    "ep",
    "replicas",
)
TEXTS = ("name", "model", "engine", "engine_version", "hardware", "precision", "dataset")


def recognise(content: Content) -> bool:
    """At least one latency column, and a load: enough to be ours, and little enough to name what is missing."""
    if content.shape is not FileShape.CSV:
        return False
    header = {each.strip() for each in content.rows[0]}
    return any(_LATENCY.match(each) for each in header) and bool(header & {"offered_rps", "concurrency"})


def read(content: Content) -> LoadTest:
    header = [each.strip() for each in content.rows[0]]
    _check_columns(content, header)
    rows = content.rows[1:]
    if not rows:
        raise _wrong(content, "rows", 0, "has a header and no point", "Add one row a point.")
    return LoadTest(
        file=content.file,
        reader="points_csv",
        tool="a CSV of points",
        format_version="layout 1",
        points=tuple(_point(_row(content, header, row, index), index) for index, row in enumerate(rows)),
    )


def _point(fields: Fields, index: int) -> Point:
    duration_s, completed = fields.amount("duration_s"), fields.whole("completed")
    offered, concurrency = fields.amount("offered_rps"), fields.whole("concurrency")
    if offered is None and concurrency is None:
        raise fields.wrong("offered_rps", "neither a rate nor a concurrency is given", "Give one, or both.")
    prompt, output = fields.amount("prompt_tokens_mean"), fields.amount("output_tokens_mean")
    return Point(
        name=fields.text("name") or f"row {index + 1}",
        subject=LoadTestSubject(
            model=fields.text("model"),
            engine=fields.text("engine"),
            engine_version=fields.text("engine_version"),
            hardware=fields.text("hardware"),
            devices=fields.whole("devices"),
            tp=fields.whole("tp"),
            pp=fields.whole("pp"),
            ep=fields.whole("ep"),
            replicas=fields.whole("replicas"),
            precision=fields.text("precision"),
            dataset=fields.text("dataset"),
        ),
        load=OfferedLoad(
            loop=Loop.CLOSED if offered is None else Loop.OPEN,
            offered_rps=offered,
            concurrency_cap_count=concurrency,
            timeout_s=fields.amount("timeout_s"),
        ),
        duration_s=duration_s,
        completed_count=completed,
        failed_count=fields.whole("failed"),
        achieved_rps=rate(completed, duration_s),
        output_tokens_per_s=fields.amount("output_tokens_per_s"),
        tokens=Tokens(
            cached_prompt_tokens=fields.amount("cached_prompt_tokens"),
            cached_fraction=_share(fields, "cached_fraction"),
            prompt_lengths=None if prompt is None else LengthSummary(mean_tokens=prompt),
            output_lengths=None if output is None else LengthSummary(mean_tokens=output),
        ),
        latencies=present(*(_latency(fields, name, definition) for name, definition in _METRICS.items())),
    )


def _share(fields: Fields, name: str) -> float | None:
    share = fields.amount(name)
    if share is not None and share > 1.0:
        raise fields.wrong(name, "is a share of the prompt tokens, and above 1", "Give for example 0.6 for 60 %.")
    return share


def _latency(fields: Fields, name: str, definition: Definition) -> LatencySummary | None:
    inside = {
        match.group(2): value * (MS if match.group(3) == "ms" else 1.0)
        for column in fields
        if (match := _LATENCY.match(column)) and match.group(1) == name and (value := fields.number(column)) is not None
    }
    return latency(fields.with_data(inside, name), definition, scale=1.0)


def _row(content: Content, header: list[str], row: tuple[str, ...], index: int) -> Fields:
    where = f"row {index + 1}"
    if len(row) != len(header):
        raise _wrong(
            content,
            where,
            f"{len(row)} columns",
            f"the header has {len(header)}: the file is cut short",
            "Fix the row.",
        )
    data: dict[str, Any] = {}
    for name, cell in zip(header, row, strict=True):
        text = cell.strip()
        data[name] = None if not text else text if name in TEXTS else _number(content, where, name, text)
    return Fields(data, content.file, where)


def _number(content: Content, where: str, name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise _wrong(content, f"{where}.{name}", text, "is not a number", "The unit belongs in the header.") from None


def _check_columns(content: Content, header: list[str]) -> None:
    known = [*NUMBERS, *TEXTS]
    for name in header:
        if name in known or _LATENCY.match(name):
            continue
        near = difflib.get_close_matches(name, [*known, "ttft_mean_ms", "tpot_mean_ms", "e2e_p99_ms"], n=2)
        hint = (
            f"Did you mean {' or '.join(near)}?" if near else "The columns are in docs/reference/loadtest-formats.md."
        )
        raise _wrong(content, "column", name, "is not known", hint)
    doubled = [name for name in header if re.sub(r"_(s|ms)$", "", name) in _stems(header, name)]
    if doubled:
        raise _wrong(content, "column", doubled[0], "is given twice", "Keep one of them.")


def _stems(header: list[str], name: str) -> set[str]:
    others = list(header)
    others.remove(name)
    return {re.sub(r"_(s|ms)$", "", each) for each in others if _LATENCY.match(each) or each == name}


def _wrong(content: Content, where: str, value: object, problem: str, fix: str) -> InputError:
    return InputError(field=f"{content.file}: {where}", value=value, problem=problem, fix=fix)
