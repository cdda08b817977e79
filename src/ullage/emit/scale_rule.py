"""The values of an autoscaler, derived from the plan in one place: signals, targets, bounds, and how fast to move.

    in flight per replica   planning rate x (service time) / serving replicas + what waits: Little's law at the plan
    waiting per replica     where the plan has the gateway warn
    least                   steady replicas
    most                    steady replicas and reserves
    up                      all that is missing at once: a start takes longer than any period of the autoscaler
    down                    not before a replica that was let go could be back, one drain apart

The target is that of the serving fleet, not of the steady one: at the planned busiest hour the autoscaler then holds
the failure and warm reserve as well, as the plan has it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ullage.emit.engine_metrics import engine_metrics
from ullage.emit.request import EmitPool, up

# The longest window that the horizontal autoscaler takes.
_MOST_WINDOW_S = 3600
# The finest that Kubernetes counts in; a target of nothing would divide by it.
_LEAST_TARGET = 0.001


@dataclass(frozen=True, kw_only=True)
class ScaleSignal:
    """A sum over the pool, as PromQL, of which each replica is to have `target_requests`."""

    name: str
    query: str
    target_requests: float
    why: str


@dataclass(frozen=True, kw_only=True)
class ScaleRule:
    """One pool's autoscaling. Times are in seconds, and every value has its reason."""

    signals: tuple[ScaleSignal, ...]
    least: int
    least_why: str
    most: int
    most_why: str
    fallback_replicas: int
    fallback_why: str
    poll_s: int
    poll_why: str
    up_replicas: int
    up_period_s: int
    up_why: str
    down_replicas: int
    down_period_s: int
    down_window_s: int
    down_why: str


def scale_rule(pool: EmitPool) -> ScaleRule:
    """Until a plan carries values of its own for this, they follow from its operating point, limits and fleet."""
    least, most = pool.whole("fleet.replicas"), pool.whole("fleet.total_replicas")
    # The autoscaler looks twice within the delay that the plan allows it: once to see, once to act.
    poll_s = max(1, int(pool.real("admission.scale_delay") / 2))
    start = str(pool.number("warm.start").value)
    ready = pool.number(f"ready.{start}_p90_s")
    window_s = min(_MOST_WINDOW_S, up(pool.real(f"ready.{start}_p90_s")))
    return ScaleRule(
        signals=(_in_flight(pool), _waiting(pool)),
        least=least,
        least_why=pool.number("fleet.replicas").why,
        most=max(least, most),
        most_why=f"{pool.number('fleet.total_replicas').why}. At this size a rollout waits for devices",
        fallback_replicas=min(max(least, most), pool.running_replicas),
        fallback_why=f"blind, the fleet of the busiest hour is held: {pool.number('reserve.serving_replicas').why}",
        poll_s=poll_s,
        poll_why=f"half of {pool.number('admission.scale_delay').why}",
        up_replicas=max(1, most - least),
        up_period_s=poll_s,
        up_why=f"a start takes {ready.value} s at p90, so nothing is gained by asking for replicas one after the other",
        down_replicas=1,
        down_period_s=up(pool.real("rollout.drain")),
        down_window_s=window_s,
        down_why=f"no sooner than a replica let go could be back: {ready.why}",
    )


def _in_flight(pool: EmitPool) -> ScaleSignal:
    metrics = engine_metrics(pool)
    rate, service, queue = (
        pool.number(name) for name in ("demand.planning_rate", "score.service_time_s", "score.queue_requests")
    )
    steady, serving = pool.whole("fleet.replicas"), pool.running_replicas
    served_s = pool.real("score.service_time_s")
    target = (
        pool.real("limit.pool_rate_rps") * served_s / serving + pool.real("score.queue_requests") * steady / serving
    )
    # More than the engine runs at once would never be reached.
    target = max(_LEAST_TARGET, min(target, pool.real("limit.engine_running_requests")))
    return ScaleSignal(
        name="in-flight",
        query=f"sum({metrics.running}) + sum({metrics.waiting})",
        target_requests=target,
        why=f"requests in flight of each of {serving} serving replicas at the planned load: limit.pool_rate_rps x "
        f"score.service_time_s ({service.value} s) / serving + score.queue_requests ({queue.value}), at most what the "
        f"engine runs; {rate.evidence}",
    )


def _waiting(pool: EmitPool) -> ScaleSignal:
    return ScaleSignal(
        name="waiting",
        query=f"sum({engine_metrics(pool).waiting})",
        target_requests=pool.real("limit.backpressure_requests"),
        why=pool.number("limit.backpressure_requests").why,
    )
