"""Whether another seed gives the same answer (`make bench-seeds`), and what a sub-pool costs.

    python bench/seeds.py               four plans with 20 seeds each
    python bench/seeds.py --seeds 100   as many as the law asks for (an hour or two of CPU)
    python bench/seeds.py --sub-pool    a sub-pool of 64 against whole pools of 300 and 1,000 replicas

The law: of 100 seeds at least 90 find the same number, and no two are more than one apart; what another seed answers
lies in the interval of a continuous figure in 90 to 99 % of pairs, and within the numbers that a seed cannot tell apart
in at least 90 %. A sub-pool asks for at most 2 % more replicas than the whole pool.
"""

from __future__ import annotations

import argparse
import datetime
import math
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

from ullage import verbs
from ullage.load.pool import CurveInputs, load_pool
from ullage.service.curve.sizing import PoolSize
from ullage.service.trial.bases import Bases
from ullage.service.trial.decide import Decision, judge, sampled, scout_windows
from ullage.service.trial.search import SUB_POOL
from ullage.service.trial.strata import strata_of
from ullage.simulate.statistics import Interval
from ullage.verbs.size import SizeAnswer

AS_OF = datetime.date(2026, 11, 15)
AGREEING_FRACTION, MOST_APART = 0.90, 1
COVERED_FRACTIONS = (0.90, 0.99)
MOST_SUB_POOL_ERROR = 0.02
ONE_REPLICA = """
version: 1
service: one replica
dated: 2026-11-15
workload:
  classes:
    - {name: chat, rate: 0.5 req/s, longest_context: 8192, slo: {ttft_p95: 1s, tpot_p95: 60ms}}
pool: {model: llama-3.1-8b, device: h100-sxm}
"""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A plan, and the rate that its pool is sized for where that is not the plan's own."""

    name: str
    file: Path | None = None
    rate: str | None = None

    def sized(self, seed: int) -> Answer:
        found = verbs.size(self.file, rate=self.rate, as_of=AS_OF, seed=seed, workers=1)
        assert isinstance(found, SizeAnswer), found
        size = found.size
        return Answer(
            replicas=size.conservative_replicas,
            low_replicas=size.low_replicas,
            high_replicas=size.high_replicas,
            nominal_replicas=size.replicas,
            figures=dict(continuous(size)),
        )


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one seed answers, without the windows that it rests on: a hundred of them would not fit."""

    replicas: int
    low_replicas: int
    high_replicas: int
    nominal_replicas: int
    figures: dict[str, Interval]

    @property
    def is_decided(self) -> bool:
        return self.low_replicas == self.high_replicas


def plans(folder: Path) -> tuple[Asked, ...]:
    starter, small = folder / "starter.yaml", folder / "small.yaml"
    starter.write_text(verbs.init(model="qwen3-32b", as_of=AS_OF))
    small.write_text(ONE_REPLICA)
    return (
        Asked(name="built-in example"),
        Asked(name="starter plan of qwen3-32b", file=starter),
        Asked(name="one replica", file=small),
        Asked(name="built-in example at 300 req/s", rate="300 req/s"),
    )


# ---- the same number ---------------------------------------------------------------------------------------------


def agreement(name: str, answers: Sequence[Answer], took_s: float) -> None:
    numbers = Counter(each.replicas for each in answers)
    agreeing, apart = max(numbers.values()) / len(answers), max(numbers) - min(numbers)
    pairs = list(permutations(answers, 2))
    inside = sum(one.low_replicas <= other.replicas <= one.high_replicas for one, other in pairs) / len(pairs)
    decided = sum(each.is_decided for each in answers)
    nominal = _listed(Counter(each.nominal_replicas for each in answers))
    is_kept = agreeing >= AGREEING_FRACTION and apart <= MOST_APART
    print(f"\n{name}: {_listed(numbers)} (nominal {nominal}); {took_s / len(answers):.2f} CPU s a seed")
    print(f"  same number {agreeing:.0%}, {apart} apart: {_verdict(is_kept)}; {decided} of {len(answers)} decided")
    print(f"  within what a seed cannot tell apart: {inside:.0%}: {_verdict(inside >= AGREEING_FRACTION)}")
    low, high = COVERED_FRACTIONS
    for figure, share in coverage(pairs):
        print(f"  {figure:<28} covers {share:.1%} of other seeds: {_verdict(low <= share <= high)}", flush=True)


def _listed(numbers: Counter[int]) -> str:
    return ", ".join(f"{number} x {count}" for number, count in sorted(numbers.items()))


def coverage(pairs: Sequence[tuple[Answer, Answer]]) -> Iterator[tuple[str, float]]:
    """How often what one seed finds at the number lies in the interval of another that found the same number."""
    alike = [(one.figures, other.figures) for one, other in pairs if one.replicas == other.replicas]
    for name in alike[0][0] if alike else ():
        known = [(one[name], other[name].value) for one, other in alike if name in one and name in other]
        yield name, sum(each.low <= value <= each.high for each, value in known) / len(known)


def continuous(size: PoolSize) -> Iterator[tuple[str, Interval]]:
    """Figures of the pool at its size that a reader compares: goodput, queue, use, and the latencies of SLOs."""
    at = size.at_size
    yield "goodput", at.goodput
    yield "mean E2E", at.mean_e2e
    yield "running requests", at.running
    yield "KV use", at.kv_use
    for each in size.trial.classes:
        for slo in each.slos:
            if slo.name in at.latencies[each.name]:
                yield f"{each.name} {slo.name}", at.latencies[each.name][slo.name]


def _verdict(is_kept: bool) -> str:
    return "kept" if is_kept else "MISSED"


# ---- what a sub-pool costs ---------------------------------------------------------------------------------------


def sub_pools(numbers: Sequence[int] = (300, 1000)) -> None:
    pool = load_pool(None, as_of=AS_OF)
    assert isinstance(pool, CurveInputs), pool
    bases = pool.bases(0)
    part_rps = carried_rps(bases, SUB_POOL)
    print(f"a replica of a sub-pool of {SUB_POOL} carries {part_rps:.4f} req/s")
    for number in numbers:
        whole_rps = carried_rps(bases, number, near_rps=part_rps)
        error = whole_rps / part_rps - 1.0
        print(
            f"one of {number:,} carries {whole_rps:.4f}: the sub-pool asks for {error:.2%} more replicas, "
            f"{_verdict(0.0 <= error <= MOST_SUB_POOL_ERROR)}",
            flush=True,
        )


def carried_rps(bases: Bases, replicas: int, *, near_rps: float = 0.0) -> float:
    """What a replica of the pool carries: where what is missed meets what is allowed, on a window of every stratum."""
    trial, probe = replace(bases.conservative, replicas=replicas), bases.conservative_probe
    strata = strata_of(trial.load_at, span_s=trial.span_s, seed=0, work_s=probe.work_s)

    def at(each_rps: float) -> Decision:
        rate_rps = each_rps * replicas
        return judge(trial, rate_rps, sampled(trial, rate_rps, strata, scout_windows(strata)))

    low: tuple[float, float] | None = None
    high: tuple[float, float] | None = None
    each_rps = near_rps or 0.8 * probe.saturation_rps
    while low is None or high is None or high[0] / low[0] > 1.01:
        excess = at(each_rps).excess
        low, high = (low, (each_rps, excess)) if excess > 0.0 else ((each_rps, excess), high)
        if low is None or high is None:
            each_rps *= math.exp(-max(min(excess, 1.0), -1.0) / 8.0 + (-0.004 if excess > 0.0 else 0.004))
        else:
            each_rps = math.sqrt(low[0] * high[0])
    part = -low[1] / (high[1] - low[1])
    return float(low[0] * (high[0] / low[0]) ** part)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="size four plans with so many seeds each, two at least")
    parser.add_argument("--sub-pool", action="store_true", help="compare a sub-pool with whole pools instead")
    parser.add_argument("--plans", default="", help="only those whose name contains this")
    given = parser.parse_args()
    if given.sub_pool:
        sub_pools()
        return
    with tempfile.TemporaryDirectory() as folder:
        for asked in plans(Path(folder)):
            if given.plans in asked.name:
                started_s = time.process_time()
                answers = [asked.sized(seed) for seed in range(max(2, given.seeds))]
                agreement(asked.name, answers, time.process_time() - started_s)


if __name__ == "__main__":
    main()
