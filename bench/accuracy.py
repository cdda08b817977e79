"""How far estimates and calibrated models are from published measurements (`python -m bench.accuracy`).

Every row is simulated as it was run, in the statistic the row names. What is fitted is fitted without the rows it is
scored on. The tables go to standard output as Markdown; bench/RESULTS.md keeps them.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from bench import accuracy_point
from bench.published.calibrated import PICKS, Judged, other_mixes, sweeps
from bench.published.cases import TRAINED_UNTIL, Case, LeftOut, serving_cases
from bench.published.fit import USUAL_VENDOR, Floats, Linearised, Simulated, Solution, linearise, solve
from bench.published.left_out import FAMILY, VENDOR_SPREAD, band_logs, held_out, is_vendor_known
from bench.published.open_loop import open_predictions, open_summary
from bench.published.score import score, table
from bench.published.sweeps import Sweep
from bench.published.sweeps import sweeps as sweeps_elsewhere
from numpy.typing import NDArray

from ullage.service.calibration.replay import replay

HEADER = ("rows", "n", "TPOT MAPE / median (bias) %", "TTFT MAPE / median (bias) %")
QUIET_RATES = 3


def main() -> None:
    started = time.monotonic()
    everything = list(serving_cases())
    cases = [each for each in everything if isinstance(each, Case)]
    scored = [case for case in cases if not case.apart]
    simulated = Simulated(scored)
    linear = linearise(simulated)
    sections: list[Iterator[str]] = [
        _estimated(simulated, linear),
        _expert_pairs(linear, simulated),
        _calibrated(scored, linear),
        _apart(cases, scored, linear),
        _open_loop(),
        _elsewhere(),
        _left_out(everything),
        *accuracy_point.sections(),
    ]
    for section in sections:
        print("\n".join(section), flush=True)
        print()
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)


def _estimated(simulated: Simulated, linear: Linearised) -> Iterator[str]:
    yield "Estimated, rows with an empty `apart`, one group at a time left out of the fit:"
    yield ""
    rows: list[tuple[object, ...]] = []
    for attribute in ("family", "device", "generation", "engine", "era"):
        errors = held_out(simulated, linear, attribute) - linear.measured
        members = np.array([getattr(case, attribute) for case in linear.cases])
        inside = _inside(errors, members, is_vendor_known(linear.cases, attribute), of_families=attribute == FAMILY)
        # Of dates only what came later is a prediction.
        shown = members != f"before {TRAINED_UNTIL}"
        rows.append((f"**leave one {attribute} out**, all", *_covered(errors[shown], inside[shown])))
        if attribute == "family":
            usual = shown & np.array([case.vendor == USUAL_VENDOR for case in linear.cases])
            label = f"- {USUAL_VENDOR} alone: {_rest(linear.cases)} known by one family, which is new with it"
            rows.append((label, *_covered(errors[usual], inside[usual])))
        if attribute != "era":
            named = np.array([case.source == "InferenceX" for case in linear.cases])
            label = f"- leave one {attribute} out, InferenceX by name"
            rows.append((label, *_covered(errors[named], inside[named])))
            each = [(member, members == member) for member in sorted(set(members))]
            rows += [(f"- {member}", *_covered(errors[own], inside[own])) for member, own in each]
    yield from table((*HEADER, "80 % band covers TPOT / TTFT"), rows)


def _rest(cases: Sequence[Case]) -> str:
    others = sorted({case.vendor for case in cases} - {USUAL_VENDOR})
    return f"{', '.join(others)} {'are' if len(others) > 1 else 'is'}"


def _covered(errors: Floats, inside: NDArray[np.bool_]) -> tuple[object, ...]:
    return *_scores(errors), f"{100 * inside[:, 1].mean():.0f} / {100 * inside[:, 0].mean():.0f} %"


def _inside(
    errors: Floats, members: NDArray[np.str_], known: NDArray[np.bool_], *, of_families: bool
) -> NDArray[np.bool_]:
    """Whether each row lies inside the band that the errors of the others give, where their vendor was `known`.

    The band of a row whose vendor was not is as much wider as that of a new vendor is.
    """
    inside = np.zeros_like(errors, bool)
    for member in set(members):
        out = members == member
        others = ~out & known
        low, high = band_logs(errors[others], families=len(set(members[others])) if of_families else None)
        spread = np.where(known[out], 1.0, VENDOR_SPREAD[:, None]).T
        inside[out] = (errors[out] >= spread * low) & (errors[out] <= spread * high)
    return inside


def _expert_pairs(linear: Linearised, simulated: Simulated) -> Iterator[str]:
    """Configurations that differ in expert parallelism alone: what it was measured to cost, and what it is said to."""
    yield "Expert parallelism: TPOT with it over TPOT without, rows of one version and day that differ in nothing else:"
    yield ""
    solution = solve(linear, np.ones(len(linear.cases), bool))
    estimated = simulated.logs([solution.logs(case) for case in linear.cases])
    groups: dict[tuple[object, ...], dict[int, list[int]]] = {}
    for place, case in enumerate(linear.cases):
        split = case.work.sharding
        rest = (*case.key[:4], split.tp, *case.key[5:], *case.configuration[7:])
        groups.setdefault(rest, {}).setdefault(split.ep, []).append(place)
    rows, errors = [], []
    for rest, by_degree in groups.items():
        least, *more = sorted(by_degree)
        for ep in more:
            measured, said = (
                float(np.exp(logs[by_degree[ep], 1].mean() - logs[by_degree[least], 1].mean()))
                for logs in (linear.measured, estimated)
            )
            errors.append(abs(said / measured - 1))
            rows.append((" ".join(map(str, rest[:8])), f"{least} to {ep}", f"{measured:.3f}", f"{said:.3f}"))
    yield from table(("configuration", "ep", "measured", "estimated"), rows)
    yield ""
    yield f"{len(errors)} pairs, median error of the ratio {100 * float(np.median(errors)):.1f} % (must 10 %)."


def _calibrated(scored: Sequence[Case], linear: Linearised) -> Iterator[str]:
    yield (
        "By the users' path (`calibrate`, then `simulate --load-test`), calibrated on points of a configuration and "
        "predicting others (efficiencies without the family); covered is the share inside the 80 % band:"
    )
    yield ""
    solutions = _without_family(scored, linear)
    named = [case for case in scored if case.source == "InferenceX"]
    rows = [(f"**{name}**, InferenceX by name", *_judged(sweeps(named, solutions, name))) for name in PICKS]
    rows.append(("two points of another mix, InferenceX by name", *_judged(other_mixes(named, solutions))))
    rest = [case for case in scored if case.source != "InferenceX"]
    rows += [(f"{name}, origin not named", *_judged(sweeps(rest, solutions, name))) for name in list(PICKS)[:2]]
    yield from table((*HEADER, "covered TPOT / TTFT"), rows)


def _judged(found: Judged) -> tuple[object, ...]:
    covered = f"{100 * found.inside[:, 1].mean():.0f} / {100 * found.inside[:, 0].mean():.0f} %"
    return (*_scores(found.errors), covered)


def _apart(cases: Sequence[Case], scored: Sequence[Case], linear: Linearised) -> Iterator[str]:
    yield "All rows that can be simulated, and the rows apart by reason (same efficiencies, fitted without the family):"
    yield ""
    solutions = _without_family(scored, linear)
    simulated = Simulated(cases)
    logs = simulated.logs([solutions[case.family].logs(case) for case in cases])
    errors = logs - np.log(np.array([(case.ttft_s, case.tpot_s) for case in cases]))
    reasons = np.array([case.apart or "(empty)" for case in cases])
    rows = [("**all rows**", *_scores(errors))]
    rows += [(f"- {reason}", *_scores(errors[reasons == reason])) for reason in sorted(set(reasons))]
    yield from table(HEADER, rows)


def _without_family(scored: Sequence[Case], linear: Linearised) -> dict[str, Solution]:
    families = np.array([case.family for case in scored])
    return {family: solve(linear, families != family) for family in sorted(set(families))}


def _open_loop() -> Iterator[str]:
    yield (
        "By the users' path, vLLM on H100 under open-loop load, from the files as inference-perf wrote them with its "
        "configuration beside them: calibrated on one workload, predicting another; error in %, and the share that "
        "succeeds with its band:"
    )
    yield ""
    found = list(open_predictions())
    rows = [each.row for each in found]
    yield from table(("calibrated on", "predicted", "TPOT", "TTFT mean", "TTFT p99", "inside", "share: band"), rows)
    yield ""
    yield from open_summary(found)


def _elsewhere() -> Iterator[str]:
    yield (
        "Estimated, rate sweeps of other services on other devices, of which no row is in any fit: "
        f"the {QUIET_RATES} lowest rates of each, far from saturation; error of the mean in %:"
    )
    yield ""
    rows: list[tuple[str, ...]] = []
    for sweep in sweeps_elsewhere():
        if not isinstance(sweep, Sweep):
            rows.append((sweep.name, "-", f"left out: {sweep.reason}", ""))
            continue
        for run in sweep.runs[:QUIET_RATES]:
            found = replay(sweep.step, run.measurement.trial)
            errors = {each.latency: 100 * (each.of(found) / each.value - 1) for each in run.measurement.targets}
            shown = [f"{errors[each]:+.0f}" if each in errors else "-" for each in ("tpot", "ttft")]
            rows.append((sweep.name, f"{run.rate_rps:.3g}", *shown))
    yield from table(("sweep", "req/s", "TPOT", "TTFT"), rows)


def _left_out(everything: Sequence[Case | LeftOut]) -> Iterator[str]:
    missing = [each for each in everything if isinstance(each, LeftOut)]
    kept = sum(not each.apart for each in everything)
    scored = [each for each in missing if not each.apart]
    yield (
        f"Left out of {kept:,} rows with an empty `apart`: {len(scored)} ({100 * len(scored) / kept:.1f} %). "
        f"Left out of {len(everything):,} rows in all: {len(missing)}:"
    )
    yield ""
    reasons = Counter(each.reason for each in missing)
    yield from table(("reason", "rows"), reasons.most_common())


def _scores(errors: Floats) -> tuple[object, ...]:
    if not errors.size:
        return 0, "-", "-"
    return len(errors), score(errors[:, 1]), score(errors[:, 0])


if __name__ == "__main__":
    main()
