"""Drills in which something is missing: memory, cached prefixes, replicas that are still starting, devices, a zone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ullage.fleet.failure import domains_of
from ullage.memory.estimate import LineName
from ullage.planning.drills.result import DrillResult, DrillVerdict, counted, first_of
from ullage.planning.drills.scenario import EVENT_S, RUNS, DrillAttainment, PoolScenario, Span, arrival_s
from ullage.service.trial.scenario import Scenario
from ullage.simulate.fleet import Fleet, FleetEvent
from ullage.simulate.load import OpenLoop

# A second process, a larger workspace, fragments: a tenth of the device is what estimates of memory are off by.
TAKEN_FRACTION = 0.1

_NOTHING_PASSES = "another device: four times the fleet does not pass"


def memory_drill(scenario: PoolScenario) -> DrillResult:
    """A tenth of each device's memory turns out to be taken, and the KV cache is what is left of it."""
    memory, name, title = scenario.pool.memory, "memory", "under-provisioned memory"
    line_bytes = memory.line(LineName.KV_CACHE).line_bytes
    taken_bytes = TAKEN_FRACTION * memory.device_bytes
    left_tokens = math.floor(memory.kv_tokens * (1.0 - taken_bytes / line_bytes))
    context, approved = memory.approved.context_tokens, memory.approved.sequences
    fits = max(0, left_tokens // context)
    said = f"{100 * TAKEN_FRACTION:g} % of each device is taken: {max(0, left_tokens):,} KV tokens per replica, "
    said += f"of {memory.kv_tokens:,}; {fits} requests of {context:,} tokens fit, {approved} approved."
    if fits < approved:
        return _too_few(scenario, fits, said, (approved * context - left_tokens) / memory.kv_tokens * line_bytes)
    span, engine, whole = scenario.span(), scenario.replica.engine, scenario.replicas
    small = replace(engine, kv_blocks=max(1, left_tokens // engine.block_tokens))

    def play(more: int, runs: int = 1) -> DrillAttainment:
        # The cache shrinks when replicas start anew, one in the place of the other.
        each = whole + more
        events = (
            FleetEvent(at_s=span.hit_s, kind="ready", replicas=tuple(range(each, 2 * each))),
            FleetEvent(at_s=span.hit_s, kind="drain", replicas=tuple(range(each))),
        )
        fleet = Fleet(replicas=(each, each), ready_replicas=each, events=events)
        setup = Scenario(fleet=fleet, engines=(engine, small), load_of=lambda seed: scenario.calm(seed, span.run_s))
        return scenario.play(setup, span, runs=runs)

    return scenario.judged(
        name,
        title,
        play(0, runs=RUNS),
        played=said,
        change=lambda: first_of((_more_replicas(scenario, play), _more_memory(scenario))),
        beside=(memory.figures["memory.kv_tokens"],),
    )


def _too_few(scenario: PoolScenario, fits: int, said: str, missing_bytes: float) -> DrillResult:
    """Less fits than was approved: no simulation is needed to know that those requests wait or are preempted."""
    memory = scenario.pool.memory
    ways = [f"{missing_bytes / 2**30:.3g} GiB a device more for the KV cache: {_more_memory(scenario)}"]
    return DrillResult(
        name="memory",
        title="under-provisioned memory",
        pool=scenario.pool.spec.name,
        verdict=DrillVerdict.FAILS,
        figure="longest requests that fit into a replica",
        before=memory.figures["memory.sequences"],
        during=scenario.figure(
            "memory.during_sequences",
            fits,
            "sequences",
            "remaining KV tokens / longest context",
            memory.figures["memory.kv_tokens"],
        ),
        wanted=f"{memory.approved.sequences} sequences",
        played=said if fits else f"{said} The engine does not start.",
        change=first_of([f"approved_concurrency: {fits}", *ways] if fits else ways),
    )


def _more_memory(scenario: PoolScenario) -> str:
    runtime = scenario.pool.memory.runtime
    return f"tensor_parallel: {2 * runtime.sharding.tp}, a smaller kv_dtype or less weight precision"


def cache_drill(scenario: PoolScenario) -> DrillResult:
    """No prompt finds its prefix: a new version, another hash, a router that forgot its sessions."""
    span = scenario.span()

    def load(seed: int) -> OpenLoop:
        calm = scenario.calm(seed, span.run_s)
        return replace(calm, requests=calm.requests.without_hits(arrival_s(calm) >= span.hit_s))

    def play(more: int, runs: int = 1) -> DrillAttainment:
        return scenario.play(Scenario(fleet=Fleet(replicas=scenario.replicas + more), load_of=load), span, runs=runs)

    calm = scenario.calm(scenario.seed, span.run_s).requests
    found = calm.cached_tokens if calm.prefixes is None else calm.prefixes.shared_tokens
    cached = 0.0 if found is None else float(found.sum()) / float(calm.prompt_tokens.sum())
    return scenario.judged(
        "cache-miss",
        "cache-miss shock",
        play(0, runs=RUNS),
        played=f"For {_minutes(span)} none of the {cached:.0%} of prompt tokens that are cached is found.",
        change=lambda: _more_replicas(scenario, play),
    )


def warm_up_drill(scenario: PoolScenario) -> DrillResult:
    """Demand rises as steeply as in the plan's week, and a requested replica serves only when it has started.

    The other reserves have other occasions, so the fleet is the steady one with its warm reserve.
    """
    warm, steady = scenario.pool.reserves.warm, scenario.pool.reserves.steady_replicas
    below = 1.0 - warm.rise_rps / scenario.planning_rps
    # What the steeper half of the rise lacks; less than one replica of it is still one that is not there.
    missing = min(steady - 1, math.ceil(steady * (1.0 - below) - 1e-9))
    rise_s = min(max(warm.ready_s, EVENT_S / 2), EVENT_S)
    span = scenario.span(2.0 * rise_s)
    rise_s = (span.end_s - span.hit_s) / 2.0

    def load(seed: int) -> OpenLoop:
        calm = scenario.calm(seed, span.run_s)
        ramp = np.clip((arrival_s(calm) - span.hit_s) / rise_s, 0.0, 1.0)
        return _thinned(calm, below + (1.0 - below) * ramp, seed)

    def play(spare: int, *, late_s: float, runs: int = 1) -> DrillAttainment:
        """With `spare` warm replicas, and others ready `late_s` after they are needed."""
        whole = steady + spare
        first = min(whole, steady - missing + spare)
        events = tuple(
            FleetEvent(
                at_s=span.hit_s + late_s + (place + 1) / (whole - first) * rise_s, kind="ready", replicas=(number,)
            )
            for place, number in enumerate(range(first, whole))
        )
        fleet = Fleet(replicas=whole, ready_replicas=first, events=events)
        return scenario.play(Scenario(fleet=fleet, load_of=load), span, runs=runs)

    held = warm.line.replicas
    kept = play(held, late_s=rise_s, runs=RUNS)
    # The comparison: replicas that are ready as soon as they are requested.
    kept = replace(kept, before=play(held, late_s=0.0, runs=RUNS).during)
    follows = str(scenario.pool.reserves.settings.warm.follows.value)

    def change() -> str:
        more = scenario.least_more(lambda extra: play(held + extra, late_s=rise_s).holds)
        if follows != "demand":
            return _NOTHING_PASSES if more is None else counted(more, "more replica")
        ways = [] if more is None else [counted(more, "more warm replica")]
        return first_of([*ways, "warm: {start: hot}", "warm: {follows: peak}"])

    return scenario.judged(
        "warm-up",
        "ignored warm-up",
        kept,
        played=(
            f"Demand rises by {warm.rise_rps:.3g} req/s while a replica starts ({warm.ready_s / 60:.3g} min): "
            f"{missing} of {counted(steady, 'replica')} late, {held} warm. Before: as if starts were instant."
            if follows == "demand"
            else f"The fleet stays at its planned {steady} replicas: nothing has to start."
        ),
        change=change,
        beside=(
            scenario.pool.time_to_ready.figures[f"ready.{scenario.pool.reserves.settings.warm.start.value}_p90_s"],
        ),
    )


def quota_drill(scenario: PoolScenario) -> DrillResult:
    """What runs is all there is: starting replicas do not come, a node fails, and nothing takes its place."""
    reserves = scenario.pool.reserves
    is_scaled = reserves.settings.warm.follows.value == "demand"
    rising = math.ceil(reserves.steady_replicas * reserves.warm.rise_rps / scenario.planning_rps)
    # A fleet never follows demand below one replica, so that one is never among those that start.
    starting = min(reserves.steady_replicas - 1, rising) if is_scaled else 0
    span = scenario.span()

    def play(more: int, runs: int = 1) -> DrillAttainment | None:
        placed = scenario.placed(more)
        node = max(max(zone, default=0) for zone in domains_of(placed, reserves.settings.reliability).zones)
        running = placed.replicas - starting
        if running <= node:
            return None
        fleet = Fleet(replicas=running, events=(FleetEvent(at_s=span.hit_s, kind="fail", replicas=tuple(range(node))),))
        return scenario.play(
            Scenario(fleet=fleet, load_of=lambda seed: scenario.calm(seed, span.run_s)), span, runs=runs
        )

    lost = max(max(zone, default=0) for zone in domains_of(scenario.placed(), reserves.settings.reliability).zones)
    stated = [row for row in reserves.placement.rows if row.quota_devices is not None]
    quota = f"{sum(row.devices for row in reserves.placement.rows)} devices are planned, " + (
        f"quotas are {', '.join(f'{row.zone} {row.quota_devices}' for row in stated)}"
        if stated
        else "no quota is stated"
    )
    said = (
        f"No more devices are available ({quota}): without {counted(starting, 'starting replica')} and a node of "
        f"{counted(lost, 'replica')} that is not replaced"
    )
    kept = play(0, runs=RUNS)

    def change() -> str:
        def passes(more: int) -> bool:
            found = play(more)
            return found is not None and found.holds

        more = scenario.least_more(passes)
        devices = reserves.devices_per_replica
        ways = (
            []
            if more is None
            else [f"{counted(more, 'more replica')}, {counted(more * devices, 'device')}, reserved in advance"]
        )
        return first_of([*ways, "warm: {follows: peak}" if starting else ""]) or _NOTHING_PASSES

    if kept is None:
        return _outage(scenario, "quota", "quota exhaustion", f"{said}: no replica is left.", change())
    return scenario.judged("quota", "quota exhaustion", kept, played=f"{said}.", change=change)


def zone_drill(scenario: PoolScenario) -> DrillResult:
    """The zone with the most replicas is lost."""
    name, title, span = "zone", "loss of a zone", scenario.span()
    zones = len([row for row in scenario.placed().rows if row.replicas])
    if zones < 2:
        return _outage(
            scenario,
            name,
            title,
            "All replicas are in one zone.",
            "policy: {zones: 2} and reliability: {survives: zone}",
        )

    def play(more: int, runs: int = 1) -> DrillAttainment:
        placed = scenario.placed(more)
        largest = max(placed.rows, key=lambda row: row.replicas)
        lost = placed.replicas_in(largest.zone)
        fleet = Fleet(replicas=placed.replicas, events=(FleetEvent(at_s=span.hit_s, kind="fail", replicas=lost),))
        return scenario.play(
            Scenario(fleet=fleet, load_of=lambda seed: scenario.calm(seed, span.run_s)), span, runs=runs
        )

    largest = scenario.placed().largest_zone_replicas
    survives = scenario.pool.reserves.settings.reliability.survives.value

    def change() -> str:
        ways = [_more_replicas(scenario, play)]
        if survives != "zone":
            ways.append("reliability: {survives: zone}, which reserves enough for the whole steady fleet")
        return first_of(ways)

    return scenario.judged(
        name,
        title,
        play(0, runs=RUNS),
        played=f"{largest} of {scenario.replicas} serving replicas are lost for {_minutes(span)}.",
        change=change,
    )


def _more_replicas(scenario: PoolScenario, play: Callable[[int], DrillAttainment]) -> str:
    more = scenario.least_more(lambda extra: play(extra).holds)
    if more is None:
        return "another device type, or looser SLOs: four times the fleet does not pass"
    devices = more * scenario.pool.reserves.devices_per_replica
    return f"{counted(more, 'more replica')} behind the router, {counted(devices, 'device')}"


def _outage(scenario: PoolScenario, name: str, title: str, played: str, change: str) -> DrillResult:
    required = max(slo.percentile_fraction for each in scenario.classes for slo in each.slos)
    return DrillResult(
        name=name,
        title=title,
        pool=scenario.pool.spec.name,
        verdict=DrillVerdict.FAILS,
        figure="requests answered",
        during=scenario.figure(f"{name}.during_fraction", 0.0, "fraction", f"no replica is left during {title}"),
        wanted=f"{100 * required:g} %",
        played=played,
        change=change,
    )


def _thinned(load: OpenLoop, keep: np.ndarray[tuple[int, ...], np.dtype[np.float64]], seed: int) -> OpenLoop:
    """Each request kept with its own chance, by a stream of draws of this seed."""
    kept = np.random.default_rng((seed, 3)).random(load.requests.count) < keep
    assert load.arrival_ps is not None
    return replace(load, arrival_ps=load.arrival_ps[kept], requests=load.requests.part(kept))


def _minutes(span: Span) -> str:
    return f"{(span.end_s - span.hit_s) / 60:.3g} min"
