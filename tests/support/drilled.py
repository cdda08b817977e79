"""A small service of one pool, planned once: what drills and checks are tried on."""

from __future__ import annotations

import datetime
import functools
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from ullage import verbs
from ullage.errors import Rejection
from ullage.planning.document import Plan
from ullage.planning.pool_plan import PoolPlan

AS_OF = datetime.date(2026, 11, 15)

SOUND = """
version: 1
service: small
dated: 2026-11-15
workload:
  classes:
    - name: chat
      rate: 50 req/s
      longest_context: 8192
      slo: {ttft_p95: 2s, tpot_p95: 100ms}
      success: the answer was not thumbed down
pool: {model: llama-3.1-8b, device: h100-sxm, approved_concurrency: 8}
policy: {zones: 2}
reliability: {survives: zone}
tools:
  - {name: search, calls_per_task: 1, requests_per_task: 40, latency: 800ms}
prices: {own: {items: {tool-call search: 1 USD/call}}}
"""


@functools.cache
def planned(text: str = SOUND) -> Plan:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan.yaml"
        file.write_text(text)
        found = verbs.plan(file, as_of=AS_OF, seed=1, quick=True)
    assert not isinstance(found, Rejection), found
    return found


def altered(plan: Plan, **parts: Any) -> Plan:
    """The plan with other results of its only pool."""
    (pool,) = plan.pools
    changed: PoolPlan = replace(pool, **parts)
    return replace(plan, pools=(changed,))


def starved(plan: Plan, keep_fraction: float) -> Plan:
    """The same traffic on so much of the steady fleet and no reserve that serves: what nobody should plan."""
    (pool,) = plan.pools
    reserves = pool.reserves
    kept = max(2, int(keep_fraction * reserves.steady_replicas))
    return altered(plan, reserves=replace(reserves, steady_replicas=kept, serving_replicas=0))
