"""Replicas become ready, drain and go."""

from __future__ import annotations

from ullage.simulate.kernel.codes import DRAINING, NEVER, OFF, READY
from ullage.simulate.kernel.compiling import compiled
from ullage.simulate.kernel.prefixes import empty_cache
from ullage.simulate.kernel.routing import list_ready, show_load
from ullage.simulate.kernel.state import ReplicaRow, World


@compiled
def change_state(w: World, replica: ReplicaRow, state: int) -> None:
    replica.state = state
    list_ready(w)
    show_load(w, replica)


@compiled
def become_ready(w: World, replica: ReplicaRow) -> None:
    replica.ready_ps = NEVER
    replica.seen_load = 0
    change_state(w, replica, READY)


@compiled
def switch_off(w: World, replica: ReplicaRow, now_ps: int) -> None:
    replica.ready_ps = NEVER
    replica.on_ps += now_ps - replica.on_since_ps
    if w.has_prefix == 1:
        empty_cache(w, replica)
    change_state(w, replica, OFF)


@compiled
def drain(w: World, replica: ReplicaRow, now_ps: int) -> None:
    if replica.outstanding == 0:
        switch_off(w, replica, now_ps)
    else:
        change_state(w, replica, DRAINING)
