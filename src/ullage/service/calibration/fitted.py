"""Load tests fitted to a step model, with all that is to be said about the fit: one function for every verb.

`calibrate` prints what comes out and keeps it in a file, a plan takes it as its step model, `check` and `init` look at
its anomalies, and the accuracy tables are made with it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ullage.errors import InputError
from ullage.evidence import Source
from ullage.service.calibration.agreement import Agreement, Weighing, agreement, weighings
from ullage.service.calibration.calibration import (
    Calibration,
    Measurement,
    Residual,
    calibrate,
    prior_spread,
)
from ullage.service.calibration.hits import are_unknown
from ullage.service.calibration.lengths import ASSUMED, lengths_of_test
from ullage.service.calibration.prediction import fit_band
from ullage.service.calibration.repeats import (
    NOT_STATED,
    NotRepeatable,
    RepeatTerms,
    in_flight_of_waiting_client,
    measurement_of,
)
from ullage.service.calibration.tested_range import range_tested
from ullage.service.calibration.whose import refuse
from ullage.service.loadtests.loadtest import LoadTest, Loop, Point
from ullage.service.stage import calibrated_step
from ullage.service.steps.evidence_anomaly import EvidenceAnomaly
from ullage.service.steps.factor_spread import FactorSpread
from ullage.service.steps.floor import Floor
from ullage.service.steps.physics import Breach, prefill_breach, tpot_breach
from ullage.service.steps.scaled import ScaledStep
from ullage.service.steps.step_model import MeasuredRange, StepModel
from ullage.units import DURATION, brief

RESIDUAL_RATIO = 1.15
"""A fit that misses its own points by more than this has the wrong shape, or the points do not belong together."""
FACTOR_SPREADS = 2.5
"""A factor so many prior spreads away from 1 is no correction of an estimate, but another configuration."""
NOT_MONOTONE_RATIO = 0.9
"""More load never makes a token faster; by more than this it is no luck of the run."""
_INSPECT_FIX = "Run ullage calibrate --inspect FILE to see what was read."
_SPLIT_FIX = (
    "Fit them with ullage calibrate FILE --prefill REPLICAS:tp=N --transfer RATE --out FILE; a plan takes what it "
    "writes as evidence.calibrations."
)
# What prefix hits that nobody stated may move, as spreads of a logarithm.
_UNKNOWN_HITS = {"tpot": 0.05, "ttft": 0.35}


@dataclass(frozen=True, kw_only=True)
class FittedTests:
    """The fit, the points it used and those it could not, the range they covered, and what is wrong with them."""

    calibration: Calibration
    step: StepModel
    used: tuple[Measurement, ...]
    left_out: tuple[NotRepeatable, ...]
    tested: MeasuredRange
    agreement: Agreement
    anomalies: tuple[EvidenceAnomaly, ...]
    breaches: tuple[tuple[str, Breach], ...]


def fit_tests(
    estimate: StepModel,
    tests: Sequence[tuple[str, LoadTest]],
    terms: RepeatTerms,
    *,
    source: Source,
    accepted: Sequence[str] = (),
    field: str = "load tests",
) -> FittedTests:
    """Repeat the tests on the estimate and scale it to what they measured; refused where physics is broken."""
    used, left_out = measurements_of(tests, terms)
    breaches = tuple(_breaches(estimate.floor, used))
    refuse(_broken(breaches), accepted, field=field)
    fit = calibrate(estimate, estimate.floor, used)
    points = [point for _, test in tests for point in test.points]
    if any(are_unknown(point) for point in points) and terms.cached_fraction is None:
        fit = replace(fit, spread=_with_unknown_hits(fit.spread))
    times = ScaledStep(times=estimate, factors=fit.factors)
    tested = range_tested(replace(estimate, times=times, request_overhead_s=times.request_overhead_s), used)
    limits = terms.limits
    band = fit_band(times, fit.spread, tested, most_sequences=limits.max_sequences, most_kv_tokens=limits.kv_tokens)
    step = calibrated_step(
        estimate,
        fit.factors,
        replace(source, what=f"fit to {len(used)} load-test points"),
        band=band,
        tested=tested,
        spread=fit.spread,
    )
    agreed = agreement(estimate, [test for _, test in tests], terms, together=fit.factors)
    anomalies = (*_broken(breaches), *_anomalies(fit, points, terms), *_disagreements(agreed))
    notes = [each.sentence for each in anomalies]
    notes += [f"{each.point} was left out of the fit: it {each.reason}." for each in left_out]
    if fit.not_identified:
        notes.append(
            f"The load tests do not identify: {', '.join(fit.not_identified)}. ullage calibrate suggests a test that "
            "would."
        )
    return FittedTests(
        calibration=fit,
        step=replace(step, notes=tuple(notes), anomalies=anomalies, cold_start=fit.cold_start),
        used=tuple(used),
        left_out=tuple(left_out),
        tested=tested,
        agreement=agreed,
        anomalies=anomalies,
        breaches=breaches,
    )


def measurements_of(
    tests: Sequence[tuple[str, LoadTest]], terms: RepeatTerms
) -> tuple[list[Measurement], list[NotRepeatable]]:
    """The points that can be repeated and the others, each named by its file and itself."""
    found = [
        _weighed(measurement_of(replace(point, name=f"{name} {point.name}"), terms), weighing)
        for (name, test), weighing in zip(tests, weighings([test for _, test in tests]), strict=True)
        for point in test.points
    ]
    used = [each for each in found if isinstance(each, Measurement)]
    left_out = [each for each in found if isinstance(each, NotRepeatable)]
    if not used:
        reasons = "; ".join(f"{each.point} {each.reason}" for each in left_out) or "the files hold no points"
        raise InputError(
            field="load tests",
            value=[name for name, _ in tests],
            problem=f"no point can be repeated: {reasons}",
            fix=_SPLIT_FIX if any(NOT_STATED in each.reason for each in left_out) else _INSPECT_FIX,
        )
    return used, left_out


def _weighed(found: Measurement | NotRepeatable, weighing: Weighing) -> Measurement | NotRepeatable:
    if isinstance(found, NotRepeatable):
        return found
    return replace(found, weight_fraction=weighing.weight_fraction)


def _with_unknown_hits(spread: FactorSpread) -> FactorSpread:
    wider = {kind: math.hypot(each, _UNKNOWN_HITS[kind]) for kind, each in spread.fit_spreads.items()}
    return replace(spread, fit_spreads=wider)


# ---- what is wrong -------------------------------------------------------------------------------------


def _breaches(floor: Floor, used: Sequence[Measurement]) -> Iterator[tuple[str, Breach]]:
    """Points that no device of this kind can reach: tokens with one sequence at once, the shortest prompt alone."""
    for each in used:
        trial = each.trial
        for target in each.targets:
            breach = None
            if target.latency == "tpot":
                context = float(trial.prompt_tokens.mean())
                step_s = target.value * trial.limits.tokens_per_step
                breach = tpot_breach(floor, tpot_s=step_s, sequences=1.0, context_tokens=context)
            elif target.latency == "ttft":
                cached = 0 if trial.cached_tokens is None else trial.cached_tokens
                shortest = int((trial.prompt_tokens - cached).min())
                computes = floor if trial.apart is None else trial.apart.prefill_floor
                breach = prefill_breach(computes, prompt_tokens_per_s=shortest / target.value, prompt_tokens=shortest)
            if breach is not None:
                yield each.name, breach


def _broken(breaches: Sequence[tuple[str, Breach]]) -> tuple[EvidenceAnomaly, ...]:
    return tuple(
        EvidenceAnomaly(name="physics", sentence=f"{point} violates physics: {breach.sentence}.", refuses=True)
        for point, breach in breaches
    )


def _anomalies(fit: Calibration, points: Sequence[Point], terms: RepeatTerms) -> Iterator[EvidenceAnomaly]:
    for each in fit.parameters:
        spread = prior_spread(each.name, is_apart=terms.apart is not None)
        if abs(math.log(each.value_ratio)) > FACTOR_SPREADS * spread:
            far = math.exp(FACTOR_SPREADS * spread)
            yield EvidenceAnomaly(
                name="factor",
                sentence=f"The factor {each.name} is {each.value_ratio:.2f}, and estimates are not off by more than "
                f"{far:.1f} times: was another model, device or parallelism tested?",
            )
    yield from _misfits(fit.residuals)
    cold_s = fit.cold_start.of(is_full=True)
    if cold_s > 0.0:
        yield EvidenceAnomaly(
            name="cold_start",
            sentence=f"The engine was cold: its first step took up to {brief(cold_s, DURATION)} longer "
            "than a later one, and the mean TTFT includes that. Tests are simulated with it, plans without it. Warm "
            "the engine up before the next test.",
        )
    yield from _not_monotone(points)
    if terms.cached_fraction is None and any(are_unknown(each) for each in points):
        yield EvidenceAnomaly(
            name="prefix_hits",
            sentence="The share of prefix hits is not stated: none is assumed, hits would look like speed, and "
            "the bands are wider for it. Give --cached-share, or the tool's configuration next to its file.",
        )
    yield from waiting_clients(points)
    rng = np.random.default_rng(0)
    if any(
        (found := lengths_of_test(each, each.requests, rng=rng)) is not None and ASSUMED.said_by in found.said_by
        for each in points
    ):
        yield EvidenceAnomaly(
            name="lengths",
            sentence="The file keeps sums and no lengths: they are assumed to be drawn evenly from 80 to 100 % of a "
            "nominal length, with the mean of the file.",
        )


def waiting_clients(points: Sequence[Point]) -> Iterator[EvidenceAnomaly]:
    """Tests whose client could not send the rate it was told to, and states no limit of its own."""
    found = [str(count) for each in points if (count := in_flight_of_waiting_client(each)) is not None]
    if found:
        yield EvidenceAnomaly(
            name="closed_loop",
            sentence=f"The client waited for the server in {len(found)} of {len(points)} points, and its limit of "
            f"requests at once is not stated: they are simulated as closed loops of the {', '.join(found)} requests "
            "that were in flight on average.",
        )


def _misfits(residuals: Sequence[Residual]) -> Iterator[EvidenceAnomaly]:
    off = [each for each in residuals if abs(math.log(max(each.error_ratio, 1e-9))) > math.log(RESIDUAL_RATIO)]
    if off:
        worst = max(off, key=lambda each: abs(math.log(max(each.error_ratio, 1e-9))))
        measured, fitted = (
            f"{value:.3g} tokens/s" if worst.latency == "rate" else brief(value, DURATION)
            for value in (worst.measured_value, worst.simulated_value)
        )
        yield EvidenceAnomaly(
            name="residual",
            sentence=f"The fit misses its own points by more than {RESIDUAL_RATIO - 1:.0%} in {len(off)} of "
            f"{len(residuals)} latencies, at worst {worst.point}: {worst.latency} {worst.statistic} was "
            f"{measured}, and {fitted} by the fit. The points do not belong "
            "together, or something not stated changed between them.",
        )


def _not_monotone(points: Sequence[Point]) -> Iterator[EvidenceAnomaly]:
    """Tokens that come faster at a higher load of the same requests."""
    sweeps: dict[tuple[object, ...], list[tuple[float, float, str]]] = defaultdict(list)
    for point in points:
        load = point.load.concurrency_cap_count if point.load.loop is Loop.CLOSED else point.load.offered_rps
        tpot = next((each.middle_s for each in point.latencies if each.definition.value == "tpot"), None)
        if load and tpot:
            lengths = (round(point.mean_prompt_tokens or 0, -2), round(point.mean_output_tokens or 0, -2))
            nominal = (point.tokens.nominal_prompt_tokens, point.tokens.nominal_output_tokens)
            sweeps[point.load.loop, lengths, nominal].append((float(load), tpot, point.name))
    for each in sweeps.values():
        ordered = sorted(each)
        for (_, low_s, low), (_, high_s, high) in pairwise(ordered):
            if high_s < NOT_MONOTONE_RATIO * low_s:
                yield EvidenceAnomaly(
                    name="sweep",
                    sentence=f"TPOT falls from {low_s:.3g} s at {low} to {high_s:.3g} s at {high}, a higher load: one "
                    "of the two points is wrong, or the engine settings differed.",
                )


def _disagreements(agreed: Agreement) -> tuple[EvidenceAnomaly, ...]:
    return tuple(EvidenceAnomaly(name="agreement", sentence=each) for each in agreed.disagreements)
