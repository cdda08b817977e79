"""What kernel tables of AIConfigurator and AISimulate are worth as step profiles (`python -m bench.profiles`).

Each package is asked in an environment of its own, by the script that users run, for the steps of every published
configuration. Rows are then simulated three times, by efficiencies that were fitted without their family: estimated,
by the tables as they are, and as `--step-profile` uses them. How much of a table is taken is chosen once more without
the family, from four fractions. The last lines are the band of facts/efficiencies/band-kernels.toml.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
from bench.nearness import described
from bench.peers.answers import AICONFIGURATOR, AISIMULATE
from bench.peers.environments import ROOT
from bench.published.cases import TODAY, Case, serving_cases
from bench.published.fit import Floats, Simulated, Solution, linearise, solve
from bench.published.score import score, table

from ullage.evidence import Evidence, Source
from ullage.facts.efficiency import efficiencies
from ullage.readers.profiles import kernel_tables
from ullage.service.calibration.replay import replay
from ullage.service.steps.coefficients import band
from ullage.service.steps.grid import ProfiledStep, of_kernels
from ullage.service.steps.profile_table import STEPS, ProfileTable, read_profile
from ullage.service.steps.profiled import profiled_model
from ullage.service.steps.roofline import Roofline
from ullage.service.steps.step_model import StepModel

ENVIRONMENTS = {"aiconfigurator": AICONFIGURATOR, "aisimulate": AISIMULATE}
ASKED = ROOT / "bench" / "peers" / "asked" / "kernel_tables.py"
FRACTIONS = (0.25, 0.5, 0.75, 1.0)
# The packages know a checkpoint of the same shapes under another name.
NAMES = {"nvidia/DeepSeek-R1-NVFP4": "nvidia/DeepSeek-V3.1-NVFP4"}
HEADER = ("rows", "n", "estimated TPOT", "table TPOT", "profiled TPOT", "estimated TTFT", "table TTFT", "profiled TTFT")
Key = tuple[str, str, str, int, int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "packages",
        nargs="*",
        default=list(ENVIRONMENTS),
        metavar="NAME[=PYTHON]",
        help="with the Python of an environment that has the package; else one is made",
    )
    parser.add_argument("--every", type=int, default=1, help="score every so many rows; all of them are fitted")
    given = parser.parse_args()
    cases = [case for case in serving_cases() if isinstance(case, Case) and not case.apart]
    linear = linearise(Simulated(cases))
    families = np.array([case.family for case in cases])
    solutions = {family: solve(linear, families != family) for family in sorted(set(families))}
    scored = cases[:: given.every]
    for package, _, python in (each.partition("=") for each in given.packages):
        print("\n".join(_section(package, python or _own_python(package), scored, solutions)), flush=True)


def _own_python(package: str) -> str:
    ENVIRONMENTS[package].make()
    return ENVIRONMENTS[package].program("python")


def _section(package: str, python: str, cases: Sequence[Case], solutions: dict[str, Solution]) -> Iterator[str]:
    tables = asked_tables(package, python, sorted({key_of(case) for case in cases}))
    covered = [case for case in cases if key_of(case) in tables]
    yield (
        f"{package}: {len(tables)} of {len({key_of(case) for case in cases})} configurations, {len(covered)} of "
        f"{len(cases)} rows; MAPE / median (bias) in %, family left out:"
    )
    yield ""
    measured = np.log([(case.ttft_s, case.tpot_s) for case in covered])
    logs, is_profiled = simulated(covered, tables, solutions)
    errors = logs - measured[:, None, :]
    rows = [("**all**", *_cells(errors))]
    for attribute in ("family", "device", "engine"):
        members = np.array([getattr(case, attribute) for case in covered])
        rows += [(f"- {each}", *_cells(errors[members == each])) for each in sorted(set(members))]
    yield from table(HEADER, rows)
    yield ""
    chosen = _chosen(errors, np.array([case.family for case in covered]))
    yield f"Fraction of the table chosen without the family: TPOT {score(chosen[:, 1])}, TTFT {score(chosen[:, 0])}."
    used = [case for case, profiled in zip(covered, is_profiled, strict=True) if profiled]
    yield f"Band of the {len(used)} profiled rows: {described(used, measured[is_profiled], logs[is_profiled, 2])}."
    yield ""


def _cells(errors: Floats) -> tuple[object, ...]:
    return len(errors), *(score(errors[:, way, latency]) for latency in (1, 0) for way in range(3))


def _chosen(errors: Floats, families: np.ndarray[tuple[int], np.dtype[np.str_]]) -> Floats:
    """The errors with the fraction that makes the TPOT of the other families nearest; 0 is the estimate."""
    found = np.zeros_like(errors[:, 0])
    ways = [0, *range(3, 3 + len(FRACTIONS))]
    for family in sorted(set(families)):
        own = families == family
        best = min(ways, key=lambda way: score(errors[~own, way, 1]).mape)
        found[own] = errors[own, best]
    return found


def key_of(case: Case) -> Key:
    return str(case.replica.model), case.device, case.engine, case.replica.tp, case.replica.ep


def asked_tables(package: str, python: str, keys: Sequence[Key]) -> dict[Key, ProfileTable]:
    """What the package has of these configurations."""
    names = ("device", "engine", "tp", "ep")
    lines = [
        json.dumps({"model_names": [NAMES.get(model, model)], **dict(zip(names, rest, strict=True))})
        for model, *rest in keys
    ]
    command = [python, str(ASKED), str(kernel_tables.__file__), package]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {key: read_profile(each["rows"]) for key, each in zip(keys, answers, strict=True) if "rows" in each}


def simulated(
    cases: Sequence[Case], tables: dict[Key, ProfileTable], solutions: dict[str, Solution]
) -> tuple[Floats, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Log latencies [case, way, latency], and of which cases the profile is profiled; repeated runs are run once."""
    first: dict[tuple[object, ...], int] = {}
    for place, case in enumerate(cases):
        first.setdefault((case.run_key, case.age_years), place)
    _JOBS[:] = [
        (cases[place], tables[key_of(cases[place])], solutions[cases[place].family]) for place in first.values()
    ]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
        found = dict(zip(first, pool.map(_run, range(len(_JOBS)), chunksize=8), strict=True))
    answers = [found[case.run_key, case.age_years] for case in cases]
    return np.log(np.array([each for each, _ in answers])), np.array([profiled for _, profiled in answers])


_JOBS: list[tuple[Case, ProfileTable, Solution]] = []


def _run(place: int) -> tuple[list[tuple[float, float]], bool]:
    case, given, solution = _JOBS[place]
    estimate = _estimate(case, solution)
    source = Source(what="kernels", where="bench/profiles.py", date=TODAY)
    profiled = profiled_model(given, like=estimate, source=source)
    fractions = [
        replace(
            estimate,
            times=ProfiledStep(grid=of_kernels(given.grid, estimate.times, fraction=each), estimate=estimate.times),
        )
        for each in FRACTIONS
    ]
    raw = profiled_model(replace(given, timed=STEPS), like=estimate, source=source)
    found = [replay(step, case.trial) for step in (estimate, raw, profiled, *fractions)]
    latencies = [(each.statistic("ttft", case.statistic), each.statistic("tpot", case.statistic)) for each in found]
    return latencies, profiled.evidence is Evidence.PROFILED


def _estimate(case: Case, solution: Solution) -> StepModel:
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


if __name__ == "__main__":
    main()
