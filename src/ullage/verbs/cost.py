"""`cost`: a plan file in, its bill out: every line, what a success costs, who caused it, and what else it could be."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError, Rejection, unknown_name
from ullage.execute.run import Progress, RunContext, running, silent
from ullage.load.changes import SetValues, parse_changes
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.cost.attribution.attribution import Attribution, RuleSpread
    from ullage.cost.attribution.causation import Causation
    from ullage.cost.bill import Bill
    from ullage.cost.budget.budget import Budget
    from ullage.cost.change import BillChange
    from ullage.cost.commitment import CommitmentAdvice
    from ullage.cost.marginal import Marginal
    from ullage.cost.provider.host_or_buy import HostOrBuy
    from ullage.evidence import Figure
    from ullage.load.changes import Changes
    from ullage.load.plan import PlanSource
    from ullage.planning.billing.spilled import SpilledPool
    from ullage.planning.document import Plan
    from ullage.planning.spec import PlanSpec
    from ullage.prices.purchase import Purchase
    from ullage.verbs.answer import Refusal


# A plan and those of marginal costs: more demand, tighter SLOs, one more nine, no prefix cache.
_MARGINAL_ROUNDS = 5.0


@dataclass(frozen=True, kw_only=True, repr=False)
class CostAnswer(VerbAnswer):
    """The bill, and what was asked about it. `notes` are about the answer, beside the bill's own."""

    bill: Bill
    as_of: datetime.date
    seed: int
    attribution: Attribution | None = None
    spread: tuple[RuleSpread, ...] = ()
    causes: Mapping[str, Causation] = field(default_factory=dict)
    against: tuple[HostOrBuy, ...] = ()
    spilled: tuple[SpilledPool, ...] = ()
    marginals: tuple[Marginal, ...] = ()
    replicas: tuple[Figure, ...] = ()
    commitments: tuple[CommitmentAdvice, ...] = ()
    change: BillChange | None = None
    budget: Budget | None = None
    notes: tuple[str, ...] = ()

    def dated(self) -> datetime.date:
        return self.as_of

    def headlines(self) -> tuple[Headline, ...]:
        from ullage.verbs.plan_answer import bill_headlines

        found = bill_headlines(self.bill)
        if self.budget is not None:
            span = f"{len(self.budget.months)} months"
            bands = (("P10", self.budget.low_usd), ("P50", self.budget.usd), ("P90", self.budget.high_usd))
            found += [Headline(name=f"{span}, {which}", value=usd, unit="USD") for which, usd in bands]
        return tuple(found)

    def beside(self, before: VerbAnswer) -> str:
        from ullage.report.quantity import show_usd

        if not isinstance(before, CostAnswer):
            return ""
        if before.bill.is_of_devices != self.bill.is_of_devices:
            which = "Before the change" if self.bill.is_of_devices else "With the change"
            return f"{which} devices have no price, so the two bills are not compared."
        old, new = before.bill.total_usd, self.bill.total_usd
        said = f"A month costs {show_usd(new)} USD instead of {show_usd(old)} ({_more(old, new)})"
        if self.budget is None or before.budget is None:
            return f"{said}."
        sums = (before.budget.usd, self.budget.usd)
        whole = f"{len(self.budget.months)} months {show_usd(sums[1])} USD instead of {show_usd(sums[0])}"
        band = f"P10 {show_usd(self.budget.low_usd)}, P90 {show_usd(self.budget.high_usd)}"
        return f"{said}, and {whole} ({_more(*sums)}; {band})."

    def page(self) -> list[RenderableType]:
        from ullage.report.money.bill_page import (
            attribution_parts,
            bill_parts,
            cause_parts,
            change_table,
            commitment_parts,
            marginal_parts,
        )
        from ullage.report.money.host_or_buy_page import host_or_buy_parts

        parts = [*bill_parts(self.bill)]
        if self.budget is not None:
            from ullage.report.money.budget_page import budget_parts

            parts = [*budget_parts(self.budget), *parts]
        if self.attribution is not None:
            parts += ["", *attribution_parts(self.attribution, self.spread)]
            parts += cause_parts(self.causes)
        parts += [*host_or_buy_parts(self.against, self.spilled), *marginal_parts(self.marginals, self.replicas)]
        parts += commitment_parts(self.commitments)
        parts += [] if self.change is None else ["", change_table(self.change)]
        return [*parts, *(f"Note: {note}" for note in self.notes)]

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        budget = () if self.budget is None else self.budget.figures.values()
        service, behind = self.bill.use.service, (*self.bill.figures.values(), *budget)
        return document("cost", self, as_of=self.as_of, seed=self.seed, service=service, behind=behind)

    def chargeback(self) -> str:
        """The divided bill as a plain CSV for the month after the plan's date."""
        from ullage.cost.bill_charges import month_after
        from ullage.emit.chargeback import chargeback_csv

        if self.attribution is None:
            raise InputError(field="--csv", value=None, problem="the bill is not divided", fix="Give --by class.")
        return chargeback_csv(self.attribution, month_after(self.as_of))

    def focus(self, *, account: str = "plan") -> str:
        """The bill as a FOCUS file for the month after the plan's date, split as it was attributed."""
        from ullage.cost.bill_charges import charge_rows, month_after
        from ullage.emit.focus import focus_csv

        rows = charge_rows(self.bill, month_after(self.as_of), self.attribution)
        return focus_csv(rows, account_id=account, account_name=self.bill.use.service)


def cost(
    source: PlanSource = None,
    *,
    set: SetValues = (),  # noqa: A002
    traffic: str | float | None = None,
    by: str | None = None,
    rule: str = "",
    basis: str = "usage",
    idle: str = "apart",
    spread_rule: str = "",
    allotted: Mapping[str, float] | None = None,
    known: Sequence[str] | None = None,
    usage: Sequence[str | Path] = (),
    columns: Mapping[str, str] | None = None,
    against: str | None = None,
    marginal: bool = False,
    commit: str | None = None,
    before: PlanSource = None,
    months: int | None = None,
    fleet: str = "fixed",
    ledger: str | Path | None = None,
    as_of: datetime.date | None = None,
    seed: int = 0,
    limit: str | None = None,
    workers: int | None = None,
    progress: Progress = silent,
) -> CostAnswer | Refusal:
    """The bill of a plan (the built-in example's where it is None) for one month.

    It is divided over products, tenants, models or classes (`by`) by `rule`, without one by what each makes necessary
    where that is known: from the plan's own simulation, or from the request logs in `usage`; without them tenants and
    products come from the plan's own trace. `against` is a provider's model, as `provider/model` or
    `provider/model@batch`, to compare with beside those that the plan names in `cost.against`. With `marginal` the
    service is planned again with more demand, tighter SLOs and one more nine. `commit` is a purchase,
    such as `1y-no-upfront`, to find the level of. `before` is another plan: the difference is explained by cause.

    `months` asks for a budget of as many months after the date, of a `fleet` that is fixed within a month or following
    demand; bills that a `ledger` keeps stand beside it.
    """
    from ullage.cost.attribution.dimensions import dimensions_of
    from ullage.load.located import located
    from ullage.load.plan import load_plan, own_traces, plan_document
    from ullage.prices.purchase import purchase_of
    from ullage.verbs.against import asked_offer, compared_with_providers
    from ullage.verbs.dividing import choice_of, divided, read_log
    from ullage.verbs.plan import plan_spec

    choice = choice_of(by or ("tenant" if usage else "class"), rule, basis, idle, spread_rule, allotted)
    purchase = None if commit is None else purchase_of(commit, field="--commit")
    follows, asked = follows_of(fleet), parse_changes(set, traffic)
    notes: list[str] = []
    logs: Sequence[str | Path] = list(usage)
    if not logs and {"tenant", "product"} & {*dimensions_of(choice.by)}:
        logs, columns = own_traces(source)
    with running(as_of=as_of, seed=seed, limit=limit, workers=workers, progress=progress) as run:
        spec = load_plan(source, as_of=run.as_of, seed=seed, changes=asked)
        offer = asked_offer(against, spec.prices)
        # A log that does not say who asked is refused before the minutes that a plan takes.
        log = read_log(logs, columns, choice, known, spec, notes) if logs else None
        run.progress(0.02, "planning")
        with located(lambda: plan_document(source, asked)):
            found = plan_spec(spec, run, rounds=_MARGINAL_ROUNDS if marginal else 1.0)
        if isinstance(found, Rejection):
            return found
        bill = bill_of(found)
        change = None if before is None else _change(before, bill, run)
        if isinstance(change, Rejection):
            return change
        division = divided(found, bill, log, choice, run, known=known, is_chosen=bool(rule))
        compared, spilled = compared_with_providers(found, bill, offer, run, notes)
        marginals = _marginals(spec, bill, run) if marginal else ()
        budget = None if months is None else _budget(found, bill, source, asked, run, months, follows, ledger)
        run.progress(1.0)
    return CostAnswer(
        bill=bill, as_of=run.as_of, seed=seed, attribution=division.attribution, spread=division.spread,
        causes=division.causes, against=compared, spilled=spilled,
        marginals=marginals, replicas=_replica_costs(bill) if marginal else (), change=change,
        commitments=() if purchase is None else _commitments(spec, found, bill, purchase, notes),
        budget=budget, notes=(*notes, *division.notes),
    )  # fmt: skip


FLEETS = ("fixed", "following")
MOST_MONTHS = 36


def follows_of(fleet: str) -> bool:
    """Whether a fleet of this name follows the hours."""
    if fleet not in FLEETS:
        raise unknown_name(field="--fleet", name=fleet, known=FLEETS)
    return fleet == "following"


def _more(old: float, new: float) -> str:
    return f"{100 * (new / old - 1.0):+.3g} %" if old else "from nothing"


def _budget(
    plan: Plan,
    bill: Bill,
    source: PlanSource,
    changes: Changes,
    run: RunContext,
    months: int,
    follows: bool,
    ledger: str | Path | None,
) -> Budget:
    """The months after the plan's date, from forecasts that reach to the last of them where there is a log."""
    from ullage.load.plan import load_plan
    from ullage.uncertainty.budgeting import BudgetChoice, budget
    from ullage.verbs.past_months import past_months

    if not 1 <= months <= MOST_MONTHS:
        raise InputError(
            field="months",
            value=months,
            problem=f"must be 1 to {MOST_MONTHS}",
            fix="Give 3 for a quarter, 12 for a year.",
        )
    run.progress(0.7, "budget")
    measured = plan.spec.measured
    if measured:
        # The plan's own forecast ends with its horizon; a budget asks for the same log's farther ahead.
        further = replace(changes, values=(*changes.values, ("policy.horizon", f"{math.ceil(months * 730 / 24) + 1}d")))
        measured = load_plan(source, as_of=run.as_of, seed=run.seed, changes=further).measured
    weights = {each.name: (each.gpu_s or 0.0) / each.requests for each in bill.use.classes if each.requests}
    past = () if ledger is None else past_months(ledger, bill.use.service, weights)
    choice = BudgetChoice(months=months, follows=follows)
    return budget(plan, bill, choice, measured=measured, past=past, map=run.map)


def _change(before: PlanSource, bill: Bill, run: RunContext) -> BillChange | Refusal:
    """Why this bill differs from that of another plan."""
    from ullage.cost.change import explain_change
    from ullage.verbs.plan import planned

    run.progress(0.3, "planning the earlier bill")
    earlier = planned(before, run)
    return earlier if isinstance(earlier, Rejection) else explain_change(bill_of(earlier), bill)


def bill_of(plan: Plan) -> Bill:
    """The bill in a finished plan; an InputError where it has none."""
    from ullage.cost.bill import Bill

    for stage in plan.stages:
        if isinstance(stage.answer, Bill):
            return stage.answer
    raise InputError(field="prices", value=None, problem="are not given, so there is no bill", fix="Give prices.")


def _commitments(
    spec: PlanSpec, plan: Plan, bill: Bill, purchase: Purchase, notes: list[str]
) -> tuple[CommitmentAdvice, ...]:
    """For every pool the level of this commitment that costs least, beside hours by demand."""
    from dataclasses import replace

    from ullage.cost.commitment import commitment_advice
    from ullage.cost.pool_run import hourly_replicas
    from ullage.cost.quotes import ALL_ON_DEMAND, device_quotes
    from ullage.prices.book import MissingPrice
    from ullage.prices.purchase import PurchaseMix

    if spec.prices is None:
        return ()
    share = next(iter(ALL_ON_DEMAND.shares.values()))
    found = []
    for use, planned in zip(bill.use.pools, plan.pools, strict=True):
        mixes = (PurchaseMix(shares={purchase: share}), ALL_ON_DEMAND)
        quoted = [device_quotes(spec.prices, use, replace(spec.buying, mix=mix)) for mix in mixes]
        missing = [each for each in quoted if isinstance(each, MissingPrice)]
        if missing:
            notes.append(f"No level of commitment for {use.name}: {missing[0]}")
            continue
        committed, by_use = (each[0] for each in quoted if not isinstance(each, MissingPrice))
        needed = hourly_replicas(planned.demand, use.steady_replicas)
        found.append(commitment_advice(use, needed, committed, by_use, period=bill.policy.period))
    if found and not spec.scaling.releases_machines:
        notes.append(_ALL_HOURS)
    return tuple(found)


_ALL_HOURS = (
    "The commitment is for steady replicas that follow the hours of the week, reserves apart. This plan's machines are "
    "paid in all hours (scaling.machines: held): for those a commitment that costs less than on demand pays for all. "
    "ullage buy finds the mix with reserves and whole machines."
)


def _replica_costs(bill: Bill) -> tuple[Figure, ...]:
    from ullage.cost.marginal import replica_usd
    from ullage.evidence import Figure

    found = (replica_usd(each, bill.quotes, bill.policy) for each in bill.use.pools)
    return tuple(each for each in found if isinstance(each, Figure))


def _marginals(spec: PlanSpec, bill: Bill, run: RunContext) -> tuple[Marginal, ...]:
    """More demand, tighter SLOs, one more nine, no prefix cache: the whole plan again with each."""
    from ullage.cost.marginal import MarginalStep, marginal_costs
    from ullage.planning.again import with_demand_times, with_no_prefix_cache, with_one_more_nine, with_slos_times
    from ullage.verbs.plan import plan_spec

    done = 0

    def again(changed: PlanSpec) -> Callable[[], Bill | Rejection]:
        def run_again() -> Bill | Rejection:
            nonlocal done
            done += 1
            run.progress(0.3 + 0.6 * done / len(steps), f"planning again, {done} of {len(steps)}")
            found = plan_spec(changed, run)
            return found if isinstance(found, Rejection) else bill_of(found)

        return run_again

    steps = [
        MarginalStep(
            name="demand",
            title="10 % more demand",
            units=0.1 * bill.use.requests,
            per="request",
            again=again(with_demand_times(spec, 1.1)),
        ),
        MarginalStep(
            name="SLO",
            title="every limit 10 % tighter",
            units=1.0,
            per="step",
            again=again(with_slos_times(spec, 0.9)),
        ),
        MarginalStep(
            name="nine",
            title="one more nine of availability",
            units=1.0,
            per="nine",
            again=again(with_one_more_nine(spec)),
        ),
    ]
    if any(each.cached_tokens for each in bill.use.classes):
        steps.append(
            MarginalStep(
                name="cache",
                title="no prefix cache, which is what caching saves",
                units=1.0,
                per="cache",
                again=again(with_no_prefix_cache(spec)),
            )
        )
    return marginal_costs(bill, steps)
