"""Provenance of a stated value: the user's plan file, the built-in example, or a default of ours."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field, replace

from ullage.evidence import Assumption, Evidence, Source
from ullage.files.sections.ages import AgesSection
from ullage.files.sections.section import Section, key_of


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Evidence class and source of what a plan file states."""

    evidence: Evidence
    source: Source
    ages: AgesSection = field(default_factory=AgesSection)
    as_of: datetime.date | None = None

    def horizon(self, horizon_s: float) -> tuple[datetime.date, datetime.date]:
        """The days that are planned for: from the day of planning, however long ago the file was written."""
        start = self.as_of or self.source.date
        return start, start + datetime.timedelta(seconds=horizon_s)

    def says(self, name: str, value: int | float | str, unit: str) -> Assumption:
        """A statement of the file."""
        return self.aged(Assumption(name=name, value=value, unit=unit, evidence=self.evidence, source=self.source))

    def aged(self, said: Assumption, *, kind: str = "") -> Assumption:
        """A statement with the maximum age of its kind, weaker where it is past it."""
        if self.as_of is None:
            return said
        return said.aged(self.ages.age(kind) if kind else self.ages.age_of(said.name), self.as_of)

    def decides(self, name: str, value: int | float | str, unit: str) -> Assumption:
        """As `says`, for what is chosen and not known, and so has no age."""
        said = Assumption(name=name, value=value, unit=unit, evidence=self.evidence, source=self.source)
        return replace(said, decision=True)

    def may_say(self, name: str, value: int | float | str | None, unit: str) -> Assumption | None:
        """A statement where there is one: of what nothing can stand in for, or what is worked out otherwise."""
        return None if value is None else self.says(name, value, unit)

    def over(self, default: Assumption, value: int | float | str | None, *, name: str = "") -> Assumption:
        """A sourced default, or what the file says in its place: same name, same unit, another source."""
        named = replace(default, name=name) if name else default
        if value is None:
            return named
        return self.aged(replace(named, value=value, low=None, high=None, evidence=self.evidence, source=self.source))

    def filled(self, section: Section) -> dict[str, Assumption]:
        """By field, every key of a section that has a sourced default: what the file says, or else the default."""
        keys = {name: key_of(type(section), name) for name in type(section).model_fields}
        return {
            name: self.over(key.default, getattr(section, name))
            for name, key in keys.items()
            if key is not None and isinstance(key.default, Assumption)
        }


def file_provenance(
    *,
    file: str,
    dated: datetime.date,
    is_example: bool,
    ages: AgesSection = AgesSection(),  # noqa: B008
    as_of: datetime.date | None = None,
) -> Provenance:
    """Stated by the user, or assumed by us for the built-in example, which describes no real system.

    On the day `as_of` what is past its maximum age counts as less well known.
    """
    source = (
        Source(what="built-in example, made up", where="docs/reference/example.md", date=dated)
        if is_example
        else Source(what="plan file", where=file, date=dated)
    )
    evidence = Evidence.ASSUMED if is_example else Evidence.STATED
    return Provenance(evidence=evidence, source=source, ages=ages, as_of=as_of)
