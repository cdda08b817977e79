"""A replica's boundary as a whole, and when its next one is."""

from __future__ import annotations

from ullage.simulate.kernel.books import settle_all
from ullage.simulate.kernel.codes import DRAINING, SETTLE_STEPS
from ullage.simulate.kernel.compiling import inline
from ullage.simulate.kernel.completion import book_decode_steps, complete_finished, complete_mixed, drop_given_up
from ullage.simulate.kernel.prefixes import make_room_for_plan
from ullage.simulate.kernel.replicas import switch_off
from ullage.simulate.kernel.routing import show_load
from ullage.simulate.kernel.scheduling import start_step
from ullage.simulate.kernel.state import ReplicaRow, World
from ullage.simulate.kernel.steps import plan_end, steps_until
from ullage.simulate.kernel.trees import replay


@inline
def boundary(w: World, replica: ReplicaRow, now_ps: int) -> None:
    """A replica's step or plan ends: complete it, drop what was given up, start the next."""
    outstanding = replica.outstanding
    if replica.planned > 0:
        if w.has_prefix == 1:
            make_room_for_plan(w, replica, replica.planned)
        book_decode_steps(w, replica, replica.planned, now_ps)
    elif replica.mixed == 1:
        complete_mixed(w, replica, now_ps)
    complete_finished(w, replica, now_ps)
    if replica.marked >= 0:
        drop_given_up(w, replica, now_ps)
    if w.attribute == 1 and replica.step - replica.base_step > SETTLE_STEPS:
        settle_all(w, replica)
    due_ps = start_step(w, replica, now_ps)
    if outstanding != replica.outstanding:
        if replica.outstanding == 0 and replica.state == DRAINING:
            switch_off(w, replica, now_ps)
        show_load(w, replica)
    set_due(w, replica, due_ps)


@inline
def set_due(w: World, replica: ReplicaRow, when_ps: int) -> None:
    w.due_ps[replica.index] = when_ps
    if w.replica_count > 1:
        replay(w.due_tree, w.due_ps, replica.index, w.leaves)


@inline
def cut_plan(w: World, replica: ReplicaRow, now_ps: int) -> None:
    """An outside event concerns the replica: the plan ends at the first boundary that is not before now."""
    if replica.planned > 1:
        steps = steps_until(w, replica, now_ps)
        if steps < replica.planned:
            replica.planned = steps
            set_due(w, replica, plan_end(w, replica, steps))
