"""The verdict of a plan, and why: buy, hold, or test first. A refusal is no plan, and its verdict is REFUSED.

The rules, in this order; docs/explanation/answer.md explains them:

    HOLD         the plan file states what runs, and it is at least what the plan needs
    TEST FIRST   better evidence would move the answer too much: the margin for step times is more than a fifth of the
                 steady replicas, or more than a fifth of the tokens come from classes whose rate or lengths are ours
    BUY          otherwise
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from ullage.evidence import Evidence, number
from ullage.planning.checks.claims import claimed
from ullage.service.loadtests.loadtest import PointAnomaly
from ullage.workload.anomalies import Anomaly, Severity
from ullage.workload.demand.outcomes import lengths_evidence

if TYPE_CHECKING:
    from ullage.planning.document import Plan
    from ullage.planning.pool_plan import PoolPlan

MOST_UNTESTED_FRACTION = 0.2
"""More than a fifth: the price of a fifth of a fleet for a month exceeds that of any load test or trace."""


class Verdict(enum.Enum):
    """What to do with the plan."""

    BUY = "BUY"
    HOLD = "HOLD"
    TEST_FIRST = "TEST FIRST"
    REFUSED = "REFUSED"


def verdict(plan: Plan) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict and the sentences behind it."""
    held = _held(plan)
    if held:
        return Verdict.HOLD, (held,)
    untested = (*_untested_steps(plan), *_default_traffic(plan))
    return (Verdict.TEST_FIRST, untested) if untested else (Verdict.BUY, ())


def warnings(plan: Plan) -> tuple[str, ...]:
    """What no reader may miss, whatever the verdict is."""
    by_sentence: dict[str, list[str]] = {}
    for pool in plan.pools:
        for sentence in _pool_warnings(pool):
            by_sentence.setdefault(sentence, []).append(pool.spec.name)
    found = [
        sentence if len(pools) == len(plan.pools) else f"{', '.join(pools)}: {sentence}"
        for sentence, pools in by_sentence.items()
    ]
    return (*found, *_left_out(plan), *_serious(plan))


def _held(plan: Plan) -> str:
    """What runs is known of one pool at most; a service of several is never covered by it."""
    runs = claimed(plan.spec.claims.replicas)
    if runs is None or len(plan.pools) > 1:
        return ""
    needed = plan.pools[0].reserves.total_replicas
    return f"{runs:g} replicas are running, {needed} are needed" if runs >= needed else ""


def _untested_steps(plan: Plan) -> list[str]:
    added = sum(evidence_replicas(each) for each in plan.pools)
    steady = sum(each.steady_fleet.replicas for each in plan.pools)
    if added <= MOST_UNTESTED_FRACTION * steady:
        return []
    return [f"{added} of {steady} steady replicas only cover unmeasured step times"]


def evidence_replicas(pool: PoolPlan) -> int:
    """Replicas that the margin for step times adds."""
    return int(number(pool.steady_fleet.figures["fleet.evidence_replicas"]))


def default_classes(plan: Plan) -> tuple[str, ...]:
    """Classes whose rate or lengths are defaults of ours."""
    demand = plan.figures_of("demand")
    return tuple(
        name
        for each in plan.spec.demands
        for name in (each.request_class.name,)
        if Evidence.ASSUMED
        in (
            each.mean_rate.evidence,
            *(lengths_evidence(demand[f"demand.{name}.{side}_p95"]) for side in ("prompt", "output")),
        )
    )


def _default_traffic(plan: Plan) -> list[str]:
    names = default_classes(plan)
    demand = plan.figures_of("demand")
    ours = sum(number(demand[f"demand.{name}.token_rate"]) for name in names)
    share = ours / number(demand["demand.token_rate"])
    if share <= MOST_UNTESTED_FRACTION:
        return []
    is_past = any(each.is_stale(plan.as_of) for each in plan.spec.inputs if each.name.partition(".")[0] in names)
    what = "defaults or past their maximum age" if is_past else "defaults"
    return [f"rates or lengths of {', '.join(names)} ({100 * share:.0f} % of tokens) are {what}"]


def _pool_warnings(pool: PoolPlan) -> list[str]:
    found = [each.sentence.rstrip(".") for each in pool.step_model.anomalies if each.is_decisive]
    found += [f"{each.title} violates an SLO despite its reserve" for each in pool.loss_checks.broken]
    binding = pool.binding.binding
    if binding.growth_fraction is not None and binding.growth_fraction < 0.0:
        found.append(
            f"{binding.name} already exceeds its limit: {binding.value:.3g} of {binding.limit_value:.3g} {binding.unit}"
        )
    return found


def _left_out(plan: Plan) -> list[str]:
    """What the file states and nothing follows, with the reason."""
    said = [each for each in plan.spec.pool.choices if each.name.endswith(".left_out")]
    return [f"{each.name.removesuffix('.left_out')} ({each.value}) {each.source.what}" for each in said]


def _serious(plan: Plan) -> tuple[str, ...]:
    """Anomalies of the trace and of load tests that may mislead a plan."""
    traffic = plan.spec.traffic
    found: list[Anomaly | PointAnomaly] = []
    if traffic is not None:
        found = [*traffic.profile.anomalies, *(one for each in traffic.classes.values() for one in each.anomalies)]
    found += [one for pool in plan.spec.pools for test, _ in pool.tested.load_tests for one in test.anomalies]
    return tuple(dict.fromkeys(each.sentence for each in found if each.weight is Severity.SERIOUS))
