"""`calibrate --inspect`: load tests in, what was read from them out; `calibrate_fit` fits a step model to them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ullage.errors import InputError

if TYPE_CHECKING:
    from ullage.service.loadtests.goodput import Goodput
    from ullage.service.loadtests.loadtest import GoodputLimits, LoadTest, Point

# Whose rule a reader's tool counts goodput by; tools that state none are not here.
_RULE_OF_READER = {
    "vllm": "vllm",
    "sglang": "sglang",
    "guidellm": "guidellm",
    "aiperf": "aiperf",
    "aiperf_requests": "aiperf",
    "inference_perf_requests": "inference-perf",
}
_LIMIT = re.compile(r"^(ttft|tpot|itl|ntpot|e2e)[:=](.+)$")


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """A load test as it was read, and for each of its points the goodputs that could be counted anew."""

    loadtest: LoadTest
    goodputs: tuple[tuple[Goodput, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Inspected:
    """What `--inspect --json` prints: one entry a file."""

    loadtests: tuple[Inspection, ...]


def calibrate(
    files: Sequence[Path], *, inspect: bool = False, goodput: str | None = None, rule: str | None = None
) -> tuple[Inspection, ...]:
    """Read load tests, whichever tool wrote them, and say what is in each point.

    `goodput` states limits, such as `ttft:500ms tpot:50ms`, by which the requests of each point are judged anew; where
    it is None, the limits that a file states itself are taken. `rule` names the tool whose habits decide what limits
    leave open; where it is None, both ours and that of the tool that wrote the file are applied.
    """
    from ullage.readers.loadtests import read_loadtest

    if not inspect:
        raise InputError(
            field="--inspect",
            value="not given",
            problem="a step model is fitted for one model on one device, and they are not stated",
            fix="Give --model and --device, or run ullage calibrate --inspect FILE to see what was read.",
        )
    if not files:
        raise InputError(
            field="files", value="none", problem="there is nothing to read", fix="Give at least one result file."
        )
    limits = None if goodput is None else limits_of(goodput)
    read = [read_loadtest(path) for path in files]
    return tuple(
        Inspection(
            loadtest=each, goodputs=tuple(_goodputs(point, _rules(each.reader, rule), limits) for point in each.points)
        )
        for each in read
    )


def limits_of(text: str) -> GoodputLimits:
    """Limits as people type them: `ttft:500ms tpot:50ms`, with spaces or commas between."""
    from ullage.service.loadtests.loadtest import GoodputLimits
    from ullage.units import DURATION, parse

    found: dict[str, float] = {}
    for part in re.split(r"[\s,]+", text.strip()):
        match = _LIMIT.match(part)
        if match is None:
            raise InputError(
                field="--goodput",
                value=part,
                problem="is not a limit",
                fix="Give pairs such as ttft:500ms tpot:50ms; known are ttft, tpot, itl, ntpot and e2e.",
            )
        name, limit = match.groups()
        found[name] = parse(limit, DURATION, field=f"--goodput {name}")
    return GoodputLimits(**{f"{name}_s": limit_s for name, limit_s in found.items()})


def _rules(reader: str, rule: str | None) -> tuple[str, ...]:
    if rule is not None:
        return (rule,)
    own = _RULE_OF_READER.get(reader)
    return ("ullage",) if own is None else ("ullage", own)


def _goodputs(point: Point, rules: tuple[str, ...], limits: GoodputLimits | None) -> tuple[Goodput, ...]:
    from ullage.service.loadtests.goodput import goodput_of, rule_of

    stated = point.stated_goodput.limits if point.stated_goodput is not None else None
    judged_by = limits if limits is not None else stated
    if judged_by is None:
        return ()
    found = (goodput_of(point, rule_of(name, judged_by)) for name in rules)
    return tuple(each for each in found if each is not None)
