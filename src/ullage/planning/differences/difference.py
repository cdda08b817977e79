"""What changed between two plans, and why: every changed number, with the changed inputs that it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ullage.planning.differences.causes import CausedChange, causes_of
from ullage.planning.differences.record import Entry, PlanRecord

# Sums in which the devices are most of the money: with and without a price for them they are two quantities.
_SUMS = ("bill.total_", "bill.per_")


@dataclass(frozen=True, kw_only=True)
class FigureChange:
    """A number in both plans, or in one alone (the other side is None). `because` are changed inputs behind it."""

    name: str
    old: Entry | None
    new: Entry | None
    because: tuple[str, ...] = ()

    @property
    def ratio(self) -> float | None:
        """New over old, where both are numbers and the old is not 0."""
        if self.old is None or self.new is None or isinstance(self.old.value, str) or isinstance(self.new.value, str):
            return None
        return self.new.value / self.old.value if self.old.value else None


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Inputs that changed, figures that changed; `also` are reasons that are no inputs: seed, date, version.

    `causes` divide the change of fleet and bill, and sum to it.
    """

    old: PlanRecord
    new: PlanRecord
    inputs: tuple[FigureChange, ...]
    figures: tuple[FigureChange, ...]
    causes: tuple[CausedChange, ...]
    also: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        return not self.inputs and not self.figures


def difference(old: PlanRecord, new: PlanRecord, *, same_seed: PlanRecord | None = None) -> Difference:
    """Compare number by number; two plans of the same input and seed have none.

    `same_seed` is the new input planned at the old seed: what then is left is the seed's.
    """
    inputs = _changes(old.inputs, new.inputs)
    changed = {each.name for each in inputs}
    figures = tuple(
        FigureChange(
            name=each.name,
            old=each.old,
            new=each.new,
            because=tuple(sorted((old.grounds(each.name) | new.grounds(each.name)) & changed)),
        )
        for each in _changes(old.figures, new.figures)
        if old.is_of_devices == new.is_of_devices or not each.name.startswith(_SUMS)
    )
    also = []
    if old.is_of_devices != new.is_of_devices:
        which = "new" if old.is_of_devices else "old"
        also.append(f"the {which} plan has no price for its devices, so its bill is not compared with the other's")
    if old.seed != new.seed:
        also.append(f"the seed changed from {old.seed} to {new.seed}")
    if old.verdict != new.verdict:
        also.append(f"the verdict changed from {old.verdict} to {new.verdict}")
    if any(not each.because for each in figures) and old.seed == new.seed:
        also.append("figures without a changed input behind them come from another version of Ullage or its facts")
    return Difference(
        old=old,
        new=new,
        inputs=inputs,
        figures=figures,
        causes=causes_of(old, new, same_seed=same_seed),
        also=tuple(also),
    )


def _changes(old: Mapping[str, Entry], new: Mapping[str, Entry]) -> tuple[FigureChange, ...]:
    return tuple(
        FigureChange(name=name, old=before, new=after)
        for name in sorted({*old, *new})
        for before, after in ((old.get(name), new.get(name)),)
        if before is None or after is None or _shown(before) != _shown(after)
    )


def _shown(entry: Entry) -> tuple[object, ...]:
    """What makes two entries the same to a reader."""
    return entry.value, entry.unit, entry.evidence
