"""`scale`: a plan and the autoscalers that run in; rules side by side on the plan's traffic out."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError, Rejection
from ullage.execute.run import Progress, running, silent
from ullage.load.changes import SetValues, parse_changes
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.load.plan import PlanSource
    from ullage.planning.document import Plan
    from ullage.planning.pool_plan import PoolPlan
    from ullage.readers.kubernetes.autoscaler_rules import ReadRule
    from ullage.scaling.compare import ComparisonCase, ScalingComparison
    from ullage.scaling.rules import ScalingRule
    from ullage.verbs.answer import Refusal

# Hours of each week that rules are searched on, and the seeds after the plan's from which the judged weeks are drawn.
SEARCH_HOURS, JUDGED_SEED = 5, 100
# What is simulated, in days: rules that are searched, on those hours and on whole days, bursts and robustness; those at
# equal attainment; each day by every rule.
SEARCH_DAYS, EQUAL_DAYS, RULE_DAYS = 40, 34, 18


@dataclass(frozen=True, kw_only=True, repr=False)
class ScaleAnswer(VerbAnswer):
    """A plan, and its rules compared, pool by pool."""

    plan: Plan
    pools: tuple[ScalingComparison, ...]

    def headlines(self) -> tuple[Headline, ...]:
        found = []
        for each in self.pools:
            prefix = f"{each.pool}." if len(self.pools) > 1 else ""
            found += [
                Headline(name=f"{prefix}threshold", value=each.plan.threshold_value, unit="requests"),
                Headline(name=f"{prefix}replica-hours", value=round(each.ours.replica_hours, 1), unit="h"),
                Headline(name=f"{prefix}saving", value=round(each.saving_fraction, 4), unit="fraction"),
            ]
        return tuple(found)

    def page(self) -> list[RenderableType]:
        from ullage.report.decisions.scaling_page import scaling_page

        alone = len(self.pools) == 1
        return [part for each in self.pools for part in scaling_page(each, is_alone=alone)]

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document
        from ullage.scaling.compare import ScalingComparisons

        plan = self.plan
        found = ScalingComparisons(pools=self.pools)
        return document("scale", found, as_of=plan.as_of, seed=plan.seed, service=plan.spec.name)


def scale(
    source: PlanSource = None,
    *,
    rules: Sequence[str | Path] = (),
    days: int = 1,
    weeks: int = 2,
    set: SetValues = (),  # noqa: A002
    traffic: str | float | None = None,
    as_of: datetime.date | None = None,
    seed: int = 0,
    limit: str | None = None,
    workers: int | None = None,
    progress: Progress = silent,
) -> ScaleAnswer | Refusal:
    """Plan a service (the built-in example where it is None), search its scaling rule, and compare it with others.

    `rules` are files with the autoscalers that run now. Our rule is chosen on hours of three weeks; rules are judged on
    `days` of each of so many other `weeks`, the day with the busiest hour first.
    """
    from ullage.readers.kubernetes import read_rules
    from ullage.verbs.plan import planned

    if not 1 <= days <= 7:
        raise InputError(
            field="days", value=days, problem="must be 1 to 7", fix="Give how many days of a week to simulate."
        )
    if not 1 <= weeks <= 8:
        raise InputError(
            field="weeks", value=weeks, problem="must be 1 to 8", fix="Give how many weeks to evaluate rules on."
        )
    present = read_rules([Path(each) for each in rules]) if rules else ()
    if all(each.unread for each in present):
        for each in present:
            require_known(each)
    with running(as_of=as_of, seed=seed, limit=limit, workers=workers, progress=progress) as run:
        played_days = SEARCH_DAYS + EQUAL_DAYS + RULE_DAYS * days * weeks
        found = planned(source, run, parse_changes(set, traffic), played_days=played_days)
        if isinstance(found, Rejection):
            return found
        passed_over = _passed_over(found, present)
        for pool in found.pools:
            for each in _of_pool(found, pool, present):
                require_known(each)
        run.progress(0.5, "scaling rules")
        return ScaleAnswer(
            plan=found,
            pools=tuple(
                _compared(found, each, present, passed_over, days=days, weeks=weeks, progress=run.progress)
                for each in found.pools
            ),
        )


def require_known(given: ReadRule) -> None:
    """A rule that reads a metric of an unknown name is looked at by `check`, and cannot be played."""
    if given.unread:
        raise InputError(
            field=given.rule.where,
            value=given.unread[0],
            problem="is not a known metric of an engine or gateway, so its value cannot be simulated",
            fix="Give prometheus-adapter's rules too if it serves the metric, or check the rule alone with "
            "ullage check --rules.",
        )


def _of_pool(plan: Plan, pool: PoolPlan, present: Sequence[ReadRule]) -> list[ReadRule]:
    """The rules that scale what is called as the pool is; the only pool of a plan takes all where none does."""
    named = [each for each in present if each.target == pool.spec.name]
    return list(present) if not named and len(plan.pools) == 1 else named


def _passed_over(plan: Plan, present: Sequence[ReadRule]) -> tuple[str, ...]:
    """Rules that no pool takes, and rules of several workloads that the only pool takes for want of its name; a file
    with no rule of any of several pools is refused."""
    names = [each.spec.name for each in plan.pools]
    taken = [each for pool in plan.pools for each in _of_pool(plan, pool, present)]
    strays = [each for each in present if each not in taken]
    if strays and not taken:
        raise InputError(
            field=strays[0].rule.where,
            value=strays[0].target,
            problem=f"is what it scales, and the plan's pools are {', '.join(names)}",
            fix="Give the plan's pools the names of the workloads they describe.",
        )
    notes = tuple(f"{each.rule.name} scales {each.target}, which is no pool of this plan." for each in strays)
    if len({each.target for each in taken} - set(names)) > 1:
        said = ", ".join(f"{each.rule.name} scales {each.target}" for each in taken)
        notes += (f"{said}: none has the name of the pool, {names[0]}, and all are simulated as rules of it.",)
    return notes


def _compared(
    plan: Plan,
    pool: PoolPlan,
    present: Sequence[ReadRule],
    notes: tuple[str, ...],
    *,
    days: int,
    weeks: int,
    progress: Progress,
) -> ScalingComparison:
    """One pool of a plan, with the rules that belong to it."""
    from ullage.scaling.compare import compare_rules

    own = [each.rule for each in _of_pool(plan, pool, present)]
    case = comparison_case(plan, pool, own, days=days, weeks=weeks)
    found = compare_rules(case, report=lambda share, what: progress(0.5 + 0.5 * share, what))
    return replace(found, notes=(*found.notes, *notes))


def comparison_case(
    plan: Plan, pool: PoolPlan, present: Sequence[ScalingRule], *, days: int, weeks: int
) -> ComparisonCase:
    """What a pool's rule is chosen on, and the days of other weeks that rules are judged by."""
    from ullage.scaling.compare import ComparisonCase
    from ullage.scaling.stage import pool_rule, scaling_pool
    from ullage.scaling.traffic import (
        hourly_rates,
        planned_day,
        planned_week,
        search_stretches,
        searched_days,
        telling_days,
    )

    steady, settings = pool.steady_fleet, plan.spec.scaling
    scaled = scaling_pool(
        pool.demand, steady, pool.reserves, pool.time_to_ready, settings=settings
    )  # fmt: skip
    week = planned_week(pool.demand)
    rates = hourly_rates(week)
    told = telling_days(rates)
    order = [*told, *(each for each in range(7) if each not in told)][:days]
    seed = plan.seed
    return ComparisonCase(
        name=pool.spec.name,
        engine=pool.memory.runtime.engine,
        pool=scaled,
        derived=pool_rule(pool.demand, steady, scaled, settings=settings),
        days=tuple(
            planned_day(week, scaled.trial, day, seed=seed + JUDGED_SEED + place, week=f"week {4 + place}")
            for place in range(weeks)
            for day in order
        ),
        search=search_stretches(week, scaled.trial, seed=seed, hours=SEARCH_HOURS),
        confirm=searched_days(week, scaled.trial, seed=seed),
        stated=settings.stated_names,
        hourly_rps=tuple(float(each) for each in rates),
        present=tuple(present),
    )


def searched_settings(plan: Plan) -> tuple[str, ...]:
    """The rule that a search finds for the only pool of a plan, as texts that `--set` takes."""
    from ullage.scaling.search import search_rule

    if len(plan.pools) > 1:
        raise InputError(
            field="searched",
            value=[each.spec.name for each in plan.pools],
            problem="would set one rule for several pools: the scaling section applies to all of them",
            fix="Plan each pool separately, or emit the derived rules.",
        )
    case = comparison_case(plan, plan.pools[0], (), days=1, weeks=1)
    found = search_rule(
        case.derived, case.pool, case.search, hourly_rps=case.hourly_rps, stated=case.stated, confirm=case.confirm
    )
    return tuple(f"scaling.{key}={value}" for key, value in found.best.choice.settings().items())
