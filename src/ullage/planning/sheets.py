"""What a plan answers, as rows of its own figures: the input sheet, the eight questions, the scorecard.

Each table is a list of rows by hand; a row names the stages and figures that answer it. What was not
given the row says, and stays.
"""

from __future__ import annotations

import datetime
import fnmatch
from dataclasses import dataclass

from ullage.evidence import Assumption, Evidence, Figure, Source, each_once
from ullage.planning.document import Plan


@dataclass(frozen=True, kw_only=True)
class InputRow:
    """A row of a table before there is a plan: its label, and the figures of stages that fill it."""

    what: str
    answers: tuple[tuple[str, str], ...]  # stage, pattern of the figure's key in it
    decides: bool = False  # plausible values of it move a plan several times over


@dataclass(frozen=True, kw_only=True)
class SheetRow:
    """A row with its figures, and what is missing from it and why."""

    what: str
    figures: tuple[Figure | Assumption, ...]
    missing: tuple[str, ...]
    decides: bool = False

    @property
    def is_assumed_and_decides(self) -> bool:
        """Whether a default is used where the plan depends on the user's own value."""
        return self.decides and self.evidence is Evidence.ASSUMED

    @property
    def evidence(self) -> Evidence | None:
        """The weakest class among the figures: a row has the evidence of its weakest figure."""
        return max((each.evidence for each in self.figures), key=lambda each: each.rank, default=None)

    @property
    def weakest(self) -> Figure | Assumption | None:
        """The number at the bottom that makes the row as unsure as it is; the oldest of several."""
        behind = [each for each in _grounds(self.figures) if each.evidence is self.evidence]
        return min(behind, key=lambda each: (each.sources[0].date, each.name), default=None)

    @property
    def source(self) -> Source | None:
        """Where that number comes from."""
        return None if self.weakest is None else self.weakest.sources[0]

    @property
    def is_defaulted(self) -> bool:
        """Whether a default is used for something that could be measured on the user's own system."""
        return any(each.evidence is Evidence.ASSUMED for each in _grounds(self.figures))

    def age(self, as_of: datetime.date) -> datetime.timedelta | None:
        return None if self.source is None else as_of - self.source.date


INPUT_SHEET = (
    InputRow(
        what="arrival distribution",
        answers=(("demand", "demand.planning_rate"), ("demand", "demand.*.minute_dispersion")),
    ),
    InputRow(
        what="lengths",
        answers=(("demand", "demand.*.prompt_p95"), ("demand", "demand.*.output_p95")),
        decides=True,
    ),
    InputRow(what="cached share of prompts", answers=(("demand", "demand.*.cached_fraction"),), decides=True),
    InputRow(
        what="goodput per device, one replica alone",
        answers=(("operating_point", "point.alone_goodput_per_device_rps"),),
    ),
    InputRow(what="memory profile", answers=(("memory", "memory.kv_tokens"),)),
    InputRow(
        what="time to ready", answers=(("time_to_ready", "ready.cold_p50_s"), ("time_to_ready", "ready.cold_p90_s"))
    ),
    InputRow(what="failure reserve", answers=(("reserves", "reserve.failure_replicas"),)),
    InputRow(what="unit costs", answers=(("bill", "bill.per_success_usd"),)),
)

QUESTIONS = (
    InputRow(
        what="Which request distributions and bursts are supported?",
        answers=(
            ("demand", "demand.planning_rate"),
            ("demand", "demand.*.peak_minute"),
            ("demand", "demand.*.prompt_p99"),
            ("admission_limits", "burst.*"),
        ),
    ),
    InputRow(
        what="What device memory is reserved for what?",
        answers=(
            ("memory", "memory.weights_bytes"),
            ("memory", "memory.kv_cache_bytes"),
            ("memory", "memory.margin_bytes"),
        ),
    ),
    InputRow(
        what="Which operating point meets the SLOs?",
        answers=(
            ("operating_point", "point.highest_rps"),
            ("operating_point", "point.operating_rps"),
            ("utilisation", "utilisation.planned_fraction"),
        ),
    ),
    InputRow(
        what="How much reserve covers failure, rollout and burst?",
        answers=(("reserves", "reserve.*_replicas"),),
    ),
    InputRow(
        what="How long does new capacity take?",
        answers=(
            ("time_to_ready", "ready.cold_p90_s"),
            ("time_to_ready", "ready.warm_p90_s"),
            ("time_to_ready", "ready.hot_p90_s"),
        ),
    ),
    InputRow(
        what="Which costs are fixed, variable, shared, external?",
        answers=(
            ("bill", "bill.fixed_usd"),
            ("bill", "bill.variable_usd"),
            ("bill", "bill.shared_usd"),
            ("bill", "bill.external_usd"),
        ),
    ),
    InputRow(
        what="How often does a shortfall happen?",
        answers=(("uncertainty", "*risk.shortfall_fraction"), ("uncertainty", "*risk.shortfall_hours")),
    ),
    InputRow(
        what="Which variables move the plan most?", answers=(("uncertainty", "*driver.*"), ("headroom", "headroom.*"))
    ),
    InputRow(what="How often is it reconciled?", answers=(("policy", "policy.reconcile_every"),)),
)

SCORECARD = (
    InputRow(what="arrival rate", answers=(("demand", "demand.planning_rate"),)),
    InputRow(what="service time", answers=(("scorecard", "score.service_time_s"),)),
    InputRow(what="goodput per device, as planned", answers=(("scorecard", "score.planned_goodput_per_device_rps"),)),
    InputRow(what="goodput per replica, as planned", answers=(("scorecard", "score.planned_goodput_per_replica_rps"),)),
    InputRow(what="active tokens", answers=(("scorecard", "score.active_tokens"),)),
    InputRow(what="memory headroom", answers=(("memory", "memory.headroom_bytes"),)),
    InputRow(what="queue depth", answers=(("scorecard", "score.queue_requests"),)),
    InputRow(what="queue age", answers=(("scorecard", "score.queue_age_s"),)),
    InputRow(what="utilisation", answers=(("utilisation", "utilisation.planned_fraction"),)),
    InputRow(
        what="scale-up time", answers=(("time_to_ready", "ready.cold_p50_s"), ("time_to_ready", "ready.warm_p50_s"))
    ),
    InputRow(what="idle reserve", answers=(("reserves", "reserve.replicas"),)),
    InputRow(what="cost per success", answers=(("bill", "bill.per_success_usd"),)),
    InputRow(
        what="forecast error",
        answers=(("scorecard", "score.*.forecast_wape_fraction"), ("reconcile", "reconcile.forecast_wape_fraction")),
    ),
)


def rows(plan: Plan, asked: tuple[InputRow, ...]) -> tuple[SheetRow, ...]:
    """The rows with the plan's figures in them."""
    return tuple(_row(plan, each) for each in asked)


def _row(plan: Plan, asked: InputRow) -> SheetRow:
    figures: list[Figure | Assumption] = []
    missing: list[str] = []
    for stage_name, pattern in asked.answers:
        if stage_name == "policy":
            figures += [each for each in plan.spec.policy.inputs if each.name == pattern]
            continue
        stages = [each for each in plan.stages if each.name == stage_name]
        found = [
            figure for stage in stages for key, figure in stage.figures.items() if fnmatch.fnmatchcase(key, pattern)
        ]
        figures += found
        if not found:
            missing.append(f"not given: {stage_name.replace('_', ' ')}")
    return SheetRow(
        what=asked.what, figures=tuple(figures), missing=tuple(dict.fromkeys(missing)), decides=asked.decides
    )


def _grounds(figures: tuple[Figure | Assumption, ...]) -> list[Figure | Assumption]:
    """What the figures rest on and what rests on nothing but sources; a choice is no evidence."""
    return [
        each
        for each in each_once(figures)
        if not isinstance(each, Source) and each.sources and not (isinstance(each, Assumption) and each.decision)
    ]
