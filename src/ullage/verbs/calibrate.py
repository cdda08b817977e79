"""`calibrate --inspect`: load tests in, what was read from them out; `calibrate_fit` fits a step model to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

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


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """A load test as it was read, and for each of its points the goodputs that could be counted anew."""

    loadtest: LoadTest
    goodputs: tuple[tuple[Goodput, ...], ...]


@dataclass(frozen=True, kw_only=True, repr=False)
class Inspections(VerbAnswer):
    """What was read from each file, in their order."""

    loadtests: tuple[Inspection, ...]

    def headlines(self) -> tuple[Headline, ...]:
        return tuple(
            Headline(name=Path(each.loadtest.file).name, value=len(each.loadtest.points), unit="points")
            for each in self.loadtests
        )

    def page(self) -> list[RenderableType]:
        from ullage.report.service.loadtest_page import loadtests_page

        return loadtests_page(self._pairs())

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        return document("calibrate", self)

    def _pairs(self) -> list[tuple[LoadTest, tuple[tuple[Goodput, ...], ...]]]:
        return [(each.loadtest, each.goodputs) for each in self.loadtests]


def calibrate(
    files: Sequence[str | Path], *, inspect: bool = False, goodput: str | None = None, goodput_rule: str | None = None
) -> Inspections:
    """Read load tests, whichever tool wrote them, and say what is in each point.

    `goodput` states limits, such as `ttft:500ms tpot:50ms`, by which the requests of each point are judged anew; where
    it is None, the limits that a file states itself are taken. `goodput_rule` names the tool whose habits decide what
    limits leave open; where it is None, both ours and that of the tool that wrote the file are applied.
    """
    from ullage.load.evidence import load_tests
    from ullage.load.typed import parse_limits

    if not inspect:
        raise InputError(
            field="--inspect",
            value="not given",
            problem="a step model is fitted for one model on one device; neither is stated",
            fix="Give --model and --device, or run ullage calibrate --inspect FILE to see what was read.",
        )
    limits = None if goodput is None else parse_limits(goodput)
    return Inspections(
        loadtests=tuple(
            Inspection(
                loadtest=each,
                goodputs=tuple(_goodputs(point, _rules(each.reader, goodput_rule), limits) for point in each.points),
            )
            for each in load_tests([Path(file) for file in files])
        )
    )


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
