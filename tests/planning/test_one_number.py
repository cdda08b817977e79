"""A number has one source: plan, size, options, drill and simulate give the same for the same pool."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path

import pytest

from ullage import verbs
from ullage.load.plan import load_plan
from ullage.planning.document import Plan
from ullage.planning.drills.scenario import PoolScenario
from ullage.planning.options.options import options
from ullage.service.curve.curve import StablePoint
from ullage.service.served import ServedPool
from ullage.verbs.simulate import LoadChoice, Simulated
from ullage.verbs.size import SizeAnswer

pytestmark = pytest.mark.slow

AS_OF = datetime.date(2026, 11, 15)
SMALL = """
version: 1
service: small
dated: 2026-11-15
workload:
  classes:
    - {name: chat, rate: 6 req/s, longest_context: 8192, slo: {ttft_p95: 800ms, tpot_p95: 50ms}}
pool: {model: llama-3.1-8b, device: l40s}
prices: {provider: aws, region: us-east-1, purchase: on-demand}
options: {devices: [l40s], tensor_parallel: [1], lead_times: {months: 1}}
"""
# Two classes of one pool, the second behind the first, as in the built-in example, whose fleet takes minutes.
MIXED = SMALL.replace(
    "pool: {model",
    "    - {name: batch, rate: 1 req/s, longest_context: 8192, slo: {e2e_p95: 60s}, priority: 1}\npool: {model",
)


@pytest.mark.parametrize("text", [SMALL, MIXED], ids=["one class", "two classes"])
def test_every_verb_gives_one_number(tmp_path: Path, text: str) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(text)
    planned, sized = verbs.plan(file, as_of=AS_OF, quick=True), verbs.size(file, as_of=AS_OF)
    assert isinstance(planned, Plan)
    assert isinstance(sized, SizeAnswer)
    (pool,) = planned.pools
    assert sized.size.rate_rps == pool.demand.planning_rps
    assert sized.size.conservative_replicas == pool.steady_fleet.replicas
    assert sized.size.replicas == pool.steady_fleet.nominal_replicas

    served = verbs.simulate(plan=file, as_of=AS_OF)
    assert isinstance(served, Simulated)
    assert served.judged is not None
    assert served.pool.replicas == served.judged.replicas == pool.steady_fleet.size.conservative_replicas
    assert isinstance(served.judged.point, StablePoint)
    assert served.judged.point.latencies == sized.size.at_size.latencies == pool.steady_fleet.size.at_size.latencies

    limits = pool.admission_limits
    held = verbs.simulate(
        LoadChoice(rate_rps=limits.pool_rate_rps), plan=file, pool=ServedPool(replicas=limits.replicas), as_of=AS_OF
    )
    assert isinstance(held, Simulated)
    assert held.judged is not None
    assert isinstance(held.judged.point, StablePoint)
    assert held.judged.point.violated == (), "the printed steady rate violates no SLO"

    drilled = PoolScenario(plan=planned, pool=pool)
    assert drilled.trial.key == sized.size.trial.key, "drills are played on the pool that was sized"
    assert drilled.planning_rps == sized.size.rate_rps

    spec = load_plan(file, as_of=AS_OF)
    own = dataclasses.replace(
        spec.options, devices=(spec.pool.device.name,), tensor_parallel=(pool.memory.runtime.sharding.tp,)
    )
    (compared,) = options(dataclasses.replace(spec, options=own), as_of=AS_OF, seed=0).pools
    first = compared.ranking[0].measured
    assert first.steady_replicas == pool.steady_fleet.replicas
    assert first.fit.candidate.pool.device.name == pool.spec.device.name


def test_simulate_has_the_router_of_the_plan_unless_one_is_named(tmp_path: Path) -> None:
    """Turns give a replica a queue while another is idle, so the plan's router decides its latencies."""
    file = tmp_path / "plan.yaml"
    file.write_text(SMALL.replace("device: l40s}\nprices", "device: l40s, router: round_robin}\nprices"))

    def served(pool: ServedPool) -> Simulated:
        found = verbs.simulate(LoadChoice(rate_rps=9.0, span_s=300.0), plan=file, pool=pool, as_of=AS_OF)
        assert isinstance(found, Simulated)
        return found

    planned, named = served(ServedPool(replicas=3)), served(ServedPool(replicas=3, routing="least_tokens"))
    assert (planned.pool.routing, named.pool.routing) == ("round_robin", "least_tokens")
    assert planned.served != named.served
