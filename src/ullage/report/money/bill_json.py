"""A bill as JSON: the same bytes for the same input, seed and date."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from ullage.cost.attribution.attribution import Attribution, RuleSpread
from ullage.cost.bill import Bill
from ullage.cost.change import BillChange
from ullage.cost.commitment import CommitmentAdvice
from ullage.cost.host_or_buy import HostOrBuy
from ullage.cost.lines.line import BillLine
from ullage.cost.marginal import Marginal
from ullage.cost.money import usd_of
from ullage.cost.units import UnitCost

SCHEMA = "ullage.bill/1"
_DIGITS = 9


def bill_json(
    bill: Bill,
    *,
    as_of: datetime.date,
    seed: int,
    attribution: Attribution | None = None,
    spread: Sequence[RuleSpread] = (),
    against: Sequence[HostOrBuy] = (),
    marginals: Sequence[Marginal] = (),
    commitments: Sequence[CommitmentAdvice] = (),
    change: BillChange | None = None,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Everything on the page, with every group and every figure."""
    return {
        "schema": SCHEMA,
        "service": bill.use.service,
        "as_of": as_of.isoformat(),
        "seed": seed,
        "period_hours": bill.policy.period_hours,
        "currency": "USD",
        "price_dates": [each.isoformat() for each in bill.quotes.dates],
        "regions": list(bill.quotes.regions),
        "total_usd": bill.total_usd,
        "is_complete": bill.is_complete,
        "lines": [_line(each) for each in bill.lines],
        "units": [_unit(each) for each in bill.units],
        "attribution": None if attribution is None else _attribution(attribution, spread),
        "host_or_buy": [
            {
                "class": each.class_name,
                "provider": each.provider,
                "model": each.model,
                "own_usd_per_success": _number(each.own.value),
                "bought_usd_per_success": _number(each.bought.value),
                "even_requests": None if each.even_requests is None else _number(each.even_requests),
                "capacity_requests": None if each.capacity_requests is None else _number(each.capacity_requests),
                "evidence": str(each.bought.evidence),
            }
            for each in against
        ],
        "marginal": [
            {
                "step": each.title,
                "added_usd": None if each.cents is None else usd_of(each.cents),
                "usd_per_unit": None if each.figure is None else _number(each.figure.value),
                "per": each.per,
                "refused": each.why or None,
            }
            for each in marginals
        ],
        "commitment": [
            {
                "pool": each.pool,
                "replicas": each.best.committed_replicas,
                "usd": _number(each.best.usd),
                "saved_usd": _number(each.saved_usd),
                "levels_usd": [_number(one.usd) for one in each.levels],
            }
            for each in commitments
        ],
        "change": None
        if change is None
        else {
            "before_usd": usd_of(change.before_cents),
            "after_usd": usd_of(change.after_cents),
            "causes_usd": {each.name: each.usd for each in change.causes},
        },
        "figures": {
            name: {
                "value": _number(each.value),
                "unit": each.unit,
                "evidence": str(each.evidence),
                "formula": each.formula,
                "inputs": [one.name for one in each.inputs],
            }
            for name, each in bill.figures.items()
        },
        "notes": [*bill.notes, *notes],
    }


def _line(line: BillLine) -> dict[str, Any]:
    return {
        "line": line.name,
        "pool": line.pool or None,
        "item": line.item or None,
        "usd": usd_of(line.cents) if line.cents is not None else None,
        "amount": _number(line.amount.value) if line.is_priced else None,
        "unit": line.amount.unit if line.is_priced else None,
        "behaviour": line.behaviour.value,
        "sharing": line.sharing.value,
        "origin": line.origin.value,
        "driver": line.driver.value,
        "used_fraction": _number(line.used_fraction),
        "figure": None if line.figure is None else line.figure.name,
        "not_priced": line.missing or None,
    }


def _unit(unit: UnitCost) -> dict[str, Any]:
    return {
        "name": unit.name,
        "of": unit.of or None,
        "per": unit.per,
        "usd": _number(unit.usd),
        "model": unit.model,
        "region": unit.region,
        "price_dates": [each.isoformat() for each in unit.dates],
        "success_criterion": unit.criterion,
        "evidence": str(unit.figure.evidence),
    }


def _attribution(attribution: Attribution, spread: Sequence[RuleSpread]) -> dict[str, Any]:
    choice = attribution.choice
    return {
        "by": choice.by,
        "rule": choice.rule,
        "basis": choice.basis.value,
        "idle": choice.idle.value,
        "spread_rule": choice.spread_rule or choice.rule,
        "lines": [each.label for each in attribution.lines],
        "rows": [
            {
                "name": each.name,
                "is_group": each.is_group,
                "usd": usd_of(each.total_cents),
                "usd_by_line": [usd_of(cents) for cents in each.cents],
            }
            for each in attribution.rows
        ],
        "between_rules_usd": {
            each.name: {rule: usd_of(cents) for rule, cents in each.cents.items()} for each in spread
        },
    }


def _number(value: float | int | str) -> float | int | str:
    """Nine significant digits: more would differ between machines whose sums are rounded differently."""
    if isinstance(value, int | str) or value == 0.0:
        return value
    return float(f"{value:.{_DIGITS}g}")
