"""Scaling rules on published traffic: attainment and replica-hours of ours, of common rules and of a clairvoyant.

    python -m bench.scaling            four shapes of traffic; our rules, the one that costs least within the SLOs and
                                       the one that attains as much as the best listed rule, are searched on one day
                                       and judged on the next
    python -m bench.scaling --loop     what a loop at one-second signals costs beside the same run without one, on a
                                       day of 100 replicas, or on --hours

Rates are those of the published weeks, scaled so that the busiest ten minutes need about 8 replicas; lengths and
bursts are the built-in example's. Every rule is within the same bounds and meets the same arrivals.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

from ullage.errors import Rejection
from ullage.load.plan import load_plan
from ullage.memory.budget import memory_budget
from ullage.planning.planned_for import planned_for
from ullage.scaling.clairvoyant import clairvoyant
from ullage.scaling.equal import equal_rule
from ullage.scaling.judged import RuleResult, tally
from ullage.scaling.loop import ScalingPool, ScalingTraffic, run_rule
from ullage.scaling.plan import derive_rule, rule_lag_s, scaling_plan
from ullage.scaling.played import played
from ullage.scaling.published_rules import common_rules, tracking_rule
from ullage.scaling.rules import ScalingRule, ScheduleSpec
from ullage.scaling.search import SearchResult, search_rule
from ullage.scaling.signals import SignalTerms
from ullage.scaling.supply import CapacityLimits, StartTimes
from ullage.scaling.traffic import rated
from ullage.service.calibration.pool_step import pool_step
from ullage.service.stage import pool_bases
from ullage.service.trial.attainment import WINDOW_S
from ullage.service.trial.decide import BRIEF
from ullage.service.trial.search import highest_load
from ullage.simulate.fleet import Fleet
from ullage.startup.phases import Level
from ullage.startup.ready import time_to_ready
from ullage.workload.demand.demand import Demand

TRACES = Path(__file__).resolve().parents[2] / "shared" / "data" / "traces"
REPLICAS = 8
WIDTH_S = 600.0
DAY = 144
SEARCH_SEEDS = (0, 11, 12)
FASTER_SEEDS = (1, 2)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--loop", action="store_true")
    options.add_argument("--hours", type=int, default=24)
    asked = options.parse_args()
    if asked.loop:
        loop_cost(asked.hours)
        return
    if not TRACES.is_dir():
        sys.exit("The published traces are not beside the repository: nothing was measured.")
    pool, demand = setting()
    won = [compared(name, rates, pool, demand) for name, rates in weeks()]
    ways = ("with every SLO met", "attaining as much within the interval")
    print()
    for how, wins in zip(ways, zip(*won, strict=True), strict=True):
        print(f"at least 10 % fewer replica-hours than the best listed rule, {how}: {sum(wins)} of {len(wins)}")


def weeks() -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Two days of each, in ten-minute rates: one to search on, the next to judge by."""
    found = duckdb.connect()
    azure = found.execute(
        f"SELECT t_s, rpm_mid / 60 FROM '{TRACES}/azure2024_week_rate_digitised.parquet' "
        "WHERE service = 'code' ORDER BY 1"
    ).fetchnumpy()
    grid = (np.arange(2 * DAY) + 0.5) * WIDTH_S + 86_400.0
    times_s, rates_rps = (np.asarray(each, np.float64) for each in azure.values())
    yield "Azure code 2024, days 2-3", np.interp(grid, times_s, rates_rps)
    for model in ("m-large", "m-small"):
        rows = found.execute(
            f"SELECT t_s, sum(rate_rps) AS rate FROM '{TRACES}/servegen_client_rates.parquet' "
            f"WHERE model = '{model}' GROUP BY 1 ORDER BY 1"
        ).fetchnumpy()
        series = np.asarray(rows["rate"], np.float64)
        yield f"ServeGen {model}, days 2-3", series[DAY : 3 * DAY]
    hours = found.execute(f"SELECT * FROM '{TRACES}/burstgpt_agg_hourofday.parquet' ORDER BY 1").fetchnumpy()
    daily = np.repeat(np.asarray(hours["avg_requests_per_hour"], np.float64), 6)
    yield "BurstGPT hour of day", np.concatenate([daily, daily])


def setting() -> tuple[ScalingPool, Demand]:
    """The built-in example's replica on conservative steps, and what one of eight carries."""
    spec = load_plan(None, as_of=datetime.date(2026, 11, 15))
    demand = planned_for(spec)[1]
    pool = spec.pool
    memory = memory_budget(pool.model, pool.device, pool.settings, approved=pool.approved, engines=pool.engines)
    assert not isinstance(memory, Rejection)
    bases = pool_bases(pool_step(memory, pool.tested), memory, demand, spec.classes, seed=0)
    trial = replace(bases.conservative, replicas=REPLICAS)
    found = highest_load(trial, bases.conservative_probe, seed=0, effort=BRIEF, with_interval=False)
    ready = time_to_ready(memory, pool.start, rng=np.random.default_rng(0))
    levels = {level: ready.level(level).quantiles_s for level in Level}
    starts = StartTimes(cold_s=levels[Level.COLD], warm_s=levels[Level.WARM], hot_s=levels[Level.HOT])
    limits = CapacityLimits(most_replicas=REPLICAS + 3, node_replicas=4)
    scaled = ScalingPool(trial=trial, each_rps=found.rps, starts=starts, limits=limits)
    return scaled, demand


def compared(name: str, rates: NDArray[np.float64], pool: ScalingPool, demand: Demand) -> tuple[bool, bool]:
    model = demand.busy_model
    scaled = rates * REPLICAS * pool.each_rps / rates.max()
    # What one replica has in flight at the rate it carries.
    window = pool.trial.load(REPLICAS * pool.each_rps, 5)
    in_flight = pool.trial.play(window, seed=5).mean_outstanding_requests / REPLICAS
    first, second = scaled[:DAY], scaled[DAY : 2 * DAY]
    searched = [rated(f"{name}, first day", first, WIDTH_S, model, pool.trial, seed=each) for each in SEARCH_SEEDS]
    judged = [rated(f"{name}, second day", second, WIDTH_S, model, pool.trial, seed=each) for each in FASTER_SEEDS]
    hourly = first.reshape(24, 6).mean(axis=1)
    derived = derive_rule(
        hourly, each_rps=pool.each_rps, in_flight_requests=in_flight, lag_s=rule_lag_s(pool),
        ready_s=pool.starts.cold_p90_s, most=pool.limits.most_replicas,
    )  # fmt: skip
    weekly = tuple(np.tile(hourly, 7).tolist())
    found = search_rule(derived, pool, searched, hourly_rps=weekly)
    ours = played(found.rule, found.best.choice.behind(pool), judged)
    listed = [played(each, pool, judged) for each in common_rules(pool.limits.most_replicas, least=1)]
    knows = clairvoyant(pool, judged)
    print(f"\n{name}: {sum(each.load.requests.count for each in judged):,} requests; {_said(found.rule)}")
    for each in (ours, *listed, *([] if knows is None else [knows])):
        attained = each.attainment.attained
        met = "met" if each.is_met else "violated"
        print(
            f"  {each.name:<12}{100 * attained.value:7.2f} % [{100 * attained.low:.2f}, {100 * attained.high:.2f}] of "
            f"{each.attainment.slo_name:<16} {met:<9}{each.replica_hours:7.0f} replica-h"
        )
    # The best listed rule is the cheapest that meets every SLO, or the one that attains most.
    best = _best_listed(listed)
    less = 1.0 - ours.replica_hours / best.replica_hours
    no_lower = ours.is_met or ours.attainment.margin_fraction >= best.attainment.margin_fraction
    distance = "" if knows is None else f"; {ours.replica_hours / knows.replica_hours - 1.0:+.0%} over the clairvoyant"
    print(f"  ours against {best.name}: {less:.0%} fewer replica-hours{distance}")
    highest = max(listed, key=lambda each: each.attainment.margin_fraction)
    return less >= 0.1 and no_lower, at_equal(found, pool, searched, judged, highest, weekly)


def at_equal(
    found: SearchResult, pool: ScalingPool, searched: list[ScalingTraffic], judged: list[ScalingTraffic],
    other: RuleResult, hourly: tuple[float, ...],
) -> bool:  # fmt: skip
    """Our rule that attains as much as the listed rule that attains most, chosen on the first day as `ullage scale`
    chooses it; and the most that any course of replicas could save at that attainment."""
    listed = {each.name: each for each in common_rules(pool.limits.most_replicas, least=1)}
    equal = equal_rule(listed[other.name], found.best.choice, pool, searched, hourly_rps=hourly)
    if equal is None:
        print(f"  nothing of ours attains as much as {other.name} and saves anything on the first day")
        return False
    ours = played(equal.rule(hourly, pool.each_rps), equal.choice.behind(pool), judged)
    less = 1.0 - ours.replica_hours / other.replica_hours
    lost = other.attainment.margin_fraction - ours.attainment.margin_fraction
    half = (ours.attainment.attained.high - ours.attainment.attained.low) / 2.0
    print(
        f"  at the attainment of {other.name}: {equal.choice.settings()}, on the first day "
        f"{100 * equal.loss_fraction:.3f} points less ({100 * equal.allowed_fraction:.3f} allowed)\n"
        f"    {_attained(ours)} against {_attained(other)}, {100 * lost:.3f} points less; "
        f"{ours.replica_hours:.0f} against {other.replica_hours:.0f} replica-h, {less:.1%} fewer"
    )
    for allowed in (0.0, half):
        print(
            f"    any course of replicas: at most {_most_saved(pool, judged, other, allowed):.1%} fewer "
            f"at {100 * allowed:.2f} points less"
        )
    return less >= 0.1 and lost <= half


def _most_saved(pool: ScalingPool, judged: list[ScalingTraffic], other: RuleResult, allowed_fraction: float) -> float:
    """Of all courses of replicas, one number for each ten minutes, the cheapest that attains so much, in expectation.

    Requests that miss an SLO are counted for every fixed fleet and averaged over stretches of like load. The price of
    a miss is raised until the cheapest numbers at that price attain enough; starts and drains are free.
    """
    most, name = pool.limits.most_replicas, other.attainment.slo_name
    wide = round(WIDTH_S / WINDOW_S)
    needed = np.concatenate([each.rates_rps(WIDTH_S) for each in judged]) / pool.each_rps
    bad, sent = np.zeros((most + 1, needed.size)), np.zeros(needed.size)
    for count in range(1, most + 1):
        fixed = ScalingRule(name="fixed", spec=ScheduleSpec(times_s=(0.0,), replicas=(count,)))
        runs = [tally(run_rule(fixed, pool, each, start_replicas=count), pool).slos[name] for each in judged]
        sent = np.concatenate([each.sent.reshape(-1, wide).sum(axis=1) for each in runs]).astype(np.float64)
        bad[count] = sent - np.concatenate([each.good.reshape(-1, wide).sum(axis=1) for each in runs])
    like = np.digitize(needed, np.arange(0.5, most, 0.5))
    share = np.array([np.bincount(like, each) / np.maximum(np.bincount(like, sent), 1.0) for each in bad])[:, like]
    # A fleet below the load is no choice: what it leaves behind is counted in stretches that it does not.
    share[np.arange(most + 1)[:, None] < np.minimum(1.25 * needed, most)[None, :]] = np.inf
    wanted = 1.0 - other.attainment.attained.value + allowed_fraction
    counts = np.arange(most + 1, dtype=np.float64)[:, None]
    for price in np.geomspace(1.0, 1e7, 700):
        chosen = (counts + price * share * sent / sent.mean()).argmin(axis=0)
        if float(np.sum(share[chosen, np.arange(needed.size)] * sent) / sent.sum()) <= wanted:
            hours = float(chosen.sum()) * WIDTH_S / 3600.0
            return max(0.0, 1.0 - hours / other.replica_hours)
    return 0.0


def _attained(found: RuleResult) -> str:
    attained, slo = found.attainment.attained, found.attainment.slo_name
    return f"{100 * attained.value:.2f} % [{100 * attained.low:.2f}, {100 * attained.high:.2f}] of {slo}"


def _said(rule: ScalingRule) -> str:
    made = scaling_plan(rule, engine="vllm")
    floor = ", with a schedule as floor" if made.schedule else ""
    signal = f"{made.threshold_value:g} in flight a replica, a mean of {made.window_s:.0f} s"
    return f"{signal}, down after {made.down_window_s:.0f} s{floor}"


def _best_listed(listed: list[RuleResult]) -> RuleResult:
    met = [each for each in listed if each.is_met]
    if met:
        return min(met, key=lambda each: each.replica_hours)
    return max(listed, key=lambda each: each.attainment.margin_fraction)


def loop_cost(hours: int) -> None:
    """CPU seconds of a hundred replicas over a day's wave with a loop at one-second signals, and without one."""
    pool, demand = setting()
    hundred = replace(
        pool, limits=replace(pool.limits, most_replicas=100), signals=SignalTerms(scrape_s=1.0, delay_s=1.0)
    )
    model = demand.busy_model
    wave = 0.75 + 0.25 * np.sin(2.0 * np.pi * np.arange(6 * hours) / DAY)
    traffic = rated("wave", (90 * pool.each_rps * wave).tolist(), WIDTH_S, model, pool.trial, seed=0)
    rule = tracking_rule("loop", 20.0, least=40, most=100, up_s=0.0, down_s=300.0)
    pairs = [
        (_cpu_s(lambda: _plain(hundred, traffic)), _cpu_s(lambda: run_rule(rule, hundred, traffic, start_replicas=100)))
        for _ in range(6)
    ][1:]
    plain_s, loop_s = (float(np.median(each)) for each in zip(*pairs, strict=True))
    requests = traffic.load.requests.count
    print(f"{requests:,} requests on 100 replicas, {hours} hours: {plain_s:.2f} s without, {loop_s:.2f} s with a loop")
    ratio = float(np.median([looped / plain for plain, looped in pairs]))
    print(f"a loop at one-second signals costs {ratio:.2f} times the run without one, of five pairs; 1.3 is allowed")


def _plain(pool: ScalingPool, traffic: ScalingTraffic) -> None:
    pool.trial.play(
        traffic.load, seed=0, fleet=Fleet(replicas=100), warmup_s=0.0, until_s=traffic.span_s, keep_requests=True
    )


def _cpu_s(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


if __name__ == "__main__":
    main()
