"""One load test before it is run: a rate, a shape of the plan's mix, and the requests that are to be sent.

    mix        the plan's own requests, prefixes shared as the plan expects
    no_prefix  the same with nothing shared, so that every prompt is computed whole
    long       the longest tenth of its prompts

Arrivals are Poisson: a test is there to tell how long steps take, and bursts would blur the load it is run at.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

import numpy as np

from ullage.service.calibration.replay import EngineLimits, LoadTestReplay
from ullage.service.trial.mix import MixLoad
from ullage.simulate.load import PS_PER_S, OpenLoop, Requests

WANTED_S = 240.0
"""Long enough for a steady state of requests that take seconds, short enough for a dozen in an hour."""
LEAST_REQUESTS, MOST_REQUESTS = 60, 1500
"""Below the first a percentile is chance, beyond the second a test says no more."""
_LONG_FRACTION = 0.1


class TestShape(enum.StrEnum):
    MIX = "mix"
    NO_PREFIX = "no_prefix"
    LONG = "long"

    __test__ = False


@dataclass(frozen=True, kw_only=True)
class PlannedTest:
    """A test to run; `seed` draws its requests, so that no two tests of one measurement send the same ones."""

    name: str
    shape: TestShape
    rate_rps: float
    requests: int
    seed: int

    @property
    def span_s(self) -> float:
        return self.requests / self.rate_rps


def requests_at(rate_rps: float, *, span_s: float = WANTED_S) -> int:
    """How many requests a test of this rate sends."""
    return round(min(max(rate_rps * span_s, LEAST_REQUESTS), MOST_REQUESTS))


def drawn_load(mix: MixLoad, test: PlannedTest) -> OpenLoop:
    """The requests of a test with their times; exactly as many as it states."""
    steady = replace(mix, bursts=False)
    more = 1.0 / _LONG_FRACTION if test.shape is TestShape.LONG else 1.0
    span_s = test.span_s
    while True:
        drawn = steady(rate_rps=test.rate_rps * more, span_s=1.2 * span_s, seed=test.seed)
        kept = np.arange(drawn.requests.count)
        if test.shape is TestShape.LONG:
            prompts = drawn.requests.prompt_tokens
            kept = kept[prompts >= np.quantile(prompts, 1.0 - _LONG_FRACTION)]
        if kept.size >= test.requests:
            return _part(drawn, kept[: test.requests], hits=test.shape is not TestShape.NO_PREFIX)
        span_s *= 1.5


def _part(load: OpenLoop, kept: np.ndarray[tuple[int], np.dtype[np.int64]], *, hits: bool) -> OpenLoop:
    given, arrivals = load.requests, load.arrival_ps
    assert arrivals is not None, "a mix draws its times in whole picoseconds"
    cached = given.cached_tokens
    return OpenLoop(
        requests=Requests(
            prompt_tokens=given.prompt_tokens[kept],
            output_tokens=given.output_tokens[kept],
            cached_tokens=None if cached is None or not hits else cached[kept],
            classes=given.classes,
            class_of=None if given.class_of is None else given.class_of[kept],
        ),
        arrival_ps=arrivals[kept] - arrivals[kept[0]],
    )


def replay_of(load: OpenLoop, limits: EngineLimits, *, most: int | None = None) -> LoadTestReplay:
    """The test as the simulator repeats it; of very many requests the first ones."""
    given, arrivals = load.requests, load.arrival_ps
    assert arrivals is not None
    cached = given.cached_tokens
    return LoadTestReplay(
        prompt_tokens=given.prompt_tokens[:most].astype(np.int32),
        output_tokens=given.output_tokens[:most].astype(np.int32),
        cached_tokens=None if cached is None else cached[:most].astype(np.int32),
        limits=limits,
        arrival_s=arrivals[:most] / PS_PER_S,
    )
