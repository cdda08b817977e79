"""Provenance of a stated value: the user's plan file, the built-in example, or a default of ours."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace

from ullage.evidence import Assumption, Evidence, Source


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Evidence class and source of what a plan file states."""

    evidence: Evidence
    source: Source
    defaults: Source

    def decides(self, name: str, value: int | float | str | None, unit: str, default: int | float | str) -> Assumption:
        """As `says`, for what is chosen and not known."""
        return replace(self.says(name, value, unit, default), decision=True)

    def says(self, name: str, value: int | float | str | None, unit: str, default: int | float | str) -> Assumption:
        """A statement of the file or, where it says nothing, the default, marked as ours."""
        if value is None:
            return Assumption(name=name, value=default, unit=unit, evidence=Evidence.ASSUMED, source=self.defaults)
        return Assumption(name=name, value=value, unit=unit, evidence=self.evidence, source=self.source)

    def over(self, default: Assumption, value: int | float | str | None) -> Assumption:
        """A sourced default of a stage, or what the file says in its place: same name, same unit, another source."""
        if value is None:
            return default
        return replace(default, value=value, low=None, high=None, evidence=self.evidence, source=self.source)


def file_provenance(*, file: str, dated: datetime.date, is_example: bool) -> Provenance:
    """Stated by the user, or assumed by us for the built-in example, which describes no real system."""
    source = (
        Source(what="built-in example, made up", where="docs/reference/example.md", date=dated)
        if is_example
        else Source(what="plan file", where=file, date=dated)
    )
    return Provenance(
        evidence=Evidence.ASSUMED if is_example else Evidence.STATED,
        source=source,
        defaults=Source(
            what="default of Ullage", where="docs/reference/plan-file.md", date=datetime.date(2026, 11, 15)
        ),
    )
