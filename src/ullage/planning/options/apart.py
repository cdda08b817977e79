"""Disaggregated prefill and decode as an option of a pool: how many replicas of each side, and whether it pays off.

Both sides are the pool's own replica, sized by the trial and the rule that size every candidate, each with its part of
every limit, then simulated together against the limits of the whole. The number of replicas of either side is the
least that meets its part, so the ratio of the two is found and not given. Beside it is the pool as it is: what it
needs is the least too, so on fewer devices it would violate an SLO.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ullage.cost.service_use import SECONDS_PER_HOUR
from ullage.errors import InputError, Rejection
from ullage.evidence import Assumption, Evidence, Figure
from ullage.fleet.risk.planning_point import PlanningPoint
from ullage.memory.kv import cache_cost
from ullage.memory.settings import resolve
from ullage.planning.options.candidates import Candidate
from ullage.planning.options.ranking import Ranked
from ullage.planning.options.screen import OptionRequest, fit_of, refused_candidate
from ullage.planning.options.trial import DEVICES, CandidateResult, CandidateTrial, mean_rps
from ullage.planning.planned_for import planned_for
from ullage.planning.sides import (
    handover_s,
    prefill_side,
    side_classes,
    together_figures,
    tried_together,
    violated_together,
)
from ullage.planning.spec import PlanSpec, PoolSpec
from ullage.service.phase import DECODE_SHARE, OVERLAP, PoolSide, Side, side_demand, side_name
from ullage.service.trial.decide import Effort
from ullage.simulate.statistics import Interval

PAYS, UNSURE, PAYS_NOT = "pays off", "may not pay off", "does not pay off"


@dataclass(frozen=True, kw_only=True)
class ApartOption:
    """The pool with prefill and decode apart, beside the pool as it is (None where that is refused).

    `score` and `own_score` are what candidates are ranked by, in `unit`. Replicas are steady ones and those in reserve.
    """

    name: str
    prefill_replicas: tuple[int, int]
    decode_replicas: tuple[int, int]
    own_replicas: tuple[int, int] | None
    steady_devices: int
    own_steady_devices: int | None
    paid_devices: int
    own_paid_devices: int | None
    score: Interval
    own_score: Interval | None
    unit: str
    evidence: Evidence
    bandwidth: Assumption
    figures: dict[str, Figure]

    @property
    def verdict(self) -> str:
        """Whether it pays beside the pool as it is, whatever the undecided numbers of replicas turn out to be."""
        if self.own_score is None or self.score.high < self.own_score.low:
            return PAYS
        return UNSURE if self.score.value < self.own_score.value else PAYS_NOT

    @property
    def note(self) -> str:
        """The row as a sentence: what it takes, whether it pays, what it rests on and what to measure first."""
        prefill, decode = sum(self.prefill_replicas), sum(self.decode_replicas)
        made = f"{prefill} prefill + {decode} decode replicas, {self.paid_devices} devices"
        if self.own_replicas is None or self.own_score is None or self.own_steady_devices is None:
            said = f"{self.name}: {made}, and every SLO is met, unlike the pool as it is"
        else:
            change = self.score.value / self.own_score.value - 1.0
            said = (
                f"{self.name}: {sum(self.own_replicas)} replicas, {self.own_paid_devices} devices -> {made}, "
                f"{change:+.0%}; it {self.verdict} at this load and these SLOs"
            )
            if self.steady_devices < self.own_steady_devices:
                said += (
                    f" (colocated replicas need {self.own_steady_devices} devices before reserves, and violate an SLO "
                    f"on the {self.steady_devices} that it takes)"
                )
        return f"{said}. {self._measure_first()}"

    def _measure_first(self) -> str:
        assumed = " is assumed" if self.bandwidth.evidence is Evidence.ASSUMED else " is stated"
        sent = f"{float(self.bandwidth.value) / 1e9:g} GB/s{assumed}"
        return (
            f"Evidence: {self.evidence}. Measure first: the transfer rate between replicas ({sent}), and TTFT of one "
            "prefill and one decode replica under load (docs/howto/split-prefill-and-decode.md says how far off it is)."
        )


def apart_option(
    pool: PoolSpec,
    asked: OptionRequest,
    places: Sequence[Ranked],
    *,
    effort: Effort,
    map: Any = map,  # noqa: A002
) -> ApartOption | Rejection | None:
    """The pool's own replica with prefill and decode apart, or why not; None where the pool is a side already."""
    if pool.phase is not None:
        return None
    name = f"{pool.device.name} tp{pool.settings.sharding.tp}, prefill and decode disaggregated"
    sides = apart_sides(pool, asked.spec.options.transfer)
    asked = replace(asked, point=sides_point(asked.spec, pool, sides))
    trials: list[CandidateTrial] = []
    results: list[CandidateResult] = []
    for side in sides:
        candidate = Candidate(name=side.name, pool=side, is_own=side.tested == pool.tested)
        found = _measured(candidate, asked, effort, map)
        if isinstance(found, Rejection):
            return replace(found, reason=f"{side.name}: {found.reason}")
        trials.append(found[0])
        results.append(found[1])
    prefill, decode = results
    together = tried_together(
        asked.spec, sides[0], asked.demand, (trials[0].bases, trials[1].bases),
        (prefill.steady_replicas, decode.steady_replicas), seed=asked.seed, map=map,
    )  # fmt: skip
    assert sides[0].phase is not None
    figures = together_figures(pool.name, together, sides[0].phase, decode.fit.inputs)
    if together.decision.violated:
        return violated_together(pool.name, together, figures)
    own = next((each.measured for each in places if each.measured.fit.candidate.is_own), None)
    return ApartOption(
        name=name,
        prefill_replicas=(prefill.steady_replicas, prefill.reserve_replicas),
        decode_replicas=(decode.steady_replicas, decode.reserve_replicas),
        own_replicas=None if own is None else (own.steady_replicas, own.reserve_replicas),
        steady_devices=together.pools.devices,
        own_steady_devices=None if own is None else own.steady_replicas * own.fit.devices,
        paid_devices=prefill.paid_devices + decode.paid_devices,
        own_paid_devices=None if own is None else own.paid_devices,
        score=_score(prefill, decode),
        own_score=None if own is None else own.score,
        unit=decode.unit,
        evidence=max((each.evidence for each in results), key=lambda each: each.rank),
        bandwidth=asked.spec.options.transfer,
        figures=figures,
    )


def sides_point(spec: PlanSpec, pool: PoolSpec, sides: tuple[PoolSpec, PoolSpec]) -> PlanningPoint:
    """What both sides are sized for: they share the chance, as in a plan that states them."""
    pools = tuple(one for each in spec.pools for one in (sides if each.name == pool.name else (each,)))
    return planned_for(replace(spec, pools=pools))[0]


def apart_sides(pool: PoolSpec, bandwidth: Assumption) -> tuple[PoolSpec, PoolSpec]:
    """The prefill and the decode side of a pool whose replica both are."""
    cache = resolve(pool.settings, pool.model, pool.device, pool.engines).cache
    phase = PoolSide(
        side=Side.PREFILL,
        pool=pool.name,
        bytes_per_token=cache_cost(pool.model, cache).bytes_per_token,
        bandwidth=bandwidth,
        overlap=OVERLAP,
        decode_share=DECODE_SHARE,
        handover_s=handover_s(pool),
    )
    prefill = prefill_side(pool, instance=pool.instance)
    return (
        replace(prefill, name=side_name(pool.name, Side.PREFILL), phase=phase),
        replace(pool, name=side_name(pool.name, Side.DECODE), phase=replace(phase, side=Side.DECODE)),
    )


def _measured(
    candidate: Candidate,
    asked: OptionRequest,
    effort: Effort,
    map: Any,  # noqa: A002
) -> tuple[CandidateTrial, CandidateResult] | Rejection:
    """One side as every candidate is measured, with its own traffic and limits."""
    phase = candidate.pool.phase
    assert phase is not None
    demand = side_demand(asked.demand, phase)
    try:
        served = side_classes(asked.spec.served_by(phase.pool), phase, asked.demand)
    except InputError as error:
        return refused_candidate("limits", error, candidate)
    own = replace(
        asked,
        demand=demand,
        classes=tuple(each.request_class for each in served),
        slo_limits=tuple(one for each in served for one in each.slo_limits),
    )
    if not any(each.slos for each in own.classes):
        fix = "State a limit on TTFT or on the end of a request."
        unlimited = InputError(field="slo", value="none", problem="no SLO limits how long a prompt waits", fix=fix)
        return refused_candidate("limits", unlimited, candidate)
    fit = fit_of(candidate, own)
    if isinstance(fit, Rejection):
        return fit
    trial = CandidateTrial(fit, map=map)
    found = trial.idle_refusal() or trial.measured(effort)
    return found if isinstance(found, Rejection) else (trial, found)


def _score(prefill: CandidateResult, decode: CandidateResult) -> Interval:
    """What a success costs on both sides: it has to be one on either; devices where one of them has no price."""
    success = prefill.success_fraction * decode.success_fraction
    parts = [each.score.low / each.score.value for each in (prefill, decode)]
    if DEVICES in (prefill.unit, decode.unit):
        value = float(prefill.paid_devices + decode.paid_devices)
    else:
        usd_per_hour = sum(each.usd_per_hour or 0.0 for each in (prefill, decode))
        value = usd_per_hour / max(mean_rps(decode.fit) * success * SECONDS_PER_HOUR, 1e-12)
    return Interval(value=value, low=value * min(parts), high=value, confidence_fraction=0.95)
