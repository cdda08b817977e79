"""One configuration's points by the users' path: some calibrate the model, the others are predicted with their bands.

Rows become files as InferenceX writes them and are read by its reader; `fit_tests` and `predict` are what `calibrate`
and `simulate` call. What a user who ran the test knows and the file does not say is stated as a user would: the
scheduler's flags and the engine's own count of KV tokens. Efficiencies are fitted without the family.
"""

from __future__ import annotations

import datetime
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from bench.published.cases import Case
from bench.published.fit import Floats, Solution

from ullage.evidence import Evidence, Source
from ullage.facts.efficiency import efficiencies
from ullage.readers.loadtests import read_bytes
from ullage.service.calibration.calibration import Measurement
from ullage.service.calibration.fitted import fit_tests
from ullage.service.calibration.prediction import PredictedLatency, predict
from ullage.service.calibration.repeats import LaunchFlags, RepeatTerms, measurement_of
from ullage.service.loadtests.loadtest import LoadTest
from ullage.service.steps.coefficients import band
from ullage.service.steps.roofline import Roofline
from ullage.service.steps.step_model import StepModel

Pick = Callable[[list[Case]], list[int]]
SOURCE = Source(what="published rows", where="bench", date=datetime.date(2026, 11, 15))
MOST_POINTS_APART = 3


def one_point(points: list[Case]) -> list[int]:
    """The middle of the sweep."""
    return [len(points) // 2]


def two_points(points: list[Case]) -> list[int]:
    """Lowest and highest load."""
    return [0, len(points) - 1]


def lower_half(points: list[Case]) -> list[int]:
    """The ends of the lower half of the loads: the loads above lie outside the tested range."""
    return sorted({0, max(1, len(points) // 2) - 1})


PICKS: dict[str, tuple[Pick, int]] = {
    "one point": (one_point, 3),
    "two points (lowest and highest load)": (two_points, 3),
    "the lower half, for loads beyond": (lower_half, 4),
}
"""How points are chosen, and how many different loads a configuration needs for it."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Log errors of predicted against measured, and whether the band held, one row a point: TTFT, TPOT."""

    errors: Floats
    inside: Floats


def configurations(cases: Sequence[Case]) -> list[list[Case]]:
    """Cases of one model, device, engine, sharding, shape and source, by load; repeats of a load stay in."""
    groups: dict[tuple[object, ...], list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.configuration].append(case)
    return [sorted(group, key=lambda case: case.concurrency) for group in groups.values()]


def sweeps(cases: Sequence[Case], solutions: dict[str, Solution], name: str) -> Judged:
    """Every point that did not calibrate, over all configurations with enough loads."""
    pick, least = PICKS[name]
    found: list[tuple[PredictedLatency, PredictedLatency]] = []
    for points in configurations(cases):
        if len({case.concurrency for case in points}) < least:
            continue
        given = [points[place] for place in pick(points)]
        used = {case.concurrency for case in given}
        beyond = max(used) if pick is lower_half else 0
        others = [case for case in points if case.concurrency not in used and case.concurrency > beyond]
        found += predicted(given, others, solutions[points[0].family])
    return _judged(found)


def other_mixes(cases: Sequence[Case], solutions: dict[str, Solution]) -> Judged:
    """Two points of one mix of lengths predict the other mixes of the same replica, one version and day."""
    groups: dict[tuple[object, ...], dict[tuple[object, ...], list[Case]]] = defaultdict(dict)
    for points in configurations(cases):
        key = points[0].configuration
        groups[(*key[:5], *key[7:])][key[5:7]] = points
    found: list[tuple[PredictedLatency, PredictedLatency]] = []
    for mixes in groups.values():
        for shape, points in mixes.items():
            if len({case.concurrency for case in points}) > 1:
                others = [case for other, each in mixes.items() if other != shape for case in each[::MOST_POINTS_APART]]
                given = [points[place] for place in two_points(points)]
                found += predicted(given, others, solutions[points[0].family])
    return _judged(found)


def predicted(
    given: list[Case], others: list[Case], solution: Solution
) -> list[tuple[PredictedLatency, PredictedLatency]]:
    """TTFT and TPOT of the other points, each with its band, after a fit to those given."""
    step = fit_tests(
        estimate(given[0], solution), [("sweep", as_test(*given))], terms_of(*given),
        source=SOURCE, accepted=("physics",),
    ).step  # fmt: skip
    found = []
    for case in others:
        (point,) = as_test(case).points
        asked = measurement_of(point, terms_of(case))
        assert isinstance(asked, Measurement)
        wanted = {each.latency: each for each in predict(step, asked).latencies if each.measured_s is not None}
        found.append((wanted["ttft"], wanted["tpot"]))
    return found


def estimate(case: Case, solution: Solution) -> StepModel:
    """What ullage would estimate, had it never seen this family."""
    values = solution.efficiencies(case)
    return StepModel(
        kind="roofline",
        times=Roofline(work=case.work, rates=case.rates, efficiencies=values),
        floor=case.floor,
        evidence=Evidence.ESTIMATED,
        request_overhead_s=values.request_overhead_s,
        band=band(efficiencies().sheets["band-model"], "model"),
        facts=(),
    )


def _judged(found: Sequence[tuple[PredictedLatency, PredictedLatency]]) -> Judged:
    errors = [[np.log(each.predicted_s / (each.measured_s or np.nan)) for each in pair] for pair in found]
    return Judged(errors=np.array(errors), inside=np.array([[bool(each.is_inside) for each in pair] for pair in found]))


def terms_of(*cases: Case) -> RepeatTerms:
    """The flags that a user who ran these tests would state: of the lowest load, and for each other from there on."""
    ordered = sorted(cases, key=lambda case: case.concurrency)
    launches = [
        LaunchFlags(
            least_clients=case.concurrency,
            budget_tokens=case.trial.limits.budget_tokens,
            poll_steps=case.trial.limits.poll_steps,
            batch_wait_steps=case.trial.limits.batch_wait_steps,
        )
        for case in ordered[1:]
    ]
    return RepeatTerms(limits=ordered[0].trial.limits, are_limits_stated=True, launches=tuple(launches))


def as_test(*cases: Case) -> LoadTest:
    """The rows as a file of InferenceX, read by its reader."""
    rows = [
        {
            "hw": case.device,
            "conc": case.concurrency,
            "tput_per_gpu": 0.0,
            "isl": case.prompt_tokens,
            "osl": case.output_tokens,
            f"{'median' if case.statistic == 'p50' else 'mean'}_ttft": case.ttft_s,
            f"{'median' if case.statistic == 'p50' else 'mean'}_tpot": case.tpot_s,
        }
        for case in cases
    ]
    return read_bytes(json.dumps(rows).encode(), file="sweep.json")
