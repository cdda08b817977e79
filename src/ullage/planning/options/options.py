"""Options: which device to serve on, with which parallelism, and when to order it.

candidates  ->  screened by memory  ->  bounded by the roofline  ->  simulated in rounds, on the same seeds  ->  ranked

What is refused on the way is kept with its stage, reason and remedy. The best of every pool is followed through the
months to come, and mixes of devices are tried under shared quotas.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.errors import NotGiven, Rejection
from ullage.evidence import Figure
from ullage.planning.options.apart import ApartOption, apart_option
from ullage.planning.options.caches import CacheOption, cache_options
from ullage.planning.options.candidates import Candidate, candidates_of
from ullage.planning.options.lead_times import OrderNeed, Orders, order_dates
from ullage.planning.options.mix import VerifiedMix, device_mix
from ullage.planning.options.ranking import Lead, Ranked, Refused, ranked
from ullage.planning.options.screen import Fit, OptionRequest, fit_of
from ullage.planning.options.trial import ROUNDS, CandidateResult, CandidateTrial
from ullage.planning.planned_for import planned_for
from ullage.planning.sides import pool_asked, pool_classes
from ullage.planning.spec import PlanSpec, PoolSpec
from ullage.prices.book import MissingPrice
from ullage.service.trial.decide import Effort

# Refusals for lack of devices alone: a whole pool does not fit, a part of one may.
_QUOTA_STAGES = ("sites", "rollout")


@dataclass(frozen=True, kw_only=True)
class RefusedOption:
    """A candidate that was considered, and why it does not hold."""

    name: str
    rejection: Rejection


@dataclass(frozen=True, kw_only=True)
class PoolOptions:
    """What one pool may be made of, best first; `orders` are the months of the best, None where none holds."""

    pool: str
    ranking: tuple[Ranked, ...]
    refused: tuple[RefusedOption, ...]
    orders: Orders | None
    # For a mix: what was ranked, then what was refused for its quota alone.
    trials: tuple[CandidateTrial, ...]
    figures: Mapping[str, Figure]
    notes: tuple[str, ...]
    # Changes to caches and routers, each beside the pool with simulated caches, or why not.
    caches: tuple[CacheOption | Rejection, ...] = ()
    # Prefill and decode apart, or why not; None where the pool is one side of such a pool already.
    apart: ApartOption | Rejection | None = None

    @property
    def best(self) -> CandidateResult | None:
        return self.ranking[0].measured if self.ranking else None

    @property
    def candidates(self) -> int:
        return len(self.ranking) + len(self.refused)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of every pool, and the mix for all of them."""

    service: str
    as_of: datetime.date
    seed: int
    pools: tuple[PoolOptions, ...]
    mix: VerifiedMix | Rejection | NotGiven

    @property
    def holds(self) -> bool:
        """Whether every pool has a candidate that meets its SLOs, or a mix of them does."""
        return isinstance(self.mix, VerifiedMix) or all(each.ranking for each in self.pools)


def options(
    spec: PlanSpec,
    *,
    as_of: datetime.date,
    seed: int,
    rounds: Sequence[Effort] = ROUNDS,
    map: Any = map,  # noqa: A002
    jobs: Any = map,
) -> Options:
    """Every candidate of every pool: ranked or refused, with the months to order for and a mix of devices."""
    point, demand, _ = planned_for(spec)
    found: dict[str, PoolOptions] = {}
    for pool in spec.pools:
        own = pool_asked(spec, pool, demand)
        served = pool_classes(spec, pool, own)
        asked = OptionRequest(
            demand=own,
            classes=tuple(each.request_class for each in served),
            slo_limits=tuple(one for each in served for one in each.slo_limits),
            spec=spec,
            point=point,
            seed=seed,
        )
        found[pool.name] = pool_options(pool, asked, as_of=as_of, rounds=rounds, map=map, jobs=jobs)
    mix = device_mix(
        {name: each.trials for name, each in found.items()},
        split=spec.options.split,
        sites=spec.options.sites,
        map=map,
    )
    return Options(service=spec.name, as_of=as_of, seed=seed, pools=tuple(found.values()), mix=mix)


def pool_options(
    pool: PoolSpec,
    asked: OptionRequest,
    *,
    as_of: datetime.date,
    rounds: Sequence[Effort] = ROUNDS,
    map: Any = map,  # noqa: A002
    jobs: Any = map,
) -> PoolOptions:
    """The candidates of one pool: screened, bounded, ranked, and the best of them followed through the months."""
    candidates = candidates_of(pool, asked.spec.options, book=asked.spec.prices, buying=asked.spec.buying)
    fits, refused = _screened(candidates, asked)
    trials = [CandidateTrial(fit, map=map) for fit in fits]
    places, gone = ranked(trials, rounds=rounds, jobs=jobs)
    refused += [RefusedOption(name=fit.candidate.name, rejection=why) for fit, why in gone]
    order = {each.name: place for place, each in enumerate(candidates)}
    return PoolOptions(
        pool=pool.name,
        ranking=tuple(places),
        refused=tuple(sorted(refused, key=lambda each: order[each.name])),
        orders=_orders(places[0], asked, as_of) if places else None,
        trials=(*(each.trial for each in places), *_short_of_quota(trials, gone)),
        figures=_figures(places),
        notes=_notes(places),
        # Windows with simulated caches are long, so that caches fill: the first round's number of them.
        caches=cache_options(pool, asked, places, effort=rounds[0], map=map),
        apart=apart_option(pool, asked, places, effort=rounds[-1], map=map),
    )


def _screened(candidates: Sequence[Candidate], asked: OptionRequest) -> tuple[list[Fit], list[RefusedOption]]:
    fits: list[Fit] = []
    refused: list[RefusedOption] = []
    for each in candidates:
        found = fit_of(each, asked)
        if isinstance(found, Rejection):
            refused.append(RefusedOption(name=each.name, rejection=found))
        else:
            fits.append(found)
    return fits, refused


def _short_of_quota(trials: Sequence[CandidateTrial], gone: Sequence[Refused]) -> list[CandidateTrial]:
    short = {fit.candidate.name for fit, why in gone if why.stage in _QUOTA_STAGES}
    return [each for each in trials if each.fit.candidate.name in short]


def _orders(best: Ranked, asked: OptionRequest, as_of: datetime.date) -> Orders:
    fit = best.measured.fit
    return order_dates(
        asked.demand,
        lambda rate_rps: _need(best.trial, rate_rps),
        asked.spec.options.lead,
        purchases=[each for each, share in asked.spec.buying.mix.shares.items() if share.value],
        as_of=as_of,
        inputs=fit.inputs,
    )


def _need(trial: CandidateTrial, rate_rps: float) -> OrderNeed:
    replicas, devices = trial.devices_at(trial.fit.asked.with_margin_rps(rate_rps))
    return OrderNeed(replicas=replicas, devices=devices)


def _figures(places: Sequence[Ranked]) -> dict[str, Figure]:
    """What the best candidate was ranked by, and what it leaves of its SLOs."""
    if not places:
        return {}
    best = places[0].measured
    runs = "windows on common seeds"
    made = (
        Figure(
            name="option.devices",
            value=best.paid_devices,
            unit="devices",
            formula=f"{best.replicas} replicas of {best.name} with reserves, on whole machines; {runs}",
            inputs=best.fit.inputs,
        ),
        Figure(
            name="option.headroom_fraction",
            value=best.headroom_fraction,
            unit="fraction",
            formula="1 - the largest share of its limit that any SLO uses",
            inputs=best.fit.inputs,
        ),
    )
    cost = Figure(
        name="option.per_success_usd",
        value=best.score.value,
        unit=best.unit,
        formula=f"USD per device-hour x devices / successes per hour, devices alone; {runs}",
        inputs=best.fit.inputs,
    )
    return {each.name: each for each in ((*made, cost) if best.is_priced else made)}


def _speculation_notes(places: Sequence[Ranked]) -> list[str]:
    """What speculating, or no longer speculating, would do to the pool as it is, and what to measure before it."""
    own = next((each.measured for each in places if each.measured.fit.candidate.is_own), None)
    notes = []
    for each in places:
        run, other = each.measured, each.measured.fit.candidate.pool.settings.speculation
        if own is None or other == own.fit.candidate.pool.settings.speculation:
            continue
        change = run.score.value / own.score.value - 1.0
        verdict = "pays off" if run.score.high < own.score.low else "may not pay off"
        said = f"{run.name}: {own.replicas} -> {run.replicas} replicas, {change:+.0%}; it {verdict} at this load."
        if other is not None and not other.is_stated:
            said += (
                f" Measure first: tokens accepted per step on your own prompts ({other.rate_tokens:.2f} is assumed, as "
                "published for code), and TPOT at the busy hour's batch."
            )
        notes.append(said)
    return notes


def _untested(places: Sequence[Ranked]) -> list[str]:
    """Candidates on other devices that would be cheaper than the best if their steps were as short as estimated."""
    if not places:
        return []
    best = places[0].measured
    device = best.fit.candidate.pool.device.name
    found = [
        each.measured
        for each in places[1:]
        if each.measured.unit == best.unit
        and each.measured.fit.candidate.pool.device.name != device
        and each.measured.tested_score < best.score.value
    ]
    if not found:
        return []
    names = ", ".join(each.name for each in found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    return [f"Test before choosing: a load test could put {names} ahead of {best.name}, if steps are as estimated."]


def _notes(places: Sequence[Ranked]) -> tuple[str, ...]:
    notes = []
    missing = {
        each.measured.fit.candidate.pool.device.name: each.measured.fit.quotes
        for each in places
        if isinstance(each.measured.fit.quotes, MissingPrice)
    }
    if missing and len(missing) == len({each.measured.fit.candidate.pool.device.name for each in places}):
        notes.append("Not priced: candidates are ranked by devices paid for.")
    elif missing:
        notes.append("Candidates without a price come last, ranked by devices.")
    notes += [str(each) for each in dict.fromkeys(missing.values())]
    variants = {each.measured.fit.candidate.pool.model.name for each in places}
    if len(variants) > 1:
        notes.append(f"You state that {' and '.join(sorted(variants))} answer equally well; Ullage does not check it.")
    notes += _speculation_notes(places)
    if len(places) > 1 and places[0].lead is Lead.UNDECIDED:
        one, other = places[0].measured, places[1].measured
        notes.append(f"{one.name} and {other.name} are too close to call: another seed may swap them.")
    notes += _untested(places)
    return tuple(notes)
