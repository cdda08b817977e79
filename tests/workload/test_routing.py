"""Laws of routing: what the pools see adds up to the attempts of all tasks, carried answers included."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Figure, Source, walk
from ullage.workload.classes import RequestClass
from ullage.workload.demand.demand import Demand, forecast_demand
from ullage.workload.demand.routing import Route, RouteKind, RouteStep, Routing, pool_demand, routed, with_answers

SOURCE = Source(what="a made-up route", where="tests", date=datetime.date(2026, 11, 15))


def said(name: str, value: float, unit: str = "fraction") -> Assumption:
    return Assumption(name=name, value=value, unit=unit, evidence=Evidence.STATED, source=SOURCE)


@dataclass(frozen=True, kw_only=True)
class Stated:
    request_class: RequestClass
    mean_rate: Assumption
    longest_context: Assumption
    shape: None = None


def demand(*names: str) -> Demand:
    return forecast_demand(
        [
            Stated(
                request_class=RequestClass(name=name, slos=()),
                mean_rate=said(f"{name}.mean_rate", 10.0, "req/s"),
                longest_context=said(f"{name}.longest_context", 16384, "tokens"),
            )
            for name in names
        ],
        horizon=said("policy.horizon", 30 * 86400.0, "s"),
        percentile=said("risk.demand_percentile", 0.95),
    )


def escalation(*parts: float, success: tuple[float, ...] = (), carries: bool | None = None) -> Route:
    pools = [f"pool-{place}" for place in range(len(parts) + 1)]
    return Route(
        request_class="chat",
        kind=RouteKind.ESCALATION,
        steps=tuple(
            RouteStep(
                pool=pool,
                part=said(f"routing.chat.{pool}.goes_on", parts[place]) if place < len(parts) else None,
                success=said(f"routing.chat.{pool}.success", success[place]) if success else None,
            )
            for place, pool in enumerate(pools)
        ),
        carries_answer=None if carries is None else said("routing.chat.carries_answer", int(carries), ""),
    )


def shares(*parts: float) -> Route:
    return Route(
        request_class="chat",
        kind=RouteKind.SHARES,
        steps=tuple(
            RouteStep(pool=f"pool-{place}", part=said(f"routing.chat.pool-{place}.share", part))
            for place, part in enumerate(parts)
        ),
    )


fractions = st.floats(0.0, 1.0)


@given(st.lists(fractions, min_size=1, max_size=4))
def test_what_the_pools_see_is_every_attempt_of_every_task(parts: list[float]) -> None:
    route = escalation(*parts)
    assert route.reached_fractions[0] == 1.0
    assert route.attempts_per_task == pytest.approx(1.0 + sum(np.cumprod(parts)))
    assert all(
        later <= earlier for earlier, later in zip(route.reached_fractions, route.reached_fractions[1:], strict=False)
    )


@given(st.lists(st.tuples(fractions, fractions), min_size=1, max_size=3), fractions)
def test_success_lies_between_blind_and_best_and_never_above_one(drawn: list[tuple[float, float]], last: float) -> None:
    route = escalation(*(part for part, _ in drawn), success=(*(rate for _, rate in drawn), last))
    found = route.success_fractions
    assert found is not None
    blind, best = found
    assert 0.0 <= blind <= best <= 1.0 + 1e-9


def test_success_by_hand() -> None:
    """60 % solved by the small model, 30 % sent on, 80 % of those solved by the large one."""
    found = escalation(0.3, success=(0.6, 0.8)).success_fractions
    assert found is not None
    assert found[0] == pytest.approx(0.7 * 0.6 + 0.3 * 0.8)
    assert found[1] == pytest.approx(0.6 + 0.3 * 0.8)
    assert escalation(0.3).success_fractions is None


def test_an_escalation_drives_the_demand_of_both_pools() -> None:
    whole = demand("chat", "coding")
    routing = Routing(routes=(escalation(0.25, carries=True),))
    own = {"coding": "pool-1"}
    first, second = (pool_demand(whole, routing, pool, own) for pool in ("pool-0", "pool-1"))
    for part in (*first.classes, *second.classes):
        own_class = next(each for each in whole.classes if each.name == part.name)
        assert set(part.figures) == set(own_class.figures), "a part of a class has all of its figures"
    assert [each.name for each in first.classes] == ["chat"]
    assert [each.name for each in second.classes] == ["chat", "coding"]
    chat = whole.classes[0]
    assert first.classes[0] == chat
    assert second.classes[0].planning_rps == pytest.approx(0.25 * chat.planning_rps)
    assert second.classes[0].mean_rps == pytest.approx(0.25 * chat.mean_rps)
    # The prompt is longer by the first answer, the answer is not.
    prompts, outputs = chat.model.lengths.pairs()
    longer, same = second.classes[0].model.lengths.pairs()
    assert longer.mean() == pytest.approx((prompts + outputs).mean(), rel=0.03)
    assert np.array_equal(np.sort(same), np.sort(outputs))
    with pytest.raises(InputError, match="pool-2"):
        pool_demand(whole, routing, "pool-2", own)


def test_more_that_goes_on_never_means_less_for_the_next_pool() -> None:
    whole = demand("chat")
    rates = []
    for part in (0.1, 0.3, 0.9):
        found = pool_demand(whole, Routing(routes=(escalation(part),)), "pool-1", {})
        rates.append(found.planning_rps)
    assert rates == sorted(rates)
    assert rates[-1] == pytest.approx(0.9 * whole.planning_rps)


@given(st.floats(0.05, 0.95))
def test_shares_of_a_class_add_up_to_it(part: float) -> None:
    whole = demand("chat")
    routing = Routing(routes=(shares(part, 1.0 - part),))
    found = [pool_demand(whole, routing, pool, {}) for pool in ("pool-0", "pool-1")]
    assert sum(each.planning_rps for each in found) == pytest.approx(whole.planning_rps)
    assert sum(each.classes[0].mean_rps for each in found) == pytest.approx(whole.classes[0].mean_rps)


def test_without_routes_nothing_changes() -> None:
    whole = demand("chat", "coding")
    assert pool_demand(whole, Routing(), "pool", {"chat": "pool", "coding": "pool"}) is whole


def test_carried_answers_stay_within_the_longest_context() -> None:
    lengths = demand("chat").classes[0].model.lengths
    longer = with_answers(lengths, 2, 16384)
    assert longer.prompt_tokens[-1] + longer.output_tokens[-1] <= 16384
    assert all(new >= min(old, 12288) - 2 for old, new in zip(lengths.prompt_tokens, longer.prompt_tokens, strict=True))


def test_the_table_names_every_pool_and_figures_rest_on_the_route() -> None:
    whole = demand("chat")
    table = routed(Routing(routes=(escalation(0.25, success=(0.6, 0.8)),)), whole)
    assert [(line.pool, line.part_fraction) for line in table.lines] == [("pool-0", 1.0), ("pool-1", 0.25)]
    assert table.figures["routing.chat.attempts_per_task"].value == 1.25
    assert table.figures["routing.chat.success_best_fraction"].value == pytest.approx(0.8)
    part = pool_demand(whole, Routing(routes=(escalation(0.25),)), "pool-1", {})
    rate = part.figures["demand.chat.planning_rate"]
    names = {each.name for _, each in walk(rate) if isinstance(each, Assumption | Figure)}
    assert "routing.chat.pool-0.goes_on" in names
    assert "chat.mean_rate" in names


@pytest.mark.parametrize(
    ("route", "message"),
    [
        (lambda: shares(0.5, 0.6), "add up to 1"),
        (lambda: escalation(1.5), "share from 0 to 1"),
        (lambda: Route(request_class="chat", kind=RouteKind.SHARES, steps=()), "at least one pool"),
        (lambda: Routing(routes=(shares(1.0), shares(1.0))), "two routes"),
        (lambda: Routing(routes=(shares(1.0),)).check(["chat"], ["pool"]), "pool-0"),
        (lambda: Routing(routes=(shares(1.0),)).check(["chatter"], ["pool-0"]), "chatter"),
        (
            lambda: Route(
                request_class="chat",
                kind=RouteKind.ESCALATION,
                steps=(RouteStep(pool="a", part=said("x", 0.5)),),
            ),
            "last pool",
        ),
    ],
)
def test_a_route_that_leads_nowhere_is_wrong_input(route: object, message: str) -> None:
    assert callable(route)
    with pytest.raises(InputError, match=message):
        route()
