"""What of a value is printed as JSON: the one table of what is left out, and of computed properties that are not.

A class that is not listed prints every field. Classes are named, not imported: the table is read by verbs that would
otherwise load the whole program. A test holds each name to a class, and each attribute to one that it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Shape:
    """`only` are printed and nothing else; otherwise every field but `without`, then `also`.

    `named` are printed by their names alone, as figures that the document lists elsewhere; `unmeasured` are numbers
    that are null where there was nothing to measure. In `brief` fields figures are name, value, unit and evidence.
    """

    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()
    brief: tuple[str, ...] = ()

    def printed(self, fields: Iterable[str]) -> tuple[str, ...]:
        """The attributes in the order in which they are printed."""
        if self.only:
            return self.only
        kept = (each for each in fields if each not in self.without and not each.startswith("_"))
        return (*kept, *self.also)


PLAIN = Shape()

# Printed as a name: their own facts are what `ullage facts` and the plan file say.
BY_NAME = frozenset({"Model", "Device", "KvDtype"})

SHAPES = {
    # ---- scaling
    "RunningPool": Shape(without=("rule",)),
    "DerivedRule": Shape(also=("threshold_value", "down_s", "formula")),
    "ScalingPlan": Shape(also=("query",)),
    "RuleResult": Shape(also=("is_met", "mean_replicas")),
    "ScalingComparison": Shape(also=("saving_fraction",)),
    # ---- workload
    "RequestClass": Shape(only=("name", "priority", "slos")),
    "Slo": Shape(also=("name",)),
    "PartHistory": Shape(only=("name", "series")),
    "DemandSeries": Shape(only=("unit", "step_s")),
    "Forecast": Shape(
        without=("history", "block_peaks", "block_steps", "scale_ratio"),
        also=("start_s", "steps", "mean", "fractions", "busiest_seen", "busiest_quantiles"),
    ),
    "Match": Shape(also=("holds",)),
    # ---- memory
    "MemoryBudget": Shape(without=("stage",), also=("evidence",), named=("figures",)),
    "Runtime": Shape(
        only=("engine", "version", "sharding", "cache", "memory_fraction", "step_tokens", "max_sequences")
    ),
    "Sharding": Shape(also=("devices",)),
    "Line": Shape(also=("line_bytes", "evidence", "difference_bytes"), named=("figure",)),
    "HostBudget": Shape(also=("needed_bytes", "wanted_bytes", "headroom_bytes")),
    "HostLine": Shape(also=("line_bytes",), named=("figure",)),
    # ---- service
    "StepModel": Shape(only=("kind", "evidence")),
    "Trial": Shape(only=("basis", "span_s", "replicas", "routing", "error_fraction")),
    "LeastReplicas": Shape(
        only=("replicas", "low_replicas", "is_decided", "binding", "windows", "tested_replicas", "tested_rps")
    ),
    "CurveInputs": Shape(only=("replica",)),
    "ServiceCurve": Shape(
        without=("bases", "inputs", "effort"),
        also=("trial", "knee_rps", "evidence", "notes", "figures"),
        named=("figures",),
    ),
    "StablePoint": Shape(also=("passes",)),
    "OperatingPoint": Shape(also=("goodput_per_device_rps", "notes"), named=("figures",)),
    "PoolSize": Shape(
        without=("bases",),
        also=(
            "replicas",
            "conservative_replicas",
            "low_replicas",
            "high_replicas",
            "binding",
            "band",
            "trial",
            "notes",
        ),
        named=("figures",),
    ),
    "Tried": Shape(also=("is_difference", "change_fraction")),
    "MeasuredPoint": Shape(also=("anomalies",)),
    "PointResidual": Shape(also=("ratio", "is_outside")),
    "Calibration": Shape(also=("not_identified",)),
    "StepChange": Shape(also=("ratio",)),
    "StepDifference": Shape(also=("seen_fraction",)),
    "MixedRequest": Shape(also=("kv_tokens",)),
    "Validation": Shape(also=("inside_count", "statistic_count")),
    "ValidatedPoint": Shape(also=("inside_count",)),
    "ScoredStatistic": Shape(also=("is_inside", "is_beyond", "ratio"), unmeasured=("ratio",)),
    "Residual": Shape(also=("error_ratio",)),
    "Point": Shape(without=("requests",), also=("sent_count", "request_count", "little_concurrency_count")),
    "LatencySummary": Shape(also=("formula",)),
    "Simulated": Shape(also=("notes",)),
    "Served": Shape(also=("is_keeping_up", "broken")),
    "ClassServed": Shape(also=("good_fraction",), unmeasured=("good_fraction",)),
    "Counts": Shape(also=("requests",)),
    "Latency": Shape(unmeasured=("mean_s", "quantiles_s")),
    "SloAttainment": Shape(also=("is_kept",), unmeasured=("found_s",)),
    "Law": Shape(also=("holds",)),
    # ---- cost
    "Bill": Shape(
        only=("policy", "quotes", "total_usd", "is_complete", "lines", "units", "figures", "notes"), named=("figures",)
    ),
    "CostPolicy": Shape(only=("period_hours",)),
    "Quotes": Shape(only=("dates", "regions")),
    "BillLine": Shape(also=("label", "usd", "is_priced"), named=("figure",)),
    "UnitCost": Shape(also=("usd",), named=("figure",)),
    "Attribution": Shape(without=("lines",), also=("line_labels", "total_cents")),
    "AttributionRow": Shape(also=("total_cents",)),
    "HostOrBuy": Shape(also=("is_own_cheaper", "more_fraction"), unmeasured=("more_fraction",)),
    "SpilledPool": Shape(also=("is_mixed", "saved_usd")),
    "SpillLevel": Shape(also=("usd", "per_success_usd"), unmeasured=("per_success_usd",)),
    "CommitmentAdvice": Shape(also=("saved_usd",)),
    "CauseOfChange": Shape(also=("usd",)),
    # ---- planning
    "PortfolioAnswer": Shape(without=("as_of", "seed")),
    "Portfolio": Shape(also=("given_up",), named=("given_up",)),
    "PortfolioPool": Shape(also=("replicas", "devices")),
    "PoolNeed": Shape(also=("name",)),
    "SheetRow": Shape(also=("evidence", "weakest", "is_defaulted"), named=("figures", "weakest")),
    "NotGuaranteed": Shape(named=("rests_on",)),
    "FleetParts": Shape(named=("usd",)),
    "StackedFleet": Shape(also=("replicas",), named=()),
    "PlanDocument": Shape(named=("inputs",), brief=("summary",)),
    "Answer": Shape(without=("service", "as_of")),
    "StageEntry": Shape(named=("figures",)),
    "PlanRecord": Shape(only=("service", "as_of", "seed", "verdict")),
    "Entry": Shape(only=("value", "unit", "evidence")),
    "FigureChange": Shape(also=("ratio",)),
    "BrownfieldPlan": Shape(without=("plan",)),
    "PoolChange": Shape(also=("have_replicas", "change_replicas", "change_devices")),
    "Drills": Shape(also=("failed",), named=("failed",)),
    "Checks": Shape(also=("anomalies", "mistakes", "warnings"), named=("mistakes", "warnings")),
    "CheckResult": Shape(without=("anomalies",)),
    "PoolOptions": Shape(without=("trials",)),
    "ApartOption": Shape(also=("verdict", "note")),
    "Ranked": Shape(without=("trial",)),
    "CandidateResult": Shape(without=("reserves",), also=("evidence", "usd_per_hour")),
    "Fit": Shape(only=("candidate", "devices", "fewest_replicas")),
    "PoolSpec": Shape(only=("name", "model", "device", "settings")),
    "RuntimeSettings": Shape(only=("engine", "version", "sharding", "kv_dtype", "step_tokens", "max_sequences")),
    "VerifiedMix": Shape(also=("is_cheaper", "is_mixed")),
    # ---- facts
    "SheetKind": Shape(only=("noun", "folder")),
}
