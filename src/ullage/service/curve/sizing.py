"""How many replicas a rate needs, found by simulating the pool with its router and not by dividing.

The least pool that meets every SLO is found twice: with conservative step times, which is what is bought, and with
nominal ones, which would be enough if the step model were exactly right. The difference is what a load test can save.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ullage.errors import InternalError, Rejection
from ullage.evidence import Assumption, Figure
from ullage.service.curve.curve import CurvePoint, StablePoint, load_point, point_of
from ullage.service.curve.point import idle_refusal, weak_evidence
from ullage.service.curve.quick import quick_start
from ullage.service.steps.band import StepBand
from ullage.service.trial.bases import Bases
from ullage.service.trial.decide import BRIEF, FULL, Beside, Effort, decide
from ullage.service.trial.search import (
    RARE_REQUESTS,
    STEPS,
    HighestLoad,
    LeastReplicas,
    least_replicas,
    rare_traffic,
    tested_pool,
)
from ullage.service.trial.trial import CONSERVATIVE, NOMINAL, Trial
from ullage.service.trial.window import Probe
from ullage.simulate.statistics import Interval


@dataclass(frozen=True, kw_only=True)
class PoolSize:
    """The least replicas that meet every SLO at this rate, on both step bases.

    `conservative_replicas` is what to buy until step times are measured; `replicas` would do if the step times were
    exactly nominal. `low_replicas` to `high_replicas` are those that the windows cannot tell apart, on the
    conservative basis: where it is one number, it is decided. `at_size` is that pool at this rate.
    """

    rate_rps: float
    bases: Bases = field(compare=False)
    nominal: LeastReplicas
    conservative: LeastReplicas
    at_size: StablePoint
    devices: int
    figures: Mapping[str, Figure]

    @property
    def band(self) -> StepBand:
        return self.bases.band

    @property
    def replicas(self) -> int:
        return self.nominal.replicas

    @property
    def conservative_replicas(self) -> int:
        return max(self.conservative.replicas, self.nominal.replicas)

    @property
    def low_replicas(self) -> int:
        return max(self.conservative.low_replicas, 1)

    @property
    def high_replicas(self) -> int:
        return self.conservative_replicas

    @property
    def binding(self) -> str:
        return self.conservative.binding

    @property
    def trial(self) -> Trial:
        """The pool that is bought, as it was simulated, to ask it more questions."""
        return replace(self.bases.conservative, replicas=self.conservative_replicas)

    @property
    def probe(self) -> Probe:
        return self.bases.conservative_probe

    @property
    def notes(self) -> tuple[str, ...]:
        """How the number was decided."""
        found, rate = self.conservative, f"{self.rate_rps:.3g} req/s"
        tried = f"{found.windows} windows of {self.bases.conservative.span_s:.0f} s, the heaviest looked at most"
        notes = [f"Step basis: {self.bases.conservative.basis}. The share of requests over all such windows decides."]
        if found.is_decided:
            notes.append(f"The number of replicas for {rate} is decided after {tried}.")
        else:
            notes.append(
                f"{found.low_replicas} or {found.replicas} replicas: undecided after {tried}; the larger is taken."
            )
        if found.tested_replicas < found.replicas:
            notes.append(
                f"Simulated as a sub-pool of {found.tested_replicas} replicas with its share of the load; a smaller "
                "pool smooths less, so the number errs on the safe "
                "side."
            )
        elif found.tested_rps > self.rate_rps:
            notes.append(f"So low a load was tried at {found.tested_rps:.3g} req/s, which one replica carries too.")
        return tuple(notes)


def size_pool(
    bases: Bases,
    *,
    rate_rps: float,
    seed: int,
    effort: Effort = FULL,
    inputs: tuple[Figure | Assumption, ...] = (),
    map: Any = map,  # noqa: A002
) -> PoolSize | Rejection:
    """Size a pool for a total rate, or refuse where not even an idle replica meets the SLOs."""
    refused = idle_rejection(bases, seed=seed, inputs=inputs, map=map)
    if refused is not None:
        return refused
    # A sub-pool of a dozen replicas guides the search at a twentieth of the cost of the pool itself.
    near = quick_start(bases.conservative, bases.conservative_probe, rate_rps=rate_rps, seed=seed, map=map)
    conservative = least_replicas(
        bases.conservative, rate_rps, bases.conservative_probe, seed=seed, effort=effort, start=near, map=map
    )
    nominal = conservative
    if bases.has_margin:
        near = quick_start(bases.nominal, bases.nominal_probe, rate_rps=rate_rps, seed=seed, map=map)
        start = max(1, round(conservative.replicas / bases.band.slow_ratio)) if near is None else near
        nominal = least_replicas(
            bases.nominal,
            rate_rps,
            bases.nominal_probe,
            seed=seed,
            effort=BRIEF,
            start=start,
            is_bought=False,
            beside=Beside(
                trial=replace(bases.conservative, replicas=conservative.tested_replicas), found=conservative.at
            ),
            map=map,
        )
    at_size = _at_size(bases, conservative)
    if not isinstance(at_size, StablePoint):
        raise InternalError(law="a pool that meets its SLOs is sustained", left=conservative.replicas, right=rate_rps)
    found = PoolSize(
        rate_rps=rate_rps,
        bases=bases,
        nominal=nominal,
        conservative=conservative,
        at_size=at_size,
        devices=bases.nominal.replica.devices,
        figures={},
    )
    return replace(found, figures=_figures(found, inputs))


@dataclass(frozen=True, kw_only=True)
class JudgedPool:
    """So many replicas at a rate, by the windows and on the step basis that a pool is sized with."""

    replicas: int
    rate_rps: float
    basis: str
    span_s: float
    point: CurvePoint


def judged_pool(
    bases: Bases,
    *,
    replicas: int,
    rate_rps: float,
    seed: int,
    map: Any = map,  # noqa: A002
) -> JudgedPool:
    """What `size_pool` would find of this number at this rate."""
    trial, tried_rps = rare_traffic(bases.conservative, rate_rps)
    tested, tested_rps = tested_pool(trial, tried_rps, replicas)
    point = load_point(tested, tested_rps, bases.conservative_probe, seed=seed, effort=FULL, map=map)
    return JudgedPool(replicas=replicas, rate_rps=rate_rps, basis=trial.basis, span_s=trial.span_s, point=point)


def _at_size(bases: Bases, found: LeastReplicas) -> CurvePoint:
    return point_of(replace(bases.conservative, replicas=found.tested_replicas), found.at)


def idle_rejection(
    bases: Bases,
    *,
    seed: int,
    inputs: tuple[Figure | Assumption, ...],
    map: Any,  # noqa: A002
) -> Rejection | None:
    """Why no number of replicas would do, where a nearly idle one already violates an SLO on either basis."""
    for basis in (NOMINAL, CONSERVATIVE):
        trial, scale = bases.trial(basis), bases.probe(basis)
        rate_rps = max(scale.saturation_rps / STEPS, RARE_REQUESTS / trial.span_s)
        idle = decide(replace(trial, replicas=1), rate_rps, scale, seed=seed, effort=BRIEF, map=map)
        # Few requests come and go in such a window; whether their number grows is chance, and not the question.
        named = [each for each in idle.judged if not each.is_met]
        if named and rate_rps < scale.saturation_rps / 4.0:
            binding = min(named, key=lambda each: each.distance).name
            value = 0.0 if basis == NOMINAL else bases.nominal_probe.saturation_rps / STEPS
            none = HighestLoad(
                interval=Interval(value=value, low=value, high=value, confidence_fraction=0.95),
                binding=binding,
                windows=idle.windows,
                step_rps=scale.saturation_rps / STEPS,
            )
            if basis == NOMINAL:
                return idle_refusal(bases, none, seed=seed, inputs=inputs, map=map)
            return weak_evidence(none, bases.band, inputs)
    return None


def _figures(found: PoolSize, inputs: tuple[Figure | Assumption, ...]) -> dict[str, Figure]:
    if not inputs:
        return {}
    nominal = Figure(
        name="size.replicas",
        value=found.replicas,
        unit="replicas",
        formula="smallest pool that meets every SLO with nominal step times; one fewer violates "
        f"{found.nominal.binding}",
        inputs=inputs,
    )
    conservative = Figure(
        name="size.conservative_replicas",
        value=found.conservative_replicas,
        unit="replicas",
        formula=f"the same with every step {found.band.slow_ratio:.3g} times as long; one fewer violates "
        f"{found.binding}",
        inputs=(nominal, found.band.slow_input),
    )
    goodput = Figure(
        name="size.pooled_goodput_per_device_rps",
        value=found.at_size.goodput.value / found.devices,
        unit="req/s",
        formula=f"requests per second and replica that meet every limit / {found.devices} devices",
        inputs=(conservative,),
    )
    return {each.name: each for each in (nominal, conservative, goodput)}
