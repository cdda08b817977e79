"""One configuration's points: some calibrate the model, the others are predicted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
from bench.published.cases import Case
from bench.published.fit import Floats, Solution, Timed

from ullage.service.calibration.calibration import Measurement, Target, fit_factors, scaled
from ullage.service.calibration.replay import replay

Pick = Callable[[list[Case]], list[int]]


def one_point(points: list[Case]) -> list[int]:
    """The middle of the sweep."""
    return [len(points) // 2]


def two_points(points: list[Case]) -> list[int]:
    """Lowest and highest load."""
    return [0, len(points) - 1]


def five_points(points: list[Case]) -> list[int]:
    """Five at random, from a seed that the sweep's length decides."""
    return sorted(np.random.default_rng(len(points)).choice(len(points), 5, replace=False).tolist())


PICKS: dict[str, tuple[Pick, int]] = {
    "1 point": (one_point, 3),
    "2 points (lowest and highest load)": (two_points, 3),
    "5 points": (five_points, 7),
}
"""How points are chosen, and how many different loads a configuration needs for it."""


def configurations(cases: Sequence[Case]) -> list[list[Case]]:
    """Cases of one model, device, engine, sharding, shape and source, by load; repeats of a load stay in."""
    groups: dict[tuple[object, ...], list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.configuration].append(case)
    return [sorted(group, key=lambda case: case.concurrency) for group in groups.values()]


def sweeps(cases: Sequence[Case], solutions: dict[str, Solution], name: str) -> Floats:
    """Log errors [point, latency] of every point that did not calibrate, over all configurations with enough loads.

    `solutions` are the efficiencies for a family, fitted without it.
    """
    pick, least = PICKS[name]
    found = []
    for points in configurations(cases):
        loads = {case.concurrency for case in points}
        if len(loads) < least:
            continue
        given = [points[place] for place in pick(points)]
        used = {case.concurrency for case in given}
        others = [case for case in points if case.concurrency not in used]
        found += _predicted(given, others, solutions[points[0].family])
    return np.array(found)


def _predicted(given: list[Case], others: list[Case], solution: Solution) -> list[list[float]]:
    times = Timed(given[0], solution.efficiencies(given[0]))
    factors = fit_factors(times, given[0].floor, [_measurement(case) for case in given])
    errors = []
    for case in others:
        replayed = replay(scaled(times, case.floor, factors), case.trial)
        errors.append(
            [
                float(np.log(replayed.statistic(latency, case.statistic) / value))
                for latency, value in (("ttft", case.ttft_s), ("tpot", case.tpot_s))
            ]
        )
    return errors


def _measurement(case: Case) -> Measurement:
    return Measurement(
        name=str(case.concurrency),
        trial=case.trial,
        targets=(
            Target(latency="ttft", statistic=case.statistic, value=case.ttft_s),
            Target(latency="tpot", statistic=case.statistic, value=case.tpot_s),
        ),
    )
