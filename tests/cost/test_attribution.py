"""Attribution sums to every line under every rule; nobody pays for another's growth; what is unknown stays visible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.usage_logs import TENANTS, bill_lines, line, rows, usage_log
from ullage.cost.attribution.attribution import (
    ATTRIBUTION_RULES,
    IDLE,
    RESERVE,
    AttributionChoice,
    Basis,
    Idle,
    attribute,
    rule_spread,
    rule_weights,
    usable_rules,
)
from ullage.cost.attribution.dimensions import UNALLOCATED
from ullage.cost.attribution.usage import grouped, merged_groups
from ullage.cost.lines.line import BillLine, Driver
from ullage.errors import InputError

Row = tuple[int, float, float, int, int, bool]
_CHOICES = st.builds(
    AttributionChoice,
    by=st.just("tenant"),
    rule=st.sampled_from(sorted(ATTRIBUTION_RULES)),
    idle=st.sampled_from(Idle),
    spread_rule=st.sampled_from(["", "tokens", "requests"]),
    basis=st.sampled_from(Basis),
    allotted_fraction=st.just({"acme": 0.5, "hooli": 0.2}),
)


@pytest.mark.slow
@given(rows(), bill_lines(), _CHOICES)
def test_rows_sum_to_every_line_and_nothing_is_negative(
    given_rows: list[Row], lines: list[BillLine], choice: AttributionChoice
) -> None:
    groups = [
        replace(each, caused_devices=each.requests)
        for each in grouped(usage_log(given_rows), "tenant", rng=np.random.default_rng(1))
    ]
    found = attribute(lines, {"": groups}, choice)
    assert [sum(row.cents[place] for row in found.rows) for place in range(len(lines))] == [
        each.cents for each in lines
    ]
    assert found.total_cents == sum(each.cents or 0 for each in lines)
    assert all(cents >= 0 for row in found.rows for cents in row.cents)


@given(rows(), rows(most=5), st.integers(0, 10**7), st.sampled_from(Idle))
def test_a_tenant_never_pays_less_when_only_its_own_requests_grow(
    before: list[Row], more: list[Row], cents: int, idle: Idle
) -> None:
    """GPU-time rule on one device that is on for 500 s: its price does not change, its busy time does."""
    more = [(0, *each[1:]) for each in more]
    paid = []
    for given_rows in (before, before + more):
        groups = grouped(usage_log(given_rows), "tenant")
        used = sum(each.gpu_s or 0.0 for each in groups) / 500.0
        lines = [line(cents, Driver.DEVICE_TIME, used_fraction=used)]
        found = attribute(lines, {"": groups}, AttributionChoice(by="tenant", idle=idle))
        paid.append({row.name: row.total_cents for row in found.rows})
    assert paid[1]["acme"] >= paid[0]["acme"]


@given(rows(), st.integers(0, 10**7))
def test_idle_and_reserve_are_rows_of_their_own_unless_spread(given_rows: list[Row], cents: int) -> None:
    groups = grouped(usage_log(given_rows), "tenant")
    lines = [line(cents, Driver.DEVICE_TIME, used_fraction=0.25), line(cents, Driver.RESERVE)]
    apart = attribute(lines, {"": groups}, AttributionChoice(by="tenant"))
    assert apart.row(RESERVE).total_cents == cents
    assert abs(apart.row(IDLE).total_cents - 0.75 * cents) <= 1
    spread = attribute(lines, {"": groups}, AttributionChoice(by="tenant", idle=Idle.SPREAD))
    assert {each.name for each in spread.rows} == {each.name for each in groups}


def test_unknown_names_stay_unallocated_and_are_nobodys() -> None:
    log = usage_log([(0, 0.0, 10.0, 100, 10, True), (1, 0.0, 10.0, 100, 10, True), (-1, 0.0, 10.0, 100, 10, True)])
    free = grouped(log, "tenant")
    assert [each.name for each in free] == [*TENANTS, UNALLOCATED]
    controlled = grouped(log, "tenant", known=["acme"])
    assert [(each.name, each.requests) for each in controlled] == [("acme", 1.0), (UNALLOCATED, 2.0)]
    found = attribute(
        [line(300, Driver.DEVICE_TIME)], {"": controlled}, AttributionChoice(by="tenant", rule="requests")
    )
    assert {row.name: row.total_cents for row in found.rows} == {"acme": 100, UNALLOCATED: 200}


def test_without_any_traffic_devices_are_idle_and_other_lines_nobodys() -> None:
    lines = [line(500, Driver.DEVICE_TIME), line(300, Driver.RESERVE), line(70, Driver.REQUESTS)]
    for idle in Idle:
        found = attribute(lines, {}, AttributionChoice(by="tenant", idle=idle))
        assert {row.name: row.total_cents for row in found.rows} == {IDLE: 500, RESERVE: 300, UNALLOCATED: 70}


def test_a_pool_is_paid_by_those_who_used_it() -> None:
    one = grouped(usage_log([(0, 0.0, 10.0, 100, 10, True)]), "tenant", known=["acme"])
    other = grouped(usage_log([(1, 0.0, 10.0, 100, 10, True)]), "tenant", known=["globex"])
    lines = [
        line(900, Driver.DEVICE_TIME, pool="large"),
        line(100, Driver.DEVICE_TIME, pool="small"),
        line(50, Driver.REQUESTS),
    ]
    found = attribute(lines, {"large": one, "small": other}, AttributionChoice(by="tenant"))
    assert found.row("acme").cents == (900, 0, 25)
    assert found.row("globex").cents == (0, 100, 25)


def test_an_allotment_is_paid_used_or_not() -> None:
    groups = grouped(usage_log([(0, 0.0, 10.0, 100, 10, True)]), "tenant", known=["acme"])
    choice = AttributionChoice(by="tenant", basis=Basis.ALLOCATION, allotted_fraction={"acme": 0.25, "globex": 0.5})
    found = attribute([line(1000, Driver.DEVICE_TIME, used_fraction=0.1)], {"": groups}, choice)
    assert {row.name: row.total_cents for row in found.rows} == {"acme": 250, "globex": 500, IDLE: 250}


def test_failed_work_is_paid_by_whose_it_was() -> None:
    log = usage_log([(0, 0.0, 10.0, 100, 10, True), (1, 0.0, 10.0, 100, 10, False)])
    found = attribute([line(80, Driver.FAILED)], {"": grouped(log, "tenant")}, AttributionChoice(by="tenant"))
    assert found.row("globex").total_cents == 80


def test_a_log_without_times_allows_the_rules_that_need_none() -> None:
    log = replace(usage_log([(0, 0.0, 10.0, 100, 10, True)]), start_s=None, end_s=None)
    groups = grouped(log, "tenant")
    assert usable_rules(groups) == ("tokens", "weighted_tokens", "requests")
    with pytest.raises(InputError, match=r"when each request began and ended.*choose one of tokens"):
        rule_weights("gpu_time", groups)


def test_the_spread_says_how_far_the_rule_moves_each_bill() -> None:
    log = usage_log([(0, 0.0, 30.0, 100, 900, True), (1, 0.0, 5.0, 1000, 10, True)])
    spread = rule_spread([line(1000, Driver.DEVICE_TIME)], {"": grouped(log, "tenant")}, AttributionChoice(by="tenant"))
    acme = next(each for each in spread if each.name == "acme")
    assert acme.cents["requests"] == 500
    assert acme.least_cents < 500 < acme.most_cents
    assert sum(each.cents["shapley"] for each in spread) == 1000


@given(rows(), rows())
def test_pools_add_up(one: list[Row], other: list[Row]) -> None:
    groups = [grouped(usage_log(each), "tenant") for each in (one, other)]
    whole = merged_groups(groups)
    assert sum(each.requests for each in whole) == len(one) + len(other)
    assert sum(each.gpu_s or 0.0 for each in whole) == pytest.approx(
        sum(each.gpu_s or 0.0 for pool in groups for each in pool)
    )


def test_parts_of_a_fleet_do_not_exceed_it() -> None:
    with pytest.raises(InputError, match="sum to at most 1"):
        AttributionChoice(by="tenant", basis=Basis.ALLOCATION, allotted_fraction={"acme": 0.8, "globex": 0.4})
    with pytest.raises(InputError, match="no group has a share"):
        AttributionChoice(by="tenant", basis=Basis.ALLOCATION)
    with pytest.raises(InputError, match="Did you mean gpu_time"):
        AttributionChoice(by="tenant", rule="gpu_tim")
