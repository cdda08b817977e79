"""A portfolio as a page: does it fit, what is given up first, what stands where, and who moves from a lost region."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ullage.planning.portfolio.limits import SizeBasis
from ullage.planning.portfolio.portfolio import LostRegion, Portfolio
from ullage.report.quantity import counted, show, show_usd
from ullage.report.tables import plain_table

_MOST_ROWS = 24


def portfolio_page(found: Portfolio, *, evaluated: int) -> list[RenderableType]:
    parts: list[RenderableType] = [Text(_verdict(found), style="bold"), Text(_known(found, evaluated))]
    if found.given_up:
        parts += ["", _given_up(found)]
    parts += ["", _regions(found), "", _pools(found)]
    if found.losses:
        parts += ["", *(Text(_lost(each)) for each in found.losses), _moves(found)]
    return [*parts, *(Text(f"Note: {each}", style="dim") for each in found.notes)]


def _verdict(found: Portfolio) -> str:
    given_up = sum(each.given_up_replicas for each in found.pools)
    size = (
        f"{counted(found.replicas, 'replica')} on {counted(found.devices, 'device')}, {show_usd(found.usd)} USD a month"
    )
    if not given_up:
        return f"It fits: {counted(len(found.pools), 'pool')}, {size}."
    first = found.given_up[0]
    return (
        f"It does not fit: {counted(given_up, 'replica')} of {len(found.given_up)} pools are dropped, first of "
        f"{first.need.name}, which loses {show_usd(found.lost_usd)} USD a month of requests in total; {size} are "
        "placed."
    )


def _known(found: Portfolio, evaluated: int) -> str:
    looks = len(found.pools) - found.decided_pools
    said = f"{show(found.requests_per_day, '')} requests a day. {looks} sizes are estimates ({evaluated} evaluated)"
    said += f", {found.decided_pools} planned in full."
    if not found.undecided:
        return said if not looks else f"{said} No decision depends on an estimate."
    return f"{said} The result still depends on {len(found.undecided)} estimates, first {found.undecided[0]}: --decide."


def _given_up(found: Portfolio) -> Table:
    table = plain_table(
        "Dropped, lowest loss per device first", "pool", "replicas", "of", "USD lost a month", "per device"
    )
    for each in found.given_up[:_MOST_ROWS]:
        table.add_row(
            each.need.name, str(each.given_up_replicas), str(each.need.replicas), show_usd(each.lost_usd),
            show_usd(each.lost_usd_per_device),
        )  # fmt: skip
    _rest(table, len(found.given_up))
    return table


def _regions(found: Portfolio) -> Table:
    table = plain_table("Regions", "region", "device", "devices", "nodes", "of which idle", "quota", "committed")
    for each in found.regions:
        quota = "none stated" if each.quota_devices is None else str(each.quota_devices)
        table.add_row(
            each.region, each.device, str(each.devices), str(each.nodes), str(each.idle_devices), quota,
            str(each.committed_devices),
        )  # fmt: skip
    return table


def _pools(found: Portfolio) -> Table:
    table = plain_table("Pools", "pool", "model", "device", "replicas", "between", "where", "size is")
    rows = sorted(found.pools, key=lambda each: (-each.devices, each.need.name))
    for each in rows[:_MOST_ROWS]:
        need = each.need
        between = "" if need.basis is SizeBasis.DECIDED else f"{need.low_replicas} to {need.high_replicas}"
        where = ", ".join(f"{count} {region}" for region, count in each.regions.items())
        basis = f"{need.basis}{f', as {need.same_as}' if need.same_as else ''}"
        table.add_row(need.name, need.model, need.device, str(each.replicas), between, where, basis)
    _rest(table, len(rows))
    return table


def _lost(each: LostRegion) -> str:
    moved = sum(one.replicas for one in each.moves)
    said = f"Without {each.region}: {moved} of {counted(each.replicas, 'replica')} move elsewhere"
    if each.stopped:
        said += f", {sum(one.replicas for one in each.stopped)} there stop to make room"
    if each.given_up:
        said += f", {sum(each.given_up.values())} are lost at {show_usd(each.lost_usd_per_day)} USD a day"
    return f"{said}."


def _moves(found: Portfolio) -> Table:
    table = plain_table("Who moves when a region is lost", "region lost", "pool", "starts", "in", "")
    rows = list(_move_rows(found))
    for row in rows[:_MOST_ROWS]:
        table.add_row(*row)
    _rest(table, len(rows))
    return table


def _move_rows(found: Portfolio) -> Iterator[tuple[str, str, str, str, str]]:
    for each in found.losses:
        for one in each.moves:
            yield each.region, one.pool, str(one.replicas), one.to_region, ""
        for one in each.stopped:
            yield each.region, one.pool, str(-one.replicas), one.from_region, "stops to make room"
        for name, count in each.given_up.items():
            yield each.region, name, "0", "nowhere", f"{count} lost"


def _rest(table: Table, rows: int) -> None:
    if rows > _MOST_ROWS:
        table.add_row(f"and {rows - _MOST_ROWS} more, in --json")
