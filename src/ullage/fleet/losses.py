"""Loss checks: the fleet as planned, simulated while parts fail, versions change and demand surges.

    loss_checks(...)  ->  LossTable of LossCheck: attainment before, during and after, time to recover, verdict

The fleet is the steady one with its reserves, at the planning rate, with steps as slow as the fleet was sized for: the
margin for evidence does not cover losses. A check that a reserve covers has to pass; one that no reserve covers is
simulated as well, and its verdict says that it is not covered.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ullage.errors import InputError, InternalError, Rejection
from ullage.evidence import Assumption, Figure
from ullage.fleet.failure import SURVIVED, failure_reserve
from ullage.fleet.loss_scenarios import SCENARIOS, LossFleet, LossScenario, Times
from ullage.fleet.reserves import Reserves
from ullage.fleet.sites import place
from ullage.fleet.steady import SteadyFleet
from ullage.service.trial.attainment import Attainment, Tallies, last_hurt_s, part
from ullage.service.trial.scenario import watched
from ullage.simulate.statistics import replication_seeds
from ullage.startup.ready import TimeToReady
from ullage.workload.demand.demand import Demand

TITLES = {
    "normal_day": "normal day",
    "peak_hour": "peak hour",
    "replica": "loss of a replica",
    "node": "loss of a node",
    "zone": "loss of a zone",
    "region": "loss of a region",
    "rollout": "rollout",
    "maintenance": "maintenance",
    "burst": "burst during scale-up",
    "cache_flush": "cache flush",
    "slow_replica": "slow replica",
}


class LossVerdict(enum.StrEnum):
    """What a check shows. Undecided: attainment is below the SLO by no more than the runs differ."""

    HOLDS = "holds"
    UNDECIDED = "undecided"
    BREAKS = "breaks"
    OUTAGE = "outage"


@dataclass(frozen=True, kw_only=True)
class LossEffort:
    """How much simulation the checks may cost: runs of each, and the longest loss that is played out."""

    replications: int = 4
    lead_s: float = 120.0
    before_s: float = 300.0
    after_s: float = 600.0
    longest_loss_s: float = 1800.0

    def __post_init__(self) -> None:
        if self.replications < 1 or min(self.lead_s, self.before_s, self.after_s, self.longest_loss_s) < 60.0:
            raise InputError(
                field="effort",
                value=self.replications,
                problem="is less than one run, or has a part of less than a minute",
                fix="Give at least one replication and 60 s for each part.",
            )


THOROUGH = LossEffort()
QUICK = LossEffort(replications=1, before_s=240.0, after_s=300.0, longest_loss_s=600.0)
"""What a plan runs: one replication, losses of ten minutes."""


@dataclass(frozen=True, kw_only=True)
class LossCheck:
    """One check. The parts show the SLO that comes off worst; None where nothing could be simulated.

    `covered_by` names the reserve that covers it, empty where none does. `recover_s` is how long after the loss the
    last SLO was hurt by it: 0 where none was, None where it still was at the end.
    """

    name: str
    title: str
    covered_by: str
    before: Attainment | None
    during: Attainment | None
    after: Attainment | None
    recover_s: float | None
    verdict: LossVerdict
    reason: str

    @property
    def is_covered(self) -> bool:
        return bool(self.covered_by)


@dataclass(frozen=True, kw_only=True)
class LossTable:
    """Every check in its order. `broken` are those that a reserve SLOs and that do not hold."""

    checks: tuple[LossCheck, ...]
    effort: LossEffort
    figures: Mapping[str, Figure]
    notes: tuple[str, ...]

    @property
    def broken(self) -> tuple[LossCheck, ...]:
        return tuple(each for each in self.checks if each.is_covered and each.verdict is LossVerdict.BREAKS)

    def check(self, name: str) -> LossCheck:
        return next(each for each in self.checks if each.name == name)


def loss_checks(
    demand: Demand,
    steady: SteadyFleet,
    reserves: Reserves,
    ready: TimeToReady,
    *,
    seed: int,
    effort: LossEffort = THOROUGH,
    names: Sequence[str] = tuple(SCENARIOS),
    map: Any = map,  # noqa: A002
) -> LossTable:
    """Play the named scenarios on the planned fleet; the same arrivals for all of them that share a load."""
    setup = _fleet(demand, steady, reserves, ready, effort)
    scenarios = {name: SCENARIOS[name](setup) for name in dict.fromkeys(("peak_hour", *names))}
    possible = {name: each for name, each in scenarios.items() if isinstance(each, LossScenario)}
    seeds = replication_seeds(seed, effort.replications)
    jobs = [(name, one) for name in possible for one in seeds]
    end_s = setup.times.end_s
    results = list(map(lambda job: watched(setup.trial, possible[job[0]], until_s=end_s, seed=job[1]), jobs))
    runs = {
        name: [found for job, found in zip(jobs, results, strict=True) if job[0] == name] for name in possible
    }  # fmt: skip
    price = _zone_price(steady, reserves, seed) if "zone" in names else ""
    checks = []
    for name in names:
        scenario = scenarios[name]
        if isinstance(scenario, LossScenario):
            calm = runs["peak_hour"] if scenario.is_on_calm_load and not scenario.is_calm else None
            checks.append(_check(name, runs[name], calm, setup, price))
        else:
            checks.append(_outage(name, scenario, reserves))
    return LossTable(
        checks=tuple(checks),
        effort=effort,
        figures=_figures(checks, steady, reserves),
        notes=_notes(setup, steady, effort),
    )


def _fleet(
    demand: Demand,
    steady: SteadyFleet,
    reserves: Reserves,
    ready: TimeToReady,
    effort: LossEffort,
) -> LossFleet:
    serving = place(
        reserves.steady_replicas + reserves.serving_replicas,
        reserves.placement.sites,
        devices=reserves.devices_per_replica,
        node_replicas=reserves.placement.node_replicas,
        spread_nodes=reserves.placement.spread_nodes,
    )
    if isinstance(serving, Rejection):
        raise InternalError(law="a part of a fleet that was placed can be placed", left=serving.reason, right=reserves)
    times = _times(effort, float(ready.figures["ready.cold_p90_s"].value), demand.planning_rps)
    return LossFleet(
        trial=steady.trial,
        demand=demand,
        reserves=reserves,
        serving=serving,
        times=times,
        brisk_ratio=max(1.0, _LEAST_REQUESTS / (demand.planning_rps * (times.back_s - times.lost_s))),
    )


# So few requests in a loss tell a p95 from a p90. A service with less traffic is simulated for longer.
_LEAST_REQUESTS = 600
# No simulation is longer than about a day; rarer traffic is sped up.
_MOST_LONGER = 48.0


def _times(effort: LossEffort, replacement_s: float, rate_rps: float) -> Times:
    loss_s = min(effort.longest_loss_s, max(replacement_s, 300.0))
    longer = min(max(1.0, _LEAST_REQUESTS / (rate_rps * loss_s)), _MOST_LONGER)
    lost_s = longer * (effort.lead_s + effort.before_s)
    back_s = lost_s + longer * loss_s
    return Times(counted_s=longer * effort.lead_s, lost_s=lost_s, back_s=back_s, end_s=back_s + longer * effort.after_s)


# The last requests of a run may not have come to their first token when it ends, and those that arrived shortly before
# a loss are still running when it cuts them off: they count as hit by it.
_EDGE_S = 60.0


def _zone_price(steady: SteadyFleet, reserves: Reserves, seed: int) -> str:
    """What it would take to survive the loss of a zone, for a plan that does not."""
    given = reserves.settings.reliability
    wanted = failure_reserve(
        steady.figures["fleet.replicas"],
        reserves.region.sites,
        replace(given, survives=replace(given.survives, value="zone")),
        devices=reserves.devices_per_replica,
        need=steady.need,
        seed=seed,
    )
    if isinstance(wanted, Rejection):
        return f"surviving it is refused: {wanted.reason}"
    more = wanted.line.replicas - reserves.failure.line.replicas
    return f"reliability.survives: zone would reserve {more} more replicas"


def _check(
    name: str, runs: Sequence[Tallies], calm: Sequence[Tallies] | None, setup: LossFleet, zone_price: str
) -> LossCheck:
    times = setup.times
    hit_s, last_s = times.lost_s - _EDGE_S, times.end_s - _EDGE_S
    before, during, after = (
        part(runs, from_s=start_s, until_s=stop_s)
        for start_s, stop_s in (
            (times.counted_s, hit_s),
            (hit_s, times.back_s),
            (times.back_s, last_s),
        )
    )
    hurt_s = last_hurt_s(runs, calm, from_s=hit_s, until_s=last_s)
    if hurt_s is None:
        recover_s: float | None = 0.0
    else:
        recover_s = None if hurt_s >= last_s else max(0.0, hurt_s - times.lost_s)
    covered = _covered_by(name, setup.reserves)
    verdict = _verdict([each for each in (during, after) if each is not None])
    return LossCheck(
        name=name,
        title=TITLES[name],
        covered_by=covered,
        before=before,
        during=during,
        after=after,
        recover_s=recover_s,
        verdict=verdict,
        reason=_reason(name, verdict, during, after, covered, zone_price),
    )


def _verdict(parts: Sequence[Attainment]) -> LossVerdict:
    if parts and all(each.holds for each in parts):
        return LossVerdict.HOLDS
    return LossVerdict.BREAKS if any(each.surely_breaks for each in parts) else LossVerdict.UNDECIDED


def _outage(name: str, why: str, reserves: Reserves) -> LossCheck:
    return LossCheck(
        name=name,
        title=TITLES[name],
        covered_by=_covered_by(name, reserves),
        before=None,
        during=None,
        after=None,
        recover_s=None,
        verdict=LossVerdict.OUTAGE,
        reason=why,
    )


def _covered_by(name: str, reserves: Reserves) -> str:
    """The reserve that covers a check, empty where none does."""
    fixed = {"normal_day": "steady", "peak_hour": "steady", "rollout": "rollout", "maintenance": "maintenance"}
    if name in fixed:
        return fixed[name]
    if name in SURVIVED:
        survives = str(reserves.settings.reliability.survives.value)
        return "failure" if SURVIVED.index(name) <= SURVIVED.index(survives) else ""
    if name == "region":
        return "region" if reserves.region.is_survived else ""
    return "warm" if name == "burst" else ""


def _reason(
    name: str,
    verdict: LossVerdict,
    during: Attainment | None,
    after: Attainment | None,
    covered: str,
    zone_price: str,
) -> str:
    if verdict is LossVerdict.HOLDS:
        return ""
    worst = min(
        (each for each in (during, after) if each is not None), key=lambda each: each.margin_fraction, default=None
    )
    if worst is None:
        return "no request arrived"
    met, required = 100 * worst.attained.value, 100 * worst.required_fraction
    broken = f"{worst.slo_name} met by {met:.3g} % of requests, {required:g} % required"
    if covered:
        return broken
    prices = {"zone": zone_price, "region": "failover: {survives: one} would reserve replicas for it"}
    return f"{broken}; not covered: {prices.get(name, 'no reserve covers it')}"


def _figures(checks: Sequence[LossCheck], steady: SteadyFleet, reserves: Reserves) -> dict[str, Figure]:
    rests: tuple[Figure | Assumption, ...] = (reserves.figures["reserve.replicas"], steady.size.band.slow_input)
    found = {}
    for check in checks:
        name = f"loss.{check.name}.verdict"
        found[name] = Figure(
            name=name,
            value=str(check.verdict),
            unit="",
            formula=f"{check.title}, covered by {check.covered_by or 'nothing'}, simulated",
            inputs=rests,
        )
        if check.during is not None:
            name = f"loss.{check.name}.attained_fraction"
            found[name] = Figure(
                name=name,
                value=check.during.attained.value,
                unit="fraction",
                formula=f"requests that met {check.during.slo_name} during {check.title}, simulated; "
                f"{check.during.required_fraction:g} is required",
                inputs=rests,
            )
        if check.recover_s is not None:
            name = f"loss.{check.name}.recover_s"
            found[name] = Figure(
                name=name,
                value=check.recover_s,
                unit="s",
                formula=f"until no SLO was violated any more by {check.title}, in windows of 20 s",
                inputs=rests,
            )
    return found


_TAKEN_FOR_GRANTED = (
    "The router knows of a failure at once, and interrupted requests are resent once. No request is refused: admission "
    "limits would keep more SLOs for fewer requests."
)


def _notes(setup: LossFleet, steady: SteadyFleet, effort: LossEffort) -> tuple[str, ...]:
    loss_s = setup.times.back_s - setup.times.lost_s
    runs = "one run" if effort.replications == 1 else f"{effort.replications} runs"
    slow_ratio, whole = steady.size.band.slow_ratio, setup.serving.replicas
    played = f"{setup.replicas} of {whole}" if setup.replicas < whole else f"{whole}"
    share = " with their share of the load and of every loss, rounded up" if setup.replicas < whole else ""
    return (
        f"{played} serving replicas{share} at the planning rate, {runs} of each check. "
        + (f"Steps are {slow_ratio:.3g} times nominal, as the fleet was sized. " if slow_ratio > 1.0 else "")
        + f"A loss lasts {loss_s / 60:.3g} min; a longer one that violates an SLO keeps violating it.",
        _TAKEN_FOR_GRANTED,
    )
