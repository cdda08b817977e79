"""The binding constraint: what stops a pool first when traffic grows, how far away it is, and what comes next.

Each constraint is relaxed by a quarter, all else equal, and the highest load that meets every SLO is found again:

    active tokens    KV blocks
    queueing         sequences and tokens that the scheduler admits to a step
    bandwidth        what a device reads in a second
    compute          what a device computes in a second

The change that frees most load names the binding constraint; the one that frees second most is next. A few replicas
stand for the pool: they run out of the same things. Two things are decided before that: where an idle pool already
uses half of the limit that is violated first, **latency** binds and load does not matter; where a tool accepts less
than the pool could serve, the **tool** binds and devices do not matter. Memory does not grow with traffic. Every
constraint also has its distance at the planned load, in its own unit against its own limit.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ullage.errors import InternalError
from ullage.evidence import Assumption, Figure
from ullage.memory.budget import MemoryBudget
from ullage.memory.estimate import LineName
from ullage.service.headroom import Headroom, LoadMargin
from ullage.service.replica import slowed_table
from ullage.service.steps.step_model import StepModel
from ullage.service.steps.step_parts import StepNeed, need_of, relieved
from ullage.service.trial.bases import Bases
from ullage.service.trial.decide import SCOUT, Beside, decide
from ullage.service.trial.search import highest_load, tested_pool
from ullage.service.trial.strata import WARMUP_FRACTION
from ullage.service.trial.trial import Trial
from ullage.service.trial.window import SAMPLES
from ullage.simulate.engine import Engine
from ullage.simulate.histogram import LogHistogram
from ullage.simulate.outcome import Outcome
from ullage.simulate.statistics import Interval, replication_seeds
from ullage.workload.classes import Metric, RequestClass, Slo
from ullage.workload.demand.tools import ToolLoads

MEMORY, ACTIVE_TOKENS, QUEUEING, BANDWIDTH, COMPUTE, TOOL, LATENCY = (
    "memory",
    "active tokens",
    "queueing",
    "bandwidth",
    "compute",
    "tool dependency",
    "latency",
)
# A pool at a twentieth of its load has batches of a few: latency without contention.
IDLE_FRACTION = 0.05
# An idle pool that uses more than half of a limit leaves less than half to all that load does.
HALF = 0.5
# A quarter more: enough to be seen through the noise, little enough to stay near the load in question.
RELIEF_RATIO = 1.25
# So few replicas behind a router run out of the same things as many.
REPLICAS = 2


@dataclass(frozen=True, kw_only=True)
class Constraint:
    """One constraint at the planned load: its value against its limit, in its own unit.

    `growth_fraction` is the growth of traffic at which it stops the pool, known of the binding one, of the next and of
    tools; negative where the planned load is beyond it already. `freed` is how much more load a quarter more of it
    would allow, as a fraction; None where it was not tried.
    """

    name: str
    what: str
    value: float
    limit_value: float
    unit: str
    growth_fraction: float | None = None
    freed: Interval | None = None

    @property
    def distance_fraction(self) -> float:
        """What is left, as a share of the limit."""
        return 1.0 - self.value / self.limit_value if self.limit_value > 0.0 else 0.0


@dataclass(frozen=True, kw_only=True)
class Binding:
    """All constraints, the binding one in front, then the next."""

    lines: tuple[Constraint, ...]
    basis: str
    figures: Mapping[str, Figure]
    notes: tuple[str, ...]

    @property
    def binding(self) -> Constraint:
        return self.lines[0]

    @property
    def is_met(self) -> bool:
        """Whether it stops the pool at a load that was tried; otherwise it is only the nearest."""
        return self.binding.growth_fraction is not None

    @property
    def following(self) -> Constraint:
        return self.lines[1]


def binding_constraint(
    bases: Bases,
    step: StepModel,
    memory: MemoryBudget,
    room: Headroom,
    *,
    seed: int,
    tools: ToolLoads | None = None,
    inputs: tuple[Figure | Assumption, ...] = (),
    map: Any = map,  # noqa: A002
) -> Binding:
    """Which constraint stops this pool first; `room` is its headroom at the planning rate."""
    traffic = room.line("traffic")
    beyond = traffic.holds_fraction if traffic.breaks_fraction is None else traffic.breaks_fraction
    trial, rate_rps = tested_pool(bases.conservative, room.rate_rps, room.replicas)
    few = replace(trial, replicas=min(REPLICAS, room.replicas))
    seeds = replication_seeds(seed, 2)
    growths = (IDLE_FRACTION - 1.0, 0.0, max(beyond, 0.01))
    idle, planned, broken = (_state(trial, rate_rps * (1.0 + growth), seeds, map) for growth in growths)
    views = _Views(trial=trial, idle=idle, planned=planned, broken=broken, growth_fraction=growths[2])
    need = need_of(step, trial.load(rate_rps, seeds[0]).requests, steps_per_request=planned.steps_per_request)
    held_tokens = 0.0 if tools is None else tools.held_tokens / room.replicas
    freed = _freed(few, bases, step, seed, map)
    lines = [_active_tokens(views, held_tokens), _queueing(views), *_device(need, rate_rps / trial.replicas)]
    lines = [replace(each, freed=freed[each.name]) for each in lines]
    ordered = _ordered(lines, _latency(views), _tool(tools), _memory(memory), views, room)
    found = Binding(lines=ordered, basis=trial.basis, figures={}, notes=_notes(ordered, traffic, need))
    return replace(found, figures=_figures(found, inputs))


def _freed(trial: Trial, bases: Bases, step: StepModel, seed: int, map: Any) -> dict[str, Interval]:  # noqa: A002
    """How much more load each relief allows, each end of the interval a step of the grid away."""
    scale = bases.conservative_probe

    brief = functools.partial(highest_load, probe=scale, seed=seed, effort=SCOUT, with_interval=False, map=map)
    base = brief(trial)
    # A relief is told from the pool as it is by the same windows.
    known = None
    if base.tried_rps > 0.0:
        found_at = decide(trial, base.tried_rps, scale, seed=seed, effort=SCOUT, map=map)
        known = Beside(trial=trial, found=found_at)
    found = {}
    for name, each in _reliefs(trial, step, bases.band.slow_ratio).items():
        now = brief(each, near_rps=base.rps, beside=known)
        gains = [(now.rps + shift * now.step_rps) / max(base.rps, base.step_rps) - 1.0 for shift in (0.0, -1.0, 1.0)]
        found[name] = Interval(value=gains[0], low=gains[1], high=gains[2], confidence_fraction=0.95)
    return found


def _reliefs(trial: Trial, step: StepModel, slow_ratio: float) -> dict[str, Trial]:
    """The pool with a quarter more of one thing, on the same step basis."""
    engine = trial.replica.engine

    def with_engine(other: Engine) -> Trial:
        return replace(trial, replica=replace(trial.replica, engine=other))

    def with_step(other: StepModel, sequences: int = engine.max_sequences, budget: int = engine.budget_tokens) -> Trial:
        table = other.table(max_sequences=sequences, budget_tokens=budget, kv_tokens=engine.kv_tokens)
        step = slowed_table(table, slow_ratio)
        return with_engine(replace(engine, step=step, max_sequences=sequences, budget_tokens=budget))

    sequences = math.ceil(engine.max_sequences * RELIEF_RATIO)
    budget = max(sequences * engine.step_positions, math.ceil(engine.budget_tokens * RELIEF_RATIO))
    return {
        ACTIVE_TOKENS: with_engine(replace(engine, kv_blocks=math.ceil(engine.kv_blocks * RELIEF_RATIO))),
        QUEUEING: with_step(step, sequences, budget),
        BANDWIDTH: with_step(relieved(step, bandwidth_ratio=RELIEF_RATIO)),
        COMPUTE: with_step(relieved(step, compute_ratio=RELIEF_RATIO)),
    }


# ---- what a load looks like ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _State:
    """One load, all replications together: latencies and queue times by class, KV held, steps taken."""

    latencies: Mapping[tuple[str, Metric], LogHistogram]
    queues: Mapping[str, LogHistogram]
    kv_tokens: float
    steps_per_request: float


def _state(trial: Trial, rate_rps: float, seeds: Sequence[int], map: Any) -> _State:  # noqa: A002
    def run(seed: int) -> Outcome:
        return trial.play(trial.load(rate_rps, seed), seed=seed, sample_s=trial.span_s / SAMPLES, is_shared=True)

    outcomes: list[Outcome] = list(map(run, seeds))
    latencies: dict[tuple[str, Metric], LogHistogram] = {}
    for each in trial.classes:
        groups = [outcome.of_class(each.name) for outcome in outcomes]
        latencies[each.name, Metric.TTFT] = LogHistogram.merged([group.ttft for group in groups])
        latencies[each.name, Metric.TPOT] = LogHistogram.merged([group.tpot for group in groups])
        latencies[each.name, Metric.E2E] = LogHistogram.merged([group.e2e for group in groups])
        latencies[each.name, Metric.ITL] = LogHistogram.merged([outcome.itl[each.name] for outcome in outcomes])
    queues = {
        each.name: LogHistogram.merged([outcome.of_class(each.name).queue for outcome in outcomes])
        for each in trial.classes
    }
    return _State(
        latencies=latencies,
        queues=queues,
        kv_tokens=float(np.mean([_kv_tokens(trial, outcome) for outcome in outcomes])),
        # Steps are counted from the start, requests after the warm-up.
        steps_per_request=sum(each.steps for outcome in outcomes for each in outcome.replicas)
        * (1.0 - WARMUP_FRACTION)
        / max(1, sum(outcome.total.counts.requests for outcome in outcomes)),
    )


def _kv_tokens(trial: Trial, outcome: Outcome) -> float:
    """KV tokens of a replica that 19 of 20 samples stay below, over replicas and time."""
    series = outcome.series
    if series is None:
        raise InternalError(law="a run that asked for samples has them", left=None, right=SAMPLES)
    window = (series.at_s > trial.warmup_s) & (series.at_s <= trial.span_s * (1 + 1e-9))
    inside = series.kv_tokens[window]
    return float(np.quantile(inside, 0.95)) if inside.size else 0.0


@dataclass(frozen=True, kw_only=True)
class _Views:
    """The pool nearly idle, as planned, and where an SLO is violated, which is `growth_fraction` above the plan."""

    trial: Trial
    idle: _State
    planned: _State
    broken: _State
    growth_fraction: float

    def slo_limits(self) -> list[tuple[RequestClass, Slo]]:
        return [(each, slo) for each in self.trial.classes for slo in each.slos]

    def value_s(self, state: _State, name: str, slo: Slo) -> float:
        found = state.latencies[name, slo.metric].quantile_s(slo.percentile_fraction)
        return found if math.isfinite(found) else 0.0

    def queue_s(self, state: _State, name: str, slo: Slo) -> float:
        """Time before admission at the SLO's percentile; a gap between tokens has none in it."""
        if slo.metric not in (Metric.TTFT, Metric.E2E):
            return 0.0
        found = state.queues[name].quantile_s(slo.percentile_fraction)
        return min(found if math.isfinite(found) else 0.0, self.value_s(state, name, slo))

    def is_slow_when_idle(self, breaks: str) -> bool:
        """Whether an idle pool uses half of the limit of the SLO that is violated first."""
        return any(
            self.value_s(self.idle, each.name, slo) >= HALF * slo.limit_s
            for each, slo in self.slo_limits()
            if f"{each.name} {slo.name}" == breaks
        )


# ---- the constraints -------------------------------------------------------------------------------------


def _memory(memory: MemoryBudget) -> Constraint:
    cache = float(memory.line(LineName.KV_CACHE).figure.value)
    return Constraint(
        name=MEMORY,
        what="KV cache of a device for the worst approved load",
        value=cache - memory.headroom_bytes,
        limit_value=cache,
        unit="bytes",
    )


def _active_tokens(views: _Views, held_tokens: float) -> Constraint:
    return Constraint(
        name=ACTIVE_TOKENS,
        what="KV tokens per replica, p95 of samples, with those held for tools",
        value=views.planned.kv_tokens + held_tokens,
        limit_value=float(views.trial.replica.engine.kv_tokens),
        unit="tokens",
    )


def _queueing(views: _Views) -> Constraint:
    """The wait that comes closest to using up what its SLO leaves for waiting."""

    def use(state: _State, name: str, slo: Slo) -> tuple[float, float]:
        waited = views.queue_s(state, name, slo)
        own = views.value_s(views.planned, name, slo) - views.queue_s(views.planned, name, slo)
        return waited, max(slo.limit_s - own, 1e-9)

    waits = [(each, slo) for each, slo in views.slo_limits() if slo.metric in (Metric.TTFT, Metric.E2E)]
    if not waits:
        return Constraint(name=QUEUEING, what="no SLO limits waiting", value=0.0, limit_value=1.0, unit="s")

    def ratio(state: _State, name: str, slo: Slo) -> float:
        waited, left = use(state, name, slo)
        return waited / left

    each, slo = max(waits, key=lambda one: ratio(views.broken, one[0].name, one[1]))
    waited, left = use(views.planned, each.name, slo)
    return Constraint(
        name=QUEUEING,
        what=f"wait before admission against what {each.name} {slo.name} leaves for it",
        value=waited,
        limit_value=left,
        unit="s",
    )


def _latency(views: _Views) -> Constraint:
    """The SLO that comes closest to its limit by what is not waiting."""

    def own_s(state: _State, name: str, slo: Slo) -> float:
        return views.value_s(state, name, slo) - views.queue_s(state, name, slo)

    each, slo = max(views.slo_limits(), key=lambda one: own_s(views.broken, one[0].name, one[1]) / one[1].limit_s)
    return Constraint(
        name=LATENCY,
        what=f"{each.name} {slo.name} without waiting",
        value=own_s(views.planned, each.name, slo),
        limit_value=slo.limit_s,
        unit="s",
    )


def _device(need: StepNeed, rate_rps: float) -> tuple[Constraint, Constraint]:
    """What a device reads and computes in a second at this rate, against what it could if it did nothing else."""
    return (
        Constraint(
            name=BANDWIDTH,
            what="weights and KV read by a device",
            value=rate_rps * need.read_bytes,
            limit_value=need.bandwidth_bytes_per_s,
            unit="bytes/s",
        ),
        Constraint(
            name=COMPUTE,
            what="operations done by a device",
            value=rate_rps * need.flops,
            limit_value=need.compute_flops,
            unit="flop/s",
        ),
    )


def _tool(tools: ToolLoads | None) -> Constraint | None:
    tightest = None if tools is None else tools.tightest
    if tightest is None:
        return None
    return Constraint(
        name=TOOL,
        what=f"tasks that tool {tightest.name} handles, by its {tightest.limited_by}",
        value=tightest.tasks_per_s,
        limit_value=tightest.capacity_tasks_per_s,
        unit="tasks/s",
        growth_fraction=tightest.growth_fraction,
    )


# ---- which of them binds ---------------------------------------------------------------------------------


def _ordered(
    tried: Sequence[Constraint],
    latency: Constraint,
    tool: Constraint | None,
    memory: Constraint,
    views: _Views,
    room: Headroom,
) -> tuple[Constraint, ...]:
    """The binding constraint first: by the load that relief frees, after latency and tools had their say."""
    traffic = room.line("traffic")
    lines = sorted(tried, key=lambda each: (-(each.freed.value if each.freed is not None else 0.0), each.name))
    lines.insert(0 if views.is_slow_when_idle(traffic.breaks) else len(lines), latency)
    if traffic.breaks_fraction is not None:
        lines[0] = replace(lines[0], growth_fraction=traffic.holds_fraction)
        if lines[0].freed is not None:
            beyond = (1.0 + traffic.holds_fraction) * (1.0 + max(0.0, lines[0].freed.value)) - 1.0
            lines[1] = replace(lines[1], growth_fraction=beyond)
    if tool is not None and tool.growth_fraction is not None:
        # With a quarter more of what binds, a pool takes at most a quarter more traffic before the next thing is met.
        relieved_growth = RELIEF_RATIO * (1.0 + views.growth_fraction) - 1.0
        earlier = (lines[0].growth_fraction or views.growth_fraction, relieved_growth)
        place = sum(tool.growth_fraction >= each for each in earlier)
        lines.insert(place if place < len(earlier) else len(lines), tool)
    return (*lines, memory)


def _figures(found: Binding, inputs: tuple[Figure | Assumption, ...]) -> dict[str, Figure]:
    if not inputs:
        return {}
    made: list[Figure] = []

    def make(name: str, value: float | str, unit: str, formula: str) -> None:
        made.append(Figure(name=f"binding.{name}", value=value, unit=unit, formula=formula, inputs=inputs))

    for key, line in (("constraint", found.binding), ("next", found.following)):
        make(key, line.name, "", f"binds {'first' if key == 'constraint' else 'next'} as traffic grows: {line.what}")
        if line.growth_fraction is not None:
            make(
                f"{key}_growth_fraction", line.growth_fraction, "fraction", f"growth of traffic until {line.name} binds"
            )
    for line in found.lines:
        key = line.name.replace(" ", "_")
        make(f"{key}_left_fraction", line.distance_fraction, "fraction", f"(limit - value) / limit: {line.what}")
    return {each.name: each for each in made}


def _notes(lines: Sequence[Constraint], traffic: LoadMargin, need: StepNeed) -> tuple[str, ...]:
    first = "Binding" if lines[0].growth_fraction is not None else "Nearest"
    notes = [f"{first} is {_sentence(lines[0])} Next is {_sentence(lines[1])}"]
    if traffic.breaks:
        notes.append(f"The first SLO to be violated as traffic grows is {traffic.breaks}.")
    else:
        notes.append(f"No SLO is violated up to {traffic.holds_fraction:.0%} more traffic, the most tried.")
    if need.is_peak:
        notes.append("Bandwidth and compute are against the data sheet's peaks: measured steps do not separate them.")
    return tuple(notes)


def _sentence(line: Constraint) -> str:
    if line.growth_fraction is None:
        return f"{line.name}."
    if line.growth_fraction < 0.0:
        return f"{line.name}, which takes {-line.growth_fraction:.0%} less than the planned traffic."
    return f"{line.name}, at {line.growth_fraction:.0%} more traffic."
