"""`reconcile`: a kept plan and production in; scorecard, error by cause, verdicts and a diff of the plan file out."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError, Rejection
from ullage.execute.run import Progress, running, silent
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.execute.run import RunContext
    from ullage.ledger.ledger import Ledger
    from ullage.load.pool import CurveInputs
    from ullage.reconcile.backtest import PlanBacktest
    from ullage.reconcile.evaluate import Evaluation, ServiceEvaluation
    from ullage.reconcile.expectation import Expectation
    from ullage.reconcile.observation import Observation
    from ullage.reconcile.reconcile import Reconciliation, Tolerances
    from ullage.reconcile.updates import PlanUpdate


@dataclass(frozen=True, kw_only=True, repr=False)
class ReconcileAnswer(VerbAnswer):
    """A plan compared with production, and what its file should say from now on.

    `calibration` is what `ullage calibrate` would have written, had it been fitted to production as the refit is.
    """

    found: Reconciliation
    updates: tuple[PlanUpdate, ...]
    elsewhere: tuple[str, ...]
    kept_as: str
    diff: str
    calibration: Mapping[str, Any] | None = None
    backtest: PlanBacktest | None = None

    def headlines(self) -> tuple[Headline, ...]:
        said = [Headline(name="verdict", value="past tolerances" if self.found.past else "within tolerances")]
        if self.found.causes is not None:
            whole = self.found.causes.whole
            said.append(Headline(name="replicas off", value=whole.replicas, unit="replicas"))
        drifted = [each.name for each in self.found.inputs if each.verdict.value == "drifted"]
        said.append(Headline(name="drifted", value=", ".join(drifted) or "none"))
        return tuple(said)

    def page(self) -> list[RenderableType]:
        from ullage.report.decisions.reconcile_page import reconcile_page

        return reconcile_page(self.found, self.updates, self.elsewhere, self.backtest)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        return document("reconcile", self)


@dataclass(frozen=True, kw_only=True)
class KeptPlan:
    """A plan that can be compared with production: its name in the ledger, what it expects, what it was made from.

    `file` is where it lies, where it is a file: paths in it are of its folder, and else of the working folder.
    """

    digest: str
    expected: Expectation
    content: Mapping[str, Any]
    traffic_ratio: float
    seed: int
    as_of: datetime.date
    file_text: str = ""
    file: Path | None = None


def reconcile(
    plan: str | Path = "latest",
    *,
    files: Sequence[str | Path] = (),
    prometheus: str | None = None,
    http_config: str | Path | None = None,
    names: str | Path | None = None,
    paid: str | Path | None = None,
    from_: str | None = None,
    until: str | None = None,
    ledger: str | Path | None = None,
    keep: bool = False,
    backtest: bool = False,
    calibration: str | Path = "calibration.json",
    tolerances: Tolerances | None = None,
    workers: int | None = None,
    progress: Progress = silent,
) -> ReconcileAnswer:
    """Compare a plan with production between two times: an entry of the ledger, or a plan file, which is planned now.

    Production is a Prometheus server, or files of its answers to range queries. `keep` keeps the observation, the
    scores and the reconciliation in the ledger, so that the next ones know of them. `backtest` replays what was
    observed as if it had been planned week by week. `calibration` is where the step times that are fitted to production
    will be written, as the diff of the plan file names it; a file is written by nobody but the caller.
    """
    from ullage.readers.prometheus.settings import read_metric_names

    if (prometheus is None) == (not files):
        fix = "Give --prometheus URL, or files that hold answers to range queries."
        raise InputError(field="production", value=None, problem="needs exactly one source", fix=fix)
    start_s, end_s = (
        None if each is None else _time_s(each, name) for each, name in ((from_, "--from"), (until, "--until"))
    )
    table = read_metric_names(None if names is None else Path(names))
    with running(workers=workers, progress=progress) as run:
        # Files are read first: a wrong one need not wait for a plan.
        sources = [Path(each) for each in files]
        seen = _observed(None, sources, http_config, table, start_s, end_s, run) if sources else None
        run.progress(0.02, "plan")
        given = _given_plan(plan, ledger, run)
        run.progress(0.3, "production")
        if seen is None:
            seen = _observed(prometheus, (), http_config, table, start_s, end_s, run)
        if paid is not None:
            seen = _with_paid(seen, Path(paid))
        run.progress(0.6, "causes")
        place = _beside(plan, calibration)
        found = _answer(given, seen, ledger, keep, place, tolerances, run)
        if not backtest:
            return found
        from ullage.reconcile.backtest import backtest_plans

        run.progress(0.9, "backtest")
        return replace(found, backtest=backtest_plans(given.expected, seen, seed=given.seed, map=run.map))


def production_queries(from_: str, until: str, *, names: str | Path | None = None) -> list[tuple[str, str]]:
    """The queries that a server would be asked, by quantity, for people who must ask it themselves."""
    from ullage.readers.prometheus.observe import queries
    from ullage.readers.prometheus.settings import read_metric_names
    from ullage.readers.prometheus.steps import grid_between

    start_s, end_s = _time_s(from_, "--from"), _time_s(until, "--until")
    if not start_s < end_s:
        raise InputError(field="--until", value=until, problem="is not after --from", fix="Give a later time.")
    grid = grid_between(start_s, end_s)
    return queries(read_metric_names(None if names is None else Path(names)), grid)


def _beside(plan: str | Path, calibration: str | Path) -> str:
    """A file as a plan file names it: from the plan's own folder, or as it is where the plan has none."""
    import os

    path = Path(plan)
    return os.path.relpath(calibration, path.resolve().parent) if path.is_file() else str(calibration)


def _answer(
    given: KeptPlan,
    seen: Observation,
    ledger: str | Path | None,
    keep: bool,
    calibration: str,
    tolerances: Tolerances | None,
    run: RunContext,
) -> ReconcileAnswer:
    from ullage.reconcile.reconcile import Tolerances as Limits
    from ullage.reconcile.reconcile import reconcile as hold
    from ullage.reconcile.updates import plan_updates, weeks_between

    pools = _pools(given)
    evaluation = _evaluation(given, pools, run)
    found = hold(
        given.expected,
        seen,
        evaluation,
        plan=given.digest,
        seed=given.seed,
        record=_record(given.expected.service, ledger),
        tolerances=tolerances or Limits(),
    )
    fitted = None
    if evaluation is not None and len(evaluation.pools) == 1:
        (pool,) = pools.values()
        run.progress(0.8, "step times")
        found, fitted = _refitted(given, found, seen, pool, evaluation.pools[0])
    updates, elsewhere = plan_updates(
        given.expected, found, weeks=weeks_between(given.expected, seen.end_s), calibration=calibration
    )
    kept_as = _keep(given, seen, found, ledger) if keep else ""
    return ReconcileAnswer(
        found=found,
        updates=updates,
        elsewhere=elsewhere,
        kept_as=kept_as,
        diff=_diff(given.file_text, updates),
        calibration=fitted,
    )


def _diff(text: str, updates: Sequence[PlanUpdate]) -> str:
    from ullage.files.plan_edit import edited_text, unified_diff

    if not text or not updates:
        return ""
    changes = [(each.key, each.new) for each in updates]
    # A calibration and load tests are not given side by side: the one is a fit to the other.
    if any(key == "evidence.calibrations" for key, _ in changes) and "load_tests" in text:
        changes.append(("evidence.load_tests", "[]"))
    new = edited_text(text, changes, file="plan.yaml")
    said = [f"{each.key}: {each.old} -> {each.new}: {each.evidence}" for each in updates]
    return unified_diff(text, new, file="plan.yaml", said=said)


def _refitted(
    given: KeptPlan, found: Reconciliation, seen: Observation, pool: CurveInputs, evaluation: Evaluation
) -> tuple[Reconciliation, Mapping[str, Any] | None]:
    """Step times fitted to production, and the document of that fit as `ullage calibrate` writes it."""
    from ullage.evidence import Source
    from ullage.reconcile.refit import FitReplica, refit_steps
    from ullage.service.calibration.evidence import engine_limits
    from ullage.service.calibration.pool_step import pool_step
    from ullage.service.calibration.whose import ReplicaUnderTest
    from ullage.verbs.calibrate_fit import fitted_answer

    memory, day = pool.memory, datetime.date.fromisoformat(found.end[:10])
    replica = FitReplica(
        estimate=pool_step(memory),
        step=pool.step,
        limits=engine_limits(memory.runtime, memory.kv_tokens),
        source=Source(what="production", where=found.source, date=day),
    )
    made = refit_steps(replica, evaluation, seen, found.drift, seed=given.seed)
    if made is None:
        said = "step times fitted to production: no load level has both latencies and enough requests"
        return replace(found, left_out=(*found.left_out, said)), None
    refit, fitted = made
    answer = fitted_answer(
        fitted,
        step=replica.estimate,
        cache=memory.runtime.cache.name,
        replica=ReplicaUnderTest(
            model=memory.model,
            device=memory.device.name,
            engine=memory.runtime.engine,
            sharding=memory.runtime.sharding,
        ),
        read=(),
        files=[f"{found.source}, {found.start} to {found.end}"],
        limits=replica.limits,
        anomalies=fitted.anomalies,
        day=day,
    )
    return replace(found, refit=refit), answer.to_dict()


def _given_plan(plan: str | Path, ledger: str | Path | None, run: RunContext) -> KeptPlan:
    """A plan of the ledger by its name; a file that is there is planned now, on today's facts."""
    path = Path(plan)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        return _planned_file(path, run)
    from ullage.ledger.body import EntryKind
    from ullage.ledger.ledger import opened
    from ullage.verbs.ledger import ledger_address

    with opened(ledger_address(ledger)) as found:
        entry = found.find(str(plan), kind=EntryKind.PLAN)
        return _of_content(found.body(entry.digest).content, entry.digest)


def _planned_file(path: Path, run: RunContext) -> KeptPlan:
    from ullage.load.changes import NO_CHANGES
    from ullage.load.texts import read_text
    from ullage.verbs.ledger import plan_body
    from ullage.verbs.plan import planned

    found = planned(path, run)
    if isinstance(found, Rejection):
        problem = f"is refused at {found.stage}: {found.reason}"
        raise InputError(field="--plan", value=str(path), problem=problem, fix="Give a plan that is not refused.")
    body = plan_body(found, path, NO_CHANGES)
    text = read_text(path, fix="Give a plan file.")
    return replace(_of_content(body.content, body.digest), file_text=text, file=path)


def _of_content(content: Mapping[str, Any], digest: str) -> KeptPlan:
    from pydantic import TypeAdapter, ValidationError

    from ullage.reconcile.expectation import Expectation

    try:
        expected = TypeAdapter(Expectation).validate_python(content["expectation"])
        source = content["source"]
        return KeptPlan(
            digest=digest,
            expected=expected,
            content=source["content"],
            traffic_ratio=float(source["traffic_ratio"]),
            seed=int(content["seed"]),
            as_of=datetime.date.fromisoformat(expected.as_of),
            file_text=str(source.get("text", "")),
        )
    except (ValidationError, KeyError, TypeError, ValueError) as error:
        problem = f"has no expectations to compare with production ({str(error).splitlines()[0]})"
        raise InputError(field="plan", value=digest[:12], problem=problem, fix="Plan and store it again.") from None


def _pools(given: KeptPlan) -> dict[str, CurveInputs]:
    """The pools of the plan, loaded again from its file or from what was kept of it."""
    from ullage.load.changes import Changes
    from ullage.load.pool import load_pools

    changes = Changes(traffic_ratio=given.traffic_ratio)
    found = load_pools(given.file or given.content, as_of=given.as_of, seed=given.seed, changes=changes)
    if isinstance(found, Rejection):
        problem = f"is refused today at {found.stage}: {found.reason}"
        raise InputError(field="plan", value=given.digest[:12], problem=problem, fix="Plan it again.")
    return found


def _evaluation(given: KeptPlan, pools: Mapping[str, CurveInputs], run: RunContext) -> ServiceEvaluation | None:
    """All pools; None where one of them has its prefill and decode apart."""
    from ullage.reconcile.evaluate import Evaluation, ServiceEvaluation

    expected = given.expected
    if any(each.name not in pools for each in expected.pools) or any(
        not any(one.pool == each.name for one in expected.classes) for each in expected.pools
    ):
        return None
    return ServiceEvaluation(
        [
            Evaluation(expected, each, pools[each.name].bases(given.seed), seed=given.seed, map=run.map)
            for each in expected.pools
        ]
    )


def observed_production(
    prometheus: str | None,
    files: Sequence[Path],
    http_config: str | Path | None,
    names: Any,
    from_: str | None,
    until: str | None,
    run: RunContext,
) -> Observation:
    """What production did between two times, from a server or from files of its answers."""
    start_s, end_s = (
        None if each is None else _time_s(each, name) for each, name in ((from_, "--from"), (until, "--until"))
    )
    return _observed(prometheus, files, http_config, names, start_s, end_s, run)


def _observed(
    prometheus: str | None,
    files: Sequence[Path],
    http_config: str | Path | None,
    names: Any,
    start_s: float | None,
    end_s: float | None,
    run: RunContext,
) -> Observation:
    from ullage.readers.prometheus.files import observe_files
    from ullage.readers.prometheus.observe import client_of, observe_server
    from ullage.readers.prometheus.settings import read_http_settings

    if prometheus is None:
        return observe_files(files, names, start_s=start_s, end_s=end_s)
    if start_s is None or end_s is None:
        fix = "Give --from 2026-11-01 --until 2026-11-08."
        raise InputError(field="--from", value=None, problem="and --until are missing", fix=fix)
    if not start_s < end_s:
        raise InputError(field="--until", value=end_s, problem="is not after --from", fix="Give a later time.")
    settings = read_http_settings(None if http_config is None else Path(http_config))
    with client_of(prometheus, settings) as client:
        return observe_server(
            client,
            names,
            start_s=start_s,
            end_s=end_s,
            report=lambda share, stage: run.progress(0.3 + 0.3 * share, stage),
        )


def _with_paid(seen: Observation, file: Path) -> Observation:
    from ullage.readers.paid import read_paid

    paid = read_paid(file, start_s=seen.start_s, end_s=seen.end_s)
    return replace(seen, paid_usd=paid.usd)


def _record(service: str, ledger: str | Path | None) -> list[tuple[float, bool]]:
    """What earlier reconciliations of this service said of stated risks; none without a ledger."""
    from ullage.reconcile.reconcile import kept_risks

    with _maybe(ledger) as found:
        if found is None:
            return []
        return kept_risks(_contents(found, service))


def _contents(ledger: Ledger, service: str) -> list[Mapping[str, Any]]:
    from ullage.ledger.body import EntryKind

    entries = ledger.entries(kind=EntryKind.RECONCILIATION, service=service)
    return [ledger.body(each.digest).content for each in entries if not each.removed_by]


def _keep(given: KeptPlan, seen: Observation, found: Reconciliation, ledger: str | Path | None) -> str:
    """Keep what was observed, how the forecast scored, what was paid, and the reconciliation; its name."""
    from ullage.ledger.body import EntryBody, EntryKind
    from ullage.ledger.ledger import opened
    from ullage.reconcile.forecast_scores import WHOLE
    from ullage.report.encode import to_json
    from ullage.verbs.ledger import ledger_address

    def body(kind: EntryKind, summary: str, content: Any, about: tuple[str, ...]) -> EntryBody:
        plain = json.loads(json.dumps(content, allow_nan=False))
        return EntryBody(
            kind=kind, service=found.service, as_of=found.end[:10], summary=summary, content=plain, about=about
        )

    span = f"{found.start} to {found.end}"
    whole = next((each for each in found.forecast if each.week == WHOLE), None)
    error = "" if whole is None else f", WAPE {whole.wape_fraction:.1%}"
    with opened(ledger_address(ledger, create=True), create=True) as kept:
        known = {each.digest for each in kept.entries()}
        about = (given.digest,) if given.digest in known else ()
        parts = [
            body(EntryKind.OBSERVATION, f"{span} from {found.source}", to_json(seen), ()),
            body(EntryKind.FORECAST_SCORES, f"{span}{error}", {"scores": to_json(found.forecast)}, about),
        ]
        if seen.paid_usd is not None:
            bill = {"start": found.start, "end": found.end, "paid_usd": seen.paid_usd}
            parts.append(body(EntryKind.BILL, f"{span}: {seen.paid_usd:.2f} USD", bill, ()))
        verdict = "; ".join(found.past) or "within tolerances"
        whole_body = body(
            EntryKind.RECONCILIATION,
            f"{span}: {verdict}",
            to_json(found),
            (*about, *(each.digest for each in parts)),
        )
        kept.keep_all([*parts, whole_body], at=datetime.datetime.now(tz=datetime.UTC))
        return whole_body.digest


def _maybe(ledger: str | Path | None) -> Any:
    """The ledger where there is one: it is looked at, and never made, to learn from the past."""
    from contextlib import nullcontext

    from ullage.ledger.ledger import opened
    from ullage.verbs.ledger import ledger_address

    try:
        address = ledger_address(ledger)
    except InputError:
        return nullcontext(None)
    if "://" not in address and not Path(address).exists():
        return nullcontext(None)
    return opened(address)


def _time_s(text: str, option: str) -> float:
    """A day or a time, UTC where it has no zone, in seconds since 1970."""
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        fix = "Give a day or a time, such as 2026-11-08 or 2026-11-08T12:00+01:00."
        raise InputError(field=option, value=text, problem="is not a time", fix=fix) from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)).timestamp()
