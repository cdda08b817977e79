"""Alerts on a service as a whole: what a success costs, whether the plan was looked at again, what it rests on."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator

from ullage.emit.monitoring.alerts import Made, pool_labels
from ullage.emit.monitoring.rule import AlertRule, LeftOut, RecordingRule, literal, text
from ullage.emit.request import EmitPlan, EmitPool
from ullage.planning.drills.money import MOST_RISE_FRACTION

MADE, EXPIRES = "ullage_plan_made_timestamp_seconds", "ullage_assumption_expires_timestamp_seconds"
RECONCILED = "ullage_reconciled_timestamp_seconds"
"""What a run of reconcile leaves behind, where one is scraped; the day of the plan counts until then."""


def service_recorded(plan: EmitPlan) -> Iterator[RecordingRule]:
    """The dates of the plan as series, so that alerts can count from them."""
    made = _midnight(plan.plan.as_of)
    yield RecordingRule(record=MADE, expr=f"vector({made})", why=f"the plan was made on {plan.plan.as_of}")
    if plan.plan.expiries:
        first = plan.plan.expiries[0]
        yield RecordingRule(
            record=EXPIRES,
            expr=f"vector({_midnight(first.last_day + datetime.timedelta(days=1))})",
            why=f"{first.assumption} is valid until {first.last_day}; the first of {len(plan.plan.expiries)} to end",
            labels={"assumption": first.assumption},
        )


def service_alerts(plan: EmitPlan) -> Iterator[Made]:
    yield _cost(plan)
    yield _overdue(plan)
    yield _expired(plan)


def _mine(plan: EmitPlan) -> str:
    return f"service={json.dumps(text(plan.plan.service))}"


def _cost(plan: EmitPlan) -> Made:
    pools = plan.pools
    first = pools[0]
    if first.find("bill.per_success_usd") is None or any(each.find("answer.devices_usd") is None for each in pools):
        return LeftOut(alert="UllageCostPerSuccessDrift", reason="the plan has no bill for its devices")
    devices_usd = sum(each.real("answer.devices_usd") for each in pools)
    planned_usd = first.real("bill.per_success_usd") * devices_usd / first.real("bill.total_usd")
    spent = " + ".join(
        f"sum(avg_over_time(ullage_ready_replicas{pool_labels(each)}[1d])) * {literal(_hour_usd(each))}"
        for each in pools
    )
    done = " + ".join(f"sum(avg_over_time(ullage_completed_rps{pool_labels(each)}[1d]))" for each in pools)
    return AlertRule(
        alert="UllageCostPerSuccessDrift",
        mode="unit-economics",
        expr=f"({spent}) / (({done}) * 3600) > {literal(planned_usd * (1.0 + MOST_RISE_FRACTION))}",
        lasts="1h",
        severity="ticket",
        summary="devices cost a quarter more per finished request than the plan says",
        action="Quote the cost with its volume; reconcile the bill, and plan again with this month's traffic.",
        why=f"a quarter above the devices' part of {first.number('bill.per_success_usd').why}. Requests that ended "
        "count "
        "here whether they met their SLOs or not, so the true cost is higher",
    )


def _hour_usd(pool: EmitPool) -> float:
    """What a replica costs an hour, reserves and stranded devices included."""
    return pool.real("answer.devices_usd") / pool.real("cost.period") / max(1, pool.whole("fleet.total_replicas"))


def _overdue(plan: EmitPlan) -> Made:
    first = plan.pools[0]
    every = first.number("policy.reconcile_every")
    looked = f'{{__name__=~"{MADE}|{RECONCILED}", {_mine(plan)}}}'
    return AlertRule(
        alert="UllageReconcileOverdue",
        mode="reconcile-overdue",
        expr=f"time() - max({looked}) > {literal(first.real('policy.reconcile_every'))}",
        lasts="1h",
        severity="ticket",
        summary="the plan has not been compared with production for longer than its policy allows",
        action="Reconcile the plan with production, update its assumptions, and plan again.",
        why=every.why,
    )


def _expired(plan: EmitPlan) -> Made:
    if not plan.plan.expiries:
        return LeftOut(alert="UllageAssumptionExpired", reason="no assumption of the plan has a maximum age")
    return AlertRule(
        alert="UllageAssumptionExpired",
        mode="assumption-age",
        expr=f"time() > {EXPIRES}{{{_mine(plan)}}}",
        lasts="1h",
        severity="ticket",
        summary="an assumption of the plan is past its maximum age: {{ $labels.assumption }}",
        action="Look it up again at its source, and plan again.",
        why="the first of the plan's assumptions to expire",
    )


def _midnight(day: datetime.date) -> int:
    return int(datetime.datetime(day.year, day.month, day.day, tzinfo=datetime.UTC).timestamp())
