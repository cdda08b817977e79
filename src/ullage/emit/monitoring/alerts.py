"""Alerts on one pool: one for each way to fail that drills play, and for the SLOs, with thresholds of the plan."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from ullage.emit.engine_metrics import EngineMetrics, engine_metrics
from ullage.emit.monitoring.rule import AlertRule, LeftOut, RecordingRule, literal, text
from ullage.emit.quantities import seconds
from ullage.emit.request import EmitPool
from ullage.emit.room import rooms
from ullage.planning.drills.money import MOST_IDLE_FRACTION

Made = AlertRule | LeftOut

# One request in a hundred taken down and started anew is what a p99 sees.
_PREEMPTED_SHARE = 0.01
# Where quotas are asked for again: providers take weeks to raise them.
_QUOTA_SHARE = 0.8
# What engines will count as hits: of what prompts share, only that which a cache of this size still holds.
PLANNED_HITS = "score.cached_fraction"
# Site Reliability Workbook, alerting on SLOs: 2 % of a month's budget in an hour, 5 % in six.
_BURNS = ((14.4, "1h", "5m", "page"), (6.0, "6h", "30m", "ticket"))


def pool_labels(pool: EmitPool) -> str:
    """The matcher of the series that are recorded for this pool."""
    return f"{{service={json.dumps(text(pool.plan.service))}, pool={json.dumps(pool.pool)}}}"


def recorded(pool: EmitPool) -> Iterator[RecordingRule]:
    """What is observed of a pool, and the plan's line beside it."""
    metrics = engine_metrics(pool)
    observed = {
        "ullage_in_flight_requests": (f"sum({metrics.running}) + sum({metrics.waiting})", "running and waiting"),
        "ullage_waiting_requests": (f"sum({metrics.waiting})", "waiting in the engines"),
        "ullage_ready_replicas": (f"count({metrics.running})", "engines that report"),
        "ullage_completed_rps": (f"sum(rate({metrics.succeeded}[5m]))", "requests that ended well"),
        "ullage_kv_use_fraction": (f"avg({metrics.kv_use})", "of the KV cache, over the replicas"),
    }
    for name, (expr, why) in observed.items():
        yield RecordingRule(record=name, expr=expr, why=why)
    planned = {
        "ullage_planned_rate_rps": "limit.pool_rate_rps",
        "ullage_planned_replicas": "reserve.serving_replicas",
        "ullage_planned_steady_replicas": "fleet.replicas",
        "ullage_planned_waiting_requests": "limit.backpressure_requests",
    }
    for name, figure in planned.items():
        yield RecordingRule(record=name, expr=f"vector({literal(pool.real(figure))})", why=pool.number(figure).why)


def pool_alerts(pool: EmitPool) -> Iterator[Made]:
    metrics = engine_metrics(pool)
    yield _memory(pool, metrics)
    yield _queue(pool, metrics)
    yield _idle(pool)
    yield _warm_up(pool)
    yield _cache(pool, metrics)
    yield _quota(pool)
    yield from _slo_burn(pool, metrics)
    yield _shortfall(pool, metrics)


def _memory(pool: EmitPool, metrics: EngineMetrics) -> Made:
    approved = 1.0 - pool.real("memory.headroom_bytes") / pool.real("memory.kv_cache_bytes")
    # Few approved requests fill less than the planned load does, which must not page.
    share = min(0.99, max(0.01, approved, pool.real("score.kv_peak_fraction")))
    full = f"max(avg_over_time({metrics.kv_use}[10m])) > {literal(share)}"
    taken = (
        f" or sum(rate({metrics.preempted}[10m])) / sum(rate({metrics.succeeded}[10m])) > {literal(_PREEMPTED_SHARE)}"
        if metrics.preempted
        else ""
    )
    return AlertRule(
        alert="UllageMemoryPressure",
        mode="memory",
        expr=full + taken,
        lasts="5m",
        severity="page",
        summary=f"{pool.name}: the KV cache holds more than the approved or planned load, or requests are preempted",
        action="Lower max sequences or the longest context, or add replicas; then plan again with the engine's log.",
        why=f"the larger of 1 - memory.headroom_bytes / memory.kv_cache_bytes = {approved:.4g}, what is approved, and "
        f"{pool.number('score.kv_peak_fraction').why}",
    )


def _queue(pool: EmitPool, metrics: EngineMetrics) -> Made:
    """The queue's bound is never exceeded where engine or gateway refuse beyond it: what it must not reach is less."""
    told = pool.number("limit.backpressure_requests")
    return AlertRule(
        alert="UllageQueueCollapse",
        mode="queue-collapse",
        expr=f"sum({metrics.waiting}) / count({metrics.running}) >= {literal(pool.real(told.name))}",
        lasts=seconds(max(60.0, pool.real("limit.retry_after_s"))),
        severity="page",
        summary=f"{pool.name}: the queue is full: clients must slow down, and the next requests are refused",
        action="Shed at the gateway in the plan's order, and check that the retry budget is enforced.",
        why=f"for a minute at least, and as long as a full queue takes to drain (limit.retry_after_s): {told.why}",
    )


def _idle(pool: EmitPool) -> Made:
    mine, each_rps = pool_labels(pool), _replica_rps(pool)
    share = MOST_IDLE_FRACTION * pool.real("utilisation.mean_fraction")
    used = f"avg_over_time(ullage_completed_rps{mine}[1d])"
    held = f"(avg_over_time(ullage_ready_replicas{mine}[1d]) * {literal(each_rps)})"
    return AlertRule(
        alert="UllageIdleFleet",
        mode="idle-fleet",
        expr=f"{used} / {held} < {literal(share)}",
        lasts="1h",
        severity="ticket",
        summary=f"{pool.name}: the fleet does less than half of the planned work",
        action="Plan again with the traffic of this week; let the fleet follow demand, or release devices.",
        why=f"half of {pool.number('utilisation.mean_fraction').why}; a replica carries limit.pool_rate_rps / "
        "fleet.replicas",
    )


def starting_s(pool: EmitPool) -> str:
    """PromQL of how long the slowest replica has been starting: from its pod's creation until it is ready."""
    pods = f"namespace={json.dumps(pool.need('namespace'))}, pod=~{json.dumps(re.escape(pool.name) + '-.+')}"
    ready = f'kube_pod_status_ready{{{pods}, condition="true"}} == 1'
    ended = f'kube_pod_status_phase{{{pods}, phase=~"Failed|Succeeded"}} == 1'
    return (
        f"max((time() - kube_pod_created{{{pods}}}) unless on (namespace, pod) ({ready}) "
        f"unless on (namespace, pod) ({ended}))"
    )


def _warm_up(pool: EmitPool) -> Made:
    return AlertRule(
        alert="UllageWarmUpOverrun",
        mode="warm-up",
        expr=f"{starting_s(pool)} > {literal(pool.real('ready.cold_p99_s'))}",
        lasts="1m",
        severity="page",
        summary=f"{pool.name}: a replica has been starting for longer than 99 of 100 cold starts take",
        action="Check its phase: node, image, weights, compile. The burst budget relies on the planned start-up time.",
        why=pool.number("ready.cold_p99_s").why,
    )


def _cache(pool: EmitPool, metrics: EngineMetrics) -> Made:
    planned = pool.real(PLANNED_HITS)
    if planned <= 0.0:
        return LeftOut(alert="UllageCacheHitsFell", reason="the plan assumes no cached prompt tokens")
    least = planned * (1.0 - pool.real("headroom.cache_fraction"))
    return AlertRule(
        alert="UllageCacheHitsFell",
        mode="cache-miss",
        expr=f"sum(rate({metrics.hits}[30m])) / sum(rate({metrics.lookups}[30m])) < {literal(least)}",
        lasts="30m",
        severity="ticket",
        summary=f"{pool.name}: the prefix cache hit rate is below the plan's",
        action="Check routing (does a session return to its replica?) and prompts; then drill cache-miss.",
        why=f"{pool.number(PLANNED_HITS).why}; less {pool.number('headroom.cache_fraction').why}",
    )


def _quota(pool: EmitPool) -> Made:
    resource = str(pool.need("device_resource"))
    device = re.escape(str(pool.number("pool.device").value))
    # A plan file may call a device by the beginning of its name.
    mine = re.compile(rf"(.+\.)?sites\..+\.{device}[^.]*\.quota")
    quotas = [each for each in pool.plan.numbers.values() if mine.fullmatch(each.name)]
    # A region's quota holds for its zones together; without one the zones' add up.
    regions = [each for each in quotas if each.name.count(".") - each.name.startswith(f"{pool.pool}.") == 3]
    used = f"sum(kube_pod_container_resource_requests{{resource={json.dumps(re.sub(r'[^a-zA-Z0-9]', '_', resource))}}})"
    if quotas:
        devices = sum(float(each.value) for each in regions or quotas)
        expr = f"{used} / {literal(devices)} > {literal(_QUOTA_SHARE)}"
        why = f"of {devices:g} devices in total: " + ", ".join(each.why for each in regions or quotas)
    else:
        asked = f"namespace={json.dumps(pool.need('namespace'))}, resource={json.dumps(f'requests.{resource}')}"
        planned = sum(each.devices for each in rooms(pool.plan.numbers))
        expr = (
            f'max(kube_resourcequota{{{asked}, type="used"}} / ignoring (type) '
            f'(kube_resourcequota{{{asked}, type="hard"}} != {literal(planned)})) '
            f"> {literal(_QUOTA_SHARE)}"
        )
        why = (
            "the plan states no quota of the provider (sites.regions.quotas): the namespace's ResourceQuota is used, "
            f"unless it is that of target resource-quota, {planned:g} devices, which a rollout of the plan uses whole"
        )
    return AlertRule(
        alert="UllageQuotaNearlyUsed",
        mode="quota",
        expr=expr,
        lasts="15m",
        severity="ticket",
        summary=f"{pool.name}: more than 80 % of the quota for its devices is in use",
        action="Request more now: the plan's lead time applies. Reserves beyond the quota cannot start.",
        why=why,
    )


def _slo_burn(pool: EmitPool, metrics: EngineMetrics) -> Iterator[Made]:
    """A burn of each metric's error budget. Engines do not tell classes apart, so that the loosest limit counts."""
    for metric, (limit_s, percent) in sorted(loosest_limits(pool).items()):
        histogram = metrics.latencies.get(metric)
        bound_s = None if histogram is None else histogram.bound_s(limit_s)
        if histogram is None or bound_s is None:
            reason = (
                f"{pool.choice.engine} has no histogram of {metric}"
                if histogram is None
                else "its histogram ends earlier"
            )
            yield LeftOut(alert=f"UllageSloBurn for {metric} of {limit_s:g} s", reason=reason)
            continue
        budget = 1.0 - percent / 100.0
        several = " (the loosest of its classes, which engines do not separate)" if len(pool.classes) > 1 else ""
        for factor, long, short, severity in _BURNS:
            # A loose percentile has no budget that burns so fast: then it is half of the requests that should be good.
            burnt = min(factor * budget, (1.0 + budget) / 2.0)
            speed = f"{burnt / budget:.3g}"
            slow = [_slow(metrics, metric, bound_s, window) for window in (long, short)]
            yield AlertRule(
                alert="UllageSloBurn",
                mode="slo-burn",
                expr=" and ".join(f"{each} > {literal(burnt)}" for each in slow),
                lasts="1m",
                severity=severity,
                summary=f"{pool.name}: {metric} p{percent:g} of {limit_s:g} s burns its error budget {speed} "
                "times too fast",
                action="Compare load with the plan (shortfall), lengths with its classes, and steps with its "
                "calibration.",
                why=f"{metric} p{percent:g} of {limit_s:g} s{several}, counted from {bound_s:g} s, the engine's next "
                f"bucket: {speed} x {budget:.3g} over {long} and {short}",
                labels={"slo": f"{metric}_p{percent:g}", "window": long},
            )


def loosest_limits(pool: EmitPool) -> dict[str, tuple[float, float]]:
    """By metric the longest limit and the lowest percentile of the pool's classes: whoever violates it, violates."""
    limits: dict[str, tuple[float, float]] = {}
    for each in pool.classes:
        for name, limit_s in each.slos.items():
            metric, _, percentile = name.partition("_p")
            was = limits.get(metric, (0.0, 100.0))
            limits[metric] = (max(was[0], limit_s), min(was[1], float(percentile)))
    return limits


def _slow(metrics: EngineMetrics, metric: str, bound_s: float, window: str) -> str:
    quick, all_of = metrics.bucket(metric, bound_s), metrics.count(metric)
    return f"(1 - sum(rate({quick}[{window}])) / sum(rate({all_of}[{window}])))"


def _shortfall(pool: EmitPool, metrics: EngineMetrics) -> Made:
    each_rps = _replica_rps(pool)
    arrives = f"(sum(rate({metrics.succeeded}[5m])) + clamp_min(sum(deriv({metrics.waiting}[5m])), 0))"
    return AlertRule(
        alert="UllageShortfall",
        mode="shortfall",
        expr=f"{arrives} > count({metrics.running}) * {literal(each_rps)}",
        lasts="5m",
        severity="page",
        summary=f"{pool.name}: more load arrives than the running replicas carry within their SLOs",
        action="Scale out to the planned fleet; beyond it shed in the plan's order, and plan again with today's "
        "traffic.",
        why=f"limit.pool_rate_rps / fleet.replicas a replica: {pool.number('limit.pool_rate_rps').why}",
    )


def _replica_rps(pool: EmitPool) -> float:
    return pool.real("limit.pool_rate_rps") / pool.whole("fleet.replicas")
