"""How far predicted operating points are from measured ones (`python -m bench.accuracy_point`; part of bench.accuracy).

    python -m bench.accuracy_point             all of the below
    python -m bench.accuracy_point --mlperf    MLPerf alone

- A sweep calibrated on the lower half of its rates: the highest rate that still passes, every run simulated as run.
- A system calibrated on its MLPerf Offline rate: its Server and Interactive rates under MLPerf's p99 limits.
- Both with their bands: how often the band holds. For estimates and for sweeps it is the band that a plan would state,
  the step times at either end; one number, a throughput, is no class of evidence of a plan, and its band is that of the
  errors of the other benchmarks.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from bench.published.mlperf import NoSubmission, Submission, Wanted, again, calibrated, predicted, submissions
from bench.published.score import table
from bench.published.sweeps import NoSweep, Sweep, SweepRun, half_of, sweeps

from ullage.evidence import Evidence
from ullage.service.calibration.calibration import Calibration, calibrate
from ullage.service.calibration.prediction import fit_band
from ullage.service.calibration.replay import RequestTimes, replay
from ullage.service.calibration.slowed import SlowedTimes
from ullage.service.calibration.tested_range import range_tested
from ullage.service.stage import band_of
from ullage.service.steps.band import DEFAULT_BANDS, StepBand
from ullage.service.steps.floored import scaled
from ullage.service.steps.scaled import ScaledStep
from ullage.service.steps.step_model import MeasuredRange

TTFT_S = 1.0
TPOT_RATIO = 2.0
BAND_PERCENTS = (10, 90)


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """One prediction with its band: what kind of evidence, and whether the measurement lay inside."""

    kind: str
    subject: str
    is_inside: bool


def sections(*, mlperf_alone: bool = False) -> Iterator[Iterator[str]]:
    """The tables, one after another; the last one needs what the others found."""
    covered: list[Coverage] = []
    if not mlperf_alone:
        yield _sweeps(covered)
    yield _mlperf(covered)
    yield _bands(covered)


# ---- sweeps --------------------------------------------------------------------------------------------


def _sweeps(covered: list[Coverage]) -> Iterator[str]:
    yield (
        "Highest passing rate of a sweep (TTFT p95 1 s, TPOT p95 twice its lowest-rate value), calibrated on the lower "
        "half of its rates, every run simulated as run:"
    )
    yield ""
    everything = list(sweeps())
    found = [each for each in everything if isinstance(each, Sweep)]
    rows, near, exact = [], 0, 0
    for sweep in found:
        step = sweep.step
        fitted = calibrate(step, step.floor, [run.measurement for run in lower_half(sweep)])
        times = scaled(step, step.floor, fitted.factors)
        tested = range_tested(times, [run.measurement for run in lower_half(sweep)])
        measured, simulated, estimated = _measured_place(sweep), _place(sweep, times), _place(sweep, step)
        off = simulated - measured
        near, exact = near + (abs(off) <= 1), exact + (off == 0)
        low, high = _band_places(sweep, times, _own_band(sweep, fitted, tested))
        covered.append(Coverage(kind="half a sweep", subject=sweep.name, is_inside=low <= measured <= high))
        low, high = _band_places(sweep, step, band_of(step))
        covered.append(Coverage(kind="estimated", subject=sweep.name, is_inside=low <= measured <= high))
        names = [_rate(sweep, place) for place in (measured, simulated, estimated)]
        rows.append((sweep.name, len(sweep.runs), *names, f"{off:+d}"))
    yield from table(
        ("sweep", "rates", "measured, req/s", "calibrated", "estimated, nothing measured", "steps off"), rows
    )
    yield ""
    share = near / len(found) if found else 0.0
    yield f"Within one step in {near} of {len(found)} sweeps ({share:.0%}; must 80 %), exactly right in {exact}."
    for each in everything:
        if isinstance(each, NoSweep):
            yield f"Left out: {each.name}: {each.reason}."


def lower_half(sweep: Sweep) -> tuple[SweepRun, ...]:
    return sweep.runs[: half_of(len(sweep.runs))]


def _measured_place(sweep: Sweep) -> int:
    limit_s = TPOT_RATIO * sweep.runs[0].tpot_p95_s
    return _last(run.ttft_p95_s <= TTFT_S and run.tpot_p95_s <= limit_s for run in sweep.runs)


def _place(sweep: Sweep, times: RequestTimes) -> int:
    """The last rate that passes in simulation; -1 for none. The limit is the measured one: it was known beforehand."""
    limit_s = TPOT_RATIO * sweep.runs[0].tpot_p95_s
    found = (replay(times, run.measurement.trial) for run in sweep.runs)
    return _last(each.statistic("ttft", "p95") <= TTFT_S and each.statistic("tpot", "p95") <= limit_s for each in found)


def _last(passing: Iterator[bool]) -> int:
    return max((place for place, passes in enumerate(passing) if passes), default=-1)


def _own_band(sweep: Sweep, fitted: Calibration, tested: MeasuredRange) -> StepBand:
    """As a plan has it: from the fit's own spread, for what the replica may run."""
    limits = sweep.runs[0].measurement.trial.limits
    found = fit_band(
        ScaledStep(times=sweep.step, factors=fitted.factors), fitted.spread, tested,
        most_sequences=limits.max_sequences, most_kv_tokens=limits.kv_tokens,
    )  # fmt: skip
    default = DEFAULT_BANDS[Evidence.CALIBRATED]
    return replace(default, fast_ratio=found.tpot_low_ratio, slow_ratio=found.tpot_high_ratio)


def _band_places(sweep: Sweep, times: RequestTimes, band: StepBand) -> tuple[int, int]:
    return (
        _place(sweep, SlowedTimes(times=times, ratio=band.slow_ratio)),
        _place(sweep, SlowedTimes(times=times, ratio=band.fast_ratio)),
    )


def _rate(sweep: Sweep, place: int) -> str:
    if place < 0:
        return "none"
    beyond = " (all)" if place == len(sweep.runs) - 1 else ""
    return f"{sweep.runs[place].rate_rps:g}{beyond}"


# ---- MLPerf --------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One scenario of one system: predicted over measured, and what the Offline rate alone would have said."""

    submission: Submission
    wanted: Wanted
    ratio: float
    offline_ratio: float


def _mlperf(covered: list[Coverage]) -> Iterator[str]:
    yield (
        "MLPerf v4.0 to v5.1: Server and Interactive rates at the p99 limits of TTFT and TPOT, from the system's "
        "Offline rate; error of the rate in %:"
    )
    yield ""
    everything = list(submissions())
    outcomes = []
    for each in everything:
        if isinstance(each, Submission):
            outcomes += list(_outcomes(each, covered))
    covered += _by_others(outcomes)
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups["**all**"].append(outcome)
        groups[f"all {outcome.wanted.scenario}"].append(outcome)
        groups[f"- {outcome.submission.benchmark} {outcome.wanted.scenario}"].append(outcome)
    header = ("benchmark", "n", "median error", "median signed", "within 20 %", "Offline rate taken as it is")
    yield from table(header, [_mlperf_row(name, own) for name, own in sorted(groups.items())])
    yield ""
    yield from _misses(outcomes)
    left_out = Counter(each.reason for each in everything if isinstance(each, NoSubmission))
    yield f"Left out: {sum(left_out.values())} systems ({'; '.join(f'{n} x {why}' for why, n in left_out.items())})."


def _outcomes(submission: Submission, covered: list[Coverage]) -> Iterator[Outcome]:
    times = calibrated(submission)
    for wanted in submission.wanted:
        subject = f"{submission.name} {submission.benchmark} {wanted.scenario}"
        found = predicted(submission, wanted, times)
        # A data sheet says nothing about a device whose power is capped.
        if not submission.is_power_capped:
            low, high = _estimated_rates(submission, wanted)
            covered.append(Coverage(kind="estimated", subject=subject, is_inside=low <= wanted.rate_rps <= high))
        yield Outcome(
            submission=submission,
            wanted=wanted,
            ratio=found.rate_rps / wanted.rate_rps,
            offline_ratio=submission.offline_rps / wanted.rate_rps,
        )


def _estimated_rates(submission: Submission, wanted: Wanted) -> tuple[float, float]:
    """The ends of an estimate's band, with the engine set as suits the estimate."""
    step, band = submission.step, band_of(submission.step)
    best = predicted(submission, wanted, step, is_bounded=False)
    low, high = (
        again(submission, wanted, SlowedTimes(times=step, ratio=ratio), best, is_bounded=False)
        for ratio in (band.slow_ratio, band.fast_ratio)
    )
    return low.rate_rps, high.rate_rps


def _by_others(outcomes: Sequence[Outcome]) -> Iterator[Coverage]:
    """Whether each ratio lies where 8 of 10 of the other benchmarks' ratios do."""
    ratios = np.array([each.ratio for each in outcomes])
    own = np.array([each.submission.benchmark for each in outcomes])
    for each, ratio, benchmark in zip(outcomes, ratios, own, strict=True):
        low, high = np.percentile(ratios[own != benchmark], BAND_PERCENTS)
        subject = f"{each.submission.name} {benchmark} {each.wanted.scenario}"
        yield Coverage(kind="one number", subject=subject, is_inside=bool(low <= ratio <= high))


def _mlperf_row(name: str, outcomes: Sequence[Outcome]) -> tuple[object, ...]:
    errors = np.array([each.ratio - 1.0 for each in outcomes])
    plain = np.array([each.offline_ratio - 1.0 for each in outcomes])
    return (
        name,
        len(outcomes),
        f"{100 * np.median(np.abs(errors)):.1f}",
        f"{100 * np.median(errors):+.1f}",
        f"{100 * np.mean(np.abs(errors) <= 0.2):.0f} %",
        f"{100 * np.median(np.abs(plain)):.1f}",
    )


def _misses(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Rates missed by more than half, by benchmark and device: the worst first."""
    groups: dict[str, list[float]] = defaultdict(list)
    for each in outcomes:
        if abs(each.ratio - 1.0) > 0.5:
            groups[f"{each.submission.benchmark} {each.wanted.scenario} on {each.submission.device}"].append(each.ratio)
    ordered = sorted(groups.items(), key=lambda pair: -max(pair[1]))
    said = "; ".join(f"{name} {len(own)} x, predicted {np.median(own):.2f} of measured" for name, own in ordered)
    yield f"Off by more than half: {said or 'none'}."


# ---- bands ---------------------------------------------------------------------------------------------


def _bands(covered: list[Coverage]) -> Iterator[str]:
    yield "The 80 % band of operating points:"
    yield ""
    kinds = sorted({each.kind for each in covered})
    rows = []
    for kind in ("**all**", *kinds):
        own = [each.is_inside for each in covered if kind in ("**all**", each.kind)]
        rows.append((kind, len(own), f"{100 * np.mean(own):.0f} %"))
    yield from table(("evidence", "n", "covered (must 70 to 90 %)"), rows)
    missed = [each.subject for each in covered if not each.is_inside and each.kind == "half a sweep"]
    yield ""
    yield f"Sweeps outside their calibrated band: {'; '.join(missed) or 'none'}."


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--mlperf", action="store_true")
    started = time.monotonic()
    for section in sections(mlperf_alone=options.parse_args().mlperf):
        print("\n".join(section), flush=True)
        print()
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
