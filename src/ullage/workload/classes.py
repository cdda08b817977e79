"""Request classes: requests that share a shape and a service-level objective, and the rules that sort them.

    Slo           one SLO: this percentile of this latency stays under this limit
    ClassRule     which requests belong: by model, tenant, product, path or length
    RequestClass  a name, its SLOs, its priority and the rule that finds its requests

A class without a rule is named by the trace itself, in its `class` column.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from ullage.errors import InputError, unknown_name
from ullage.workload.definitions import OUR_DEFINITIONS, Definitions


class Metric(enum.StrEnum):
    """The latency an SLO limits, as the client sees it; how each is counted can be chosen (definitions.py).

    By default TPOT is one number a request, (end - first token) / (output tokens - 1); ITL is one number a
    token, so that a percentile of it sees the pause that a per-request mean hides.
    """

    TTFT = "ttft"
    TPOT = "tpot"
    ITL = "itl"
    E2E = "e2e"

    # Every histogram is looked up by it; a member is one of a kind, and its own hash spells out its name each time.
    __hash__ = object.__hash__


@dataclass(frozen=True, kw_only=True)
class Slo:
    """An SLO: `percentile_fraction` of requests (of gaps, for ITL) take at most `limit_s`.

    >>> str(Slo(metric=Metric.TTFT, percentile_fraction=0.95, limit_s=0.5))
    'ttft p95 <= 500 ms'
    """

    metric: Metric
    percentile_fraction: float
    limit_s: float

    def __post_init__(self) -> None:
        if not isinstance(self.metric, Metric):
            raise unknown_name(field="slo.metric", name=str(self.metric), known=[each.value for each in Metric])
        if not (0.0 < self.percentile_fraction < 1.0):
            raise InputError(
                field=f"slo.{self.metric}.percentile_fraction",
                value=self.percentile_fraction,
                problem="must lie strictly between 0 and 1",
                fix="Give a share of requests, for example 0.95 for the 95th percentile.",
            )
        if not (math.isfinite(self.limit_s) and self.limit_s > 0.0):
            raise InputError(
                field=f"slo.{self.metric}.limit_s",
                value=self.limit_s,
                problem="must be greater than 0",
                fix="Give a duration, for example 500ms.",
            )

    @property
    def name(self) -> str:
        """How the SLO is called: `ttft_p95`.

        >>> Slo(metric=Metric.E2E, percentile_fraction=0.999, limit_s=30.0).name
        'e2e_p99.9'
        """
        return f"{self.metric}_p{self.percentile_fraction * 100:.6g}"

    def __str__(self) -> str:
        return f"{self.metric} p{self.percentile_fraction * 100:.6g} <= {_duration(self.limit_s)}"


@dataclass(frozen=True, kw_only=True)
class ClassRule:
    """Which requests belong to a class: all conditions that are given must hold.

    `model`, `tenant`, `product` and `path` are compared as shell patterns (`gpt-4*`); the lengths are closed
    below and open above, so that two rules that share a border share no request.
    """

    model: str | None = None
    tenant: str | None = None
    product: str | None = None
    path: str | None = None
    from_prompt_tokens: int | None = None
    below_prompt_tokens: int | None = None
    from_output_tokens: int | None = None
    below_output_tokens: int | None = None

    def __post_init__(self) -> None:
        for side in ("prompt", "output"):
            low = getattr(self, f"from_{side}_tokens")
            high = getattr(self, f"below_{side}_tokens")
            if low is not None and high is not None and not low < high:
                raise InputError(
                    field=f"rule.below_{side}_tokens",
                    value=high,
                    problem=f"is not above from_{side}_tokens = {low}, so that no request can match",
                    fix="Widen the range.",
                )


@dataclass(frozen=True, kw_only=True)
class RequestClass:
    """Requests that share SLOs and a shape.

    `priority` orders classes when not all can be served: 0 is served first. `rule` is None where the
    trace names the class of each request itself. `definitions` say how the latencies of the SLOs are counted.
    """

    name: str
    slos: tuple[Slo, ...]
    priority: int = 0
    rule: ClassRule | None = None
    definitions: Definitions = OUR_DEFINITIONS

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise InputError(field="class.name", value=self.name, problem="is empty", fix="Name the class.")
        if self.priority < 0:
            raise InputError(
                field=f"class.{self.name}.priority",
                value=self.priority,
                problem="must be 0 or more",
                fix="Give 0 to the class that is served first.",
            )
        names = [slo.name for slo in self.slos]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(
                field=f"class.{self.name}.slos",
                value=twice[0],
                problem="is stated twice",
                fix="Keep one limit for each percentile of each metric.",
            )


def _duration(limit_s: float) -> str:
    return f"{limit_s * 1000:.6g} ms" if limit_s < 1.0 else f"{limit_s:.6g} s"
