"""Scaling rules as they are written, looked at for faults that no traffic is needed to see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ullage.planning.checks.result import CheckAnomaly, CheckResult, Checks, CheckSeverity
from ullage.scaling.faults import rule_faults
from ullage.scaling.rules import ScalingRule

NAME = "scaling-rule"


def with_rules(checks: Checks, rules: Sequence[ScalingRule]) -> Checks:
    """The checks, and one more for every rule that was given."""
    return replace(checks, results=(*checks.results, *(_looked_at(each) for each in rules)))


def _looked_at(rule: ScalingRule) -> CheckResult:
    least, most = rule.bounds
    return CheckResult(
        name=NAME,
        compared=f"{rule.name}: {least} to {most or 'any number of'} replicas, decided every {rule.period_s:g} s",
        anomalies=tuple(
            CheckAnomaly(
                name=f"{NAME}: {each.name}", weight=CheckSeverity.MISTAKE, sentence=each.sentence, fix=each.fix
            )
            for each in rule_faults(rule)
        ),
    )
