"""Twelve candidates for a week of ten million requests: how long, against simulating that week, and how stable.

    python bench/options.py [--seeds 10]

The baseline is the week itself, simulated request by request on the pool that was found best. It also tells whether
the part of requests that succeed, which the ranking takes from samples of the week's levels, is right.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ullage.execute.pool import thread_map
from ullage.load.plan import load_plan
from ullage.planning.options.candidates import candidates_of
from ullage.planning.options.options import options
from ullage.planning.options.ranking import ranked
from ullage.planning.options.screen import Fit, OptionRequest, fit_of
from ullage.planning.options.trial import CandidateResult, CandidateTrial
from ullage.planning.planned_for import planned_for
from ullage.planning.spec import PlanSpec
from ullage.service.trial.mix import MixLoad
from ullage.simulate.fleet import Fleet
from ullage.simulate.load import OpenLoop, Requests
from ullage.simulate.simulation import simulate
from ullage.workload.synthetic.model import WEEK_S, synthesised

AS_OF = datetime.date(2026, 11, 15)
REQUESTS = 10_000_000
LIMIT_S = 60.0
CORES = 2

PLAN = f"""
version: 1
service: ten million requests a week
dated: {AS_OF}
workload:
  classes:
    - name: chat
      rate: {REQUESTS / WEEK_S:.6f} req/s
      longest_context: 16Ki
      slo: {{ttft_p95: 1s, tpot_p95: 60ms}}
      weekly_growth: 1%
pool: {{model: qwen3-32b, device: h200-sxm, tensor_parallel: 2}}
policy: {{zones: 2}}
prices: {{provider: aws, region: us-east-1, purchase: on-demand}}
options:
  devices: [h100-sxm, h200-sxm, b200-sxm]
  tensor_parallel: [1, 2, 4, 8]
"""


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def the_spec() -> PlanSpec:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan.yaml"
        file.write_text(PLAN)
        return load_plan(file, as_of=AS_OF)


def asked_of(spec: PlanSpec, seed: int) -> OptionRequest:
    point, demand, _ = planned_for(spec)
    return OptionRequest(
        demand=demand, classes=spec.classes, slo_limits=spec.slo_limits, spec=spec, point=point, seed=seed
    )


def order(spec: PlanSpec, seed: int) -> list[CandidateResult]:
    """The ranking alone, with another seed."""
    asked = asked_of(spec, seed)
    candidates = candidates_of(spec.pool, spec.options, book=spec.prices, buying=spec.buying)
    fits = [found for each in candidates if isinstance(found := fit_of(each, asked), Fit)]
    with thread_map(workers=CORES) as spread:
        places, _ = ranked([CandidateTrial(fit, map=spread) for fit in fits])
    return [each.measured for each in places]


def whole_week(best: CandidateResult) -> tuple[float, float, int]:
    """CPU seconds of one week simulated request by request on the best pool, what succeeded, and how many came."""
    fit = best.fit
    started = cpu_s()
    stream = synthesised(fit.asked.demand.model, span_s=WEEK_S, rng=np.random.default_rng(0))
    served = stream.served_by_cache(fit.mix.cache_blocks)
    like = MixLoad(
        model=fit.asked.demand.model,
        classes=fit.asked.classes,
        cache_blocks=fit.mix.cache_blocks,
    )(rate_rps=1.0, span_s=60.0, seed=0)
    load = OpenLoop(
        requests=Requests(
            prompt_tokens=served.prompt_tokens,
            output_tokens=served.output_tokens,
            cached_tokens=np.minimum(served.cached_tokens, served.prompt_tokens - 1),
            classes=like.requests.classes,
            class_of=served.class_index,
        ),
        arrival_ps=served.arrival_ps,
    )
    outcome = simulate(
        fit.replica.engine,
        Fleet(replicas=best.steady_replicas, routing="least_outstanding"),
        load,
        seed=0,
        attribution=False,
    )
    counts = outcome.total.counts
    return cpu_s() - started, counts.success / counts.requests, counts.requests


def kendall(one: list[str], other: list[str]) -> float:
    """Kendall's tau of two orders, over the candidates that both have."""
    common = [each for each in one if each in other]
    pairs = list(itertools.combinations(common, 2))
    agree = sum(other.index(a) < other.index(b) for a, b in pairs)
    return 2.0 * agree / len(pairs) - 1.0 if pairs else 1.0


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seeds", type=int, default=10)
    seeds = arguments.parse_args().seeds
    spec = the_spec()
    say = sys.stdout.write
    order(spec, 99)  # compiled, and every sheet read
    started, clock = cpu_s(), time.monotonic()
    with thread_map(workers=CORES) as spread:
        found = options(spec, as_of=AS_OF, seed=0, map=spread)
    all_cpu_s, wall_s = cpu_s() - started, time.monotonic() - clock
    (pool,) = found.pools
    best = pool.ranking[0].measured
    week_s, share, requests = whole_week(best)
    say(f"{pool.candidates} candidates, {len(pool.ranking)} simulated, with mix and months\n")
    say(f"  {all_cpu_s:.1f} s CPU, {wall_s:.1f} s by the clock on {CORES} threads (limit {LIMIT_S:g} s)\n")
    say(f"  {all_cpu_s / week_s:.2f} times the CPU of one week of {requests:,} requests ({week_s:.1f} s)\n")
    say(f"  succeeded: {best.success_fraction:.4f} by levels, {share:.4f} in the whole week\n")
    orders = {seed: order(spec, seed) for seed in range(seeds)}
    names = {seed: [each.name for each in one] for seed, one in orders.items()}
    taus = [kendall(names[a], names[b]) for a, b in itertools.combinations(orders, 2)]
    say(f"ranking over {seeds} seeds: Kendall's tau {statistics.fmean(taus):.3f} mean, {min(taus):.3f} least\n")
    firsts = {name: sum(one[0] == name for one in names.values()) for name in {one[0] for one in names.values()}}
    say(f"  first: {', '.join(f'{name} {count}' for name, count in sorted(firsts.items()))}\n")
    regrets = [
        next(each.score.value for each in orders[0] if each.name == one[0]) / orders[0][0].score.value - 1.0
        for one in names.values()
    ]
    say(f"  the first of any seed costs at most {max(regrets):.1%} more than the first of seed 0\n")


if __name__ == "__main__":
    main()
