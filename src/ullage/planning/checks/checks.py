"""Mistake checks: seven ways in which capacity plans go wrong, and inputs past their age, checked in one plan.

    check_plan(plan)  ->  Checks of CheckResult: what was compared, and anomalies with both numbers and a fix

A check compares the plan, or claims about the service (`claims:` of the plan file), with what
the simulation finds. To add one: write a function from Subject to CheckResult, list it here and in
docs/explanation/mistakes.md. tests/planning/test_checks.py asks for a plan that trips it and a near miss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.errors import check_name
from ullage.planning.checks.cost import (
    partial_cost,
    split_by_requests,
    stale_assumptions,
    unlabelled_cost,
    unsourced_assumptions,
)
from ullage.planning.checks.evidence import misleading_evidence
from ullage.planning.checks.result import CheckResult, Checks, CheckSubject
from ullage.planning.checks.size import average_length, forgotten_memory, instant_scaling, maximum_throughput
from ullage.planning.document import Plan


@dataclass(frozen=True, kw_only=True)
class Check:
    """`mistake` is what it detects; a check of the service is made once, the others for every pool."""

    mistake: str
    look: Callable[[CheckSubject], CheckResult]
    is_of_service: bool = False


CHECKS: dict[str, Check] = {
    "average-length": Check(mistake="sized by average length", look=average_length),
    "maximum-throughput": Check(mistake="maximum throughput taken as capacity", look=maximum_throughput),
    "forgotten-memory": Check(mistake="KV cache or workspace forgotten", look=forgotten_memory),
    "instant-scaling": Check(mistake="instant autoscaling assumed", look=instant_scaling),
    "misleading-evidence": Check(
        mistake="evidence of another configuration, or physically impossible", look=misleading_evidence
    ),
    "partial-cost": Check(
        mistake="failed work and idle reserve left out of cost", look=partial_cost, is_of_service=True
    ),
    "split-by-requests": Check(
        mistake="shared devices attributed by request count", look=split_by_requests, is_of_service=True
    ),
    "unlabelled-cost": Check(
        mistake="cost without date, region, model or success", look=unlabelled_cost, is_of_service=True
    ),
    "stale-assumptions": Check(
        mistake="assumptions past their maximum age", look=stale_assumptions, is_of_service=True
    ),
    "unsourced-assumptions": Check(
        mistake="assumptions neither stated nor measured", look=unsourced_assumptions, is_of_service=True
    ),
}


def check_plan(
    plan: Plan,
    names: Sequence[str] = (),
    *,
    map: Any = map,  # noqa: A002
) -> Checks:
    """Make the named checks, all where none is named, on every pool of the plan."""
    for name in names:
        check_name(name, CHECKS, field="check")
    subjects = [CheckSubject(plan=plan, pool=pool) for pool in plan.pools]
    jobs = [
        (check, subject)
        for name, check in CHECKS.items()
        if not names or name in names
        for subject in (subjects[:1] if check.is_of_service else subjects)
    ]
    return Checks(results=tuple(map(lambda job: job[0].look(job[1]), jobs)))
