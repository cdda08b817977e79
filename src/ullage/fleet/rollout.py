"""The rollout reserve: free devices and extra replicas for a change of version, and whether it can end at all.

A rolling update starts new replicas and retires old ones in turns. It may run `surge` replicas more than the fleet has,
and may be `unavailable` replicas short. Without free devices a surge never starts, and without a surge nothing may be
retired that the SLOs need: the update waits for devices that only its own end would free. `roll` follows the
controller of a Deployment turn by turn and says so.

    unavailable = 0 and no free devices     ->  deadlock
    surge of s, nothing unavailable         ->  ceil(replicas / s) turns of one start each

Versions change when traffic is low. Replicas that are idle in such hours may be unavailable, so that a rollout in the
quietest hours replaces replicas within the fleet, and devices are bought only where the idle ones do not suffice.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ullage.errors import InputError, InternalError, Rejection, Remedy, check_name
from ullage.evidence import Assumption, Figure, number
from ullage.fleet.choices import choice
from ullage.fleet.lines import ReserveLine

STRATEGIES = ("rolling", "canary", "blue-green")

STRATEGY = choice("rollout.strategy", "rolling", "", "the default of a Kubernetes Deployment")
WITHIN = choice("rollout.within", 3600.0, "s", "rollouts longer than an hour are rarely watched to the end")
CANARY_SHARE = choice("rollout.canary", 0.05, "fraction", "one request in twenty shows a bad version")
DRAIN = choice("rollout.drain", 120.0, "s", "longer than almost all answers take")


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """How versions change. Without `surge` and `unavailable` they are the least that ends `within` its time, of
    replicas that are idle meanwhile before any that have to be bought; where only one is stated, the other is 0 or
    follows from it.

    `demand` is what a rollout meets at most, as a share of the planning rate; without it, the week's quietest hours.
    `surge` and `unavailable` are replicas or, in the unit fraction, shares of the fleet, rounded as Kubernetes does: up
    and down. `spare` is the devices that are free beside the fleet; None says that the reserve will be bought.
    """

    strategy: Assumption = STRATEGY
    surge: Assumption | None = None
    unavailable: Assumption | None = None
    within: Assumption = WITHIN
    canary: Assumption = CANARY_SHARE
    drain: Assumption = DRAIN
    spare: Assumption | None = None
    demand: Assumption | None = None

    def __post_init__(self) -> None:
        check_name(str(self.strategy.value), STRATEGIES, field=self.strategy.name)
        none_missing = self.unavailable is not None and number(self.unavailable) == 0
        if self.surge is not None and number(self.surge) == 0 and none_missing:
            raise InputError(
                field=self.surge.name,
                value=0,
                problem="is 0 while max_unavailable is 0 too: no replica could ever be replaced",
                fix="Give a surge, or let some replicas be unavailable.",
            )

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        own: tuple[Assumption, ...] = (self.strategy, self.within, self.drain)
        own += tuple(each for each in (self.surge, self.unavailable, self.spare, self.demand) if each is not None)
        return (*own, self.canary) if self.strategy.value == "canary" else own


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One moment of a rollout: so many new replicas became ready, so many old ones were told to drain."""

    at_s: float
    ready_replicas: int
    retired_replicas: int


@dataclass(frozen=True, kw_only=True)
class Course:
    """A rollout to its end, or to where nothing moves any more."""

    turns: tuple[Turn, ...]
    left_replicas: int
    duration_s: float
    least_serving_replicas: int

    @property
    def is_deadlocked(self) -> bool:
        return self.left_replicas > 0


def roll(replicas: int, *, surge: int, unavailable: int, spare_replicas: int, start_s: float, drain_s: float) -> Course:
    """Follow a rolling update of `replicas`, where devices for `spare_replicas` are free beside them.

    >>> roll(4, surge=2, unavailable=0, spare_replicas=2, start_s=60.0, drain_s=0.0).duration_s
    120.0
    >>> roll(4, surge=1, unavailable=0, spare_replicas=0, start_s=60.0, drain_s=0.0).is_deadlocked
    True
    """
    old, ready, starting, draining = replicas, 0, 0, 0
    pending: list[tuple[float, bool]] = []  # when something ends, and whether it is a start
    turns: list[Turn] = []
    now_s, least = 0.0, replicas
    while True:
        came, retired = 0, 0
        while pending and pending[0][0] <= now_s:
            _, is_start = heapq.heappop(pending)
            came, starting, draining = came + is_start, starting - is_start, draining - (not is_start)
        ready += came
        retired = max(0, min(old, old + ready - (replicas - unavailable)))
        old, draining = old - retired, draining + retired
        for _ in range(retired):
            heapq.heappush(pending, (now_s + drain_s, False))
        if drain_s == 0.0:
            draining, pending = 0, [each for each in pending if each[1]]
            heapq.heapify(pending)
        if came or retired:
            turns.append(Turn(at_s=now_s, ready_replicas=came, retired_replicas=retired))
        allowed = replicas + surge - (old + ready + starting)
        room = replicas + spare_replicas - (old + ready + starting + draining)
        new = max(0, min(allowed, room, replicas - ready - starting))
        starting += new
        for _ in range(new):
            heapq.heappush(pending, (now_s + start_s, True))
        least = min(least, old + ready)
        if not pending or ready == replicas:
            left = replicas - ready
            return Course(turns=tuple(turns), left_replicas=left, duration_s=now_s, least_serving_replicas=least)
        now_s = pending[0][0]


@dataclass(frozen=True, kw_only=True)
class RolloutReserve:
    """The line, and the course of a rollout with it."""

    line: ReserveLine
    course: Course
    surge_replicas: int
    unavailable_replicas: int
    figures: Mapping[str, Figure]


def rollout_reserve(
    serving: Figure, given: Rollout, start: Figure, *, devices: int, quiet: Figure
) -> RolloutReserve | Rejection:
    """What a rollout of all `serving` replicas keeps free, or the deadlock that it would run into.

    `start` is how long a replica takes on devices that are held free, `quiet` the share of the planning rate that it
    meets: it leaves the rest of the fleet idle, of its reserves as much as of the others.
    """
    replicas, start_s, drain_s = int(serving.value), _seconds(start), number(given.drain)
    idle = replicas - math.ceil(replicas * number(quiet) - 1e-9)

    def course(surge: int, unavailable: int, spare: int) -> Course:
        return roll(
            replicas, surge=surge, unavailable=unavailable, spare_replicas=spare, start_s=start_s, drain_s=drain_s
        )

    unavailable = _unavailable(given, replicas, idle, course)
    surge = _surge(given, replicas, unavailable, course)
    found = course(surge, unavailable, surge)
    if given.spare is not None:
        found = course(surge, unavailable, int(number(given.spare)) // devices)
        if found.is_deadlocked:
            return deadlock(given.spare, devices, inputs=(serving, *given.inputs))
    if found.is_deadlocked:
        raise InternalError(law="a rollout with devices for its surge ends", left=surge, right=unavailable)
    missing = max(0, unavailable - idle)
    extra, rule = _extra(given, replicas, surge, unavailable, missing)
    rests: tuple[Figure | Assumption, ...] = (serving, start, quiet, *given.inputs)
    line = Figure(name="reserve.rollout_replicas", value=extra, unit="replicas", formula=rule, inputs=rests)
    duration = Figure(
        name="reserve.rollout_duration_s",
        value=found.duration_s,
        unit="s",
        formula=f"batches of {max(surge, unavailable, 1)} replicas, one start each, until all {replicas} are new",
        inputs=rests,
    )
    turns = {
        "surge": (surge, "extra replicas during a rollout"),
        "unavailable": (unavailable, "replicas that may be unavailable during a rollout"),
    }
    shown = [
        Figure(name=f"reserve.rollout_{name}_replicas", value=count, unit="replicas", formula=what, inputs=rests)
        for name, (count, what) in turns.items()
    ]
    return RolloutReserve(
        line=ReserveLine(
            name="rollout",
            replicas=extra,
            devices=extra * devices,
            serving_replicas=missing,
            rule=rule,
            protects="the SLO during a rollout, and that the rollout can finish",
            figure=line,
        ),
        course=found,
        surge_replicas=surge,
        unavailable_replicas=unavailable,
        figures={each.name: each for each in (line, duration, quiet, *shown)},
    )


def deadlock(room: Assumption | Figure, devices: int, *, inputs: tuple[Figure | Assumption, ...]) -> Rejection:
    """A surge that never starts: every free device is one that the update would have to free first."""
    assert not isinstance(room.value, str)
    missing = devices - int(room.value)
    return Rejection(
        stage="rollout",
        reason=(
            f"a rolling update deadlocks: a new replica needs {devices} free devices, the fleet leaves "
            f"{int(room.value)}, and no replica may be unavailable"
        ),
        figure=Figure(
            name="rollout.free_devices",
            value=int(room.value),
            unit="devices",
            formula="free devices outside the fleet during a rollout",
            inputs=(room, *inputs),
        ),
        remedies=(
            Remedy(
                change=f"{missing} more free device{'' if missing == 1 else 's'}",
                effect="one replica at a time is replaced",
            ),
            Remedy(
                change="rollout.max_unavailable: 1",
                effect="a replica is stopped before its successor starts; the reserve then holds one serving replica",
            ),
        ),
    )


Courses = Callable[[int, int, int], Course]


def _unavailable(given: Rollout, replicas: int, idle: int, course: Courses) -> int:
    """What is stated, or the least of those that are idle meanwhile that ends in time; all of them where none does."""
    if given.unavailable is not None:
        return min(replicas, _count(given.unavailable, replicas, math.floor))
    if given.strategy.value == "blue-green" or (given.surge is not None and number(given.surge) > 0):
        return 0
    most = min(idle, replicas)
    if given.surge is not None:
        most = max(most, 1)
    return _least(1, most, lambda count: course(0, count, 0).duration_s <= number(given.within)) if most else 0


def _surge(given: Rollout, replicas: int, unavailable: int, course: Courses) -> int:
    """What is stated, or the least surge that ends in time; in one turn where no surge does."""
    if given.surge is not None:
        return min(replicas, _count(given.surge, replicas, math.ceil))
    return _least(
        0 if unavailable else 1,
        replicas,
        lambda count: course(count, unavailable, count).duration_s <= number(given.within),
    )


def _least(low: int, high: int, is_enough: Callable[[int], bool]) -> int:
    """The least number that is enough, between these two; the higher where none is."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle + 1, high)
    return low


def _extra(given: Rollout, replicas: int, surge: int, unavailable: int, missing: int) -> tuple[int, str]:
    idle = f", {unavailable - missing} of them idle in its hours" if unavailable > missing else ""
    short = f"{unavailable} that may be unavailable{idle}"
    turn = f"surge of {surge}" + (f" and {short}" if unavailable else "") if surge or not unavailable else short
    if given.strategy.value == "blue-green":
        return replicas, "a second fleet until traffic has moved"
    if given.strategy.value == "canary":
        canary = math.ceil(number(given.canary) * replicas)
        return max(canary, surge + missing), f"the larger of {canary} canaries and a {turn}"
    return surge + missing, turn


def _count(given: Assumption, replicas: int, rounded: Callable[[float], int]) -> int:
    return rounded(number(given) * replicas) if given.unit == "fraction" else int(number(given))


def _seconds(figure: Figure) -> float:
    assert not isinstance(figure.value, str)
    return float(figure.value)
