"""Upgrades of simulated services whose steps are known: whether changes are called by their sign, and chance never.

    python -m bench.gate [--worlds 200] [--tolerance 0.05] [--published]

Every world has hidden steps: the estimate of Llama-3.1-8B on an H100 times five drawn factors. Before and after the
upgrade it is tested at three rates, each run with the scatter of published repeats (TPOT 2.5 %, TTFT 6 %), and both
sides are fitted as `ullage gate` fits them. A half of the worlds do not change; in the others all steps, the decode
steps or the prefill change, by 5 to 30 % of a request's device time either way. With --published the pairs of
InferenceX that differ in the engine's version alone are compared instead, where both were tested at two loads and more.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.random import Generator

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from bench.published.cases import Case, cache_dtype, published_model, serving_cases

from support.tested_worlds import SOURCE, TERMS, estimate, offered, run, written
from ullage.facts.device import find_device
from ullage.memory.kv import kv_dtype
from ullage.memory.sharding import Sharding
from ullage.service.calibration.calibration import Measurement, Target, calibrate
from ullage.service.calibration.fitted import fit_tests
from ullage.service.calibration.step_change import MixedRequest, StepVerdict, step_difference
from ullage.service.loadtests.loadtest import LoadTest
from ullage.service.stage import calibrated_step
from ullage.service.steps.factor_spread import FactorSpread
from ullage.service.steps.scaled import PARAMETERS, Factors
from ullage.service.steps.step_model import StepModel, roofline_model

RATES = (0.5, 3.0, 7.0)
REQUEST = MixedRequest(prompt_tokens=920.0, computed_tokens=920.0, output_tokens=90.0, sequences=12.0)
KINDS = {"all": PARAMETERS, "decode": ("fixed", "sequences", "kv"), "prefill": ("prefill",)}
LUCK = {"tpot": 0.025, "ttft": 0.06}
EXACT = FactorSpread(
    covariance=tuple(tuple(1e-12 * (row == column) for column in range(5)) for row in range(5)),
    fit_spreads={"tpot": 0.01, "ttft": 0.01},
    degrees=100,
)


@dataclass(frozen=True, kw_only=True)
class World:
    kind: str
    true_ratio: float
    found_ratio: float
    low_ratio: float
    high_ratio: float
    verdict: StepVerdict


def _scaled(factors: dict[str, float], names: tuple[str, ...], ratio: float) -> dict[str, float]:
    return {name: value * (ratio if name in names else 1.0) for name, value in factors.items()}


def _steps(step: StepModel, factors: dict[str, float]) -> StepModel:
    named = Factors(**{f"{name}_ratio": value for name, value in factors.items()})
    return calibrated_step(step, named, SOURCE, spread=EXACT)


def _fitted(step: StepModel, hidden: StepModel, rng: Generator) -> StepModel:
    points = []
    for rate in RATES:
        point = offered(rate, count=200)
        luck = {name: float(np.exp(spread * rng.standard_normal())) for name, spread in LUCK.items()}
        seen = written(point, run(hidden, point), tpot_ratio=luck["tpot"], ttft_ratio=luck["ttft"])
        points.append(replace(seen, requests=()))
    test = LoadTest(file="run.json", reader="vllm", tool="vllm bench serve", points=tuple(points))
    return fit_tests(step, [("run", test)], TERMS, source=SOURCE, accepted=("physics",)).step


def world(step: StepModel, rng: Generator, kind: str, tolerance: float) -> World:
    before = {name: float(np.exp(0.12 * rng.standard_normal())) for name in PARAMETERS}
    after, true = before, 1.0
    if kind != "none":
        wanted = float(np.exp(rng.choice([-1.0, 1.0]) * rng.uniform(math.log(1.05), math.log(1.3))))
        # How much the parts have to change for the whole to change by so much; a prefill alone is a part of it.
        for ratio in np.geomspace(wanted, wanted**6, 26):
            after = _scaled(before, KINDS[kind], float(ratio))
            found = step_difference(_steps(step, before), _steps(step, after), REQUEST, tolerance_fraction=tolerance)
            true = found.whole.ratio
            if abs(math.log(true)) >= abs(math.log(wanted)) - 1e-9:
                break
    old, new = (_fitted(step, _steps(step, each), rng) for each in (before, after))
    found = step_difference(old, new, REQUEST, tolerance_fraction=tolerance)
    whole = found.whole
    return World(
        kind=kind,
        true_ratio=true,
        found_ratio=whole.ratio,
        low_ratio=whole.low_ratio,
        high_ratio=whole.high_ratio,
        verdict=found.verdict,
    )


def published(tolerance: float) -> Iterator[tuple[str, ...]]:
    """Pairs of versions of one configuration, each fitted to the loads that both were tested at."""
    groups: dict[tuple[object, ...], dict[str, list[Case]]] = defaultdict(lambda: defaultdict(list))
    for case in serving_cases():
        if isinstance(case, Case) and not case.apart:
            groups[(*case.configuration[:8], case.configuration[9])][str(case.configuration[8])].append(case)
    for versions in groups.values():
        for one, other in combinations(sorted(name for name in versions if name), 2):
            loads = {each.concurrency for each in versions[one]} & {each.concurrency for each in versions[other]}
            if len(loads) >= 2:
                yield _pair(
                    one,
                    other,
                    [[each for each in versions[name] if each.concurrency in loads] for name in (one, other)],
                    tolerance,
                )


def _pair(one: str, other: str, sides: list[list[Case]], tolerance: float) -> tuple[str, ...]:
    first = sides[0][0]
    loads = sorted({each.concurrency for each in sides[0]})
    request = MixedRequest(
        prompt_tokens=float(first.prompt_tokens),
        computed_tokens=float(first.prompt_tokens),
        output_tokens=float(first.output_tokens),
        sequences=float(loads[len(loads) // 2]),
    )
    old, new = (_published_fit(each) for each in sides)
    found = step_difference(old, new, request, tolerance_fraction=tolerance)
    tpot = [
        math.log(after.tpot_s / before.tpot_s)
        for before in sides[0]
        for after in sides[1]
        if before.concurrency == after.concurrency
    ]
    whole = found.whole
    sharding = first.key[4]
    assert isinstance(sharding, Sharding)
    shape = f"{first.prompt_tokens}/{first.output_tokens}"
    return (
        f"{first.family} {first.precision}, {sharding.devices} x {first.device}, {shape}",
        f"{one.rsplit(':', 1)[-1][:16]} to {other.rsplit(':', 1)[-1][:16]}",
        str(len(loads)),
        f"{math.exp(float(np.median(tpot))) - 1.0:+.1%}",
        f"{whole.ratio - 1.0:+.1%} ({whole.low_ratio - 1.0:+.1%} to {whole.high_ratio - 1.0:+.1%})",
        str(found.verdict),
    )


def _published_fit(cases: list[Case]) -> StepModel:
    first = cases[0]
    cache = kv_dtype(cache_dtype(first.family, first.precision, first.engine, first.device))
    sharding = first.key[4]
    assert isinstance(sharding, Sharding)
    step = roofline_model(
        published_model(first.family, first.precision),
        find_device(first.device),
        sharding=sharding,
        engine=first.engine,
        cache=cache,
    )
    measured = [
        Measurement(
            name=str(each.concurrency),
            trial=each.trial,
            targets=(
                Target(latency="ttft", statistic=each.statistic, value=each.ttft_s),
                Target(latency="tpot", statistic=each.statistic, value=each.tpot_s),
            ),
        )
        for each in cases
    ]
    fit = calibrate(step, step.floor, measured)
    return calibrated_step(step, fit.factors, SOURCE, spread=fit.spread)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--tolerance", type=float, default=0.05)
    parser.add_argument("--published", action="store_true")
    given = parser.parse_args()
    if given.published:
        columns = ("configuration", "engine version", "loads", "TPOT measured", "device time of a request", "verdict")
        print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
        for row in published(given.tolerance):
            print("| " + " | ".join(row) + " |")
        return
    step = estimate()
    kinds = ["none", "all", "none", "decode", "none", "prefill"]
    rng = np.random.default_rng(20261116)
    found = [world(step, rng, kinds[at % len(kinds)], given.tolerance) for at in range(given.worlds)]
    print("| change | worlds | sign right | interval holds the truth | verdicts |\n|---|---|---|---|---|")
    for kind in dict.fromkeys(kinds):
        own = [each for each in found if each.kind == kind]
        right = sum((each.found_ratio > 1.0) == (each.true_ratio > 1.0) for each in own)
        held = sum(each.low_ratio <= each.true_ratio <= each.high_ratio for each in own)
        verdicts = Counter(str(each.verdict) for each in own)
        said = ", ".join(f"{name} {count}" for name, count in sorted(verdicts.items()))
        sign = "-" if kind == "none" else f"{right / len(own):.0%}"
        print(f"| {kind} | {len(own)} | {sign} | {held / len(own):.0%} | {said} |")
    changed = [each for each in found if each.kind != "none"]
    still = [each for each in found if each.kind == "none"]
    right = sum((each.found_ratio > 1.0) == (each.true_ratio > 1.0) for each in changed)
    alarms = sum(each.verdict in (StepVerdict.SLOWER, StepVerdict.FASTER) for each in still)
    wrong = sum(each.verdict is StepVerdict.SLOWER and each.true_ratio < 1.0 for each in changed)
    print(f"\nSign right: {right} of {len(changed)} changes of 5 % or more ({right / len(changed):.1%}; target 95 %).")
    print(f"Slower or faster without a change: {alarms} of {len(still)} ({alarms / len(still):.1%}; at most 5 %).")
    print(f"Called slower where it became faster: {wrong}.")


if __name__ == "__main__":
    main()
