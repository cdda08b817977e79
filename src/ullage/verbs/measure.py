"""`measure`: an endpoint and a plan in; load tests chosen one by one, a calibration and a changed plan file out."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import ExitCode, InputError, Rejection
from ullage.execute.run import Progress, running, silent
from ullage.verbs.answer import Headline, VerbAnswer, refusal

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.execute.run import RunContext
    from ullage.load.pool import CurveInputs
    from ullage.loadtools.installed import InstalledTool
    from ullage.loadtools.record import MeasureRecord
    from ullage.service.measuring.choose import ChosenTest, MeasureState, MeasureStop, Spend
    from ullage.service.measuring.narrowing import DoneTest, Narrowed, PoolUnderTest
    from ullage.verbs.answer import Refusal

DEFAULT_MINUTES = 60.0
DEFAULT_REQUESTS = 20_000
DEFAULT_TOKENS = 50_000_000
DEFAULT_USD = 100.0
"""A node of eight devices for an hour, about: more than a single replica takes."""
_CALIBRATION, _DIFF = "calibration.json", "plan.diff"


@dataclass(frozen=True, kw_only=True)
class MeasureBound:
    """How much may be spent in all, before and after a break: wall time of tests, requests, tokens, money."""

    minutes: float = DEFAULT_MINUTES
    requests: int = DEFAULT_REQUESTS
    tokens: int = DEFAULT_TOKENS
    usd: float = DEFAULT_USD

    def __post_init__(self) -> None:
        for name in ("minutes", "requests", "tokens", "usd"):
            if not getattr(self, name) > 0:
                raise InputError(
                    field="--minutes" if name == "minutes" else f"--most-{name}",
                    value=getattr(self, name),
                    problem="must be above 0",
                    fix="Give a bound.",
                )


@dataclass(frozen=True, kw_only=True)
class MeasureRow:
    """What was known after one test: the test, and replicas with the ends of their range."""

    test: str
    shape: str
    rate_rps: float
    requests: int
    wall_s: float
    replicas: int
    low_replicas: int
    high_replicas: int
    slow_ratio: float


@dataclass(frozen=True, kw_only=True, repr=False)
class MeasureAnswer(VerbAnswer):
    """Replicas as they were narrowed test by test, why it stopped, what it took, and the files that it left.

    `before` is what the plan's estimate says before any test; `diff` changes the plan file to stand on what was found.
    """

    service: str
    replica: str
    url: str
    tool: str
    before: MeasureRow
    rows: tuple[MeasureRow, ...]
    is_decided: bool
    stopped: str
    spent: Spend
    bound: Spend
    folder: str
    calibration: str
    diff: str
    as_of: datetime.date
    seed: int

    @property
    def last(self) -> MeasureRow:
        return self.rows[-1] if self.rows else self.before

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.OK if self.is_decided else ExitCode.UNDECIDED

    def headlines(self) -> tuple[Headline, ...]:
        last = self.last
        return (
            Headline(name="replicas", value=f"{last.replicas} ({last.low_replicas} to {last.high_replicas})"),
            Headline(name="tests", value=len(self.rows)),
            Headline(name="verdict", value="decided" if self.is_decided else "undecided"),
        )

    def dated(self) -> datetime.date:
        return self.as_of

    def page(self) -> list[RenderableType]:
        from ullage.report.service.measure_page import measure_page

        return measure_page(self)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        return document("measure", self, as_of=self.as_of, seed=self.seed, service=self.service)


def measure(
    url: str,
    *,
    plan: str | Path,
    folder: str | Path = "measure",
    tool: str | None = None,
    tokenizer: str | None = None,
    served_model: str | None = None,
    bound: MeasureBound = MeasureBound(),  # noqa: B008 - frozen
    within: int = 1,
    accept: tuple[str, ...] = (),
    as_of: datetime.date | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress = silent,
    said: Callable[[str], None] = lambda _: None,
) -> MeasureAnswer | Refusal:
    """Measure one replica of a plan's first pool behind `url` until its number of replicas is decided.

    `tool` is a load tool by name or path, `tokenizer` where one is read from (a folder, or a name that is cached:
    nothing is downloaded), `served_model` what requests call it. Every test is kept in `folder`; a measurement that was
    broken off goes on from there. `said` hears of every test and of what is known after it.
    """
    from ullage.loadtools.endpoint import parse_endpoint, served_models
    from ullage.loadtools.installed import find_tool
    from ullage.loadtools.record import MeasureRecord, read_record

    address, found = parse_endpoint(url), find_tool(tool)
    place = _folder(Path(folder))
    with running(as_of=as_of, seed=seed, workers=workers, progress=progress) as run:
        loaded = _pool(Path(plan), run, accept)
        if isinstance(loaded, Rejection):
            return refusal(loaded)
        inputs, pool = loaded
        names = served_models(address)
        served = _served(served_model, names, address)
        fresh = MeasureRecord(
            url=address,
            tool=found.tool.name,
            model=served,
            pool=f"{inputs.service}: {inputs.replica} at {pool.rate_rps:.6g} req/s, seed {seed}",
        )
        session = _Session(
            inputs=inputs,
            pool=pool,
            tool=found,
            folder=place,
            loaded=tokenizer or served,
            bound=_bound(bound, pool),
            within_replicas=within,
            run=run,
            said=said,
        )
        return session.measured(read_record(place, fresh), Path(plan))


def _folder(folder: Path) -> Path:
    from ullage.files.whole import make_folder

    if folder.exists() and not folder.is_dir():
        raise InputError(field="--folder", value=str(folder), problem="is not a folder", fix="Give a folder.")
    make_folder(folder, field="--folder")
    return folder.resolve()


def _served(named: str | None, names: tuple[str, ...], url: str) -> str:
    if named is None:
        if len(names) > 1:
            problem = f"serves {', '.join(names)}, and one of them is measured"
            raise InputError(field="--served-model", value=None, problem=problem, fix="Give one of these names.")
        return names[0]
    if named not in names:
        problem = f"is not served at {url}, which has {', '.join(names)}"
        raise InputError(field="--served-model", value=named, problem=problem, fix="Give one of these names.")
    return named


def _pool(plan: Path, run: RunContext, accept: tuple[str, ...]) -> tuple[CurveInputs, PoolUnderTest] | Rejection:
    """The plan's first pool on its estimate: what was measured before is not mixed with what is measured now."""
    from ullage.evidence import Source
    from ullage.load.pool import load_pool
    from ullage.load.pool_money import replica_period_usd
    from ullage.service.calibration.evidence import engine_limits
    from ullage.service.calibration.pool_step import pool_step
    from ullage.service.calibration.repeats import RepeatTerms
    from ullage.service.measuring.narrowing import PoolUnderTest

    found = load_pool(plan, as_of=run.as_of, seed=run.seed)
    if isinstance(found, Rejection):
        return found
    usd, hours = replica_period_usd(plan, as_of=run.as_of, seed=run.seed)
    memory = found.memory
    return found, PoolUnderTest(
        estimate=pool_step(memory),
        memory=memory,
        demand=found.demand,
        classes=found.classes,
        deadlines_s=found.deadlines_s,
        terms=RepeatTerms(limits=engine_limits(memory.runtime, memory.kv_tokens)),
        source=Source(what="load tests", where="ullage measure", date=run.as_of),
        seed=run.seed,
        replica_usd_per_hour=None if usd is None else usd / hours,
        accepted=accept,
    )


def _bound(given: MeasureBound, pool: PoolUnderTest) -> Spend:
    from ullage.service.measuring.choose import Spend

    price = pool.replica_usd_per_hour
    return Spend(
        wall_s=60.0 * given.minutes,
        requests=given.requests,
        tokens=given.tokens,
        usd=None if price is None else given.usd,
    )


@dataclass(frozen=True, kw_only=True)
class _Session:
    """One measurement under way: what it measures, with what, and how much it may take."""

    inputs: CurveInputs
    pool: PoolUnderTest
    tool: InstalledTool
    folder: Path
    loaded: str
    bound: Spend
    within_replicas: int
    run: RunContext
    said: Callable[[str], None]

    def measured(self, record: MeasureRecord, plan: Path) -> MeasureAnswer | Refusal:
        from ullage.loadtools.record import write_record
        from ullage.service.measuring.choose import MeasureStop, choose

        done = self._kept(record)
        before = self._narrowed(())
        if isinstance(before, Rejection):
            return refusal(before)
        rows: list[MeasureRow] = []
        narrowed: Narrowed = before
        self._say_before(before, record, len(done))
        for at in range(len(done)):
            found = self._narrowed(done[: at + 1])
            if isinstance(found, Rejection):
                return refusal(found)
            narrowed = found
            rows.append(_row(done[at], narrowed))
            self.said(f"  {rows[-1].test}: {_known(narrowed)}")
        while True:
            state = self._state(record, done, narrowed)
            chosen = choose(state)
            if isinstance(chosen, MeasureStop):
                return self._answer(record, plan, before, rows, state, chosen)
            self.said(_announced(chosen))
            self.run.progress(min(0.99, state.spent.wall_s / self.bound.wall_s), chosen.test.name)
            record = self._begun(record, chosen)
            write_record(self.folder, record)
            record, last = self._driven(record, chosen, state)
            write_record(self.folder, record)
            if isinstance(last, MeasureStop):
                return self._answer(record, plan, before, rows, self._state(record, done, narrowed), last)
            done = (*done, last)
            found = self._narrowed(done)
            if isinstance(found, Rejection):
                return refusal(found)
            narrowed = found
            rows.append(_row(last, narrowed))
            self.said(f"  {_known(narrowed)}")

    def _narrowed(self, done: tuple[DoneTest, ...]) -> Narrowed | Rejection:
        from ullage.service.measuring.narrowing import narrow

        return narrow(self.pool, done, map=self.run.map)

    def _state(self, record: MeasureRecord, done: tuple[DoneTest, ...], narrowed: Narrowed) -> MeasureState:
        from ullage.service.measuring.choose import MeasureState, spent_by

        return MeasureState(
            pool=self.pool,
            done=done,
            narrowed=narrowed,
            bound=self.bound,
            spent=spent_by(record.tests, self.pool.replica_usd_per_hour),
            within_replicas=self.within_replicas,
        )

    def _kept(self, record: MeasureRecord) -> tuple[DoneTest, ...]:
        """The tests that ended well, read again from what their tool wrote."""
        from ullage.load.evidence import load_tests
        from ullage.loadtools.record import DONE
        from ullage.service.measuring.narrowing import DoneTest

        return tuple(
            DoneTest(
                planned=each.planned,
                result=load_tests([self.folder / each.file])[0],
                wall_s=each.wall_s,
                requests=each.requests,
                tokens=each.tokens,
            )
            for each in record.tests
            if each.status == DONE
        )

    def _begun(self, record: MeasureRecord, found: ChosenTest) -> MeasureRecord:
        from ullage.loadtools.record import RUNNING, TestRecord

        test = found.test
        return record.with_test(
            TestRecord(
                name=test.name,
                shape=str(test.shape),
                rate_rps=test.rate_rps,
                requests=test.requests,
                seed=test.seed,
                tokens=found.expected.tokens,
                wall_s=found.expected.wall_s,
                status=RUNNING,
            )
        )

    def _driven(
        self, record: MeasureRecord, found: ChosenTest, state: MeasureState
    ) -> tuple[MeasureRecord, DoneTest | MeasureStop]:
        """Run the test with the tool; the record of how it ended, and its result or why nothing follows."""
        from ullage.emit.loadtests.tools import ReplayRun
        from ullage.emit.loadtests.traces import BLOCK_TOKENS, mooncake_jsonl
        from ullage.files.whole import write_whole
        from ullage.loadtools.drive import drive
        from ullage.loadtools.record import DONE, FAILED
        from ullage.service.measuring.choose import MeasureStop
        from ullage.service.measuring.narrowing import DoneTest

        test, begun = found.test, record.tests[-1]
        # A test of an earlier try may have left a result under this name.
        stem = f"{len(record.tests):02}-{test.name.split(' ', 1)[1].replace(' ', '-')}"
        trace = f"{stem}.trace.jsonl"
        # Prompts of one test must not be found in the cache by the next: a million blocks lie between them.
        text = mooncake_jsonl(
            self.pool.load_of(test), block_tokens=BLOCK_TOKENS, first_own=len(record.tests) * 1_000_000
        )
        write_whole(self.folder / trace, text, field="--folder", force=True)
        driven = drive(
            self.tool,
            ReplayRun(
                url=record.url,
                loaded=self.loaded,
                served=record.model,
                trace=trace,
                requests=test.requests,
                rate_rps=test.rate_rps,
                seed=test.seed,
                result=stem,
                limits_s={},
            ),
            folder=self.folder,
            timeout_s=max(1.0, self.bound.wall_s - state.spent.wall_s),
        )
        ended = replace(begun, wall_s=driven.wall_s, status=DONE if not driven.problem else FAILED)
        if driven.problem or driven.result is None:
            why = f"{self.tool.tool.name} {driven.problem}; {stem}.log in {self.folder.name} has its output"
            return record.with_test(ended), MeasureStop(is_decided=False, why=f"test {test.name} failed: {why}")
        file = str(self.tool.tool.result(Path(stem)))
        kept = DoneTest(
            planned=test,
            result=driven.result,
            wall_s=driven.wall_s,
            requests=begun.requests,
            tokens=begun.tokens,
        )
        return record.with_test(replace(ended, file=file)), kept

    def _say_before(self, before: Narrowed, record: MeasureRecord, kept: int) -> None:
        self.said(f"{self.inputs.replica} at {record.url}, driven by {self.tool.tool.name}.")
        if kept:
            self.said(f"{kept} tests were run before, and are not run again.")
        self.said(f"Before any test: {_known(before)}")
        if self.bound.usd is None:
            self.said("The plan has no price, so cost is not counted.")

    def _answer(
        self,
        record: MeasureRecord,
        plan: Path,
        before: Narrowed,
        rows: list[MeasureRow],
        state: MeasureState,
        stop: MeasureStop,
    ) -> MeasureAnswer:
        calibration = self._calibration(state) if state.done else ""
        return MeasureAnswer(
            service=self.inputs.service,
            replica=self.inputs.replica,
            url=record.url,
            tool=self.tool.tool.name,
            before=_row(None, before),
            rows=tuple(rows),
            is_decided=stop.is_decided,
            stopped=stop.why,
            spent=state.spent,
            bound=state.bound,
            folder=str(self.folder),
            calibration=calibration,
            diff=self._diff(plan, state.narrowed) if calibration else "",
            as_of=self.run.as_of,
            seed=self.run.seed,
        )

    def _calibration(self, state: MeasureState) -> str:
        """Write the fit to all tests as `ullage calibrate --out` would."""
        from ullage.files.whole import write_whole
        from ullage.report.encode import to_text
        from ullage.service.calibration.whose import ReplicaUnderTest
        from ullage.verbs.calibrate_fit import fitted_answer

        found, memory = state.narrowed.fitted, self.pool.memory
        assert found is not None
        answer = fitted_answer(
            found,
            step=self.pool.estimate,
            cache=memory.runtime.cache.name,
            replica=ReplicaUnderTest(
                model=memory.model,
                device=memory.device.name,
                engine=memory.runtime.engine,
                sharding=memory.runtime.sharding,
            ),
            read=[each.result for each in state.done],
            files=[Path(each.result.file).name for each in state.done],
            limits=self.pool.terms.limits,
            anomalies=found.anomalies,
            day=self.run.as_of,
        )
        file = self.folder / _CALIBRATION
        write_whole(file, to_text(answer.to_dict()), field="--folder", force=True)
        return str(file)

    def _diff(self, plan: Path, narrowed: Narrowed) -> str:
        """The plan file with the calibration as its evidence, as a diff to review; nothing of it is applied."""
        import os

        from ullage.files.plan_edit import edited_text, unified_diff
        from ullage.files.whole import write_whole
        from ullage.load.texts import read_text

        old = read_text(plan, fix="Give a plan file.")
        place = os.path.relpath(self.folder / _CALIBRATION, plan.resolve().parent)
        changes = [("evidence.calibrations", f"[{place}]")]
        try:
            if "load_tests" in old:
                changes.append(("evidence.load_tests", "[]"))
            new = edited_text(old, changes, file=plan.name)
        except InputError as error:
            self.said(f"The plan file was not changed: {error}")
            return ""
        said = [f"evidence.calibrations: [{place}]: {_known(narrowed)}"]
        diff = unified_diff(old, new, file=plan.name, said=said)
        write_whole(self.folder / _DIFF, diff, field="--folder", force=True)
        return diff


def _row(done: DoneTest | None, found: Narrowed) -> MeasureRow:
    return MeasureRow(
        test="estimate" if done is None else done.planned.name,
        shape="" if done is None else str(done.planned.shape),
        rate_rps=0.0 if done is None else done.planned.rate_rps,
        requests=0 if done is None else done.requests,
        wall_s=0.0 if done is None else done.wall_s,
        replicas=found.replicas,
        low_replicas=found.low_replicas,
        high_replicas=found.high_replicas,
        slow_ratio=found.slow_ratio,
    )


def _known(found: Narrowed) -> str:
    return (
        f"{found.replicas} replicas ({found.low_replicas} to {found.high_replicas}), step times known within a "
        "factor of "
        f"{found.slow_ratio:.3g}."
    )


def _announced(found: ChosenTest) -> str:
    test = found.test
    size = f"{test.rate_rps:.3g} req/s, {test.requests} requests, {test.span_s / 60:.1f} min"
    return f"Test {test.name}: {size}; {found.why}."
