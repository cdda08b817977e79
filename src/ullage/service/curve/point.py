"""The operating point: the highest load that meets every SLO, less margins that are named one by one.

    operating = highest x (1 - evidence) x (1 - policy)

The highest load is found on the production mix, bursts included. The evidence margin is found by simulation too: how
much lower would the highest load be if every step took as long as 1 in 10 cases of this class of evidence do?
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ullage.errors import InputError, InternalError, Rejection, Remedy
from ullage.evidence import Assumption, Evidence, Figure
from ullage.service.curve.curve import ServiceCurve, StablePoint, load_point
from ullage.service.curve.margin import NO_POLICY, Margin
from ullage.service.steps.band import DEFAULT_BANDS, StepBand
from ullage.service.trial.bases import Bases
from ullage.service.trial.decide import SCOUT
from ullage.service.trial.mix import MixLoad
from ullage.service.trial.search import RARE_REQUESTS, HighestLoad, highest_load
from ullage.service.trial.trial import CONSERVATIVE, NOMINAL

# A highest load that is known no better than this is worth a remark.
WIDE_FRACTION = 0.05


class Covered(Protocol):
    """The range a step model was measured in."""

    def covers(self, *, sequences: float, kv_tokens: float, prefill_tokens: float = 0) -> bool: ...


@dataclass(frozen=True, kw_only=True)
class OperatingPoint:
    """How much load one replica is given, and what it does with it.

    `highest` is the highest load with nominal step times, `conservative` the same with conservative ones, which the
    operating point is taken from; `at_point` is the replica simulated at the operating point with them. `low_rps` and
    `high_rps` are the 80 % band of the highest load under the evidence's own band. `anomalies` are what a reader has to
    know that no number says.
    """

    highest: HighestLoad
    conservative: HighestLoad
    margins: tuple[Margin, ...]
    operating_rps: float
    low_rps: float
    high_rps: float
    at_point: StablePoint
    knee_rps: float | None
    devices: int
    is_extrapolated: bool
    anomalies: tuple[str, ...]
    next_test: str | None
    figures: Mapping[str, Figure]

    def __post_init__(self) -> None:
        if self.operating_rps > self.highest.rps:
            raise InternalError(
                law="the operating point is not above the highest load that passes",
                left=self.operating_rps,
                right=self.highest.rps,
            )

    @property
    def notes(self) -> tuple[str, ...]:
        return self.anomalies if self.next_test is None else (*self.anomalies, self.next_test)

    @property
    def goodput_per_device_rps(self) -> float:
        return self.at_point.goodput.value / self.devices


def replica_point(
    curve: ServiceCurve,
    *,
    policy: Assumption = NO_POLICY,
    measured: Covered | None = None,
    map: Any = map,  # noqa: A002
) -> OperatingPoint | Rejection:
    """Find the load to run one replica at, or refuse where no load meets the SLOs.

    `measured` is the range the step model was measured in.
    """
    bases, known = curve.bases, curve.bases.band
    share = _policy_share(policy)
    search = functools.partial(highest_load, seed=curve.seed, map=map)
    passing_rps = max((each.offered_rps for each in curve.stable if each.passes), default=None)
    highest = search(
        bases.nominal,
        bases.nominal_probe,
        effort=SCOUT,
        with_interval=not bases.has_margin,
        near_rps=passing_rps if curve.basis == NOMINAL else None,
    )
    if highest.rps <= 0.0:
        return idle_refusal(bases, highest, seed=curve.seed, inputs=curve.inputs, map=map)
    slow = highest
    if bases.has_margin:
        near_rps = passing_rps if curve.basis == CONSERVATIVE else highest.rps / known.slow_ratio
        slow = search(bases.conservative, bases.conservative_probe, effort=SCOUT, near_rps=near_rps)
    brief = functools.partial(search, effort=SCOUT, with_interval=False)
    fast = highest
    if known.fast_ratio < 1.0:
        near_rps = highest.rps / known.fast_ratio
        fast = brief(bases.nominal.with_steps(known.fast_ratio), bases.nominal_probe, near_rps=near_rps)
    low_rps, high_rps = min(slow.rps, highest.rps), max(fast.rps, highest.rps)
    margins = (
        *_burst_margin(bases, highest, brief),
        Margin(
            name="evidence",
            share_fraction=1.0 - low_rps / highest.rps,
            reason=f"step times are {known.evidence}: {known.reason}",
        ),
        Margin(name="policy", share_fraction=share, reason=policy.source.what),
    )
    operating_rps = _less(highest.rps, margins)
    if operating_rps <= 0.0:
        return weak_evidence(highest, known, curve.inputs)
    at_point = load_point(
        bases.conservative, operating_rps, bases.conservative_probe, seed=curve.seed, effort=curve.effort, map=map
    )
    if not isinstance(at_point, StablePoint):
        raise InternalError(
            law="a load below one that is sustained is sustained", left=operating_rps, right=highest.rps
        )
    prompt_tokens = 0.0 if measured is None else _computed_tokens(curve, operating_rps)
    extrapolated = measured is not None and not measured.covers(
        sequences=at_point.running.high, kv_tokens=at_point.active_tokens.high, prefill_tokens=prompt_tokens
    )
    return OperatingPoint(
        highest=highest,
        conservative=slow,
        margins=margins,
        operating_rps=operating_rps,
        low_rps=low_rps,
        high_rps=high_rps,
        at_point=at_point,
        knee_rps=curve.knee_rps,
        devices=curve.trial.replica.devices,
        is_extrapolated=extrapolated,
        anomalies=_anomalies(curve, slow, at_point, operating_rps, prompt_tokens if extrapolated else None),
        next_test=_next_test(known, highest.rps, low_rps, operating_rps),
        figures=_figures(curve, highest, margins, known, policy, operating_rps, (low_rps, high_rps), at_point),
    )


def _burst_margin(bases: Bases, highest: HighestLoad, search: Callable[..., HighestLoad]) -> tuple[Margin, ...]:
    mix = bases.nominal.load_at
    if not isinstance(mix, MixLoad):
        return ()
    calm = search(replace(bases.nominal, load_at=mix.smooth), bases.nominal_probe, near_rps=highest.rps)
    share = max(0.0, 1.0 - highest.rps / calm.rps) if calm.rps > 0.0 else 0.0
    reason = f"without bursts the highest load would be {calm.rps:.3g} req/s; it is already lower by this"
    return (Margin(name="bursts", share_fraction=share, reason=reason, is_inside=True),)


def _less(highest_rps: float, margins: Sequence[Margin]) -> float:
    left = highest_rps
    for each in margins:
        if not each.is_inside:
            left *= 1.0 - each.share_fraction
    return left


def _policy_share(policy: Assumption) -> float:
    if isinstance(policy.value, str) or not 0.0 <= policy.value < 1.0:
        raise InputError(
            field=policy.name,
            value=policy.value,
            problem="must be a share from 0 to below 1",
            fix="Give for example 10%.",
        )
    return float(policy.value)


def _anomalies(
    curve: ServiceCurve,
    highest: HighestLoad,
    at_point: StablePoint,
    operating_rps: float,
    extrapolated_tokens: float | None,
) -> tuple[str, ...]:
    """`extrapolated_tokens` is the long prompt of a point outside the measured range; None for one inside."""
    found = []
    if extrapolated_tokens is not None:
        found.append(
            f"extrapolated: the point runs {at_point.running.value:.0f} sequences over "
            f"{at_point.active_tokens.value:.0f} KV tokens and computes up to {extrapolated_tokens:.0f} tokens of a "
            "prompt in a step, beyond what the step model was measured in"
        )
    for name, share in curve.bases.conservative.idle_error_fractions.items():
        if share > curve.trial.error_fraction:
            found.append(
                f"{share:.1%} of {name} exceed their deadline on an idle replica: their answers are longer than the "
                "deadline allows, on any "
                "hardware"
            )
    if highest.interval.relative_half_width_fraction > WIDE_FRACTION:
        found.append(
            f"the highest load is known within {highest.interval.relative_half_width_fraction:.0%} only, after "
            f"{highest.windows} windows"
        )
    if curve.knee_rps is not None and operating_rps > curve.knee_rps:
        found.append("the SLOs allow a load above the knee: a small rise in traffic adds much latency there")
    return tuple(found)


def _computed_tokens(curve: ServiceCurve, rate_rps: float) -> float:
    """The 95th percentile of what is computed of a prompt, as far as one step takes it."""
    trial = curve.trial
    drawn = trial.load(rate_rps, curve.seed).requests
    hits = 0 if drawn.cached_tokens is None else drawn.cached_tokens
    return float(min(np.percentile(drawn.prompt_tokens - hits, 95), trial.replica.engine.budget_tokens))


def _next_test(band: StepBand, highest_rps: float, low_rps: float, operating_rps: float) -> str | None:
    """Which measurement would narrow the evidence margin, and about what it is worth."""
    better = DEFAULT_BANDS[Evidence.CALIBRATED]
    if band.slow_ratio <= better.slow_ratio:
        return None
    # Between no error and this band's the loss is close to a straight line in the ratio.
    share = (better.slow_ratio - 1.0) / (band.slow_ratio - 1.0)
    gain_rps = (highest_rps - low_rps) * (1.0 - share)
    return (
        f"Load-test one replica on this mix at {operating_rps / 10:.2g} and at {operating_rps:.3g} req/s: a step model "
        f"calibrated on the two ends of load would allow about {gain_rps:.2g} req/s more per replica."
    )


def _figures(
    curve: ServiceCurve,
    highest: HighestLoad,
    margins: Sequence[Margin],
    band: StepBand,
    policy: Assumption,
    operating_rps: float,
    ends_rps: tuple[float, float],
    at_point: StablePoint,
) -> dict[str, Figure]:
    """The point as figures; empty where the curve does not say what it rests on."""
    if not curve.inputs:
        return {}
    made: dict[str, Figure] = {}

    def make(name: str, value: float, unit: str, formula: str, *inputs: Figure | Assumption) -> Figure:
        made[name] = Figure(name=name, value=value, unit=unit, formula=formula, inputs=inputs or curve.inputs)
        return made[name]

    top = make(
        "point.highest_rps",
        highest.rps,
        "req/s",
        f"highest simulated load of a replica that meets every SLO; the next violates {highest.binding}",
    )
    make("point.highest_low_rps", highest.interval.low, "req/s", "lowest that another seed would find, 95 %", top)
    make("point.highest_high_rps", highest.interval.high, "req/s", "highest that another seed would find, 95 %", top)
    taken: list[Figure] = []
    for each in margins:
        rests = {"evidence": (top, band.slow_input), "policy": (policy,)}.get(each.name, (top,))
        line = make(f"point.margin_{each.name}_fraction", each.share_fraction, "fraction", each.reason, *rests)
        if not each.is_inside:
            taken.append(line)
    rate = make("point.operating_rps", operating_rps, "req/s", "highest x (1 - evidence) x (1 - policy)", top, *taken)
    slowed = "highest load with the slowest (low) and fastest (high) step times of the band"
    make("point.band_low_rps", ends_rps[0], "req/s", slowed, top, band.slow_input)
    make("point.band_high_rps", ends_rps[1], "req/s", slowed, top, band.slow_input)
    goodput = make(
        "point.goodput_rps",
        at_point.goodput.value,
        "req/s",
        "requests per second that meet every limit, simulated",
        rate,
    )
    devices = curve.trial.replica.devices
    make(
        "point.alone_goodput_per_device_rps", at_point.goodput.value / devices, "req/s", f"goodput / {devices}", goodput
    )
    make("point.kv_use_fraction", at_point.kv_use.value, "fraction", "mean KV tokens held / KV tokens", rate)
    make(
        "point.running_requests",
        at_point.running.value,
        "requests",
        "mean running sequences at the operating point",
        rate,
    )
    make("point.queue_age_s", at_point.queue_age.value, "s", "p95 of the time until a request is admitted", rate)
    return made


def idle_refusal(
    bases: Bases,
    highest: HighestLoad,
    *,
    seed: int,
    inputs: tuple[Figure | Assumption, ...],
    map: Any = map,  # noqa: A002
) -> Rejection:
    """No load passes: say which SLO a nearly idle replica already violates, and which it could meet."""
    rate_rps = max(highest.step_rps, RARE_REQUESTS / bases.nominal.span_s)
    idle = load_point(bases.nominal, rate_rps, bases.nominal_probe, seed=seed, map=map)
    remedies = [Remedy(change="a faster device, more devices per replica, or a smaller model", effect="shorter steps")]
    name, _, what = highest.binding.partition(" ")
    figure = _plain(inputs, "point.violated_slo", highest.binding, "text")
    if isinstance(idle, StablePoint) and what in idle.latencies.get(name, {}):
        value_s = idle.latencies[name][what].value
        figure = _plain(inputs, f"point.idle.{name}.{what}", value_s, "s")
        change = f"a {what} above {value_s:.3g} s for {name}"
        remedies.insert(0, Remedy(change=change, effect="a nearly idle replica meets it"))
    return Rejection(
        stage="operating point",
        reason=f"no load meets the SLOs: even a nearly idle replica violates {highest.binding}",
        figure=figure,
        remedies=tuple(remedies),
    )


def weak_evidence(highest: HighestLoad, band: StepBand, inputs: tuple[Figure | Assumption, ...]) -> Rejection:
    """A load would pass with nominal step times, but none with conservative ones."""
    return Rejection(
        stage="operating point",
        reason=(
            f"the evidence is too weak: {highest.rps:.3g} req/s would pass with nominal step times, and none with "
            f"conservative ones, {band.slow_ratio:.3g} x as long"
        ),
        figure=_plain(inputs, "point.highest_rps", highest.rps, "req/s"),
        remedies=(
            Remedy(change="a load test of this configuration", effect="a narrower band of step times"),
            Remedy(change=f"a looser SLO than {highest.binding}", effect="room for the band"),
        ),
    )


def _plain(inputs: tuple[Figure | Assumption, ...], name: str, value: float | str, unit: str) -> Figure:
    return Figure(name=name, value=value, unit=unit, formula="simulated", inputs=inputs or (NO_POLICY,))
