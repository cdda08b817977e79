"""Work is estimated before it is done: more of anything is more work, and what is over the ceiling is refused."""

from __future__ import annotations

import datetime
import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage import verbs
from ullage.cli.help import VERBS
from ullage.errors import InputError, Rejection
from ullage.evidence import number
from ullage.execute.limit import parse_limit
from ullage.load.plan import load_plan
from ullage.planning.spec import PlanSpec
from ullage.planning.work.estimate import estimate_work, over_limit
from ullage.planning.work.limit import DEFAULT_LIMIT, WorkLimit

AS_OF = datetime.date(2026, 11, 15)


def document(*, classes: int = 1, pools: int = 1, rate: float = 5.0) -> dict[str, Any]:
    named = [
        {
            "name": f"class-{place}",
            "rate": f"{rate:g} req/s",
            "longest_context": 8192,
            "slo": {"ttft_p95": "2s"},
            "pool": f"pool-{place % pools}",
        }
        for place in range(classes)
    ]
    each = [{"name": f"pool-{place}", "model": "llama-3.1-8b", "device": "h100-sxm"} for place in range(pools)]
    return {"version": 1, "service": "work", "dated": "2026-11-15", "workload": {"classes": named}, "pools": each}


def spec(**counts: Any) -> PlanSpec:
    return load_plan(document(**counts), as_of=AS_OF)


def amounts(found: PlanSpec) -> tuple[float, float]:
    work = estimate_work(found)
    return number(work.cpu), number(work.memory)


def test_more_classes_pools_or_traffic_is_never_less_work() -> None:
    small = amounts(spec(classes=2, pools=2))
    for larger in (spec(classes=8, pools=2), spec(classes=4, pools=4), spec(classes=2, pools=2, rate=500.0)):
        assert amounts(larger)[0] > small[0]
        assert amounts(larger)[1] >= small[1]


@pytest.mark.parametrize(
    ("counts", "measured_s"),
    [({"classes": 50, "rate": 1.0}, 99.2), ({"classes": 20, "pools": 20, "rate": 2.0}, 144.5)],
)
def test_the_estimate_is_within_half_of_what_was_measured(counts: dict[str, Any], measured_s: float) -> None:
    """The times of bench/RESULTS.md, which the factors were fitted to."""
    assert amounts(spec(**counts))[0] == pytest.approx(measured_s, rel=0.5)


def test_what_is_over_the_ceiling_is_refused_with_the_estimate() -> None:
    large = spec(classes=40)
    assert over_limit(large, DEFAULT_LIMIT) is None
    found = over_limit(large, WorkLimit(cpu_s=30.0))
    assert found is not None
    estimated = number(estimate_work(large).cpu)
    assert f"{estimated:.0f} s of CPU, with 30 s allowed" in found.reason
    assert found.figure.name == "work.cpu_s"
    # The first remedy is enough.
    assert over_limit(large, parse_limit(found.remedies[0].change.removeprefix("--limit "))) is None
    assert over_limit(large, WorkLimit(memory_bytes=1e6)) is not None


def test_a_plan_over_its_limit_is_refused_before_anything_is_simulated() -> None:
    found = verbs.plan(document(classes=40), as_of=AS_OF, limit="cpu=5s")
    assert isinstance(found, Rejection)
    assert found.stage == "work to come"


@pytest.mark.parametrize("verb", ["size", "curve", "check", "drill", "options", "cost"])
def test_every_verb_that_plans_keeps_the_limit(verb: str) -> None:
    found = getattr(verbs, verb)(document(classes=4), as_of=AS_OF, limit="cpu=1s")
    assert isinstance(found, Rejection), verb
    assert found.stage == "work to come"


@pytest.mark.parametrize("verb", VERBS)
def test_whatever_takes_a_plan_takes_a_limit(verb: str) -> None:
    """What is simulated from a trace or load test has a bound of its own, by requests; a portfolio, by whole plans."""
    taken = inspect.signature(getattr(verbs, verb)).parameters
    takes_plan = any("PlanSource" in str(each.annotation) for each in taken.values())
    assert ("limit" in taken) == (takes_plan and verb not in ("simulate", "memory", "validate", "portfolio")), verb


@given(st.floats(1.0, 1e6), st.integers(1, 10_000))
def test_a_limit_reads_back(cpu_s: float, memory_gib: int) -> None:
    found = parse_limit(f"memory={memory_gib}GiB, cpu={cpu_s!r}s")
    assert (found.cpu_s, found.memory_bytes) == pytest.approx((cpu_s, memory_gib * 2**30))


@pytest.mark.parametrize("text", ["cpu", "cpu=0s", "disk=1GiB", "cpu=1GiB", "memory=10min"])
def test_a_limit_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--limit"):
        parse_limit(text)


@pytest.mark.parametrize(
    ("asked", "work"),
    [
        (lambda **how: verbs.plan(document(), as_of=AS_OF, **how), {"rounds": 1.5}),
        (lambda **how: verbs.risk(document(), as_of=AS_OF, **how), {"rounds": 1.5}),
        (lambda **how: verbs.scenarios(document(), ["a: traffic=+1%"], as_of=AS_OF, **how), {"rounds": 5.5}),
        (lambda **how: verbs.scale(document(), days=2, as_of=AS_OF, **how), {"played_days": 146.0}),
    ],
)
def test_verbs_that_do_more_than_a_plan_are_held_to_all_of_it(asked: Any, work: dict[str, float]) -> None:
    """What is allowed is enough for a plan and its start, and not for the rest."""
    whole = estimate_work(spec(), **work)
    assert number(whole.cpu) > amounts(spec())[0] + 1.0
    found = asked(limit=f"cpu={number(whole.cpu) - 0.5:.1f}s")
    assert isinstance(found, Rejection)
    assert f"{number(whole.cpu):.0f} s of CPU" in found.reason


def test_scaling_rules_on_the_built_in_example_take_what_was_measured() -> None:
    """89 CPU-s of `ullage scale` (bench/RESULTS.md)."""
    found = estimate_work(load_plan(None, as_of=AS_OF), played_days=24.0)
    assert number(found.cpu) == pytest.approx(89.0, rel=0.5)
    assert number(found.memory) > amounts(load_plan(None, as_of=AS_OF))[1]
