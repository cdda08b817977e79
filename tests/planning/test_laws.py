"""Laws of a whole plan at one configuration and seed, and wishes that cannot come true.

More traffic, a stricter SLO and a longer start never shrink the plan; the same input gives the same bytes; what
cannot be is refused with what binds and the nearest that can.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import json
import re
import tempfile
from pathlib import Path

import pytest

from ullage import verbs
from ullage.errors import Rejection
from ullage.planning.document import Plan
from ullage.report.plan.json_document import plan_json

AS_OF = datetime.date(2026, 11, 15)
SEED = 3

PLAN = """
version: 1
service: laws
dated: 2026-11-15
workload:
  classes:
    - {{name: chat, rate: {rate} req/s, longest_context: 8192, slo: {{ttft_p95: {ttft}, tpot_p95: {tpot}}}}}
pool: {{model: qwen3-32b, device: h100-sxm, tensor_parallel: 2, storage_bandwidth: {storage}}}
{more}
"""


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """One folder for all: the place of a plan file is part of what the plan says about its sources."""
    return tempfile.TemporaryDirectory()


@functools.cache
def answered(
    *, rate: float = 4.0, ttft: str = "1s", tpot: str = "80ms", storage: str = "2GB/s", more: str = ""
) -> Plan | Rejection:
    file = Path(_folder().name) / "plan.yaml"
    file.write_text(PLAN.format(rate=rate, ttft=ttft, tpot=tpot, storage=storage, more=more))
    return verbs.plan(file, as_of=AS_OF, seed=SEED, quick=True)


def planned(**changes: object) -> Plan:
    found = answered(**changes)
    assert not isinstance(found, Rejection), found
    return found


def sizes(plan: Plan) -> tuple[int, ...]:
    """Everything that is bought: steady replicas, with reserves, and the devices of whole nodes."""
    pool = plan.pools[0]
    return (
        pool.steady_fleet.nominal_replicas,
        pool.steady_fleet.replicas,
        pool.reserves.total_replicas,
        pool.packing.chosen.devices,
    )


def never_shrinks(*plans: Plan) -> None:
    for smaller, larger in itertools.pairwise(plans):
        assert all(after >= before for before, after in zip(sizes(smaller), sizes(larger), strict=True)), (
            sizes(smaller),
            sizes(larger),
        )


@pytest.mark.slow
def test_more_traffic_never_shrinks_the_plan() -> None:
    plans = [planned(rate=rate) for rate in (1.0, 4.0, 12.0)]
    never_shrinks(*plans)
    assert sizes(plans[-1])[1] > sizes(plans[0])[1]


@pytest.mark.slow
def test_a_stricter_slo_never_shrinks_the_plan() -> None:
    never_shrinks(planned(ttft="3s", tpot="120ms"), planned(), planned(ttft="500ms", tpot="50ms"))


@pytest.mark.slow
def test_a_longer_start_never_shrinks_the_plan() -> None:
    quick, slow = planned(), planned(storage="50MB/s")
    starts = [plan.find("ready.cold_p90_s").value for plan in (quick, slow)]
    assert starts[1] > starts[0]  # type: ignore[operator]
    never_shrinks(quick, slow)


@pytest.mark.slow
@pytest.mark.fresh
def test_the_same_input_gives_the_same_bytes() -> None:
    first = json.dumps(plan_json(planned()), sort_keys=True)
    answered.cache_clear()
    assert json.dumps(plan_json(planned()), sort_keys=True) == first


@pytest.mark.slow
def test_an_slo_under_the_physical_floor_is_refused_with_the_nearest_that_can_be_met() -> None:
    """Half of 65 billion bytes of weights at 3.35 TB/s is 9.7 ms a token, whatever the load."""
    refused = answered(tpot="5ms")
    assert isinstance(refused, Rejection)
    assert "chat tpot_p95" in refused.reason
    assert refused.figure.unit == "s"
    nearest_s = float(refused.figure.value)
    assert nearest_s > 0.0097
    assert "tpot_p95 above" in refused.remedies[0].change
    # A little above the nearest value the plan holds.
    assert not isinstance(answered(rate=1.0, tpot=f"{1.6 * nearest_s * 1000:.3f}ms"), Rejection)


@pytest.mark.slow
def test_a_quota_that_is_too_small_is_refused_and_the_one_it_names_holds() -> None:
    _, steady, everything, _ = (2 * each for each in sizes(planned()))
    section = "sites: {{regions: [{{name: west, quotas: {{h100-sxm: {quota}}}, zones: [{{name: west-a}}]}}]}}"
    refused = answered(more=section.format(quota=steady - 1))
    assert isinstance(refused, Rejection)
    assert "quota" in refused.reason
    assert "west" in refused.reason
    wider = [found for remedy in refused.remedies for found in re.findall(r"a quota of (\d+) devices", remedy.change)]
    assert wider
    assert all(steady <= int(each) <= everything for each in wider)
    # Between the steady fleet and the whole one another reserve may refuse; the whole one fits.
    assert not isinstance(answered(more=section.format(quota=everything)), Rejection)


@pytest.mark.slow
def test_headroom_is_never_negative_and_what_binds_is_named() -> None:
    for plan in (planned(rate=1.0), planned(), planned(rate=12.0)):
        pool = plan.pools[0]
        assert all(line.holds_fraction >= 0.0 for line in pool.headroom.lines)
        assert pool.binding.binding.name != pool.binding.following.name
        assert plan.find("binding.constraint").value == pool.binding.binding.name
