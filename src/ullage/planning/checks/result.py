"""What a check of a plan found: mistakes and warnings, each a sentence with both numbers and a fix."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ullage.planning.document import Plan
from ullage.planning.pool_plan import PoolPlan
from ullage.planning.spec import PlanSpec


class CheckSeverity(enum.StrEnum):
    """A mistake makes the plan, or a claim about it, wrong; a warning is something unverified."""

    MISTAKE = "mistake"
    WARNING = "warning"


@dataclass(frozen=True, kw_only=True)
class CheckAnomaly:
    """`sentence` holds what was claimed and what was found, both as numbers where there are any."""

    name: str
    weight: CheckSeverity
    sentence: str
    fix: str
    pool: str = ""


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """One check on one pool, or on the service: what was compared, and what is wrong with it."""

    name: str
    compared: str
    anomalies: tuple[CheckAnomaly, ...] = ()
    pool: str = ""


@dataclass(frozen=True, kw_only=True)
class Checks:
    """Every check that was requested, in the order of the table."""

    results: tuple[CheckResult, ...]

    @property
    def anomalies(self) -> tuple[CheckAnomaly, ...]:
        """Mistakes first."""
        found = [each for one in self.results for each in one.anomalies]
        return tuple(sorted(found, key=lambda each: each.weight is not CheckSeverity.MISTAKE))

    @property
    def mistakes(self) -> tuple[CheckAnomaly, ...]:
        return tuple(each for each in self.anomalies if each.weight is CheckSeverity.MISTAKE)

    @property
    def warnings(self) -> tuple[CheckAnomaly, ...]:
        return tuple(each for each in self.anomalies if each.weight is CheckSeverity.WARNING)


@dataclass(frozen=True, kw_only=True)
class CheckSubject:
    """A pool of a plan, to be checked."""

    plan: Plan
    pool: PoolPlan

    @property
    def spec(self) -> PlanSpec:
        return self.plan.spec

    @property
    def is_claimed(self) -> bool:
        """Whether the claims of the plan file are about this pool."""
        return (self.spec.claims.pool or self.plan.pools[0].spec.name) == self.pool.spec.name

    def anomaly(self, name: str, weight: CheckSeverity, sentence: str, fix: str) -> CheckAnomaly:
        return CheckAnomaly(name=name, weight=weight, sentence=sentence, fix=fix, pool=self.pool.spec.name)
