"""Rules of Prometheus as values: recorded series, alerts, and alerts that could not be made, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ullage.emit.tree import Reasoned


@dataclass(frozen=True, kw_only=True)
class RecordingRule:
    """A series that is worked out from others, or a number of the plan as a series."""

    record: str
    expr: str
    why: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def tree(self, shared: Mapping[str, str]) -> dict[str, Any]:
        return {
            "record": self.record,
            "expr": Reasoned(value=self.expr, why=self.why),
            "labels": {**shared, **self.labels},
        }


@dataclass(frozen=True, kw_only=True)
class AlertRule:
    """An alert: which way to fail it sees, how long it must last, how urgent it is, and what to do."""

    alert: str
    mode: str
    expr: str
    lasts: str
    severity: str
    summary: str
    action: str
    why: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def tree(self, shared: Mapping[str, str]) -> dict[str, Any]:
        return {
            "alert": self.alert,
            "expr": Reasoned(value=self.expr, why=self.why),
            "for": self.lasts,
            "labels": {**shared, **self.labels, "severity": self.severity, "failure_mode": self.mode},
            "annotations": {"summary": self.summary, "description": f"{self.action} Observed: {{{{ $value }}}}."},
        }


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """An alert that this plan or this engine gives no ground for."""

    alert: str
    reason: str


def literal(amount: float) -> str:
    """A number in PromQL, without an exponent.

    >>> literal(0.5), literal(2711), literal(1e-7)
    ('0.5', '2711', '0.0000001')
    """
    return f"{float(f'{amount:.9g}'):.15f}".rstrip("0").rstrip(".") or "0"


def text(value: str) -> str:
    """A text in an annotation or a label, which Prometheus takes for a template where it has braces."""
    return value.replace("{{", "{ {").replace("}}", "} }")
