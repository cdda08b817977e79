"""Measured points beside a service curve: where each lies, what the step model says of the same test, and whether
the two disagree by more than the evidence's band.

A load test has lengths and arrivals of its own, so its dot on the curve of a production mix shows a place, not an
error. The error is found by simulating the test as it was run: measured over simulated, beside the band of what the
step model predicts for it (prediction.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ullage.service.calibration.calibration import ERROR_SPREADS, Measurement
from ullage.service.calibration.prediction import predict
from ullage.service.calibration.repeats import NotRepeatable, RepeatTerms, measurement_of
from ullage.service.loadtests.loadtest import Definition, MeasuredRequest, Point
from ullage.service.steps.step_model import StepModel
from ullage.workload.classes import Metric, RequestClass, Slo
from ullage.workload.definitions import Definitions, ItlCount, TpotCount, TtftCount

# Two answers to one question differ by as much as repeats of one run do; twice that is no disagreement.
REPEAT_SPREADS = 2.0
# A test whose mean prompt or answer is further than this from the mix's is a test of other traffic.
LIKE_RATIO = 1.5


@dataclass(frozen=True, kw_only=True)
class PointResidual:
    """One measured latency beside the same test simulated, and beside the ends of the band."""

    latency: str
    statistic: str
    measured_s: float
    simulated_s: float
    low_s: float
    high_s: float

    @property
    def ratio(self) -> float:
        """Measured over simulated."""
        return self.measured_s / self.simulated_s

    @property
    def is_outside(self) -> bool:
        """Outside the band by more than repeats of one run differ."""
        noise = 1.0 + REPEAT_SPREADS * ERROR_SPREADS.get(self.latency, ERROR_SPREADS["ttft"])
        return not self.low_s / noise <= self.measured_s <= self.high_s * noise


@dataclass(frozen=True, kw_only=True)
class MeasuredPoint:
    """One point of a load test on a curve. `slos_s` are percentiles of SLOs that the file states, `use_ratio` is the
    share of its tightest limit that it used; `reason` says why a point was not simulated."""

    name: str
    offered_rps: float | None
    slos_s: Mapping[str, float]
    use_ratio: float | None
    use_of: str | None
    residuals: tuple[PointResidual, ...]
    prompt_tokens: float | None
    output_tokens: float | None
    is_like_mix: bool
    reason: str | None = None

    @property
    def anomalies(self) -> tuple[str, ...]:
        """A sentence for each latency that the step model does not account for."""
        return tuple(
            f"{self.name}: {each.latency} {each.statistic} was {each.measured_s:.3g} s, and {each.simulated_s:.3g} s "
            f"by the step model; its band allows {each.low_s:.3g} to {each.high_s:.3g} s. Calibrate on this test, or "
            "find what "
            "differs."
            for each in self.residuals
            if each.is_outside
        )


def measured_points(
    named: Sequence[tuple[str, Point]],
    step: StepModel,
    terms: RepeatTerms,
    *,
    classes: Sequence[RequestClass],
    mix_tokens: tuple[float, float],
) -> tuple[MeasuredPoint, ...]:
    """Every point of some load tests of one replica. `mix_tokens` are the mean prompt and answer of the curve's mix."""
    found = []
    for name, point in named:
        measurement = measurement_of(point, terms)
        slos_s, use = _stated_slos(point, classes)
        prompt, output = point.mean_prompt_tokens, point.mean_output_tokens
        found.append(
            MeasuredPoint(
                name=name,
                offered_rps=point.load.offered_rps or point.achieved_rps,
                slos_s=slos_s,
                use_ratio=None if use is None else use[0],
                use_of=None if use is None else use[1],
                residuals=() if isinstance(measurement, NotRepeatable) else _residuals(measurement, step),
                prompt_tokens=prompt,
                output_tokens=output,
                is_like_mix=_is_like(prompt, mix_tokens[0]) and _is_like(output, mix_tokens[1]),
                reason=measurement.reason if isinstance(measurement, NotRepeatable) else None,
            )
        )
    return tuple(found)


def _residuals(measurement: Measurement, step: StepModel) -> tuple[PointResidual, ...]:
    return tuple(
        PointResidual(
            latency=each.latency,
            statistic=each.statistic,
            measured_s=each.measured_s,
            simulated_s=each.predicted_s,
            low_s=each.low_s,
            high_s=each.high_s,
        )
        for each in predict(step, replace(measurement, shown=())).latencies
        if each.measured_s is not None
    )


def _wanted(metric: Metric, counted: Definitions) -> tuple[Definition, ...]:
    """What a file may call the latency that is counted so, the best match first."""
    if metric is Metric.TPOT and counted.tpot is TpotCount.WITH_FIRST:
        return (Definition.TPOT_WITH_FIRST, Definition.NTPOT)
    if metric is Metric.ITL and counted.itl is ItlCount.PER_REQUEST:
        return (Definition.ITL_PER_REQUEST, Definition.ITL_PER_REQUEST_BY_TOKEN, Definition.TPOT)
    return {
        Metric.TTFT: (Definition.TTFT,),
        Metric.TPOT: (Definition.TPOT, Definition.ITL_PER_REQUEST),
        Metric.ITL: (Definition.ITL_POOLED,),
        Metric.E2E: (Definition.E2E,),
    }[metric]


def _stated_slos(point: Point, classes: Sequence[RequestClass]) -> tuple[dict[str, float], tuple[float, str] | None]:
    """Every SLO's percentile that the point states, and the largest share of a limit that it used."""
    found = [
        (f"{each.name} {slo.name}", value_s, slo.limit_s)
        for each in classes
        for slo in each.slos
        if (value_s := _stated(point, slo, each.definitions)) is not None
    ]
    uses = [(value_s / limit_s, name) for name, value_s, limit_s in found]
    return {name: value_s for name, value_s, _ in found}, max(uses, default=None)


def _stated(point: Point, slo: Slo, counted: Definitions) -> float | None:
    """The percentile of the SLO as the file has it, by the definition of the SLO; None where it cannot be had."""
    late_s = _late_s(point) if slo.metric is Metric.TTFT and counted.ttft is TtftCount.FROM_DUE else 0.0
    summary = point.latency(*_wanted(slo.metric, counted))
    if summary is not None and (value_s := summary.at(slo.percentile_fraction)) is not None:
        return value_s + late_s
    values = [value for each in point.requests if (value := _of_request(each, slo.metric, counted)) is not None]
    # A percentile needs requests beyond it.
    if not point.has_every_request or len(values) * (1.0 - slo.percentile_fraction) < 1.0:
        return None
    return float(np.quantile(values, slo.percentile_fraction))


def _late_s(point: Point) -> float:
    """How late the client sent on average: what a percentile counted from sending leaves out at the least."""
    return 0.0 if point.client_delay is None else max(point.client_delay.mean_s or 0.0, 0.0)


def _of_request(request: MeasuredRequest, metric: Metric, counted: Definitions) -> float | None:
    if metric is Metric.TPOT and counted.tpot is TpotCount.WITH_FIRST:
        return request.ntpot_s
    if metric is Metric.TTFT and request.ttft_s is not None and counted.ttft is TtftCount.FROM_DUE:
        waited_s = (request.sent_s or 0.0) - (request.due_s if request.due_s is not None else request.sent_s or 0.0)
        return request.ttft_s + max(waited_s, 0.0)
    if metric is Metric.ITL:
        return request.tpot_s if counted.itl is ItlCount.PER_REQUEST else None
    return {Metric.TTFT: request.ttft_s, Metric.TPOT: request.tpot_s, Metric.E2E: request.e2e_s}[metric]


def _is_like(measured: float | None, wanted: float) -> bool:
    return measured is not None and wanted > 0 and 1 / LIKE_RATIO <= measured / wanted <= LIKE_RATIO
