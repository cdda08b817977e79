"""The fleet's page shows the numbers of its values: bars add up, what binds stands first, every machine is a row."""

from __future__ import annotations

import datetime
import io
import re
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from support.pools import pool
from support.served_replicas import QUICK, class_with_slos
from ullage.evidence import Evidence
from ullage.facts.device import find_device
from ullage.fleet.packing import Lot, pack, shapes_of
from ullage.fleet.steady import SteadyFleet
from ullage.memory.sharding import Sharding
from ullage.report.plan.fleet import (
    binding_parts,
    headroom_parts,
    packing_parts,
    routing_parts,
    steady_parts,
    tool_parts,
)
from ullage.service.binding import binding_constraint
from ullage.service.curve.sizing import PoolSize, size_pool
from ullage.service.headroom import headroom
from ullage.workload.demand.routing import Routed, RoutedClass
from ullage.workload.demand.tools import ToolLoad, ToolLoads

AS_OF = datetime.date(2026, 11, 15)


def text_of(parts: list[RenderableType]) -> str:
    console = Console(width=160, file=io.StringIO(), record=True)
    for part in parts:
        console.print(part)
    return console.export_text()


@pytest.fixture(scope="module")
def fleet() -> SteadyFleet:
    given = pool(500, 50, class_with_slos("chat", ttft_p95=1.0), span_s=60.0)
    found = size_pool(given.bases(Evidence.ESTIMATED, seed=1), rate_rps=120.0, seed=1, effort=QUICK)
    assert isinstance(found, PoolSize)
    return SteadyFleet(
        size=found,
        replicas=found.conservative_replicas,
        nominal_replicas=found.replicas,
        devices=found.conservative_replicas,
        figures={},
    )


def test_bars_add_up_before_the_eye(fleet: SteadyFleet) -> None:
    shown = text_of(steady_parts(fleet)).splitlines()
    shown = [shown[0], *(line for line in shown[1:] if line.startswith(("nominal", "evidence", "total")))]
    lengths = [line.count("█") for line in shown[1:]]
    assert lengths[0] + lengths[1] == lengths[2]
    starts = [line.index("█") for line in shown[1:] if "█" in line]
    assert starts[0] == starts[-1]
    assert f"{fleet.devices} devices" in shown[-1]
    wide = replace(fleet, replicas=4000, nominal_replicas=3000)
    assert max(len(line.rstrip()) for line in text_of(steady_parts(wide)).splitlines()[:4]) <= 110


@pytest.mark.slow
def test_what_binds_stands_first_and_every_distance_is_shown(fleet: SteadyFleet) -> None:
    given = pool(500, 50, class_with_slos("chat", ttft_p95=1.0), span_s=60.0)
    room = headroom(fleet.trial, fleet.size.probe, rate_rps=fleet.size.rate_rps, seed=1)
    found = binding_constraint(fleet.size.bases, given.step, given.memory, room, seed=1)
    shown = text_of(binding_parts(found))
    names = re.findall(r"^(\w[\w ]*?)(?: \((?:binds|next)\))?  ", shown, flags=re.MULTILINE)
    assert [name for name in names if name in {line.name for line in found.lines}] == [
        line.name for line in found.lines
    ]
    assert f"{found.binding.name} (binds)" in shown
    assert all(f"{line.distance_fraction:.0%}" in shown for line in found.lines)
    # Where no SLO was violated in all that was tried, nothing binds.
    calm = replace(found, lines=tuple(replace(each, growth_fraction=None) for each in found.lines))
    assert not calm.is_met
    shown = text_of(binding_parts(calm))
    assert f"{found.binding.name} (nearest)" in shown
    assert "violated" not in shown.splitlines()[-1]
    lines = text_of(headroom_parts(room))
    assert all(f"{line.holds_fraction:.0%}" in lines for line in room.lines)


def test_every_machine_that_holds_a_replica_is_a_row_and_the_chosen_one_is_first() -> None:
    lots = [Lot(pool="chat", zone="a", replicas=5, sharding=Sharding(tp=3))]
    found = pack(lots, shapes_of(find_device("h100-sxm")))
    shown = text_of(packing_parts(found)).splitlines()
    assert found.chosen.shape.name in shown[2]
    holding = {row.shape.name for row in found.rows if row.shape.devices >= 3}
    assert {row.shape.name for row in found.rows if any(row.shape.name in line for line in shown)} == holding
    assert len(holding) < len(found.rows)
    assert "stranded in a" in "\n".join(shown)


def test_tools_and_routes() -> None:
    line = ToolLoad(
        name="search",
        tasks_per_s=8.0,
        tried_calls_per_s=8.0,
        capacity_tasks_per_s=5.0,
        limited_by="rate limit",
        waiting_requests=4.0,
        held_tokens=1000.0,
        recomputed_tokens_per_s=0.0,
    )
    open_line = replace(line, name="notes", capacity_tasks_per_s=float("inf"), limited_by="no stated limit")
    shown = text_of(tool_parts(ToolLoads(lines=(line, open_line), figures={}, notes=("It is too small.",))))
    assert "160%" in shown
    assert "no stated limit" in shown
    assert "It is too small." in shown
    routes = Routed(
        lines=(RoutedClass(request_class="chat", pool="large", part_fraction=0.25, planning_rps=2.0),),
        figures={},
        notes=(),
    )
    assert "0.25" in text_of(routing_parts(routes))
