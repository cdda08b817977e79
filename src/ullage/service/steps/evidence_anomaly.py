"""Anomalies of the evidence behind a step model, each a sentence that can be printed alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class EvidenceAnomaly:
    """`name` is what the user gives to override it; `refuses` says that the evidence is not used unless they do."""

    name: str
    sentence: str
    refuses: bool = False

    @property
    def is_decisive(self) -> bool:
        """Whether a plan on this evidence may be wrong for it; lengths that had to be assumed are only said."""
        return self.name != "lengths"
