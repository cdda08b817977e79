"""Portfolios: the program against every placement there is, what is given up, who moves, and what is decided."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ullage.errors import InputError, Rejection
from ullage.files.portfolio_file import read_portfolio_file
from ullage.planning.portfolio.limits import (
    DAYS_PER_MONTH,
    HOURS_PER_MONTH,
    PoolNeed,
    PortfolioLimits,
    RegionLimits,
    ServiceTerms,
    SharedCommitment,
    SizeBasis,
)
from ullage.planning.portfolio.portfolio import Portfolio, plan_portfolio, turning
from ullage.planning.portfolio.program import place_pools

AS_OF = datetime.date(2026, 11, 16)


def need(service: str, replicas: int, **changed: object) -> PoolNeed:
    made = PoolNeed(
        service=service,
        pool="pool",
        model="m",
        device="h100-sxm",
        replicas=replicas,
        low_replicas=replicas,
        high_replicas=replicas,
        replica_devices=1,
        node_devices=1,
        requests_per_day=1000.0 * replicas,
        device_usd=100.0,
        basis=SizeBasis.FIRST_LOOK,
    )
    return replace(made, **changed)  # type: ignore[arg-type]


def limits(quotas: Mapping[str, int], **changed: object) -> PortfolioLimits:
    regions = tuple(RegionLimits(name=name, quota_devices={"h100-sxm": count}) for name, count in quotas.items())
    return PortfolioLimits(regions=regions, **changed)  # type: ignore[arg-type]


def planned(needs: list[PoolNeed], shared: PortfolioLimits, **decided: int) -> Portfolio:
    def decide(asked: Sequence[PoolNeed]) -> Sequence[PoolNeed | None]:
        sizes = [decided[each.service] for each in asked]
        return [
            replace(each, replicas=size, low_replicas=size, high_replicas=size, basis=SizeBasis.DECIDED)
            for each, size in zip(asked, sizes, strict=True)
        ]

    found = plan_portfolio(needs, shared, decide=decide, most_decided=len(decided), as_of=AS_OF)
    assert not isinstance(found, Rejection)
    return found


def test_what_fits_stands_whole_and_costs_its_nodes() -> None:
    found = planned([need("a", 3), need("b", 5, replica_devices=2, node_devices=4)], limits({"east": 20}))
    assert not found.given_up
    # Three nodes of one device, and three of four for ten devices.
    assert found.devices == 15
    assert found.usd == pytest.approx(15 * 100.0)
    (row,) = found.regions
    assert (row.nodes, row.idle_devices) == (6, 2)


def test_pools_of_one_kind_share_nodes() -> None:
    shared = [need("a", 3, node_devices=8), need("b", 5, node_devices=8)]
    assert planned(shared, limits({"east": 8})).devices == 8


def test_what_is_worth_least_for_a_device_is_given_up_first() -> None:
    terms = {"dear": ServiceTerms(shortfall_usd=0.01), "cheap": ServiceTerms(shortfall_usd=0.001)}
    found = planned([need("dear", 6), need("cheap", 6)], limits({"east": 8}, services=terms))
    assert [(each.need.service, each.given_up_replicas) for each in found.given_up] == [("cheap", 4)]
    assert found.lost_usd == pytest.approx(4 * 1000.0 * 0.001 * DAYS_PER_MONTH)
    # What may not be given up is taken from the other.
    kept = {**terms, "cheap": ServiceTerms(shortfall_usd=0.001, least_fraction=0.5)}
    found = planned([need("dear", 6), need("cheap", 6)], limits({"east": 8}, services=kept))
    assert {each.need.service: each.given_up_replicas for each in found.given_up} == {"cheap": 3, "dear": 1}


def test_a_budget_is_kept_and_a_commitment_is_paid_and_used_first() -> None:
    found = planned([need("a", 10)], PortfolioLimits(budget_usd=750.0))
    assert found.usd == pytest.approx(700.0)
    assert found.given_up[0].given_up_replicas == 3
    held = (SharedCommitment(device="h100-sxm", region="east", devices=4, usd_per_hour=50.0 / HOURS_PER_MONTH),)
    found = planned([need("a", 10)], limits({"west": 50, "east": 50}, commitments=held))
    # Four committed at 50 and six by the hour at 100, the four where they are committed.
    assert found.usd == pytest.approx(4 * 50.0 + 6 * 100.0)
    assert found.pools[0].regions["east"] >= 4


def test_a_region_lost_moves_its_pools_and_the_least_worth_makes_room() -> None:
    terms = {
        "dear": ServiceTerms(shortfall_usd=0.01, regions=("east", "west")),
        "cheap": ServiceTerms(shortfall_usd=0.001, regions=("west",)),
    }
    shared = limits({"east": 4, "west": 6}, services=terms)
    found = planned([need("dear", 4), need("cheap", 6)], shared)
    assert not found.given_up
    (east,) = [each for each in found.losses if each.region == "east"]
    assert {(each.pool, each.to_region, each.replicas) for each in east.moves} == {("dear/pool", "west", 4)}
    assert {(each.pool, each.from_region, each.replicas) for each in east.stopped} == {("cheap/pool", "west", 4)}
    assert east.given_up == {"cheap/pool": 4}
    assert east.lost_usd_per_day == pytest.approx(4 * 1000.0 * 0.001)
    (west,) = [each for each in found.losses if each.region == "west"]
    assert west.given_up == {"cheap/pool": 6}


def test_what_may_not_be_given_up_and_does_not_fit_is_refused() -> None:
    kept = limits({"east": 4}, services={"a": ServiceTerms(least_fraction=1.0)})
    found = plan_portfolio([need("a", 6)], kept, decide=lambda _: [], most_decided=0, as_of=AS_OF)
    assert isinstance(found, Rejection)
    assert found.figure.value == 6


def test_a_first_look_is_decided_only_where_the_answer_turns_on_it() -> None:
    wide = need("wide", 10, low_replicas=8, high_replicas=13)
    narrow = need("narrow", 10, low_replicas=9, high_replicas=11)
    exact = need("exact", 10, basis=SizeBasis.DECIDED)
    pools = [narrow, wide, exact]
    roomy, tight = limits({"east": 100}), limits({"east": 31})
    assert turning(pools, roomy, place_pools(pools, roomy)) == []
    assert turning(pools, tight, place_pools(pools, tight)) == ["wide/pool", "narrow/pool"]
    found = planned(pools, tight, wide=12)
    assert found.decided_pools == 2
    assert found.undecided == ("narrow/pool",)
    assert sum(each.given_up_replicas for each in found.pools) == 1
    assert planned(pools, tight, wide=12, narrow=9).undecided == ()
    by_budget = PortfolioLimits(budget_usd=3100.0)
    assert turning(pools, by_budget, place_pools(pools, by_budget)) == ["wide/pool", "narrow/pool"]


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 3), min_size=2, max_size=3),
    each=st.lists(st.integers(1, 2), min_size=3, max_size=3),
    worth=st.lists(st.integers(1, 5), min_size=3, max_size=3),
    quotas=st.tuples(st.integers(0, 4), st.integers(0, 4)),
)
def test_no_other_placement_loses_less_or_costs_less(
    sizes: list[int], each: list[int], worth: list[int], quotas: tuple[int, int]
) -> None:
    """Every placement of up to three pools in two regions, one by one."""
    pools = [
        need(f"s{at}", size, replica_devices=each[at], node_devices=2, requests_per_day=1000.0 * size)
        for at, size in enumerate(sizes)
    ]
    terms = {f"s{at}": ServiceTerms(shortfall_usd=worth[at] / 1000.0) for at in range(len(sizes))}
    found = place_pools(pools, limits({"east": quotas[0], "west": quotas[1]}, services=terms))
    assert found is not None

    def nodes(counts: tuple[int, ...]) -> int:
        return -(-sum(count * each[at] for at, count in enumerate(counts)) // 2)

    best = (float("inf"), float("inf"))
    for east in itertools.product(*(range(size + 1) for size in sizes)):
        for west in itertools.product(*(range(size - east[at] + 1) for at, size in enumerate(sizes))):
            if nodes(east) * 2 > quotas[0] or nodes(west) * 2 > quotas[1]:
                continue
            lost = sum((size - east[at] - west[at]) * worth[at] * DAYS_PER_MONTH for at, size in enumerate(sizes))
            best = min(best, (round(lost, 6), 200.0 * (nodes(east) + nodes(west))))
    assert found.lost_usd == pytest.approx(best[0])
    assert found.usd == pytest.approx(best[1])


SHARED = """
version: 1
portfolio: all
regions:
  - {name: east, quotas: {h100-sxm: 64}, nodes: {h100-sxm: 8}}
  - {name: west}
budget: 250000 USD
commitments: [{device: h100-sxm, region: east, devices: 16, price: 2 USD/h}]
shortfall: 0.001 USD
services: [{name: chat, shortfall: 0.01 USD, regions: [east], least: 50%}]
"""


def test_the_file_is_read_and_its_faults_are_named_at_their_line() -> None:
    found = read_portfolio_file(SHARED, file="quotas.yaml")
    assert found.regions[0].quota_devices == {"h100-sxm": 64}
    assert found.terms("chat") == ServiceTerms(shortfall_usd=0.01, regions=("east",), least_fraction=0.5)
    assert found.lost_usd("other") == 0.001
    assert found.commitments[0].usd_per_hour == 2.0
    for wrong, said in (
        (("budget: 250000 USD", "budget: 250000 EUR"), "not in USD"),
        (("name: west", "name: east"), "appears twice"),
        (("regions: [east]", "regions: [north]"), "north"),
        (("budget:", "budgets:"), r"quotas.yaml:7: budgets"),
        (("h100-sxm: 64", "h300: 64"), "h300"),
    ):
        with pytest.raises(InputError, match=said):
            read_portfolio_file(SHARED.replace(*wrong), file="quotas.yaml")


PLAN = """
version: 1
service: {name}
workload: {{classes: [{{name: chat, rate: {rate} req/s, longest_context: 4096, slo: {{ttft_p95: 2s}}}}]}}
pool: {{model: llama-3.1-8b, device: l40s}}
"""


def test_files_that_differ_in_names_share_a_first_look_and_two_of_one_name_are_refused(tmp_path: Path) -> None:
    from ullage import verbs
    from ullage.verbs.portfolio import PortfolioAnswer

    files = []
    for name, rate in (("one", 5), ("two", 5), ("three", 40)):
        files.append(tmp_path / f"{name}.yaml")
        files[-1].write_text(PLAN.format(name=name, rate=rate))
    found = verbs.portfolio(files, as_of=AS_OF)
    assert isinstance(found, PortfolioAnswer)
    assert (found.services, found.evaluated_services) == (3, 2)
    one, two, three = (each.need for each in found.portfolio.pools)
    assert (two.same_as, one.same_as) == ("one/pool", "")
    assert replace(two, service="one", same_as="") == one
    assert three.replicas >= one.replicas
    # The mean of the horizon, which grows a little.
    assert 5 * 86_400 <= one.requests_per_day < 1.1 * 5 * 86_400
    files[1].write_text(PLAN.format(name="one", rate=6))
    with pytest.raises(InputError, match="planned by two files"):
        verbs.portfolio(files, as_of=AS_OF)


@pytest.mark.slow
def test_a_service_on_which_it_turns_has_the_replicas_of_its_whole_plan(tmp_path: Path) -> None:
    from ullage import verbs
    from ullage.verbs.plan_answer import PlanAnswer
    from ullage.verbs.portfolio import PortfolioAnswer

    file, quotas = tmp_path / "one.yaml", tmp_path / "quotas.yaml"
    file.write_text(PLAN.format(name="one", rate=12))
    quotas.write_text("version: 1\nregions: [{name: east, quotas: {l40s: 1}}]\n")
    found = verbs.portfolio([file], quotas=quotas, decide=1, as_of=AS_OF)
    whole = verbs.plan(file, quick=True, as_of=AS_OF)
    assert isinstance(found, PortfolioAnswer)
    assert isinstance(whole, PlanAnswer)
    (pool,), (planned_pool,) = found.portfolio.pools, whole.pools
    assert pool.need.basis is SizeBasis.DECIDED
    assert pool.need.replicas == planned_pool.steady_fleet.replicas + planned_pool.reserves.replicas
    assert found.portfolio.undecided == ()
