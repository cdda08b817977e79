"""A calibration as a page: the factors, how well they fit and predict, what is not known, and what to run next."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ullage.report.quantity import show
from ullage.report.service.curve_measured import tests_table
from ullage.service.calibration.agreement import Agreement
from ullage.service.calibration.calibration import Calibration, Residual
from ullage.service.calibration.document import CalibrationProvenance, SplitUnderTest
from ullage.service.calibration.next_test import NextTest
from ullage.service.steps.coefficients import StepErrorBand
from ullage.service.steps.evidence_anomaly import EvidenceAnomaly

_MEANING = {
    "fixed": "step time of one sequence",
    "sequences": "added by more sequences",
    "kv": "added by their KV",
    "prefill": "added by prompt tokens",
    "request": "time outside the engine",
}


def calibration_page(
    calibration: Calibration,
    provenance: CalibrationProvenance,
    wanted: NextTest,
    *,
    band: StepErrorBand,
    left_out: Sequence[tuple[str, str]] = (),
    anomalies: Sequence[EvidenceAnomaly] = (),
    agreement: Agreement | None = None,
    split: SplitUnderTest | None = None,
) -> list[RenderableType]:
    """The parts of the page, the answer first."""
    shape = f"tp={provenance.tp} pp={provenance.pp} ep={provenance.ep} dp_attention={provenance.dp_attention}"
    parts: list[RenderableType] = [
        Text(f"{provenance.model} on {provenance.device}, {provenance.engine}, {shape}: {provenance.points} points"),
        *([] if split is None else [Text(f"Disaggregated: {split.words}. The factors hold for both sides.")]),
        "",
        _factors(calibration),
        "",
        _errors(calibration),
    ]
    parts += [Text(f"{point} was left out: it {reason}.") for point, reason in left_out]
    parts += [Text(each.sentence, style="bold red" if each.refuses else "yellow") for each in _apart(anomalies)]
    if agreement is not None and len(agreement.results) > 1:
        parts += ["", tests_table(agreement), *(Text(each, style="yellow") for each in agreement.disagreements)]
    within = f"{band.tpot_low_ratio:.2f} to {band.tpot_high_ratio:.2f} of this model's, 8 of 10 TTFTs of a prompt alone"
    late = f"{band.ttft_low_ratio:.2f} to {band.ttft_high_ratio:.2f}"
    parts += ["", Text(f"At any load that this replica may run, 8 of 10 step times lie within {within} within {late}.")]
    if calibration.not_identified:
        parts += ["", Text(f"These tests do not identify: {', '.join(calibration.not_identified)}.")]
    parts += ["", Text("The most informative next test:"), Text(f"  {wanted.command}")]
    return parts


def _apart(anomalies: Sequence[EvidenceAnomaly]) -> list[EvidenceAnomaly]:
    """Those that are not in the table of tests already."""
    return [each for each in anomalies if each.name != "agreement"]


def _factors(calibration: Calibration) -> Table:
    table = Table("factor", "value", "80 % range", "known", "on", box=None)
    for each in calibration.parameters:
        known = "yes" if each.identified else "no"
        span = f"{each.low_ratio:.2f} to {each.high_ratio:.2f}"
        table.add_row(each.name, f"{each.value_ratio:.2f}", span, known, _MEANING[each.name])
    return table


def _errors(calibration: Calibration) -> Table:
    held = {(each.point, each.latency, each.statistic): each for each in calibration.held_out}
    table = Table("point", "latency", "measured", "simulated", "error", "error without it", box=None)
    for each in calibration.residuals:
        unseen = held.get((each.point, each.latency, each.statistic))
        table.add_row(
            each.point,
            f"{each.latency} {each.statistic}",
            _shown(each, each.measured_value),
            _shown(each, each.simulated_value),
            _percent(each),
            "-" if unseen is None else _percent(unseen),
        )
    return table


def _percent(residual: Residual) -> str:
    return f"{100 * (residual.error_ratio - 1):+.1f} %"


def _shown(residual: Residual, value: float) -> str:
    return show(value, "tokens/s" if residual.latency == "rate" else "s")
