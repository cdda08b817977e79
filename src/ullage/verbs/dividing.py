"""Attribution of the bill: who used each pool, by the plan's own simulation or a log, and the rule that divides it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ullage.errors import InputError, unknown_name

if TYPE_CHECKING:
    from ullage.cost.attribution.attribution import Attribution, AttributionChoice, RuleSpread
    from ullage.cost.attribution.causation import Causation
    from ullage.cost.attribution.usage import GroupUse, UsageLog
    from ullage.cost.bill import Bill
    from ullage.execute.run import RunContext
    from ullage.planning.document import Plan
    from ullage.planning.spec import PlanSpec


def choice_of(
    by: str, rule: str, basis: str, idle: str, spread_rule: str, allotted: Mapping[str, float] | None
) -> AttributionChoice:
    from ullage.cost.attribution.attribution import AttributionChoice, Basis, Idle
    from ullage.cost.attribution.dimensions import dimensions_of

    known_basis, known_idle = {each.value: each for each in Basis}, {each.value: each for each in Idle}
    if basis not in known_basis:
        raise unknown_name(field="--basis", name=basis, known=known_basis)
    if idle not in known_idle:
        raise unknown_name(field="--idle", name=idle, known=known_idle)
    return AttributionChoice(
        by=",".join(dimensions_of(by)),
        rule=rule.replace("-", "_") or "gpu_time",
        basis=known_basis[basis],
        idle=known_idle[idle],
        spread_rule=spread_rule.replace("-", "_"),
        allotted_fraction=allotted or {},
    )


def read_log(
    files: Sequence[str | Path],
    columns: Mapping[str, str] | None,
    choice: AttributionChoice,
    known: Sequence[str] | None,
    spec: PlanSpec,
    notes: list[str],
) -> UsageLog:
    """The log, once it is known to say whose a request is."""
    from ullage.cost.attribution.usage import usage_of_trace
    from ullage.load.traffic import open_requests

    trace = open_requests(
        files,
        columns=columns,
        field="--usage",
        problem="counts requests in windows, so their owners are unknown",
        fix="Give a log with one row for each request.",
    )
    log = usage_of_trace(trace, classes=[each.request_class for each in spec.demands])
    names = ", ".join(Path(each).name for each in trace.sources)
    if not log.requests:
        raise InputError(
            field="--usage",
            value=names,
            problem="has no request to attribute by: " + "; ".join(f"{n:,} {why}" for why, n in log.dropped.items()),
            fix="Give a log with the lengths and the end of each request.",
        )
    log.check_says(choice.by)
    said = log.labels_of(choice.by).names
    if known and not {*known} & {*said}:
        raise InputError(
            field="--known",
            value=", ".join(known),
            problem=f"no request of {names} has any of these names",
            fix=f"It has {', '.join(said[:8])}{' and more' if len(said) > 8 else ''}.",
        )
    notes.append(f"Attributed by {log.requests:,} requests of {names}.")
    notes += [f"{count:,} rows left out: {reason}." for reason, count in log.dropped.items()]
    return log


@dataclass(frozen=True, kw_only=True)
class Division:
    """A bill divided, what every rule would say, and who makes how much of each pool necessary where that is known."""

    attribution: Attribution
    spread: tuple[RuleSpread, ...]
    causes: Mapping[str, Causation]
    notes: tuple[str, ...]


def divided(
    plan: Plan,
    bill: Bill,
    log: UsageLog | None,
    choice: AttributionChoice,
    run: RunContext,
    *,
    known: Sequence[str] | None,
    is_chosen: bool,
) -> Division:
    """The bill divided as chosen, or by the best rule that the usage knows."""
    from ullage.cost.attribution.attribution import attribute, best_rule, rule_spread

    notes: list[str] = []
    if log is None:
        uses, causes = _simulated(bill, choice), bill.use.causes if choice.by == "class" else {}
    else:
        run.progress(0.6, f"sizing the fleet without each {choice.by}")
        uses, causes = _logged(plan, bill, log, choice, known, run, notes)
    if not is_chosen:
        choice = replace(choice, rule=best_rule([each for groups in uses.values() for each in groups]))
    return Division(
        attribution=attribute(bill.lines, uses, choice),
        spread=rule_spread(bill.lines, uses, choice),
        causes=causes,
        notes=tuple(notes),
    )


def _simulated(bill: Bill, choice: AttributionChoice) -> Mapping[str, tuple[GroupUse, ...]]:
    found = bill.use.groups_of(choice.by)
    if found is None:
        raise InputError(
            field="--by",
            value=choice.by,
            problem=f"the plan does not say the {choice.by} of a request",
            fix=f"Give a request log that does: --usage FILE. The plan alone knows {', '.join(bill.use.groups)}.",
        )
    return found


def _logged(
    plan: Plan,
    bill: Bill,
    log: UsageLog,
    choice: AttributionChoice,
    known: Sequence[str] | None,
    run: RunContext,
    notes: list[str],
) -> tuple[Mapping[str, tuple[GroupUse, ...]], Mapping[str, Causation]]:
    """Who used the pools by real logs, and who makes how much of each necessary."""
    import numpy as np

    from ullage.cost.attribution.usage import grouped
    from ullage.planning.billing.caused import with_cause
    from ullage.planning.billing.parties import Unknown, caused_by_parties

    parts = _by_pool(bill, log)
    uses = {
        pool: grouped(each, choice.by, known=known, rng=np.random.default_rng(run.seed)) for pool, each in parts.items()
    }
    causes: dict[str, Causation] = {}
    for pool in plan.pools:
        own = parts.get(pool.spec.name)
        caused = (
            Unknown(reason="the log does not say which pool served a request", fix="Give it a model or class column.")
            if own is None
            else caused_by_parties(pool, own, choice.by, known=known, seed=run.seed, map=run.map)
        )
        if isinstance(caused, Unknown):
            at = f" {pool.spec.name}" if len(plan.pools) > 1 else ""
            notes.append(f"What each {choice.by} makes necessary of the pool{at} is not known: {caused}")
            return uses, {}
        causes[pool.spec.name] = caused
        uses[pool.spec.name] = tuple(with_cause(each, pool, caused) for each in uses[pool.spec.name])
    return uses, causes


def _by_pool(bill: Bill, log: UsageLog) -> dict[str, UsageLog]:
    """The log pool by pool, where it names the pools' models or classes of one pool each; else as one."""
    import numpy as np

    pools = {each.name: each.model for each in bill.use.pools}
    if len(pools) == 1:
        return dict.fromkeys(pools, log)
    classes = {name: {each.name for each in bill.use.classes_of(name)} for name in pools}
    are_apart = sum(map(len, classes.values())) == len(set().union(*classes.values()))
    models, named = log.labels.get("model"), log.labels.get("class")
    if models is not None and set(pools.values()) <= set(models.names) and len(set(pools.values())) == len(pools):
        return {name: log.where(models.places == models.names.index(model)) for name, model in pools.items()}
    if named is not None and are_apart and set().union(*classes.values()) <= set(named.names):
        own = {name: [named.names.index(each) for each in sorted(classes[name])] for name in pools}
        return {name: log.where(np.isin(named.places, places)) for name, places in own.items()}
    return {"": log}
