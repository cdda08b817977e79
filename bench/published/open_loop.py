"""The vLLM runs on H100 under open-loop load by the users' path: calibrated on one workload, another one is predicted.

The files are inference-perf's, one a stage, with its configuration and the engine's launch arguments beside them, read
as a user's would be. Sent in overload, a part of the requests fails when its clients give up: its share is predicted
with a band.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.published.cases import DATA

from ullage.load.evidence import load_tests
from ullage.load.pool import ReplicaChoice
from ullage.service.calibration.prediction import PredictedLatency, Prediction
from ullage.service.loadtests.loadtest import Point
from ullage.verbs.calibrate_fit import Fitted, fit_calibration
from ullage.verbs.simulate import LoadChoice, RepeatedTests, simulate

RUNS = DATA / "loadtests" / "inference-perf" / "inference-sim-training"
# Llama-2-70B has the layers of Llama-3.1-70B and a smaller vocabulary.
CONFIGS = {"7b": ("inference-sim--llama-2-7b-hf", 1), "70b": ("inference-sim--llama-3.1-70b-instruct", 4)}


@dataclass(frozen=True, kw_only=True)
class OpenPrediction:
    """One stage of one run, predicted from another run of the same replica."""

    given: str
    asked: str
    prediction: Prediction
    success_fraction: float

    def error(self, latency: str, statistic: str) -> float | None:
        found = self._find(latency, statistic)
        return None if found is None or found.measured_s is None else found.predicted_s / found.measured_s - 1.0

    def _find(self, latency: str, statistic: str) -> PredictedLatency | None:
        wanted = (latency, statistic)
        return next((each for each in self.prediction.latencies if (each.latency, each.statistic) == wanted), None)

    @property
    def inside(self) -> list[bool]:
        return [each.is_inside for each in self.prediction.latencies if each.is_inside is not None]

    @property
    def is_overload(self) -> bool:
        return self.success_fraction < 0.999

    @property
    def row(self) -> tuple[str, ...]:
        shown = [self.error(*each) for each in (("tpot", "mean"), ("ttft", "mean"), ("ttft", "p99"))]
        errors = ["-" if each is None else f"{100 * each:+.1f}" for each in shown]
        found = self.prediction
        band = f"{found.success_low_fraction:.2f} to {found.success_high_fraction:.2f}"
        share = f"{found.success_fraction:.2f} of {self.success_fraction:.2f}: {band}" if self.is_overload else "all"
        return (self.given, self.asked, *errors, f"{sum(self.inside)} of {len(self.inside)}", share)


def open_predictions() -> Iterator[OpenPrediction]:
    for size, (config, tp) in CONFIGS.items():
        model = DATA / "model_configs" / f"{config}_config.json"
        runs = {folder.name.rsplit("-", 1)[1]: _stages(folder) for folder in sorted(RUNS.glob(f"*llama-2-{size}*"))}
        for given, files in runs.items():
            if given == "reasoning":
                continue
            fitted = fit_calibration(files, model=model, device="h100-sxm", tp=tp)
            for asked, others in runs.items():
                if asked != given:
                    yield from _predicted(f"{size} {given}", f"{size} {asked}", fitted, others, model, tp)


def _stages(folder: Path) -> list[Path]:
    return sorted(folder.glob("results/stage_*_lifecycle_metrics.json"))


def _predicted(
    given: str, asked: str, fitted: Fitted, files: Sequence[Path], model: Path, tp: int
) -> Iterator[OpenPrediction]:
    import tempfile

    from ullage.report.encode import to_text

    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "calibration.json"
        saved.write_text(to_text(fitted.to_dict()))
        choice = ReplicaChoice(model=model, device="h100-sxm", tp=tp, calibration=saved)
        found = simulate(LoadChoice(load_tests=tuple(map(str, files))), replica=choice)
    assert isinstance(found, RepeatedTests)
    points = [point for test in load_tests(files) for point in test.points]
    for place, (point, prediction) in enumerate(zip(points, found.predictions, strict=True)):
        yield OpenPrediction(
            given=given, asked=f"{asked} stage {place}", prediction=prediction, success_fraction=_share(point)
        )


def _share(point: Point) -> float:
    return (point.completed_count or 0) / (point.sent_count or 1)


def open_summary(found: Sequence[OpenPrediction]) -> Iterator[str]:
    """The means that the musts name: stages that kept up apart from overload."""
    kept = [each for each in found if not each.is_overload]
    for name, wanted in (("TPOT", ("tpot", "mean")), ("TTFT mean", ("ttft", "mean")), ("TTFT p99", ("ttft", "p99"))):
        errors = [abs(error) for each in kept if (error := each.error(*wanted)) is not None]
        yield f"- {name} of stages that kept up: MAPE {100 * math.fsum(errors) / len(errors):.1f} % over {len(errors)}."
    inside = [one for each in kept for one in each.inside]
    yield f"- Inside the band: {sum(inside)} of {len(inside)}."
    for each in found:
        if each.is_overload:
            low, high = each.prediction.success_low_fraction, each.prediction.success_high_fraction
            held = "holds" if low <= each.success_fraction <= high else "does not hold"
            yield f"- Overload {each.asked} from {each.given}: the band of the share {held}, {high - low:.2f} wide."
