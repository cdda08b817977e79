"""How far estimates with speculation are from published runs with it (`python -m bench.speculation`).

The rows labelled as multi-token prediction are simulated as they were run: so many drafted tokens as the project's
scripts give the engine, acceptance of the nearest model whose acceptance is published, efficiencies fitted without the
rows' model family. All rows are of one family, so what is tested is the form of the model and not its spread.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from bench.published.cases import DATA, Case, serving_cases
from bench.published.fit import Simulated, Solution, Timed, linearise, solve
from bench.published.score import score, table

from ullage.service.calibration.replay import replay
from ullage.service.steps.roofline import Efficiencies, Roofline
from ullage.service.steps.speculative import PredictionLayers, SpeculativeStep

FAMILY = "deepseek-v3"
LABEL = "speculative (MTP)"
EVERY = 3
# DeepSeek-R1 has one prediction layer after its 61; its own acceptance is not published, its successor's is.
LAYERS_FRACTION = 1 / 61
ACCEPTANCE_KEY = "deepseek-v4-pro/thinking_on"


@dataclass(frozen=True, kw_only=True, eq=False)
class Speculated:
    case: Case
    draft_tokens: int
    tokens_per_step: float


def main() -> None:
    started = time.monotonic()
    cases = list(speculated_cases())
    solution = without_family()
    print("\n".join(_scored(cases, solution)))
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)


def without_family() -> Solution:
    """Coefficients fitted to plain rows of every other family; a part of them, since each is simulated 16 times."""
    others = [each for each in serving_cases() if isinstance(each, Case) and not each.apart and each.family != FAMILY][
        ::EVERY
    ]
    linear = linearise(Simulated(others))
    return solve(linear, np.ones(len(others), bool))


def acceptance() -> Mapping[int, float]:
    """Tokens per step by drafted tokens."""
    with (DATA / "measured" / "spec_decode_acceptance_length.csv").open(newline="") as file:
        found = {row["key"]: float(row["value"]) for row in csv.DictReader(file)}
    return {drafted: found[f"{ACCEPTANCE_KEY}/{drafted}"] for drafted in (1, 2, 3)}


def speculated_cases() -> Iterator[Speculated]:
    """The labelled rows that can be simulated, with what the scripts state of their drafting."""
    accepted = acceptance()
    with (DATA / "measured" / "inferencex_serving.csv").open(newline="") as file:
        for row, case in zip(csv.DictReader(file), serving_cases(), strict=True):
            if row["apart"] == LABEL and isinstance(case, Case):
                is_data_parallel = row["dp_attn"] == "True"
                drafted = _drafted(case.engine, is_data_parallel=is_data_parallel)
                own = case.as_data_parallel if is_data_parallel else case
                yield Speculated(case=own, draft_tokens=drafted, tokens_per_step=accepted[drafted])


def _drafted(engine: str, *, is_data_parallel: bool) -> int:
    """As benchmarks/*_mtp.sh of github.com/SemiAnalysisAI/InferenceX start the engines (read 2026-11-16)."""
    if engine == "sglang":
        return 2
    return 1 if is_data_parallel else 3


def simulate_speculated(each: Speculated, efficiencies: Efficiencies) -> tuple[float, float]:
    """TTFT and TPOT in the statistic the row names."""
    case = each.case
    roofline = Roofline(work=case.work, rates=case.rates, efficiencies=efficiencies)
    timed = Timed(case, efficiencies)
    step = SpeculativeStep(
        times=timed,
        roofline=roofline,
        draft_tokens=each.draft_tokens,
        draft=PredictionLayers(roofline=roofline, layers_fraction=LAYERS_FRACTION),
    )
    limits = replace(case.trial.limits, tokens_per_step=each.tokens_per_step, step_positions=each.draft_tokens + 1)
    found = replay(step, replace(case.trial, limits=limits))
    return found.statistic("ttft", case.statistic), found.statistic("tpot", case.statistic)


def _scored(cases: list[Speculated], solution: Solution) -> Iterator[str]:
    errors = np.array(
        [
            np.log(simulate_speculated(each, solution.efficiencies(each.case)))
            - np.log((each.case.ttft_s, each.case.tpot_s))
            for each in cases
        ]
    )
    engines = np.array([each.case.engine for each in cases])
    crowded = np.array([each.case.concurrency >= 256 for each in cases])
    groups = {
        "**labelled MTP**, all": np.ones(len(cases), bool),
        **{f"- {name}": engines == name for name in sorted(set(engines))},
        "- below 256 clients": ~crowded,
        "- 256 clients and more": crowded,
    }
    yield f"Acceptance of {ACCEPTANCE_KEY}; efficiencies fitted without {FAMILY}:"
    yield ""
    rows = [(name, int(own.sum()), score(errors[own, 1]), score(errors[own, 0])) for name, own in groups.items()]
    yield from table(("rows", "n", "TPOT MAPE / median (bias) %", "TTFT MAPE / median (bias) %"), rows)


if __name__ == "__main__":
    main()
