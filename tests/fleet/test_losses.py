"""Loss checks: what is covered holds, what is starved breaks, and counts agree with the simulator's own."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from support.fleets import planned_pool
from support.served_replicas import PoissonLoad, batching_replica, class_with_slos
from ullage.errors import InputError
from ullage.evidence import Assumption, Source, walk
from ullage.execute.pool import thread_map
from ullage.fleet.choices import choice
from ullage.fleet.failure import reliability
from ullage.fleet.loss_scenarios import SCENARIOS
from ullage.fleet.losses import QUICK, TITLES, LossEffort, LossTable, LossVerdict, loss_checks
from ullage.fleet.maintenance import Maintenance
from ullage.fleet.region import RegionPolicy
from ullage.fleet.reserves import Reserves, ReserveSettings, named_reserves
from ullage.fleet.rollout import Rollout
from ullage.fleet.sites import Region, Sites, Zone, equal_zones
from ullage.service.trial.attainment import WINDOW_S, SloTally, last_hurt_s, part, tallies
from ullage.service.trial.trial import play
from ullage.simulate.fleet import Fleet

SHORT = LossEffort(replications=1, lead_s=120.0, before_s=180.0, after_s=300.0, longest_loss_s=300.0)


def share(name: str, value: float) -> Assumption:
    return replace(choice(name, value, "fraction", "test"), decision=False)


TWO_REGIONS = Sites(
    regions=tuple(
        Region(name=name, zones=(Zone(name=f"{name}-a"), Zone(name=f"{name}-b")), share=share(f"{name}.share", part))
        for name, part in (("east", 0.6), ("west", 0.4))
    )
)


def _work(name: str, fraction: float | None) -> Assumption | None:
    return None if fraction is None else share(name, fraction)


@functools.cache
def reserves(survives: str = "node", zones: int = 2, regions: str = "", work_fraction: float | None = None) -> Reserves:
    """`work_fraction` is what planned work meets, in parts of the planning rate; its own hours without it."""
    pool = planned_pool()
    given = reliability()
    found = named_reserves(
        pool.steady,
        pool.ready,
        pool.demand,
        sites=TWO_REGIONS if regions else equal_zones(zones),
        settings=ReserveSettings(
            reliability=replace(given, survives=replace(given.survives, value=survives)),
            regions=RegionPolicy(survives=choice("regions.survives", regions or "none", "", "test")),
            rollout=Rollout(demand=_work("rollout.demand", work_fraction)),
            maintenance=Maintenance(demand=_work("maintenance.demand", work_fraction)),
        ),
        seed=0,
    )
    assert isinstance(found, Reserves), found
    return found


def checked(given: Reserves, *names: str, effort: LossEffort = SHORT) -> LossTable:
    pool = planned_pool()
    return loss_checks(
        pool.demand,
        pool.steady,
        given,
        pool.ready,
        seed=0,
        effort=effort,
        names=names or tuple(SCENARIOS),
    )


def starved(given: Reserves) -> Reserves:
    """The same fleet at half its size: what nobody should plan."""
    return replace(given, steady_replicas=given.steady_replicas // 2, serving_replicas=0)


def test_every_scenario_has_a_title() -> None:
    assert tuple(TITLES) == tuple(SCENARIOS)


@pytest.mark.slow
def test_what_reserves_cover_holds_and_the_rest_is_said_to_be_uncovered() -> None:
    table = checked(reserves(), effort=QUICK)
    assert [each.name for each in table.checks] == list(SCENARIOS)
    for check in table.checks:
        if check.is_covered:
            assert check.verdict in (LossVerdict.HOLDS, LossVerdict.UNDECIDED), check
    assert not table.broken
    assert table.check("zone").verdict is LossVerdict.BREAKS
    # Of two equal zones each holds the whole steady fleet.
    more = planned_pool().steady.replicas - reserves().failure.line.replicas
    assert " % of requests, 95 % required; " in table.check("zone").reason
    assert f"not covered: reliability.survives: zone would reserve {more} more replicas" in table.check("zone").reason
    assert table.figures["loss.zone.verdict"].value == "breaks"
    assert table.check("region").verdict is LossVerdict.OUTAGE


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in ("normal_day", "region")])
def test_half_a_fleet_breaks_every_check_at_peak(name: str) -> None:
    assert checked(starved(reserves(work_fraction=1.0)), name).check(name).verdict is LossVerdict.BREAKS


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rollout", "maintenance"])
def test_planned_work_meets_the_demand_of_its_own_hours(name: str) -> None:
    quiet, busy = (checked(starved(reserves(work_fraction=each)), name).check(name) for each in (0.3, 1.0))
    assert quiet.during is not None
    assert busy.during is not None
    assert quiet.during.attained.value > busy.during.attained.value


def test_a_zone_is_survived_where_that_was_bought() -> None:
    covered = checked(reserves("zone"), "zone").check("zone")
    assert covered.covered_by == "failure"
    assert covered.verdict is LossVerdict.HOLDS
    assert covered.during is not None
    assert covered.during.attained.low <= covered.during.attained.value <= covered.during.attained.high


def test_a_region_is_survived_where_that_was_bought() -> None:
    assert checked(reserves(regions="one"), "region").check("region").verdict is LossVerdict.HOLDS
    bare = checked(reserves(regions="none"), "region").check("region")
    assert bare.verdict is LossVerdict.BREAKS
    assert not bare.is_covered


def test_losing_more_never_keeps_more() -> None:
    table = checked(starved(reserves(zones=3)), "peak_hour", "node", "zone")
    kept = [check.during.attained.value for check in table.checks if check.during is not None]
    assert kept == sorted(kept, reverse=True)


def test_recovery_is_at_once_where_nothing_is_hurt_and_late_where_much_is() -> None:
    assert checked(reserves(), "replica").check("replica").recover_s == 0.0
    lost = checked(reserves(), "zone", effort=replace(SHORT, after_s=900.0)).check("zone")
    assert lost.recover_s is None or lost.recover_s > 250.0


def test_cores_do_not_change_the_answer() -> None:
    pool = planned_pool()
    arguments = (pool.demand, pool.steady, reserves(), pool.ready)
    alone = loss_checks(*arguments, seed=3, effort=SHORT, names=("node", "slow_replica"))
    with thread_map(workers=2) as spread:
        assert loss_checks(*arguments, seed=3, effort=SHORT, names=("node", "slow_replica"), map=spread) == alone


def test_one_zone_lost_is_an_outage() -> None:
    check = checked(reserves(zones=1), "zone").check("zone")
    assert check.verdict is LossVerdict.OUTAGE
    assert check.recover_s is None


def test_figures_are_named_by_check_and_end_in_sources() -> None:
    table = checked(reserves(), "node", "zone")
    assert {"loss.node.attained_fraction", "loss.node.recover_s", "loss.zone.attained_fraction"} <= set(table.figures)
    for figure in table.figures.values():
        assert any(isinstance(each, Source) for _, each in walk(figure))


def test_a_service_that_is_seldom_asked_is_watched_for_longer() -> None:
    pool = planned_pool()
    seldom = replace(pool.demand, planning_rps=0.02)
    table = loss_checks(
        seldom, pool.steady, reserves(), pool.ready, seed=0, effort=SHORT, names=("peak_hour", "node", "region")
    )
    assert [str(check.verdict) for check in table.checks] == ["holds", "holds", "outage"]
    assert "240 min" in table.notes[0]


def test_effort_has_a_floor() -> None:
    with pytest.raises(InputError, match="effort"):
        LossEffort(replications=0)


def test_tallies_agree_with_the_simulators_own_count() -> None:
    """A class with one limit on TTFT: good requests, window by window, add up to the run's successes."""
    slo_class = class_with_slos("chat", ttft_p95=0.03)
    load = PoissonLoad(classes=(slo_class,))(rate_rps=40.0, span_s=120.0, seed=1)
    outcome = play(batching_replica().engine, Fleet(), load, seed=1, keep_requests=True)
    (tally,) = tallies(outcome, load, [slo_class], span_s=200.0).values()
    assert int(tally.good.sum()) == outcome.total.counts.success
    assert int(tally.sent.sum()) == outcome.total.counts.requests
    assert outcome.total.counts.late > 0


def _tally(shares: list[float], each: int = 1000) -> Mapping[str, SloTally]:
    return {
        "chat ttft_p95": SloTally(
            required_fraction=0.95,
            sent=np.full(len(shares), each),
            good=np.array([round(share * each) for share in shares]),
        )
    }


def test_parts_pool_their_windows() -> None:
    run = _tally([1.0] * 6 + [0.5] * 6)
    before = part([run], from_s=0.0, until_s=6 * WINDOW_S)
    during = part([run, run], from_s=6 * WINDOW_S, until_s=12 * WINDOW_S)
    assert before is not None
    assert during is not None
    assert (before.attained.value, before.holds) == (1.0, True)
    assert (during.attained.value, during.surely_breaks) == (0.5, True)
    mixed = part([run], from_s=0.0, until_s=12 * WINDOW_S)
    assert mixed is not None
    assert mixed.attained.value == pytest.approx(0.75)
    assert mixed.attained.low < 0.75 < mixed.attained.high


def test_a_window_is_hurt_by_the_loss_and_not_by_a_burst() -> None:
    calm = _tally([1.0, 1.0, 0.6, 1.0, 1.0, 1.0])
    lost = _tally([1.0, 1.0, 0.6, 0.7, 1.0, 1.0])
    assert last_hurt_s([lost], [calm], from_s=0.0, until_s=120.0) == 4 * WINDOW_S
    assert last_hurt_s([calm], [calm], from_s=0.0, until_s=120.0) is None
    assert last_hurt_s([calm], None, from_s=0.0, until_s=120.0) == 3 * WINDOW_S
    assert last_hurt_s([lost], [calm], from_s=4 * WINDOW_S, until_s=120.0) is None
    # A dip within the noise of twenty requests is nothing to recover from.
    assert last_hurt_s([_tally([1.0, 0.9, 1.0], each=20)], None, from_s=0.0, until_s=60.0) is None
