"""Laws of tools: capacity by hand, more limits never allow more, and a kept context is held for as long as the call."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Source
from ullage.workload.classes import RequestClass
from ullage.workload.demand.demand import Demand, forecast_demand
from ullage.workload.demand.tools import DROPPED, KEPT, Tool, default, saturated_tool, tool_loads

SOURCE = Source(what="a made-up tool", where="tests", date=datetime.date(2026, 11, 15))


def said(what: str, value: float | str, unit: str = "") -> Assumption:
    return Assumption(name=f"tools.search.{what}", value=value, unit=unit, evidence=Evidence.STATED, source=SOURCE)


def tool(**given_: float | str) -> Tool:
    """A tool of the class chat, with defaults where nothing is given."""
    names = ("calls_per_task", "requests_per_task", "latency", "error_rate", "while_waiting")
    values = {name: said(name, given_[name]) if name in given_ else default("search", name) for name in names}
    limits = {name: said(name, given_[name]) for name in ("concurrency", "rate_limit") if name in given_}
    return Tool(name="search", classes=("chat",), **values, **limits)


class _Chat:
    request_class = RequestClass(name="chat", slos=())
    shape = None
    mean_rate = replace(said("rate", 10.0, "req/s"), name="chat.mean_rate")
    longest_context = replace(said("context", 16384, "tokens"), name="chat.longest_context")


@pytest.fixture(scope="module")
def demand() -> Demand:
    return forecast_demand([_Chat()], horizon=said("horizon", 86400.0, "s"), percentile=said("percentile", 0.95))


def test_capacity_by_hand(demand: Demand) -> None:
    """Fifty at once for half a second are 100 calls a second; 98 of them are good, and a task needs four."""
    found = tool_loads([tool(concurrency=50, latency=0.5, error_rate=0.02, calls_per_task=4)], demand).lines[0]
    assert found.capacity_tasks_per_s == pytest.approx(100.0 * 0.98 / 4)
    assert found.limited_by == "concurrency"
    limited = tool_loads([tool(concurrency=50, latency=0.5, rate_limit=20.0, error_rate=0.0)], demand).lines[0]
    assert (limited.capacity_tasks_per_s, limited.limited_by) == (20.0, "rate limit")


def test_load_and_waiting_by_hand(demand: Demand) -> None:
    rate_rps = demand.classes[0].planning_rps
    given_: dict[str, float | str] = {
        "calls_per_task": 3, "requests_per_task": 2, "latency": 2.0, "error_rate": 0.25
    }  # fmt: skip
    kept = tool_loads([tool(**given_, while_waiting=KEPT)], demand).lines[0]
    assert kept.tasks_per_s == pytest.approx(rate_rps / 2)
    assert kept.tried_calls_per_s == pytest.approx(rate_rps / 2 * 3 / 0.75)
    assert kept.waiting_requests == pytest.approx(kept.tried_calls_per_s * 2.0)
    context = float(demand.figures["demand.chat.request_tokens"].value)
    assert kept.held_tokens == pytest.approx(kept.waiting_requests * context)
    assert kept.recomputed_tokens_per_s == 0.0
    dropped = tool_loads([tool(**given_, while_waiting=DROPPED)], demand).lines[0]
    assert dropped.held_tokens == 0.0
    assert dropped.recomputed_tokens_per_s == pytest.approx(rate_rps / 2 * 3 * context)


limits = st.floats(0.1, 1000.0)


@given(limits, limits, st.floats(1.0, 3.0), st.floats(0.0, 0.9), st.floats(0.01, 60.0))
def test_a_tighter_limit_never_allows_more(
    concurrency: float, rate: float, ratio: float, errors: float, latency: float
) -> None:
    base = tool(concurrency=concurrency, rate_limit=rate, error_rate=errors, latency=latency)
    for tighter in (
        tool(concurrency=concurrency / ratio, rate_limit=rate, error_rate=errors, latency=latency),
        tool(concurrency=concurrency, rate_limit=rate / ratio, error_rate=errors, latency=latency),
        tool(concurrency=concurrency, rate_limit=rate, error_rate=errors, latency=latency * ratio),
        tool(concurrency=concurrency, rate_limit=rate, error_rate=(errors + 0.99) / 2, latency=latency),
    ):
        assert tighter.capacity_calls_per_s <= base.capacity_calls_per_s * (1 + 1e-12)


def test_the_tightest_of_several_is_found_and_an_open_one_is_none(demand: Demand) -> None:
    wide = replace(tool(rate_limit=1000.0), name="wide")
    narrow = replace(tool(rate_limit=5.0), name="narrow")
    found = tool_loads([wide, narrow], demand)
    assert found.tightest is not None
    assert found.tightest.name == "narrow"
    assert found.tightest.growth_fraction < 0.0
    free = tool_loads([tool()], demand)
    assert free.tightest is None
    assert set(free.figures) == {"tools.search.load_tasks_per_s", "tools.search.recomputed_tokens_per_s"}


def test_a_tool_that_takes_less_than_is_planned_refuses_the_plan(demand: Demand) -> None:
    """Ten requests a second on average, and a tool of one slot that takes fifty seconds: 0.02 tasks a second."""
    slow = tool(concurrency=1, latency=50.0, error_rate=0.0)
    found = saturated_tool([replace(tool(rate_limit=1000.0), name="wide"), slow], demand)
    assert found is not None
    assert "at most 0.02 tasks/s" in found.reason
    assert found.figure.name == "tools.search.use_fraction"
    slots = int(found.remedies[0].change.rsplit(" ", 1)[1])
    assert saturated_tool([tool(concurrency=slots, latency=50.0, error_rate=0.0)], demand) is None, (
        "the remedy is enough"
    )
    assert saturated_tool([tool(concurrency=slots - 1, latency=50.0, error_rate=0.0)], demand) is not None, (
        "and no more than that"
    )


def test_a_tool_with_room_or_without_a_limit_refuses_nothing(demand: Demand) -> None:
    rate = demand.planning_rps
    assert saturated_tool([tool(), replace(tool(rate_limit=rate * 1.01, error_rate=0.0), name="near")], demand) is None
    assert saturated_tool([tool(rate_limit=rate * 0.99, error_rate=0.0)], demand) is not None


def test_pools_share_a_tool_and_not_what_waits_for_it(demand: Demand) -> None:
    """A pool that sees a quarter of the tasks meets a tool that all of them use."""
    quarter = replace(
        demand,
        classes=tuple(replace(each, planning_rps=each.planning_rps / 4) for each in demand.classes),
    )
    given_ = tool(rate_limit=30.0, while_waiting=KEPT)
    whole, part = tool_loads([given_], demand).lines[0], tool_loads([given_], quarter, service=demand).lines[0]
    assert part.use_fraction == whole.use_fraction
    assert part.held_tokens == pytest.approx(whole.held_tokens / 4)
    assert part.waiting_requests == pytest.approx(whole.waiting_requests / 4)


def test_a_tool_nobody_uses_here_is_left_out(demand: Demand) -> None:
    assert tool_loads([replace(tool(), classes=("coding",))], demand).lines == ()


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"latency": 0.0}, "latency"),
        ({"error_rate": 1.0}, "error_rate"),
        ({"requests_per_task": 0.5}, "requests_per_task"),
        ({"calls_per_task": -1.0}, "calls_per_task"),
        ({"concurrency": 0.0}, "concurrency"),
        ({"rate_limit": "many"}, "rate_limit"),
        ({"while_waiting": "keep"}, "kept"),
    ],
)
def test_a_tool_that_cannot_be_is_wrong_input(given_: dict[str, float | str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tool(**given_)
