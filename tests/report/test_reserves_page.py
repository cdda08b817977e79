"""Reserves and loss checks on the page: every line, both sums, every check, and why one does not hold."""

from __future__ import annotations

import functools
import io

from rich.console import Console, RenderableType

from support.fleets import planned_pool
from ullage.fleet.losses import TITLES, LossEffort, LossTable, loss_checks
from ullage.fleet.reserves import Reserves, named_reserves
from ullage.fleet.sites import equal_zones
from ullage.report.plan.reserves import loss_parts, reserve_parts


@functools.cache
def reserves() -> Reserves:
    pool = planned_pool()
    found = named_reserves(pool.steady, pool.ready, pool.demand, sites=equal_zones(2), seed=0)
    assert isinstance(found, Reserves)
    return found


@functools.cache
def losses() -> LossTable:
    pool = planned_pool()
    return loss_checks(
        pool.demand,
        pool.steady,
        reserves(),
        pool.ready,
        seed=0,
        effort=LossEffort(replications=1, before_s=120.0, after_s=180.0, longest_loss_s=300.0),
    )


def printed(parts: list[RenderableType]) -> str:
    page = io.StringIO()
    console = Console(width=200, file=page, color_system=None)
    for each in parts:
        console.print(each)
    return page.getvalue()


def test_every_reserve_and_both_sums_are_printed() -> None:
    text = printed(reserve_parts(reserves()))
    table = text.split("Placement")[0]
    rows = {line.split()[0]: line.split() for line in table.splitlines() if line.strip()}
    for line in reserves().lines:
        assert rows[line.name][1:3] == [str(line.replicas), str(line.devices)]
    assert rows["sum"][1] == str(reserves().sum_replicas)
    assert rows["overlap"][1] == str(reserves().overlap_replicas)
    assert rows["bought"][1] == str(reserves().replicas)
    for row in reserves().placement.rows:
        assert row.zone in text
    assert "Batch work may fill the reserve" in text


def test_every_check_and_every_reason_is_printed() -> None:
    text = printed(loss_parts(losses()))
    for check in losses().checks:
        row = next(line for line in text.splitlines() if line.startswith(TITLES[check.name]))
        assert str(check.verdict) in row
        assert check.covered_by in row
        if check.reason:
            assert f"{check.title}: {check.reason}." in text
    assert "outage" in text
