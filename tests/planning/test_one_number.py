"""A number has one source: plan, size and options give the same replicas for the same pool."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path

import pytest

from ullage import verbs
from ullage.load.plan import load_plan
from ullage.planning.document import Plan
from ullage.planning.options.options import options
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


@pytest.mark.parametrize("text", [None, SMALL], ids=["built-in", "small"])
def test_plan_size_and_options_give_one_number(tmp_path: Path, text: str | None) -> None:
    file = None if text is None else tmp_path / "plan.yaml"
    if file is not None:
        file.write_text(text or "")
    planned, sized = verbs.plan(file, as_of=AS_OF, quick=True), verbs.size(file, as_of=AS_OF)
    assert isinstance(planned, Plan)
    assert isinstance(sized, SizeAnswer)
    (pool,) = planned.pools
    assert sized.size.rate_rps == pool.demand.planning_rps
    assert sized.size.conservative_replicas == pool.steady_fleet.replicas
    assert sized.size.replicas == pool.steady_fleet.nominal_replicas

    spec = load_plan(file, as_of=AS_OF)
    own = dataclasses.replace(
        spec.options, devices=(spec.pool.device.name,), tensor_parallel=(pool.memory.runtime.sharding.tp,)
    )
    (compared,) = options(dataclasses.replace(spec, options=own), as_of=AS_OF, seed=0).pools
    first = compared.ranking[0].measured
    assert first.steady_replicas == pool.steady_fleet.replicas
    assert first.fit.candidate.pool.device.name == pool.spec.device.name
