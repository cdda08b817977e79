"""How far an estimate is with nothing of one's own (`python -m bench.nearness_left_out`).

Every configuration and mix of lengths is asked for as if it had not been measured: its twins by any source, version,
day or name of the device leave together, out of the efficiencies and out of the published neighbours.

    exact    the same model, precision, device, engine and tensor parallelism was published with other mixes of lengths:
             their factors correct the estimate as `simulate` corrects one
    sibling  no mix of the configuration is left, and the model at another precision or parallelism is

Efficiencies are fitted to at most a dozen rows of each family, device, engine and precision. What is scored is
simulated, at most so many rows of each configuration and mix, drawn with one seed.
"""

from __future__ import annotations

import multiprocessing
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from bench.nearness import Row, fit
from bench.published.calibrated import as_test, terms_of
from bench.published.cases import Case, serving_cases
from bench.published.fit import Floats, Linearised, Simulated, Solution, Timed, linearise, solve
from bench.published.score import score, table

from ullage.facts.efficiency import efficiencies
from ullage.service.calibration.calibration import Measurement, sensitivity
from ullage.service.calibration.repeats import measurement_of
from ullage.service.calibration.replay import replay
from ullage.service.steps.coefficients import band
from ullage.service.steps.nearness import EXACT, PULLED_FRACTIONS, SIBLING
from ullage.service.steps.scaled import PARAMETERS, CorrectedStep, Factors

SEED = 20261119
FITTED_ROWS = 12
SCORED_ROWS = 4
NEIGHBOUR_ROWS = 8

Configuration = tuple[str, str, str, str, int]
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """Rows to be estimated as `kind`, by efficiencies without their twins, and the rows of exact neighbours."""

    kind: str
    scored: tuple[Case, ...]
    neighbours: tuple[Case, ...]
    solution: Solution


def main() -> None:
    cases = [each for each in serving_cases() if isinstance(each, Case) and not each.apart]
    rng = np.random.default_rng(SEED)
    few = [case for group in _grouped(cases, _kind_of).values() for case in _drawn(group, FITTED_ROWS, rng)]
    asked = list(questions(cases, linearise(Simulated(few)), rng))
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
        errors = list(pool.map(errors_of, asked, chunksize=4))
    rows = [_row(kind, asked, errors) for kind in (EXACT, SIBLING)]
    header = ("neighbour", "rows", "TPOT MAPE / median (bias) %", "TTFT MAPE / median (bias) %", "covered TPOT / TTFT")
    print("\n".join(table(header, rows)))


def configuration_of(case: Case) -> Configuration:
    return (case.family, case.precision, case.device, case.engine, case.work.sharding.tp)


def questions(cases: Sequence[Case], linear: Linearised, rng: np.random.Generator) -> Iterator[Question]:
    """Each configuration without one mix of its lengths, and each that has a sibling without all of them."""
    by_configuration = _grouped(cases, configuration_of)
    fitted = [configuration_of(case) for case in linear.cases]
    mixes = [_mix(case) for case in linear.cases]
    for own, group in sorted(by_configuration.items()):
        for mix, twins in sorted(_grouped(group, _mix).items()):
            others = [case for case in group if _mix(case) != mix]
            kept = np.array([(each, its) != (own, mix) for each, its in zip(fitted, mixes, strict=True)])
            if others:
                yield Question(
                    kind=EXACT,
                    scored=tuple(_drawn(twins, SCORED_ROWS, rng)),
                    neighbours=tuple(_drawn(others, NEIGHBOUR_ROWS, rng)),
                    solution=solve(linear, kept),
                )
        if any(_is_sibling(own, each) for each in by_configuration):
            kept = np.array([each != own for each in fitted])
            scored = [case for twins in _grouped(group, _mix).values() for case in _drawn(twins, SCORED_ROWS, rng)]
            yield Question(kind=SIBLING, scored=tuple(scored), neighbours=(), solution=solve(linear, kept))


def _is_sibling(own: Configuration, other: Configuration) -> bool:
    """The same model on the same device and engine, at another precision or parallelism."""
    return own != other and (own[0], *own[2:4]) == (other[0], *other[2:4])


def errors_of(asked: Question) -> Floats:
    """Log errors of TTFT and TPOT, simulated, one row a case."""
    logs = np.zeros(len(PARAMETERS))
    if asked.neighbours:
        pull = np.array([PULLED_FRACTIONS[name] for name in PARAMETERS])
        logs = pull * fit([_row_of(case, asked.solution) for case in asked.neighbours])
    factors = Factors.of_logs(logs)
    found = []
    for case in asked.scored:
        times = CorrectedStep(times=Timed(case, asked.solution.efficiencies(case)), factors=factors)
        there = replay(times, case.trial)
        seen = [there.statistic(latency, case.statistic) for latency in ("ttft", "tpot")]
        found.append(np.log(seen) - np.log([case.ttft_s, case.tpot_s]))
    return np.array(found)


def _row_of(case: Case, solution: Solution) -> Row:
    asked = measurement_of(as_test(case).points[0], terms_of(case))
    assert isinstance(asked, Measurement)
    times = Timed(case, solution.efficiencies(case))
    base, slopes = sensitivity(times, case.floor, np.zeros(len(PARAMETERS)), asked)
    return Row(case=case, base=base, slopes=slopes, measured=np.log([case.ttft_s, case.tpot_s]))


def _row(kind: str, asked: Sequence[Question], errors: Sequence[Floats]) -> tuple[object, ...]:
    own = np.concatenate([found for each, found in zip(asked, errors, strict=True) if each.kind == kind])
    ends = band(efficiencies().sheets[f"band-{kind}"], kind)
    ttft = (-own[:, 0] >= np.log(ends.ttft_low_ratio)) & (-own[:, 0] <= np.log(ends.ttft_high_ratio))
    tpot = (-own[:, 1] >= np.log(ends.tpot_low_ratio)) & (-own[:, 1] <= np.log(ends.tpot_high_ratio))
    covered = f"{100 * tpot.mean():.0f} / {100 * ttft.mean():.0f} %"
    return kind, len(own), score(own[:, 1]), score(own[:, 0]), covered


def _kind_of(case: Case) -> tuple[str, ...]:
    return case.family, case.device, case.engine, case.precision


def _mix(case: Case) -> tuple[int, int]:
    return case.prompt_tokens, case.output_tokens


def _grouped(cases: Sequence[Case], key: Callable[[Case], Key]) -> dict[Key, list[Case]]:
    groups: dict[Key, list[Case]] = defaultdict(list)
    for case in cases:
        groups[key(case)].append(case)
    return groups


def _drawn(cases: Sequence[Case], most: int, rng: np.random.Generator) -> list[Case]:
    return [cases[place] for place in sorted(rng.permutation(len(cases))[:most].tolist())]


if __name__ == "__main__":
    main()
