"""The plan's own scaling rule, with the reasons that its files give: what was tried is what is written.

The rule is built by the function that the plan tried it with (scaling/published_rules.py), from the plan's figures, so
that a ScaledObject of it, read back and played, does what the plan says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby, pairwise

from ullage.emit.engine_metrics import engine_metrics
from ullage.emit.request import EmitPool, up
from ullage.errors import InputError
from ullage.scaling.hpa import ScalingBehavior
from ullage.scaling.keda import KedaFallback, KedaSpec
from ullage.scaling.published_rules import read_schedule, tracking_rule

# The finest that Kubernetes counts in, and the longest window that its autoscaler takes.
_LEAST_TARGET, _MOST_WINDOW_S = 0.001, 3600
_WEEK_HOURS = 168


@dataclass(frozen=True, kw_only=True)
class ScaleSignal:
    """A sum over the pool, as PromQL, of which each replica is to have `target_requests`; `series` is one of it.

    `target_milli` is that target in thousandths as KEDA cuts it for its horizontal autoscaler.
    """

    name: str
    series: str
    query: str
    target_requests: float
    target_milli: int
    why: str


@dataclass(frozen=True, kw_only=True)
class ScheduledHours:
    """Replicas from one hour of the week until another, on each of some days; Sunday is cron's day 0.

    `until_hour_index` is that of the same day, or of `until_day_index` where the hours cross midnight.
    """

    days: tuple[int, ...]
    from_hour_index: int
    until_day_index: int | None
    until_hour_index: int
    replicas: int

    @property
    def cron(self) -> tuple[str, str]:
        """When it begins and ends."""
        days = ",".join(str(each) for each in self.days)
        return (
            f"0 {self.from_hour_index} * * {days}",
            f"0 {self.until_hour_index} * * {days if self.until_day_index is None else self.until_day_index}",
        )


@dataclass(frozen=True, kw_only=True)
class ScaleRule:
    """One pool's autoscaling, and the reason of every value."""

    signal: ScaleSignal
    least: int
    least_why: str
    most: int
    most_why: str
    fallback: KedaFallback
    fallback_why: str
    poll_s: int
    behavior: ScalingBehavior
    down_why: str
    schedule: tuple[ScheduledHours, ...]
    schedule_why: str
    warnings: tuple[str, ...]

    @property
    def lost(self) -> tuple[str, ...]:
        """What a target without a clock does not say of the rule, and what to know before it is applied."""
        if not self.schedule:
            return self.warnings
        return (
            *self.warnings,
            "The plan's rule has a schedule by hour of week as a floor, which this kind has no place for: target keda.",
        )


def scale_rule(pool: EmitPool) -> ScaleRule:
    """The rule of the plan's row on scaling."""
    least, most, down = (
        pool.number(f"scaling.{name}") for name in ("least_replicas", "most_replicas", "down_window_s")
    )
    _check_rule(pool)
    rule = tracking_rule(
        "ullage",
        pool.real("scaling.threshold_requests"),
        least=pool.whole("scaling.least_replicas"),
        most=pool.whole("scaling.most_replicas"),
        up_s=0.0,
        down_s=pool.real("scaling.down_window_s"),
        window_s=pool.real("scaling.window_s"),
        schedule=_schedule(pool),
        fallback_replicas=pool.whole("fleet.replicas"),
    )
    spec = rule.spec
    assert isinstance(spec, KedaSpec)
    assert spec.behavior is not None
    assert spec.fallback is not None
    return ScaleRule(
        signal=_in_flight(pool, spec, rule.queries["in-flight"].window_s),
        least=spec.least_replicas,
        least_why=least.why,
        most=spec.most_replicas,
        most_why=most.why,
        fallback=spec.fallback,
        fallback_why=f"blind, the steady fleet is held: {pool.number('fleet.replicas').why}",
        poll_s=up(spec.polling_s),
        behavior=spec.behavior,
        down_why=down.why,
        schedule=scheduled_hours(_schedule(pool)),
        schedule_why=pool.number("scaling.floor_fraction").why,
        warnings=(*_missed(pool, most.value), *_unstarted_reserve(pool)),
    )


def _unstarted_reserve(pool: EmitPool) -> tuple[str, ...]:
    """A rule follows load, and a reserve is for losses: whoever applies it has to know what then stands idle."""
    steady, most = pool.whole("fleet.replicas"), pool.whole("scaling.most_replicas")
    if most <= steady or pool.whole("scaling.least_replicas") >= most:
        return ()
    ready_min = pool.real("ready.cold_p90_s") / 60.0
    said = (
        f"Of at most {most} replicas {most - steady} are reserve for losses, and the rule starts none before load asks "
        f"for it: a lost node or zone is missing until new replicas are ready, {ready_min:.0f} min at p90. To keep the "
        f"reserve running, state scaling.least: {most}."
    )
    return (said,)


def _missed(pool: EmitPool, most: object) -> tuple[str, ...]:
    """A rule that violated an SLO when it was played is written as the plan has it, and says so."""
    fixed = pool.find("scaling.fixed_attained_fraction")
    if fixed is None:
        return ()
    attained = float(pool.number("scaling.attained_fraction").value)
    said = (
        f"This rule of {pool.pool} violated an SLO on the day that the plan tried it on: {100 * attained:.1f} % met "
        f"it, {100 * float(fixed.value):.1f} % with a fixed fleet of {most}. Search for another with ullage scale, or "
        "set the minimum to the maximum."
    )
    return (said,)


def _schedule(pool: EmitPool) -> tuple[int, ...]:
    """Replicas by hour of week, as the plan played them."""
    said = pool.number("scaling.schedule")
    try:
        found = read_schedule(str(said.value))
    except ValueError:
        found = (0,)
    most = pool.whole("scaling.most_replicas")
    if len(found) not in (0, _WEEK_HOURS) or not all(1 <= each <= most for each in found):
        raise InputError(
            field="plan: scaling.schedule", value=said.value, problem="is not a weekly schedule", fix="Plan again."
        )
    return found


def scheduled_hours(schedule: tuple[int, ...]) -> tuple[ScheduledHours, ...]:
    """Runs of equal hours above one replica, those of one shape on several days together.

    >>> [each.cron for each in scheduled_hours(((1,) * 8 + (4,) * 10 + (1,) * 6) * 2 + (1,) * 119 + (3,))]
    [('0 8 * * 1,2', '0 18 * * 1,2'), ('0 23 * * 0', '0 0 * * 1')]
    """
    within: dict[tuple[int, int, int], list[int]] = {}
    across: list[ScheduledHours] = []
    hour = 0
    for replicas, equal in groupby(schedule):
        first, hour = hour, hour + len(list(equal))
        # A run of the whole week has no hour at which it ends: two halves have.
        cuts = (first, hour) if hour - first < _WEEK_HOURS else (first, first + _WEEK_HOURS // 2, hour)
        for begin, end in pairwise(cuts) if replicas > 1 else ():
            if begin // 24 == end // 24:
                within.setdefault((begin % 24, end % 24, replicas), []).append(_cron_day(begin))
            else:
                across.append(
                    ScheduledHours(
                        days=(_cron_day(begin),),
                        from_hour_index=begin % 24,
                        until_day_index=_cron_day(end),
                        until_hour_index=end % 24,
                        replicas=replicas,
                    )
                )
    same = [
        ScheduledHours(
            days=tuple(days), from_hour_index=begin, until_day_index=None, until_hour_index=end, replicas=replicas
        )
        for (begin, end, replicas), days in within.items()
    ]
    return (*same, *across)


def _cron_day(hour: int) -> int:
    """Of an hour that counts from Monday; cron counts from Sunday."""
    return (hour // 24 + 1) % 7


def _check_rule(pool: EmitPool) -> None:
    """Figures of a stored plan that no plan has: they would make a file that a cluster refuses, or one that harms."""
    least = pool.whole("scaling.least_replicas")
    for name, low, high in (
        ("scaling.threshold_requests", _LEAST_TARGET, math.inf),
        ("scaling.least_replicas", 1, math.inf),
        ("scaling.most_replicas", least, math.inf),
        ("scaling.down_window_s", 0, _MOST_WINDOW_S),
        ("scaling.window_s", 1, _MOST_WINDOW_S),
    ):
        value = pool.real(name)
        if not low <= value <= high:
            bounds = f"below {low:g}" if value < low else f"above {high:g}"
            raise InputError(
                field=f"plan: {name}", value=value, problem=f"is {bounds}, which no plan says", fix="Plan again."
            )


def _in_flight(pool: EmitPool, spec: KedaSpec, window_s: float) -> ScaleSignal:
    metrics = engine_metrics(pool)
    parts = (f"sum(avg_over_time({each}[{window_s:.0f}s]))" for each in (metrics.running, metrics.waiting))
    return ScaleSignal(
        name="in-flight",
        series=metrics.running,
        query=" + ".join(parts),
        target_requests=spec.triggers[0].threshold_value,
        target_milli=spec.hpa.metrics[0].target_value,
        why=pool.number("scaling.threshold_requests").why,
    )
