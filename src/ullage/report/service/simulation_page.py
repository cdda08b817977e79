"""What a pool made of a stream of requests: as a page in the terminal and as JSON."""

from __future__ import annotations

import datetime
import math
from typing import Protocol

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ullage.report.evidence_style import evidence_text
from ullage.report.quantity import show
from ullage.service.calibration.prediction import Prediction
from ullage.service.curve.curve import StablePoint
from ullage.service.curve.sizing import JudgedPool
from ullage.service.served import Served, ServedPool, SloAttainment
from ullage.service.steps.step_model import StepModel
from ullage.units import brief_number

# How an end is called; only those that occurred are printed.
_ENDS = {
    "success": "good",
    "late": "late",
    "shed": "refused: queue full",
    "oversize": "refused: longer than the cache",
    "timed_out": "timed out",
    "cancelled": "cancelled",
    "failed": "failed",
    "unfinished": "unfinished",
}


class Simulation(Protocol):
    """What was simulated on what, and the result."""

    @property
    def replica(self) -> str: ...
    @property
    def step(self) -> StepModel: ...
    @property
    def kv_tokens(self) -> int: ...
    @property
    def traffic(self) -> str: ...
    @property
    def pool(self) -> ServedPool: ...
    @property
    def judged(self) -> JudgedPool | None: ...
    @property
    def served(self) -> Served: ...
    @property
    def seed(self) -> int: ...
    @property
    def as_of(self) -> datetime.date: ...
    @property
    def notes(self) -> tuple[str, ...]: ...


class RepeatedSimulation(Protocol):
    """Load tests that were simulated as they were run."""

    @property
    def replica(self) -> str: ...
    @property
    def step(self) -> StepModel: ...
    @property
    def predictions(self) -> tuple[Prediction, ...]: ...
    @property
    def notes(self) -> tuple[str, ...]: ...


_INSIDE = {None: "", True: "inside", False: "outside"}


def predictions_page(repeated: RepeatedSimulation) -> list[RenderableType]:
    """One line for each latency of each test: predicted, its band, measured."""
    by = Text.assemble(f"{repeated.step.kind} step model (", evidence_text(repeated.step.evidence), ")")
    table = _table("Load tests, as they were run", "test", "latency", "predicted", "80 % band", "measured", "")
    for each in repeated.predictions:
        for one in each.latencies:
            measured = "" if one.measured_s is None else _seconds(one.measured_s)
            verdict = _INSIDE[one.is_inside]
            band = f"{_seconds(one.low_s)} to {_seconds(one.high_s)}"
            table.add_row(
                each.name, f"{one.latency} {one.statistic}", _seconds(one.predicted_s), band, measured, verdict
            )
        out = each.measured_output_tokens_per_s
        came = "" if out is None else f"{brief_number(out)} tokens/s"
        table.add_row(each.name, "output", f"{brief_number(each.output_tokens_per_s)} tokens/s", "", came, "")
        answered = each.measured_success_fraction
        if min(each.success_low_fraction, each.success_fraction, 1.0 if answered is None else answered) < 1.0:
            shares = f"{each.success_low_fraction:.2f} to {each.success_high_fraction:.2f}"
            seen = "" if answered is None else f"{answered:.2f} of sent"
            verdict = _INSIDE[each.is_success_inside]
            table.add_row(each.name, "answered", f"{each.success_fraction:.2f} of sent", shares, seen, verdict)
    head = Text.assemble((repeated.replica, "bold"), ", 1 replica, by the ", by)
    parts: list[RenderableType] = [head, "", table]
    parts += ["", *(Text(f"- {note}") for note in repeated.notes)] if repeated.notes else []
    return parts


def simulation_page(simulated: Simulation) -> list[RenderableType]:
    """SLOs first, then latencies, ends and what the replicas did."""
    served, pool = simulated.served, simulated.pool
    many = f"{pool.count} replicas, {pool.routing.replace('_', ' ')}" if pool.count > 1 else "1 replica"
    by = Text.assemble(f"{simulated.step.kind} step model (", evidence_text(simulated.step.evidence), ")")
    parts: list[RenderableType] = [
        Text.assemble((f"{simulated.replica}", "bold"), f", {many}, by the ", by),
        Text(
            f"{simulated.traffic}: {show(served.offered_rps, 'req/s')} for {show(served.span_s, 's')}; "
            f"all had finished after {show(served.duration_s, 's')}."
        ),
        "",
        _latencies(served),
        "",
        _ends(served),
        "",
        _replicas(simulated),
        "",
        _laws(served),
    ]
    if any(each.slo_limits for each in served.classes):
        parts[3:3] = [_slo_limits(served), ""]
    if simulated.judged is not None:
        parts[2:2] = ["", *_judged(simulated.judged), "", Text("One run, nominal step times", style="bold")]
    parts += ["", *(Text(f"- {note}") for note in simulated.notes)] if simulated.notes else []
    return parts


def _judged(judged: JudgedPool) -> list[RenderableType]:
    """The plan's own answer for these replicas: `plan` and `size` print the same."""
    point = judged.point
    where = f"{judged.replicas} at {show(judged.rate_rps, 'req/s')}, {judged.basis} step times"
    if not isinstance(point, StablePoint):
        return [Text(f"By the plan's criteria, {where}: not sustained, {point.instability.reason}.", style="red")]
    over = f"{point.windows} windows of {show(judged.span_s, 's')}"
    verdict = "every SLO is met" if not point.violated else f"violated: {', '.join(point.violated)}"
    table = _table("By the plan's criteria", "class", "latency", "p50", "p95", "p99")
    for name, found in point.latencies.items():
        for metric in ("ttft", "tpot", "e2e"):
            shown = [found.get(f"{metric}_p{each}") for each in (50, 95, 99)]
            table.add_row(name, metric, *("" if each is None else _seconds(each.value) for each in shown))
    return [table, Text(f"{where}, over {over}: {verdict}.")]


def _slo_limits(served: Served) -> Table:
    table = _table("SLOs", "class", "SLO", "found", "verdict")
    for each in served.classes:
        for one in each.slo_limits:
            table.add_row(each.name, str(one.slo), _seconds(one.found_s), _verdict(one))
    return table


def _verdict(kept: SloAttainment) -> Text:
    return Text("met", style="green") if kept.is_kept else Text("violated", style="red")


def _latencies(served: Served) -> Table:
    table = _table("Latencies", "class", "latency", "mean", "p50", "p90", "p95", "p99")
    for each in served.classes:
        for name, latency in each.latencies.items():
            table.add_row(each.name, name, _seconds(latency.mean_s), *map(_seconds, latency.quantiles_s.values()))
    return table


def _ends(served: Served) -> Table:
    found = [name for name in _ENDS if any(getattr(each.counts, name) for each in served.classes)]
    table = _table("Requests", "class", "sent", *(_ENDS[name] for name in found), "goodput", "of sent")
    for each in served.classes:
        counts = [f"{getattr(each.counts, name):,}" for name in found]
        table.add_row(
            each.name,
            f"{each.counts.requests:,}",
            *counts,
            show(each.goodput_rps, "req/s"),
            show(each.good_fraction, "fraction"),
        )
    return table


def _replicas(simulated: Simulation) -> Table:
    served = simulated.served
    table = _table("While requests arrived", "", "value")
    prompts = sum(each.prompt_tokens for each in served.classes)
    cached = sum(each.cached_tokens for each in served.classes)
    for name, value in (
        ("goodput", show(served.goodput_rps, "req/s")),
        ("output tokens", show(served.output_tokens_per_s, "tokens/s")),
        ("running, all replicas", brief_number(served.running_requests)),
        ("waiting", f"{brief_number(served.waiting_requests)}, at most {served.most_waiting_requests:,}"),
        ("KV in use", f"{show(served.kv_fraction, 'fraction')}, at most {show(served.kv_peak_fraction, 'fraction')}"),
        ("KV tokens per replica", f"{simulated.kv_tokens:,}"),
        ("prompt tokens served from cache", show(cached / prompts if prompts else 0.0, "fraction")),
        ("preemptions", f"{served.preemptions:,} ({served.recomputed_tokens:,} tokens recomputed)"),
        ("busy", show(served.busy_fraction, "fraction")),
    ):
        table.add_row(name, value)
    return table


def _laws(served: Served) -> Table:
    table = _table("Physics", "law", "left", "right", "")
    for each in served.laws:
        table.add_row(each.name, show(each.left_value, each.unit), show(each.right_value, each.unit), "holds")
    table.add_row("Little's law; tokens computed = tokens of requests", "", "", "hold exactly")
    return table


def _seconds(value: float) -> str:
    return "-" if math.isnan(value) else show(value, "s")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, style=None, header_style="dim")
    return table


# ---- JSON ----------------------------------------------------------------------------------------------
