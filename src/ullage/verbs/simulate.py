"""`simulate`: a trace, a plan's traffic or a plain load in, what a replica or pool makes of it out."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ullage.errors import InputError, Rejection

if TYPE_CHECKING:
    from numpy.random import Generator

    from ullage.memory.budget import MemoryBudget
    from ullage.service.calibration.pool_step import StepProfile
    from ullage.service.replica import Replica
    from ullage.service.served import Served, ServedPool
    from ullage.service.steps.step_model import StepModel
    from ullage.verbs.curve import CurveInputs
    from ullage.workload.classes import RequestClass
    from ullage.workload.synthetic.stream import Stream

ARRIVALS = ("poisson", "constant")
DEFAULT_SPAN_S = 600.0
"""How long traffic that is made rather than replayed lasts: long enough for thousands of requests of a busy replica."""
MOST_REQUESTS = 50_000_000


@dataclass(frozen=True, kw_only=True)
class ReplicaChoice:
    """The replica by name. Without a model and a device, that of the plan file (or of the built-in example).

    `kv_tokens` is what the engine said its cache holds; without it, what the memory budget leaves.
    `profile` is a CSV of measured steps, or `aiconfigurator`. `neighbours_busy_fraction` is how much of the time other
    engines on the same device run, all together.
    """

    model: str | Path | None = None
    device: str | None = None
    engine: str | None = None
    tp: int = 1
    pp: int = 1
    ep: int = 1
    dp_attention: int = 1
    max_sequences: int | None = None
    budget_tokens: int | None = None
    max_context_tokens: int | None = None
    kv_dtype: str | None = None
    kv_tokens: int | None = None
    neighbours_busy_fraction: float = 0.0
    profile: str | None = None
    calibration: Path | None = None

    @property
    def is_named(self) -> bool:
        return self.model is not None and self.device is not None


@dataclass(frozen=True, kw_only=True)
class LoadChoice:
    """The traffic: traces to replay, or lengths to make up, or else the plan's own busy hour.

    `rate_rps` is the total rate it is brought to; `scale_ratio` multiplies it, as more users would.
    """

    traces: tuple[str, ...] = ()
    mapping: tuple[tuple[str, str], ...] = ()
    zone: str = ""
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    arrivals: str = "poisson"
    rate_rps: float | None = None
    scale_ratio: float = 1.0
    span_s: float | None = None

    def __post_init__(self) -> None:
        if self.arrivals not in ARRIVALS:
            fix = f"Give one of {', '.join(ARRIVALS)}."
            raise InputError(field="--arrivals", value=self.arrivals, problem="is not known", fix=fix)
        if (self.prompt_tokens is None) != (self.output_tokens is None):
            raise InputError(
                field="--prompt-tokens",
                value=self.prompt_tokens,
                problem="a request has a prompt and an answer, and one of the two is not stated",
                fix="Give --prompt-tokens and --output-tokens together.",
            )
        if self.traces and self.prompt_tokens is not None:
            fix = "Give either the trace or the lengths."
            raise InputError(
                field="--prompt-tokens", value=self.prompt_tokens, problem="is given beside a trace", fix=fix
            )
        for option, value, example in (
            ("--rate", self.rate_rps, "5 req/s"),
            ("--scale", self.scale_ratio, "1.5"),
            ("--span", self.span_s, "10min"),
        ):
            if value is not None and not 0.0 < value < math.inf:
                fix = f"Give for example {example}."
                raise InputError(field=option, value=value, problem="must be greater than 0", fix=fix)


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """The outcome, and in words what was simulated on what."""

    replica: str
    step: StepModel
    kv_tokens: int
    traffic: str
    left_out_count: int
    pool: ServedPool
    served: Served
    seed: int
    as_of: datetime.date

    @property
    def notes(self) -> tuple[str, ...]:
        """What to keep in mind when reading the numbers."""
        found = [*self.step.notes]
        if not self.served.is_keeping_up:
            share = self.served.drift.growth_fraction
            found.append(
                f"The backlog was still growing when the last request came ({share:.0%} of what arrived stayed "
                "behind): this load is not sustained, and a longer run would show longer waits."
            )
        if self.left_out_count:
            found.append(f"{self.left_out_count:,} requests of the trace have no time or no length, and were left out.")
        oversize = sum(each.counts.oversize for each in self.served.classes)
        if oversize:
            found.append(f"{oversize:,} requests are longer than the whole cache of {self.kv_tokens:,} tokens.")
        return tuple(found)


def simulate(
    load: LoadChoice = LoadChoice(),  # noqa: B008 - frozen
    *,
    replica: ReplicaChoice = ReplicaChoice(),  # noqa: B008 - frozen
    plan: Path | None = None,
    pool: ServedPool | None = None,
    slos: Sequence[str] = (),
    as_of: datetime.date | None = None,
    seed: int = 0,
    progress: Callable[[float], None] = lambda _fraction: None,
) -> Simulated | Rejection:
    """Serve the traffic on a pool of replicas, and say what became of it.

    The replica is named in `replica`, or taken from the plan file; `slos` such as `chat:ttft_p95=500ms` say what makes
    a request good. A trace is replayed as it was, or scaled so that bursts stay bursts.
    """
    import numpy as np

    from ullage.service.served import ServedPool, serve

    day = as_of or datetime.datetime.now(tz=datetime.UTC).date()
    rng = np.random.default_rng(seed)
    if load.prompt_tokens is None and not load.traces and replica.is_named and plan is None:
        raise InputError(
            field="traffic",
            value="not given",
            problem="there is nothing to serve",
            fix="Give a trace, or --prompt-tokens and --output-tokens with --rate, or --plan FILE for its traffic.",
        )
    planned = None if replica.is_named and _is_own(load) else _planned(plan, replica, slos, day)
    if isinstance(planned, Rejection):
        return planned
    found = _named(replica, day) if replica.is_named else _of_plan(planned)
    if isinstance(found, Rejection):
        return found
    memory, alone, name = found
    step = _beside(alone, replica.neighbours_busy_fraction)
    served_by = _replica(step, memory, replica)
    progress(0.02)
    stream, traffic = _stream(load, planned, rng)
    classes = _classes(stream, planned, slos)
    chosen = ServedPool() if pool is None else pool
    served = serve(
        served_by,
        stream,
        classes,
        floor=step.floor,
        pool=chosen,
        seed=seed,
        report=lambda fraction: progress(0.1 + 0.85 * fraction),
    )
    progress(1.0)
    return Simulated(
        replica=name,
        step=step,
        kv_tokens=served_by.engine.kv_tokens,
        traffic=traffic,
        left_out_count=stream.left_out_count,
        pool=chosen,
        served=served,
        seed=seed,
        as_of=day,
    )


def _is_own(load: LoadChoice) -> bool:
    """Whether the traffic needs no plan."""
    return bool(load.traces) or load.prompt_tokens is not None


def rate_of(text: str | None) -> float | None:
    """A rate as typed, such as 5 req/s; a bare number is requests a second."""
    from ullage.units import REQUEST_RATE, parse

    if text is None:
        return None
    is_bare = text.replace(".", "", 1).strip().isdigit()
    return parse(f"{text} req/s" if is_bare else text, REQUEST_RATE, field="--rate")


def duration_of(text: str | None, field: str) -> float | None:
    """A time as typed, such as 10min."""
    from ullage.units import DURATION, parse

    return None if text is None else parse(text, DURATION, field=field)


# ---- the replica ---------------------------------------------------------------------------------------


def _planned(
    plan: Path | None, replica: ReplicaChoice, slos: Sequence[str], day: datetime.date
) -> CurveInputs | Rejection:
    from ullage.verbs.curve import load_pool

    if (replica.model is None) != (replica.device is None):
        raise InputError(
            field="--device" if replica.device is None else "--model",
            value="not given",
            problem="a replica is a model on a device",
            fix="Give both, or neither for the replica of the plan file.",
        )
    calibration = None if replica.is_named else replica.calibration
    return load_pool(plan, slos=slos if not replica.is_named else (), calibration=calibration, as_of=day)


def _of_plan(planned: CurveInputs | None) -> tuple[MemoryBudget, StepModel, str]:
    assert planned is not None
    return planned.memory, planned.step, planned.replica


def _named(replica: ReplicaChoice, day: datetime.date) -> tuple[MemoryBudget, StepModel, str] | Rejection:
    from ullage.evidence import Source
    from ullage.facts.device import find_device
    from ullage.load.calibration import read_calibration
    from ullage.memory.budget import memory_budget
    from ullage.memory.settings import RuntimeSettings
    from ullage.memory.sharding import Sharding
    from ullage.service.calibration.pool_step import StepEvidence, pool_step
    from ullage.verbs.facts import catalogue_of, model_of

    assert replica.model is not None
    assert replica.device is not None
    engines = catalogue_of("engines", None)
    settings = RuntimeSettings(
        source=Source(what="stated by the user", where="ullage simulate", date=day),
        engine=None if replica.engine is None else engines.find(replica.engine, field="engine").name,
        sharding=Sharding(tp=replica.tp, pp=replica.pp, ep=replica.ep, dp_attention=replica.dp_attention),
        max_sequences=replica.max_sequences,
        step_tokens=replica.budget_tokens,
        max_context_tokens=replica.max_context_tokens,
        kv_dtype=replica.kv_dtype,
    )
    memory = memory_budget(model_of(replica.model), find_device(replica.device), settings, engines=engines)
    if isinstance(memory, Rejection):
        return memory
    calibrations = () if replica.calibration is None else (read_calibration(replica.calibration),)
    step = pool_step(memory, StepEvidence(calibrations=calibrations, profile=_profile(replica, memory, day)))
    name = f"{memory.model.name} on {memory.runtime.sharding.devices} x {memory.device.name}"
    return memory, step, name


def _profile(replica: ReplicaChoice, memory: MemoryBudget, day: datetime.date) -> StepProfile | None:
    """The measured steps that were named, where they were."""
    from ullage.load.step_profile import read_step_profile

    if replica.profile is None:
        return None
    return read_step_profile(
        replica.profile,
        folder=Path(),
        model=memory.model,
        device=memory.device.name,
        engine=memory.runtime.engine,
        sharding=memory.runtime.sharding,
        as_of=day,
        field="--profile",
    )


def _beside(step: StepModel, busy_fraction: float) -> StepModel:
    """The step model beside other engines on its device; unchanged where there are none."""
    from ullage.service.steps.colocation import Neighbour, asks_of, beside, slow_ratio

    if not busy_fraction:
        return step
    neighbours = [Neighbour(name="others", busy_fraction=busy_fraction)]
    return beside(step, slow_ratio(asks_of(step), neighbours))


def _replica(step: StepModel, memory: MemoryBudget, choice: ReplicaChoice) -> Replica:
    """The replica, with the cache that its engine stated where it did."""
    from ullage.service.stage import replica_of

    stated = memory if choice.kv_tokens is None else replace(memory, kv_tokens=choice.kv_tokens)
    return replica_of(step, stated)


# ---- the traffic ---------------------------------------------------------------------------------------


def _stream(load: LoadChoice, planned: CurveInputs | None, rng: Generator) -> tuple[Stream, str]:
    if load.traces:
        return _replayed(load, rng)
    if load.prompt_tokens is not None:
        return _made(load, rng)
    assert planned is not None
    return _of_mix(load, planned, rng)


def _replayed(load: LoadChoice, rng: Generator) -> tuple[Stream, str]:
    from ullage.readers.traces.open import open_trace
    from ullage.workload.synthetic.replay import replayed, scaled
    from ullage.workload.trace import RateTable

    trace = open_trace(list(load.traces), mapping=dict(load.mapping) or None, zone=load.zone)
    if isinstance(trace, RateTable):
        raise InputError(
            field="trace",
            value=load.traces[0],
            problem="holds rates and length summaries, no single requests, so that there is nothing to replay",
            fix="Plan with it (workload.trace in a plan file), and simulate the plan: ullage simulate --plan FILE.",
        )
    whole = replayed(trace)
    stream = whole if load.span_s is None else _cut(whole, load.span_s)
    factor = load.scale_ratio * (1.0 if load.rate_rps is None else load.rate_rps / stream.rate_rps)
    _require_size(stream.requests * factor)
    said = f"{whole.requests:,} requests of {', '.join(Path(each).name for each in load.traces)}"
    if stream.requests != whole.requests:
        said = f"the first {stream.requests:,} of {said}"
    if factor == 1.0:
        return stream, f"{said}, as they came"
    return scaled(stream, factor, rng), f"{said}, scaled to {factor:.4g} times the traffic"


def _cut(stream: Stream, span_s: float) -> Stream:
    import numpy as np

    from ullage.workload.synthetic.stream import PS_PER_S

    until_ps = min(stream.until_ps, round(span_s * PS_PER_S))
    return replace(stream.where(np.flatnonzero(stream.arrival_ps < until_ps)), until_ps=until_ps)


def _made(load: LoadChoice, rng: Generator) -> tuple[Stream, str]:
    """Requests of one length, evenly spaced or by a Poisson process."""
    import numpy as np

    from ullage.workload.synthetic.stream import NO_SESSION, PS_PER_S, Stream

    assert load.prompt_tokens is not None
    assert load.output_tokens is not None
    if load.rate_rps is None:
        fix = "Give --rate, for example 5/s."
        raise InputError(field="--rate", value="not given", problem="made-up requests come at no rate", fix=fix)
    rate_rps, span_s = load.rate_rps * load.scale_ratio, load.span_s or DEFAULT_SPAN_S
    _require_size(rate_rps * span_s)
    if load.arrivals == "constant":
        arrival_s = np.arange(max(1, round(rate_rps * span_s))) / rate_rps
    else:
        count = max(1, int(rng.poisson(rate_rps * span_s)))
        arrival_s = np.sort(rng.uniform(0.0, span_s, count))
    count = arrival_s.size
    stream = Stream(
        arrival_ps=np.rint(arrival_s * PS_PER_S).astype(np.int64),
        prompt_tokens=np.full(count, load.prompt_tokens, np.int32),
        output_tokens=np.full(count, load.output_tokens, np.int32),
        cached_tokens=np.zeros(count, np.int32),
        reuse_blocks=np.zeros(count, np.int32),
        class_index=np.zeros(count, np.int16),
        tenant=np.zeros(count, np.int32),
        session=np.full(count, NO_SESSION, np.int32),
        class_names=("all",),
        deadlines_s=(float("inf"),),
        until_ps=round(span_s * PS_PER_S),
    )
    return stream, (
        f"{count:,} requests of {load.prompt_tokens:,} prompt and {load.output_tokens:,} output tokens, {load.arrivals}"
    )


def _of_mix(load: LoadChoice, planned: CurveInputs, rng: Generator) -> tuple[Stream, str]:
    """The plan's busy hour, with its bursts and sessions, without season and growth."""
    import numpy as np

    from ullage.workload.synthetic.model import HOURS_PER_WEEK, SyntheticModel, recipe
    from ullage.workload.synthetic.stream import generate

    model = planned.demand.busy_model
    level = SyntheticModel(
        classes=tuple(
            replace(each, season=(1.0,) * HOURS_PER_WEEK, weekly_growth_fraction=0.0, launches=())
            for each in model.classes
        )
    )
    own_rps = sum(each.mean_rate_rps for each in level.classes)
    rate_rps = (load.rate_rps or own_rps) * load.scale_ratio
    span_s = load.span_s or DEFAULT_SPAN_S
    _require_size(rate_rps * span_s)
    drawn = recipe(level, span_s=span_s, rng=rng)
    # Bursts move the rate inside the run; its mean is what was asked for, class by class.
    wanted = np.array([each.mean_rate_rps for each in level.classes]) * (rate_rps / own_rps)
    held = drawn.rates_rps * (wanted / np.maximum(drawn.rates_rps.mean(axis=0), 1e-300))
    stream = generate(replace(drawn, rates_rps=held), rng)
    return stream, f"{stream.requests:,} requests of the busy hour of {planned.service}"


def _require_size(requests: float) -> None:
    if requests > MOST_REQUESTS:
        raise InputError(
            field="traffic",
            value=f"{requests:,.0f} requests",
            problem=f"is more than {MOST_REQUESTS:,}",
            fix="Shorten it with --span, or lower --rate or --scale.",
        )


def _classes(stream: Stream, planned: CurveInputs | None, slos: Sequence[str]) -> tuple[RequestClass, ...]:
    """What is promised to the classes of the stream: by the plan where it names them, and by `slos` over that."""
    from ullage.verbs.curve import slo_class
    from ullage.workload.classes import RequestClass

    known = {} if planned is None else {each.name: each for each in planned.classes}
    named = [known.get(name) or RequestClass(name=name, slos=()) for name in stream.class_names]
    return slo_class(named, slos)
