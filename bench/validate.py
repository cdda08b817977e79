"""Load tests predicted from evidence of other workloads or rates: how many statistics lie in their bands?

    python -m bench.validate [--sweeps 12]

Three parts. vLLM on H100 under open-loop load, calibrated on one workload and validated on the others. llm-d's rate
sweeps, calibrated on the lowest and the highest rate of the lower half and validated on every other rate. Then faults
planted in the first part's runs: a prefix cache that was off, another device, a client that did not keep up; each has
to be called not validated, with its own reason.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from bench.published.cases import DATA
from bench.published.open_loop import CONFIGS, RUNS
from bench.published.sweeps import Sweep, sweeps

from ullage.execute.run import today
from ullage.load.evidence import load_tests
from ullage.load.pool import ReplicaChoice, load_replica
from ullage.report.encode import to_text
from ullage.service.calibration.calibration import calibrate
from ullage.service.calibration.evidence import engine_limits
from ullage.service.calibration.prediction import fit_band
from ullage.service.calibration.repeats import NotRepeatable, RepeatTerms, trial_of
from ullage.service.calibration.replay import Replayed, replay
from ullage.service.calibration.slowed import SlowedTimes
from ullage.service.calibration.tested_range import range_tested
from ullage.service.calibration.validation import PlannedReplica, ValidatedPoint, Validity, validate_point
from ullage.service.calibration.whose import ReplicaUnderTest, differences
from ullage.service.loadtests.loadtest import Definition, LatencySummary, LoadTest, Point
from ullage.service.stage import calibrated_step
from ullage.service.steps.scaled import ScaledStep
from ullage.verbs.calibrate_fit import fit_calibration

FRACTIONS = (0.5, 0.9, 0.95, 0.99)


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One point, where it comes from, and what was found."""

    part: str
    given: str
    found: ValidatedPoint


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The stages of one workload on one replica that was calibrated on another."""

    given: str
    planned: PlannedReplica
    terms: RepeatTerms
    replica: ReplicaUnderTest
    tests: tuple[LoadTest, ...]


def workloads() -> Iterator[Workload]:
    for size, (config, tp) in CONFIGS.items():
        model = DATA / "model_configs" / f"{config}_config.json"
        runs = {
            folder.name.rsplit("-", 1)[1]: sorted(folder.glob("results/stage_*_lifecycle_metrics.json"))
            for folder in sorted(RUNS.glob(f"*llama-2-{size}*"))
        }
        for given, files in runs.items():
            if given == "reasoning":
                continue
            planned, terms, replica = _replica(files, model, tp)
            for asked, others in runs.items():
                if asked != given:
                    tests = tuple(load_tests(others))
                    named = f"{size}, {given} predicts {asked}"
                    yield Workload(given=named, planned=planned, terms=terms, replica=replica, tests=tests)


def _replica(files: Sequence[Path], model: Path, tp: int) -> tuple[PlannedReplica, RepeatTerms, ReplicaUnderTest]:
    fitted = fit_calibration(files, model=model, device="h100-sxm", tp=tp)
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "calibration.json"
        saved.write_text(to_text(fitted.to_dict()))
        choice = ReplicaChoice(model=model, device="h100-sxm", tp=tp, calibration=saved)
        found = load_replica(choice, None, as_of=today(None))
    assert isinstance(found, tuple)
    memory, step, _ = found
    replica = ReplicaUnderTest(
        model=memory.model, device=memory.device.name, engine=memory.runtime.engine, sharding=memory.runtime.sharding
    )
    terms = RepeatTerms(limits=engine_limits(memory.runtime, memory.kv_tokens))
    return PlannedReplica(step=step, cached_fraction=0.5), terms, replica


def open_loop(found: Sequence[Workload]) -> Iterator[Scored]:
    for each in found:
        for test in each.tests:
            for point in test.points:
                scored = validate_point(each.planned, point, each.terms, others=differences(test, each.replica))
                yield Scored(part="vLLM on H100", given=each.given, found=scored)


def rate_sweeps(most: int) -> Iterator[Scored]:
    found = [each for each in sweeps() if isinstance(each, Sweep) and len(each.runs) >= 4]
    for sweep in found[:most]:
        half = sweep.runs[: max(2, len(sweep.runs) // 2)]
        given = [half[0].measurement, half[-1].measurement]
        fit = calibrate(sweep.step, sweep.step.floor, given)
        times = ScaledStep(times=sweep.step, factors=fit.factors)
        tested = range_tested(replace(sweep.step, times=times, request_overhead_s=times.request_overhead_s), given)
        limits = half[0].terms.limits
        band = fit_band(times, fit.spread, tested, most_sequences=limits.max_sequences, most_kv_tokens=limits.kv_tokens)
        step = calibrated_step(
            sweep.step, fit.factors, sweep.step.facts[0].source, band=band, tested=tested, spread=fit.spread
        )
        planned = PlannedReplica(step=step, cached_fraction=0.0)
        for run in sweep.runs:
            if run is not half[0] and run is not half[-1]:
                scored = validate_point(planned, run.point, run.terms)
                yield Scored(part="llm-d sweeps", given=f"{sweep.name} at {run.rate_rps:g} req/s", found=scored)


# ---- faults --------------------------------------------------------------------------------------------


def _seen(point: Point, run: Replayed) -> Point:
    """The point with the latencies of a simulated run, as a tool that keeps summaries writes them."""

    def summary(definition: Definition, values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> LatencySummary:
        at = tuple((each, float(np.quantile(values, each))) for each in FRACTIONS)
        return LatencySummary(
            definition=definition, mean_s=float(values.mean()), percentiles=at, sample_count=values.size
        )

    return replace(
        point,
        requests=(),
        anomalies=(),
        completed_count=int(run.ttft_s.size),
        failed_count=0,
        duration_s=run.duration_s,
        achieved_rps=run.ttft_s.size / run.duration_s,
        sent_rps=None,
        output_tokens_per_s=run.output_tokens_per_s,
        latencies=(
            summary(Definition.TTFT, run.ttft_s),
            summary(Definition.TPOT, run.tpot_s),
            summary(Definition.E2E, run.e2e_s),
        ),
    )


def _no_hits(each: Workload, point: Point) -> Point:
    trial = trial_of(point, each.terms)
    assert not isinstance(trial, NotRepeatable)
    return _seen(point, replay(each.planned.step, replace(trial, cached_tokens=None)))


def _named_device(_: Workload, point: Point) -> Point:
    return replace(point, subject=replace(point.subject, hardware="A100"))


def _other_device(each: Workload, point: Point) -> Point:
    trial = trial_of(point, each.terms)
    assert not isinstance(trial, NotRepeatable)
    return _seen(point, replay(SlowedTimes(times=each.planned.step, ratio=1.6), trial))


def _slow_client(each: Workload, point: Point) -> Point:
    trial = trial_of(point, each.terms)
    assert not isinstance(trial, NotRepeatable)
    assert point.load.offered_rps
    seen = _seen(point, replay(each.planned.step, trial))
    # Told to send half as much again, it sent what it did.
    return replace(seen, load=replace(point.load, offered_rps=1.5 * point.load.offered_rps), sent_rps=point.sent_rps)


FAULTS: dict[str, tuple[str, Callable[[Workload, Point], Point]]] = {
    "prefix cache off": ("prefix_cache", _no_hits),
    "another device, named": ("device", _named_device),
    "another device, 1.6 times as slow, not named": ("steps", _other_device),
    "client sends two thirds of its rate": ("client", _slow_client),
}


def planted(found: Sequence[Workload]) -> Iterator[tuple[str, str, int, int, int, str]]:
    for name, (reason, plant) in FAULTS.items():
        called = right = count = 0
        others: Counter[str] = Counter()
        for each in found:
            for test in each.tests:
                for point in test.points:
                    if "reasoning" in each.given.rsplit(" ", 1)[1] or not point.load.offered_rps:
                        continue
                    bad = plant(each, point)
                    differ = differences(replace(test, points=(bad,)), each.replica)
                    scored = validate_point(each.planned, bad, each.terms, others=differ)
                    names = [one.name for one in scored.reasons]
                    count += 1
                    called += scored.verdict is Validity.NOT_VALIDATED
                    right += reason in names
                    others.update(one for one in names if one != reason)
        yield name, reason, count, called, right, ", ".join(f"{key} {n}" for key, n in others.items()) or "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", type=int, default=12)
    given = parser.parse_args()
    runs = list(workloads())
    scored = [*open_loop(runs), *rate_sweeps(given.sweeps)]
    print("| part | points | statistics | inside | of the median and mean | verdicts |\n|---|---|---|---|---|---|")
    for part in dict.fromkeys(each.part for each in scored):
        own = [each.found for each in scored if each.part == part]
        every = [one for each in own for one in each.statistics]
        main_ones = [one for one in every if one.is_main]
        verdicts = Counter(str(each.verdict) for each in own)
        said = ", ".join(f"{name} {count}" for name, count in sorted(verdicts.items()))
        print(f"| {part} | {len(own)} | {len(every)} | {_share(every)} | {_share(main_ones)} | {said} |")
    everything = [one for each in scored for one in each.found.statistics]
    print(f"\nAll: {_share(everything)} of {len(everything)} statistics inside their bands.\n")
    kinds = sorted({one.name for one in everything})
    print(", ".join(f"{kind} {_share([one for one in everything if one.name == kind])}" for kind in kinds))
    columns = ("planted", "reason wanted", "points", "not validated", "for this reason", "other reasons")
    print("\n| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    for row in planted(runs):
        print("| " + " | ".join(str(each) for each in row) + " |")
    print()
    for each in scored:
        if each.found.verdict is not Validity.VALIDATED:
            said = " ".join(one.sentence for one in each.found.reasons)
            print(f"- {each.part}, {each.given}: {each.found.verdict}. {said}")


def _share(found: Sequence[object]) -> str:
    inside = sum(getattr(each, "is_inside") for each in found)  # noqa: B009
    return f"{inside / len(found):.0%}" if found else "-"


if __name__ == "__main__":
    main()
