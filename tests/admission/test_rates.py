"""Rates of classes and tenants, and who is shed first, worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from support.planned import read, stated
from ullage.admission.rates import class_rates, shed_order, tenant_rates


def demand() -> Any:
    """Six a second of chat, two of batch."""
    return SimpleNamespace(
        classes=tuple(SimpleNamespace(name=name, planning_rps=rps) for name, rps in (("chat", 6.0), ("batch", 2.0))),
        planning_rps=8.0,
        figures={
            f"demand.{name}.request_tokens": read(f"demand.{name}.request_tokens", tokens, "tokens")
            for name, tokens in (("chat", 100.0), ("batch", 1000.0))
        },
    )


def classes(*priorities: int) -> Any:
    return [SimpleNamespace(name=name, priority=own) for name, own in zip(("chat", "batch"), priorities, strict=True)]


BUSY_S = {"chat": 0.1, "batch": 0.6}
"""So that chat takes 0.6 of an engine's second each second, and batch 1.2."""


def test_what_is_left_is_shared_in_the_proportions_of_the_plan() -> None:
    # Sixteen of the mix fit, twice what is planned: 3.6 s of engine time, of which 1.8 are wanted.
    chat, batch = class_rates(demand(), classes(0, 1), BUSY_S, capacity_rps=16.0)
    assert [each.rate_rps for each in (chat, batch)] == pytest.approx([12.0, 4.0])
    assert [each.tokens_per_s for each in (chat, batch)] == pytest.approx([1200.0, 4000.0])
    # Alone, each would have all of it.
    assert chat.alone_rps == pytest.approx(36.0)
    assert batch.alone_rps == pytest.approx(6.0)
    # Batch is shed from twice the plan on, and wholly where chat takes all: at six times. Nothing goes before chat.
    assert batch.shed_from_ratio == pytest.approx(2.0)
    assert batch.shed_wholly_ratio == pytest.approx(6.0)
    assert chat.shed_from_ratio == pytest.approx(6.0)
    assert chat.shed_wholly_ratio is None


def test_what_is_short_is_short_for_the_least_urgent() -> None:
    # Half of the plan fits: 0.9 s. Chat has its 0.6, batch the other 0.3; together, each half.
    chat, batch = class_rates(demand(), classes(0, 1), BUSY_S, capacity_rps=4.0)
    assert chat.rate_rps == pytest.approx(6.0)
    assert batch.rate_rps == pytest.approx(0.5)
    chat, batch = class_rates(demand(), classes(0, 0), BUSY_S, capacity_rps=4.0)
    assert chat.rate_rps == pytest.approx(3.0)
    assert batch.rate_rps == pytest.approx(1.0)
    assert chat.shed_from_ratio == batch.shed_from_ratio == pytest.approx(0.5)


def tenant(name: str, share: float, most: float, weight: float) -> Any:
    return SimpleNamespace(
        name=name, share=stated("share", share), most=stated("most", most), weight=stated("weight", weight)
    )


def test_tenants_have_what_they_ask_up_to_their_share() -> None:
    # Ten fit. One asks 2 and may have half; the other asks 6, and of full contention three quarters.
    policy: Any = SimpleNamespace(tenants=(tenant("one", 0.25, 0.5, 1.0), tenant("two", 0.75, 1.0, 3.0)))
    one, two = tenant_rates(demand(), policy, capacity_rps=10.0)
    assert (one.tenant, two.tenant) == ("one", "two")
    assert (one.wanted_rps, two.wanted_rps) == (2.0, 6.0)
    assert (one.granted_rps, two.granted_rps) == (2.0, 6.0)
    assert (one.rate_rps, two.rate_rps) == (2.5, 7.5)
    # A request of the mix has (6 x 100 + 2 x 1000) / 8 tokens.
    assert one.tokens_per_s == pytest.approx(2.5 * 325)
    # Of four, the first is entitled to one, and asks for more; at most a tenth is less than that.
    one, two = tenant_rates(demand(), policy, capacity_rps=4.0)
    assert (one.granted_rps, two.granted_rps) == (1.0, 3.0)
    capped: Any = SimpleNamespace(tenants=(tenant("one", 0.25, 0.1, 1.0), tenant("two", 0.75, 1.0, 3.0)))
    one, two = tenant_rates(demand(), capped, capacity_rps=4.0)
    assert one.granted_rps == one.rate_rps == pytest.approx(0.4)
    assert two.rate_rps == pytest.approx(3.6)
    assert tenant_rates(demand(), SimpleNamespace(tenants=()), capacity_rps=4.0) == ()  # type: ignore[arg-type]


def test_work_that_is_lost_goes_first_and_the_most_urgent_last() -> None:
    rates = class_rates(demand(), classes(0, 1), BUSY_S, capacity_rps=16.0)
    policy: Any = SimpleNamespace(tenants=(tenant("one", 0.25, 0.5, 1.0),))
    steps = shed_order(rates, tenant_rates(demand(), policy, capacity_rps=10.0), retry_budget=0.1)
    assert [(each.rank, each.what, each.when, each.answer) for each in steps] == [
        (1, "requests that cannot finish before their deadline", "at any load", "504"),
        (2, "retries beyond 10% of requests", "at any load", "429"),
        (3, "requests of a tenant above its share", "while anything waits", "429"),
        (4, "batch (priority 1)", "from 2 times the planned traffic, completely from 6", "503"),
        (5, "chat (priority 0)", "from 6 times the planned traffic", "503"),
    ]
    assert len(shed_order(rates, (), retry_budget=0.1)) == 4
