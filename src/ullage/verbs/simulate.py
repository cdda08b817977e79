"""`simulate`: a trace, a plan's traffic or a plain load in; latencies and outcomes on a replica or pool out."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError, Rejection
from ullage.execute.run import Progress, RunContext, running, silent
from ullage.load.changes import Changes, SetValues, parse_changes
from ullage.load.pool import ReplicaChoice
from ullage.verbs.answer import Headline, VerbAnswer, refusal

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.load.plan import PlanSource
    from ullage.load.pool import CurveInputs, PoolSides
    from ullage.memory.budget import MemoryBudget
    from ullage.service.calibration.prediction import Prediction
    from ullage.service.calibration.repeats import NotRepeatable, RepeatTerms
    from ullage.service.curve.sizing import JudgedPool
    from ullage.service.loadtests.loadtest import Point
    from ullage.service.served import Served, ServedPool
    from ullage.service.steps.evidence_anomaly import EvidenceAnomaly
    from ullage.service.steps.step_model import StepModel
    from ullage.verbs.answer import Refusal
    from ullage.verbs.answers.split_answer import PrefillChoice, SplitSimulated
    from ullage.workload.classes import RequestClass
    from ullage.workload.synthetic.stream import Stream

ARRIVALS = ("poisson", "constant")
CHAINED = "Shared prefixes are read from the block hashes of the trace."
CHAINS_ASSUMED = (
    "Which prompt begins like which is assumed: a later turn like its session's turn before, another prompt like one "
    "of its class as far back as the stated reuse distance, or, without one, like all of its class."
)


@dataclass(frozen=True, kw_only=True)
class LoadChoice:
    """The traffic: traces or load tests to replay, or lengths to make up, or else the plan's own busy hour.

    `rate_rps` is the total rate it is brought to; `traffic_ratio` multiplies it, as more users would. Made-up requests
    come at that rate, or from so many `clients`, each of which sends again when it has its answer. Their lengths are
    drawn evenly from `least_fraction` of those stated up to all of them (None: alike at a rate, and from 80 % up of
    clients, as published tests have them), and `cached_fraction` of a prompt is a hit.
    """

    traces: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    zone: str = ""
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    arrivals: str = "poisson"
    rate_rps: float | None = None
    traffic_ratio: float = 1.0
    span_s: float | None = None
    load_tests: tuple[str, ...] = ()
    clients: int | None = None
    request_count: int | None = None
    least_fraction: float | None = None
    cached_fraction: float | None = None

    def __post_init__(self) -> None:
        if self.clients is not None and (self.prompt_tokens is None or self.rate_rps is not None):
            raise InputError(
                field="--clients",
                value=self.clients,
                problem="closed-loop clients send requests of stated lengths and have no rate",
                fix="Give --prompt-tokens and --output-tokens with it, and no --rate.",
            )
        if self.load_tests and (self.traces or self.prompt_tokens is not None):
            fix = "Give the load test alone: it has its own lengths and arrivals."
            raise InputError(
                field="--load-test", value=self.load_tests[0], problem="cannot be combined with other traffic", fix=fix
            )
        if self.arrivals not in ARRIVALS:
            fix = f"Give one of {', '.join(ARRIVALS)}."
            raise InputError(field="--arrivals", value=self.arrivals, problem="is not known", fix=fix)
        if (self.prompt_tokens is None) != (self.output_tokens is None):
            raise InputError(
                field="--prompt-tokens",
                value=self.prompt_tokens,
                problem="a request has a prompt and an answer; one of them is not stated",
                fix="Give --prompt-tokens and --output-tokens together.",
            )
        if self.traces and self.prompt_tokens is not None:
            fix = "Give either the trace or the lengths."
            raise InputError(
                field="--prompt-tokens", value=self.prompt_tokens, problem="cannot be combined with a trace", fix=fix
            )
        for option, value, example in (
            ("--rate", self.rate_rps, "5 req/s"),
            ("--traffic", self.traffic_ratio, "x1.5"),
            ("--span", self.span_s, "10min"),
        ):
            if value is not None and not 0.0 < value < math.inf:
                fix = f"Give for example {example}."
                raise InputError(field=option, value=value, problem="must be greater than 0", fix=fix)


@dataclass(frozen=True, kw_only=True, repr=False)
class Simulated(VerbAnswer):
    """The outcome, and in words what was simulated on what.

    `judged` is the plan's own traffic as the plan judges it: many windows, and the step times that it buys by.
    """

    replica: str
    step: StepModel
    kv_tokens: int
    traffic: str
    left_out_count: int
    pool: ServedPool
    judged: JudgedPool | None
    served: Served
    seed: int
    as_of: datetime.date
    prefixes: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What to keep in mind when reading the numbers."""
        found = [*self.step.notes]
        if self.judged is not None:
            found.append(
                "The plan's answer is judged over many windows with the step times that it buys by; the one run below "
                "it has nominal step times."
            )
        if not self.served.is_keeping_up:
            share = self.served.drift.growth_fraction
            found.append(
                f"The backlog was still growing when the last request arrived ({share:.0%} of what arrived stayed "
                "behind): this load is not sustained, and a longer run would show longer waits."
            )
        hits = self.served.hits
        if hits.is_simulated:
            found.append(
                f"Prefix caches are simulated block by block: {hits.share_fraction:.1%} of prompt tokens were found, "
                f"requests held {hits.blocks_fraction:.0%} of a replica's blocks at most, shared ones once. "
                f"{self.prefixes}"
            )
        if self.pool.between_turns is not None:
            found.append(
                "Later turns of a session come after the answer to the one before: as long after it as the traffic has "
                "them after that one's arrival, less what an idle replica takes to answer."
            )
        if hits.loaded_fraction is not None:
            found.append(
                f"{hits.loaded_fraction:.1%} of what was found came from host memory, loaded in the step that admitted "
                "its request."
            )
        if self.left_out_count:
            found.append(f"{self.left_out_count:,} requests of the trace have no time or no length, and were left out.")
        oversize = sum(each.counts.oversize for each in self.served.classes)
        if oversize:
            found.append(f"{oversize:,} requests are longer than the whole cache of {self.kv_tokens:,} tokens.")
        return tuple(found)

    def headlines(self) -> tuple[Headline, ...]:
        return (
            Headline(name="replica", value=self.replica),
            Headline(name="traffic", value=self.traffic),
            Headline(name="goodput", value=self.served.goodput_rps, unit="req/s"),
            Headline(name="keeping up", value="yes" if self.served.is_keeping_up else "no"),
        )

    def page(self) -> list[RenderableType]:
        from ullage.report.service.simulation_page import simulation_page

        return simulation_page(self)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        return document("simulate", self, as_of=self.as_of, seed=self.seed)


@dataclass(frozen=True, kw_only=True, repr=False)
class RepeatedTests(VerbAnswer):
    """Load tests, each simulated as it was run: what is predicted, its band, and what was measured."""

    replica: str
    step: StepModel
    predictions: tuple[Prediction, ...]
    left_out: tuple[NotRepeatable, ...]
    as_of: datetime.date
    anomalies: tuple[EvidenceAnomaly, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What to keep in mind when reading the numbers."""
        found = [*self.step.notes, *(each.sentence for each in self.anomalies)]
        found += [f"{each.point} was left out: it {each.reason}." for each in self.left_out]
        beyond = [each for each in self.predictions if each.doublings > 0.1]
        found += [
            f"{each.name} lies beyond what the step model was measured in ({2**each.doublings:.2g} times as many "
            "sequences, KV tokens or prompt tokens): its band is wider for it."
            for each in beyond
        ]
        return tuple(found)

    def headlines(self) -> tuple[Headline, ...]:
        judged = [one.is_inside for each in self.predictions for one in each.latencies if one.is_inside is not None]
        found = (
            Headline(name="replica", value=self.replica),
            Headline(name="load tests", value=len(self.predictions)),
        )
        if not judged:
            return found
        return (*found, Headline(name="measured inside the band", value=f"{sum(judged)} of {len(judged)}"))

    def page(self) -> list[RenderableType]:
        from ullage.report.service.simulation_page import predictions_page

        return predictions_page(self)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        return document("simulate", self, as_of=self.as_of)


def simulate(
    load: LoadChoice = LoadChoice(),  # noqa: B008 - frozen
    *,
    replica: ReplicaChoice = ReplicaChoice(),  # noqa: B008 - frozen
    plan: PlanSource = None,
    set: SetValues = (),  # noqa: A002
    traffic: str | float | None = None,
    pool: ServedPool | None = None,
    prefill: str | None = None,
    transfer: str | None = None,
    slos: Sequence[str] = (),
    as_of: datetime.date | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> Simulated | RepeatedTests | SplitSimulated | Refusal:
    """Serve the traffic on a pool of replicas, and say what became of it.

    Load tests, and made-up clients that wait for their answers, are simulated as `calibrate` does, with a band around
    each latency.

    The replica is named in `replica`, or taken from the plan; `slos` such as `chat:ttft_p95=500ms` say what makes
    a request good. A trace is replayed as it was, or scaled so that bursts stay bursts. With `prefill`, such as
    `2:tp=4`, the replicas decode alone behind a prefill pool, beside other splits of the devices and colocated ones; a
    plan whose pool is apart is simulated so with the replicas that it needs, unless stated.
    """
    from ullage.load.pool import PoolSides, load_replica
    from ullage.service.served import ServedPool
    from ullage.verbs.answers.split_answer import chosen_sides

    # Traffic is scaled where it is made, whatever it comes from; a plan that lends it is read as it is.
    load = replace(load, traffic_ratio=load.traffic_ratio * parse_changes((), traffic).traffic_ratio)
    # One run is one sequence of events: there is nothing in it for a second core.
    with running(as_of=as_of, seed=seed, workers=1, progress=progress) as run:
        planned = _planned(load, replica, plan, parse_changes(set), slos, run)
        if isinstance(planned, Rejection):
            return refusal(planned)
        own_sides = planned if isinstance(planned, PoolSides) and not replica.is_named else None
        sides = chosen_sides(own_sides, prefill, transfer, pool or ServedPool(), run)
        if isinstance(sides, Rejection):
            return refusal(sides)
        chosen_prefill, chosen = sides
        planned = planned.whole if isinstance(planned, PoolSides) else planned
        found = load_replica(replica, planned, as_of=run.as_of)
        if isinstance(found, Rejection):
            return refusal(found)
        memory, step, name = found
        if load.load_tests or load.clients is not None:
            return _repeated(
                load, memory, step, name, chosen, run.as_of, is_named=replica.is_named, prefill=chosen_prefill
            )
        if chosen_prefill is not None:
            apart = _apart(load, chosen_prefill, memory, step, name, planned, chosen, slos, run)
            return refusal(apart) if isinstance(apart, Rejection) else apart
        judged = None
        if planned is not None and not replica.is_named and not load.traces and load.prompt_tokens is None:
            sized = _judged(load, planned, chosen, run)
            if isinstance(sized, Rejection):
                return refusal(sized)
            chosen, judged = sized
        if planned is not None and not replica.is_named:
            settings = memory.runtime.settings
            chosen = chosen.behind(settings.router, settings.router_refresh_s)
        return _served(load, memory, step, name, planned, chosen, judged, slos, run)


def _served(
    load: LoadChoice,
    memory: MemoryBudget,
    step: StepModel,
    name: str,
    planned: CurveInputs | None,
    pool: ServedPool,
    judged: JudgedPool | None,
    slos: Sequence[str],
    run: RunContext,
) -> Simulated:
    """The traffic on replicas that do both, prompts and answers."""
    import numpy as np

    from ullage.service.served import serve
    from ullage.service.stage import replica_of
    from ullage.verbs.simulate_load import load_stream

    served_by = replica_of(step, memory)
    run.progress(0.02, "traffic")
    stream, said = load_stream(load, planned, np.random.default_rng(run.seed))
    served = serve(
        served_by,
        stream,
        _classes(stream, planned, slos),
        floor=step.floor,
        pool=pool,
        seed=run.seed,
        report=lambda fraction: run.progress(0.1 + 0.85 * fraction, "serving"),
    )
    run.progress(1.0)
    return Simulated(
        replica=name,
        step=step,
        kv_tokens=served_by.engine.kv_tokens,
        traffic=said,
        left_out_count=stream.left_out_count,
        pool=pool,
        judged=judged,
        served=served,
        seed=run.seed,
        as_of=run.as_of,
        prefixes=CHAINED if stream.parent is not None else CHAINS_ASSUMED,
    )


def _apart(
    load: LoadChoice,
    prefill: PrefillChoice,
    memory: MemoryBudget,
    step: StepModel,
    name: str,
    planned: CurveInputs | None,
    pool: ServedPool,
    slos: Sequence[str],
    run: RunContext,
) -> SplitSimulated | Rejection:
    """The traffic on a prefill pool and a decode pool."""
    import numpy as np

    from ullage.verbs.answers.split_answer import check_apart, serve_apart
    from ullage.verbs.simulate_load import load_stream

    check_apart(pool)
    stream, said = load_stream(load, planned, np.random.default_rng(run.seed))
    classes = _classes(stream, planned, slos)
    return serve_apart(
        prefill, memory, step, stream, classes,
        pool=pool, names=(name, said), as_of=run.as_of, seed=run.seed,
    )  # fmt: skip


def _planned(
    load: LoadChoice,
    replica: ReplicaChoice,
    plan: PlanSource,
    changes: Changes,
    slos: Sequence[str],
    run: RunContext,
) -> CurveInputs | PoolSides | Rejection | None:
    """What the plan lends, the replica or the traffic; nothing where both are the run's own."""
    from ullage.load.pool import load_sides

    has_own = bool(load.traces) or bool(load.load_tests) or load.prompt_tokens is not None
    if changes and replica.is_named and has_own:
        fix = "Leave --set out, or leave the replica to the plan."
        problem = "changes a plan this run does not use"
        raise InputError(field="--set", value=", ".join(changes.texts), problem=problem, fix=fix)
    if not has_own and replica.is_named and plan is None:
        raise InputError(
            field="traffic",
            value="not given",
            problem="there is nothing to serve",
            fix="Give a trace, or --prompt-tokens and --output-tokens with --rate, or --plan FILE for its traffic.",
        )
    if replica.is_named and has_own:
        return None
    return load_sides(
        plan,
        slos=() if replica.is_named else slos,
        calibration=None if replica.is_named else replica.calibration,
        as_of=run.as_of,
        seed=run.seed,
        changes=changes,
    )


def _judged(
    load: LoadChoice, planned: CurveInputs, pool: ServedPool, run: RunContext
) -> tuple[ServedPool, JudgedPool | None] | Rejection:
    """The plan's own traffic on the plan's own replica: as many as it needs, unless stated, and what is judged of them.

    A pool whose clients or queues are others than the plan's is not the plan's.
    """
    from ullage.service.curve.sizing import judged_pool, size_pool

    if not pool.is_plain:
        return pool, None
    bases, planned_rps = planned.bases(run.seed), planned.demand.planning_rps
    if pool.replicas is None:
        sized = size_pool(bases, rate_rps=planned_rps, seed=run.seed, map=run.map)
        if isinstance(sized, Rejection):
            return sized
        pool = replace(pool, replicas=sized.conservative_replicas)
    rate_rps = (load.rate_rps or planned_rps) * load.traffic_ratio
    return pool, judged_pool(bases, replicas=pool.count, rate_rps=rate_rps, seed=run.seed, map=run.map)


# ---- load tests ----------------------------------------------------------------------------------------


def _repeated(
    load: LoadChoice,
    memory: MemoryBudget,
    step: StepModel,
    name: str,
    pool: ServedPool,
    day: datetime.date,
    *,
    is_named: bool,
    prefill: PrefillChoice | None,
) -> RepeatedTests:
    """Each point of the load tests, or the test that so many clients would run, on one replica of the pool.

    Behind a prefill pool it is the whole of both pools that serves them.
    """
    from ullage.load.evidence import load_tests, test_names
    from ullage.service.calibration.calibration import Measurement
    from ullage.service.calibration.fitted import waiting_clients
    from ullage.service.calibration.prediction import predict
    from ullage.service.calibration.repeats import NotRepeatable, repeatable
    from ullage.verbs.answers.split_answer import apart_test, check_apart, split_under_test

    settings = memory.runtime.settings
    # Limits of a replica that is named are of the one that was tested; those of a plan's pool are what it will have.
    stated = is_named and (settings.max_sequences is not None or settings.step_tokens is not None)
    terms = replace(repeat_terms(load, memory, pool), are_limits_stated=stated)
    if prefill is not None:
        check_apart(pool)
        apart = apart_test(memory.model, memory.device, memory.runtime, prefill, pool.count, routing=pool.routing)
        split = split_under_test(prefill, memory.device, memory.runtime.sharding, pool.count)
        terms, name = replace(terms, apart=apart), f"{name}: {split.words}"
    tests = load_tests([Path(each) for each in load.load_tests]) if load.load_tests else ()
    named = [
        (f"{called} {point.name}", point)
        for called, test in zip(test_names(tests), tests, strict=True)
        for point in test.points
    ]
    if load.clients is not None:
        named.append((f"{load.clients} clients", clients_test(load)))
    found = [repeatable(replace(point, name=which), terms) for which, point in named]
    return RepeatedTests(
        replica=name,
        step=step,
        predictions=tuple(predict(step, each) for each in found if isinstance(each, Measurement)),
        left_out=tuple(each for each in found if isinstance(each, NotRepeatable)),
        as_of=day,
        anomalies=tuple(waiting_clients([point for _, point in named])),
    )


def repeat_terms(load: LoadChoice, memory: MemoryBudget, pool: ServedPool) -> RepeatTerms:
    """What is taken of a test that its file does not say: the scheduler's limits, and what is stated beside it."""
    from ullage.service.calibration.evidence import engine_limits
    from ullage.service.calibration.repeats import RepeatTerms

    return RepeatTerms(
        limits=engine_limits(memory.runtime, memory.kv_tokens),
        replicas=pool.count if pool.count > 1 else None,
        cached_fraction=load.cached_fraction,
        timeout_s=pool.timeout_s,
    )


def clients_test(load: LoadChoice) -> Point:
    """The point that clients with such requests would be, before anybody ran it.

    Lengths that nobody stated a spread of are spread as in most published tests: clients whose requests are all alike
    march in step, which those of a service never do.
    """
    from ullage.service.calibration.lengths import ASSUMED
    from ullage.service.calibration.replay import PROMPTS_PER_CLIENT
    from ullage.service.loadtests.loadtest import (
        LengthLaw,
        LengthRule,
        LoadTestSubject,
        Loop,
        OfferedLoad,
        Point,
        Tokens,
    )

    assert load.clients is not None
    least = load.least_fraction
    stated = LengthRule(
        law=LengthLaw.FIXED if (least or 0.0) >= 1.0 else LengthLaw.UNIFORM,
        least_fraction=least or 0.0,
        said_by="stated",
    )
    return Point(
        name=f"{load.clients} clients",
        subject=LoadTestSubject(),
        load=OfferedLoad(loop=Loop.CLOSED, concurrency_cap_count=load.clients),
        duration_s=None,
        completed_count=load.request_count or PROMPTS_PER_CLIENT * load.clients,
        tokens=Tokens(
            nominal_prompt_tokens=load.prompt_tokens,
            nominal_output_tokens=load.output_tokens,
            rule=ASSUMED if least is None else stated,
        ),
    )


def _classes(stream: Stream, planned: CurveInputs | None, slos: Sequence[str]) -> tuple[RequestClass, ...]:
    """The SLOs of the classes of the stream: by the plan where it names them, and by `slos` over that."""
    from ullage.load.typed import with_slos
    from ullage.workload.classes import RequestClass

    known = {} if planned is None else {each.name: each for each in planned.classes}
    named = [known.get(name) or RequestClass(name=name, slos=()) for name in stream.class_names]
    return with_slos(named, slos)
