"""Scaling rules as they are written, checked for faults that show without traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ullage.planning.checks.result import CheckAnomaly, CheckResult, Checks, CheckSeverity
from ullage.planning.document import Plan
from ullage.scaling.faults import rule_faults
from ullage.scaling.rules import ScalingRule

NAME = "scaling-rule"


def with_rules(checks: Checks, plan: Plan, rules: Sequence[ScalingRule]) -> Checks:
    """The checks, and one more for every rule that was given."""
    # Which of several pools a rule scales is not in it.
    needs = [each.steady_fleet.replicas + each.reserves.serving_replicas for each in plan.pools]
    need = needs[0] if len(needs) == 1 else None
    return replace(checks, results=(*checks.results, *(_looked_at(each, need) for each in rules)))


def _looked_at(rule: ScalingRule, need: int | None) -> CheckResult:
    least, most = rule.bounds
    low = (
        ()
        if need is None or not most or most >= need
        else (
            CheckAnomaly(
                name=f"{NAME}: maximum",
                weight=CheckSeverity.MISTAKE,
                sentence=f"{rule.name} allows at most {most} replicas, and the plan serves with {need}",
                fix=f"Raise its maximum to {need}.",
            ),
        )
    )
    return CheckResult(
        name=NAME,
        compared=f"{rule.name}: {least} to {most or 'any number of'} replicas, decided every {rule.period_s:g} s",
        anomalies=tuple(
            CheckAnomaly(
                name=f"{NAME}: {each.name}", weight=CheckSeverity.MISTAKE, sentence=each.sentence, fix=each.fix
            )
            for each in rule_faults(rule)
        )
        + low,
    )
