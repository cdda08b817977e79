"""`scenarios`: a plan in; whole plans of the best, the base, the worst and the user's own scenarios out."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError, Rejection
from ullage.execute.run import Progress, running, silent
from ullage.load.changes import Changes, SetValues, both, parse_changes
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.load.plan import PlanSource
    from ullage.uncertainty.scenarios import FutureWorld
    from ullage.verbs.answer import Refusal
    from ullage.verbs.plan_answer import PlanAnswer

_FIX = "Write for example 'launch: traffic=+80%, pool.tensor_parallel=4'."


@dataclass(frozen=True, kw_only=True)
class ScenarioRow:
    """One future and its plan in short; `refused` says why there is none."""

    name: str
    what: str
    replicas: int | None
    machines: int | None
    devices: int | None
    usd: float | None
    per_success_usd: float | None
    refused: str


@dataclass(frozen=True, kw_only=True)
class ScenarioTable:
    """Every scenario, `planned` first: the plan as it is made for what may come."""

    rows: tuple[ScenarioRow, ...]


@dataclass(frozen=True, kw_only=True, repr=False)
class ScenarioAnswer(VerbAnswer):
    """The rows, and the plans behind them by name."""

    plan: PlanAnswer
    table: ScenarioTable
    plans: Mapping[str, PlanAnswer | Refusal]

    def headlines(self) -> tuple[Headline, ...]:
        return tuple(
            Headline(name=each.name, value="refused" if each.replicas is None else each.replicas, unit="replicas")
            for each in self.table.rows
        )

    def page(self) -> list[RenderableType]:
        from ullage.report.decisions.scenario_page import scenario_page

        return scenario_page(self.plan.spec.name, [vars(each) for each in self.table.rows])

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        plan = self.plan
        return document("scenarios", self.table, as_of=plan.as_of, seed=plan.seed, service=plan.spec.name)


def scenarios(
    source: PlanSource = None,
    own: Sequence[str] = (),
    *,
    set: SetValues = (),  # noqa: A002
    traffic: str | float | None = None,
    as_of: datetime.date | None = None,
    seed: int = 0,
    limit: str | None = None,
    workers: int | None = None,
    run_on: str | None = None,
    progress: Progress = silent,
) -> ScenarioAnswer | Refusal:
    """Plan a service (the built-in example where it is None) for its best, base and worst future, and for your own.

    `own` names changes, such as `launch: traffic=+80%, pool.tensor_parallel=4`: each is planned with the plan's own
    margins. Best, base and worst are known futures out of the plan's draws, planned without margins for what is known.
    With `run_on`, such as `ray`, every future is planned by a worker of a Ray cluster.
    """
    from ullage.load.plan import load_plan
    from ullage.planning.work.estimate import STUDY_ROUNDS
    from ullage.uncertainty.scenarios import in_world, world_words, worlds
    from ullage.verbs.plan import plan_spec, planned

    asked = [own_future(each) for each in own]
    changes = parse_changes(set, traffic)
    _check_own(source, changes, asked)
    with running(as_of=as_of, seed=seed, limit=limit, workers=workers, run_on=run_on, progress=progress) as run:
        # The plan, the draws that its futures come from, best, base and worst, and each of one's own.
        rounds = 1.0 + STUDY_ROUNDS + 3.0 + len(asked)
        found = planned(source, run, changes, rounds=rounds)
        if isinstance(found, Rejection):
            return found
        spec = load_plan(source, as_of=run.as_of, seed=run.seed, changes=changes)
        words = {"planned": "demand, step times and lengths are uncertain; with margins and reserves for that"}
        futures = worlds(found, map=run.map, jobs=run.jobs)
        words.update({each.name: world_words(each, found.pools[0].spec.name) for each in futures})
        words.update({name: ", ".join(own_changes.texts) for name, own_changes in asked})
        alone = run.quiet()

        def one(future: FutureWorld | Changes) -> PlanAnswer | Refusal:
            if isinstance(future, Changes):
                return planned(source, alone, both(changes, future))
            return plan_spec(in_world(spec, future, as_of=alone.as_of), alone)

        jobs = [*futures, *(own_changes for _, own_changes in asked)]
        found_plans = run.told(0.4, 1.0, "futures")(one, jobs)
        plans: dict[str, PlanAnswer | Refusal] = dict(zip(words, (found, *found_plans), strict=True))
        rows = tuple(_row(name, words[name], each) for name, each in plans.items())
        return ScenarioAnswer(plan=found, table=ScenarioTable(rows=rows), plans=plans)


def own_future(text: str) -> tuple[str, Changes]:
    """`name: key=value, traffic=+30%` as a name and its changes."""
    name, colon, said = text.partition(":")
    pairs = [each.strip() for each in said.split(",") if each.strip()]
    if not (colon and name.strip() and pairs):
        raise InputError(field="--own", value=text, problem="is not NAME: KEY=VALUE", fix=_FIX)
    if name.strip() in ("planned", "best", "base", "worst"):
        raise InputError(field="--own", value=name.strip(), problem="is the name of a built-in scenario", fix=_FIX)
    traffic = [each.partition("=")[2] for each in pairs if each.partition("=")[0].strip() == "traffic"]
    rest = [each for each in pairs if each.partition("=")[0].strip() != "traffic"]
    try:
        return name.strip(), parse_changes(rest, traffic[-1].strip() if traffic else None)
    except InputError as error:
        raise InputError(field="--own", value=error.value, problem=error.problem, fix=_FIX) from None


def _check_own(source: PlanSource, changes: Changes, asked: Sequence[tuple[str, Changes]]) -> None:
    """A key that is not known, or a name that is given twice, is told before anything is planned."""
    from ullage.files.plan_file import read_plan_document
    from ullage.load.plan import plan_document

    names = [name for name, _ in asked]
    for name, own_changes in asked:
        if names.count(name) > 1:
            raise InputError(field="--own", value=name, problem="names two scenarios", fix="Use each name once.")
        read_plan_document(plan_document(source, both(changes, own_changes)))


def _row(name: str, what: str, found: PlanAnswer | Refusal) -> ScenarioRow:
    from ullage.evidence import number
    from ullage.planning.answer.answer import answer

    if isinstance(found, Rejection):
        return ScenarioRow(
            name=name, what=what, replicas=None, machines=None, devices=None, usd=None, per_success_usd=None,
            refused=found.reason,
        )  # fmt: skip
    bill = found.figures_of("bill")
    # Without a price for devices, the sum of everything else would stand in a column of whole bills.
    is_whole = answer(found).total_usd is not None
    total, each = (bill.get(name) if is_whole else None for name in ("bill.total_usd", "bill.per_success_usd"))
    return ScenarioRow(
        name=name,
        what=what,
        replicas=sum(pool.reserves.total_replicas for pool in found.pools),
        machines=sum(pool.packing.chosen.nodes for pool in found.pools),
        devices=sum(pool.packing.chosen.devices for pool in found.pools),
        usd=None if total is None else number(total),
        per_success_usd=None if each is None else number(each),
        refused="",
    )
