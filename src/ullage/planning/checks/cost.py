"""Mistakes about money and evidence: incomplete costs, bills divided by request count, numbers without a date."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ullage.cost.attribution.attribution import distances_from_causation, rule_weights, usable_rules
from ullage.cost.attribution.usage import GroupUse, merged_groups
from ullage.cost.bill import Bill
from ullage.cost.pool_run import level_runs, month_groups
from ullage.evidence import Assumption, Evidence
from ullage.planning.billing.caused import caused_replicas, with_cause
from ullage.planning.checks.result import CheckAnomaly, CheckResult, CheckSeverity, CheckSubject
from ullage.planning.document import Plan

# A claim that is this close to the bill is a rounding of it.
_CLOSE_FRACTION = 0.05
# Rules whose shares differ by less than this much of the whole bill are equivalent.
FAIR_FRACTION = 0.05


def _bill(subject: CheckSubject) -> Bill | None:
    found = next((each.answer for each in subject.plan.stages if each.name == "bill"), None)
    return found if isinstance(found, Bill) else None


def _usd(usd: float) -> str:
    return f"{usd:.3g} USD"


# ---- what a success costs -------------------------------------------------------------------------------------


def partial_cost(subject: CheckSubject) -> CheckResult:
    """A claimed cost against the whole bill: idle hours, reserves and failed work are paid like everything else."""
    name, bill = "partial-cost", _bill(subject)
    whole = None if bill is None else bill.figures.get("bill.per_success_usd")
    if bill is None or whole is None:
        missing = "" if bill is None else f": {', '.join(each.label for each in bill.unpriced)}"
        return _nothing(name, f"no cost: nothing is priced{missing}")
    busy = sum(each.usd * each.used_fraction for each in bill.lines if each.name.startswith("compute_"))
    alone, per_success = busy / max(bill.use.requests, 1.0), float(whole.value)
    anomalies = []
    claim = subject.spec.claims.cost
    claimed_usd = None if claim is None else float(claim.per_success.value)
    if claimed_usd is not None and claimed_usd < (1.0 - _CLOSE_FRACTION) * per_success:
        anomalies.append(
            _service(
                name,
                CheckSeverity.MISTAKE,
                f"{_usd(claimed_usd)} a success are claimed; with idle hours, reserves and failed work it is "
                f"{_usd(per_success)}, and {_usd(alone)} per request if devices were paid for only while busy",
                "Claim the cost from the whole bill: ullage cost.",
            )
        )
    left_out = [each for each in bill.unpriced if each.name in ("idle_reserve", "failed_work", "compute_usage")]
    if left_out:
        names = ", ".join(each.label.replace("_", " ") for each in left_out)
        anomalies.append(
            _service(
                name,
                CheckSeverity.MISTAKE,
                f"the bill of {bill.total_usd:,.0f} USD leaves out {names}",
                left_out[0].missing,
            )
        )
    reserve, failed = (bill.cents_of(each) / 100.0 for each in ("idle_reserve", "failed_work"))
    return CheckResult(
        name=name,
        compared=f"{_usd(per_success)} a success with {reserve:,.0f} USD of reserves and {failed:,.0f} USD of failed "
        f"work, {_usd(alone)} per request if devices were paid only while they are busy",
        anomalies=tuple(anomalies),
    )


def unlabelled_cost(subject: CheckSubject) -> CheckResult:
    """A cost has a date, a region, a model and a criterion of success, or whether it still applies is unknown."""
    name, bill = "unlabelled-cost", _bill(subject)
    anomalies = []
    claim = subject.spec.claims.cost
    if claim is not None and claim.missing:
        anomalies.append(
            _service(
                name,
                CheckSeverity.MISTAKE,
                f"{_usd(float(claim.per_success.value))} a success are claimed without {_listed(claim.missing)}",
                f"State {_listed(claim.missing)} in claims.cost, or leave the claim out.",
            )
        )
    unit = None if bill is None else next((each for each in bill.units if each.per == "success" and not each.of), None)
    if unit is None:
        return CheckResult(name=name, compared="no cost: nothing is priced", anomalies=tuple(anomalies))
    has = {"date": bool(unit.dates), "region": bool(unit.region), "model": bool(unit.model)}
    lacking = [each for each, is_there in has.items() if not is_there]
    if lacking:
        anomalies.append(
            _service(
                name,
                CheckSeverity.MISTAKE,
                f"the bill's {_usd(unit.usd)} a success have no {_listed(lacking)}",
                "Give prices with date and region.",
            )
        )
    unstated = [each.request_class.name for each in subject.spec.demands if not each.success]
    if unstated:
        anomalies.append(
            _service(
                name,
                CheckSeverity.WARNING,
                f"{len(unstated)} of {len(subject.spec.demands)} classes do not define success "
                f"({', '.join(unstated)}): every answer in time counts, at {_usd(unit.usd)}",
                "State success for each class, in words.",
            )
        )
    if "any region" in unit.region:
        anomalies.append(
            _service(
                name,
                CheckSeverity.WARNING,
                f"{_usd(unit.usd)} a success are based on a price without a region: {unit.region}",
                "State prices.provider and prices.region.",
            )
        )
    dates = " to ".join(dict.fromkeys(each.isoformat() for each in unit.dates))
    return CheckResult(
        name=name,
        compared=f"{_usd(unit.usd)} a success of {unit.model or 'no model'}, {unit.region or 'no region'}, prices of "
        f"{dates or 'no date'}",
        anomalies=tuple(anomalies),
    )


# ---- attribution ----------------------------------------------------------------------------------------------


def split_by_requests(subject: CheckSubject) -> CheckResult:
    """Each class's part of shared devices by the claimed rule against what it makes necessary of them."""
    name = "split-by-requests"
    groups = _groups(subject)
    rule = str(subject.spec.claims.attribution.value) if subject.spec.claims.attribution is not None else "requests"
    if rule not in usable_rules(groups):
        return _nothing(name, f"this plan has no data for {rule}")
    by_rule, by_cause = (_shares(groups, each) for each in (rule, "causation"))
    worst = max(by_cause, key=lambda each: abs(by_cause[each] - by_rule[each]))
    compared = (
        f"{worst} pays {by_rule[worst]:.1%} of shared devices by {rule.replace('_', ' ')} and makes "
        f"{by_cause[worst]:.1%} of them necessary"
    )
    is_claimed = subject.spec.claims.attribution is not None
    if not is_claimed or abs(by_cause[worst] - by_rule[worst]) <= FAIR_FRACTION:
        return _nothing(name, compared)
    distances = distances_from_causation(groups)
    nearest = min(distances, key=lambda each: distances[each])
    fix = f"Divide by causation: ullage cost --rule causation. Of the others {nearest} is nearest to it."
    return CheckResult(name=name, compared=compared, anomalies=(_service(name, CheckSeverity.MISTAKE, compared, fix),))


def _groups(subject: CheckSubject) -> tuple[GroupUse, ...]:
    """Classes over a month, from the plan's own simulation."""
    found = []
    for pool in subject.plan.pools:
        runs = level_runs(pool.demand, pool.steady_fleet.trial, seed=subject.plan.seed)
        rng = np.random.default_rng(subject.plan.seed)
        groups = month_groups(runs, "class", period_hours=subject.spec.cost.period_hours, rng=rng)
        caused = caused_replicas(pool, seed=subject.plan.seed)
        found.append([with_cause(each, pool, caused) for each in groups])
    return merged_groups(found)


def _shares(groups: Sequence[GroupUse], rule: str) -> dict[str, float]:
    weights = rule_weights(rule, groups)
    total = sum(weights)
    return {each.name: weight / total if total else 0.0 for each, weight in zip(groups, weights, strict=True)}


# ---- assumptions ----------------------------------------------------------------------------------------------


def stale_assumptions(subject: CheckSubject) -> CheckResult:
    """Inputs of the plan that are past their age."""
    name, plan = "stale-assumptions", subject.plan
    stale = plan.stale
    anomalies = []
    if stale:
        oldest = max(stale, key=lambda each: each.age(plan.as_of))
        assert oldest.max_age is not None
        anomalies.append(
            _service(
                name,
                CheckSeverity.MISTAKE,
                f"{len(stale)} of {len(plan.assumptions)} assumptions are past their maximum age, oldest "
                f"{oldest.name}: "
                f"{oldest.age(plan.as_of).days} days old, and {oldest.max_age.days} are allowed"
                + _whose(subject.plan, stale),
                "Look it up again, or state it in the plan file with its date.",
            )
        )
    compared = f"{len(stale)} of {len(plan.assumptions)} assumptions are past their age"
    return CheckResult(name=name, compared=compared, anomalies=tuple(anomalies))


def _whose(plan: Plan, stale: Sequence[Assumption]) -> str:
    """Whose they are, where owners are named."""
    owners = [plan.spec.owners.of_input(each.name) or "nobody" for each in stale]
    counts = {each: owners.count(each) for each in dict.fromkeys(owners)}
    said = ", ".join(f"{name} {count}" for name, count in counts.items())
    return f"; owners: {said}" if plan.spec.owners.are_given else ""


def unsourced_assumptions(subject: CheckSubject) -> CheckResult:
    """Inputs neither stated nor measured: defaults of ours under a user's plan."""
    name, plan = "unsourced-assumptions", subject.plan
    open_ones = [each for each in plan.assumptions if _is_ours(each)]
    compared = f"{len(open_ones)} of {len(plan.assumptions)} assumptions are defaults of Ullage or made up"
    if not open_ones:
        return _nothing(name, compared)
    own = [each.name for each in plan.spec.inputs if _is_ours(each)]
    shown = [*dict.fromkeys([*own, *(each.name for each in open_ones)])][:3]
    anomaly = _service(
        name,
        CheckSeverity.WARNING,
        f"{compared}: {', '.join(shown)}" + (" and others" if len(open_ones) > len(shown) else ""),
        "State them in the plan file, or measure them: a trace, a load test, engine and start-up logs.",
    )
    return CheckResult(name=name, compared=compared, anomalies=(anomaly,))


def _is_ours(each: Assumption) -> bool:
    """A default without a source of its own; one that was published, with its date, has one."""
    is_ours = each.source.what.startswith("default of") or "made up" in each.source.what
    return each.evidence is Evidence.ASSUMED and not each.decision and is_ours


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _nothing(name: str, compared: str) -> CheckResult:
    return CheckResult(name=name, compared=compared)


def _service(name: str, weight: CheckSeverity, sentence: str, fix: str) -> CheckAnomaly:
    return CheckAnomaly(name=name, weight=weight, sentence=sentence, fix=fix)
