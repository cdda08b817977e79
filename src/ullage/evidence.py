"""Evidence: where every number comes from, and how to walk it back.

Four kinds of value, each built on the one before:

- `Source`: a document, a measurement, a file: what it is, where it is, its date.
- `Assumption`: an input (stated by the user, or our sourced default) with range and maximum age.
- `Figure`: a number a stage hands over: value, unit, formula and the values it was computed from.
- `Evidence`: the class of a number. A derived number carries the weakest class of its inputs.

Stages compute with plain numbers and make figures once, where they hand over their result.
"""

from __future__ import annotations

import datetime
import enum
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property


class Evidence(enum.StrEnum):
    """How a number is known, strongest first.

    `STATED` stands first because what the user states is the question, not the answer: a plan is
    conditional on it, and it does not weaken a measurement it is combined with. `ASSUMED` stands
    last: our default, however well sourced, is not about the user's system.
    """

    STATED = "stated"
    MEASURED = "measured"
    CALIBRATED = "calibrated"
    PROFILED = "profiled"
    ESTIMATED = "estimated"
    ASSUMED = "assumed"

    @property
    def rank(self) -> int:
        """0 for the strongest class, rising as the class gets weaker."""
        return _RANK[self]


_DIGITS = 9
# Beyond this a whole number is written as it was computed: its last digits are not known anyway.
_WHOLE_BELOW = 1e15
_RANK = {evidence: rank for rank, evidence in enumerate(Evidence)}


def weakest(classes: Iterable[Evidence]) -> Evidence:
    """The class of a number derived from inputs of these classes.

    >>> str(weakest([Evidence.MEASURED, Evidence.STATED, Evidence.ESTIMATED]))
    'estimated'
    """
    return max(classes, key=lambda evidence: evidence.rank)


# What is known of a thing as it was a while ago, as knowledge of what it is now.
_WEAKENED = {
    Evidence.STATED: Evidence.ASSUMED,
    Evidence.MEASURED: Evidence.ESTIMATED,
    Evidence.CALIBRATED: Evidence.ESTIMATED,
    Evidence.PROFILED: Evidence.ESTIMATED,
    Evidence.ESTIMATED: Evidence.ASSUMED,
    Evidence.ASSUMED: Evidence.ASSUMED,
}


def weakened(known: Evidence) -> Evidence:
    """The class of what is past its maximum age: a measurement of what was is an estimate of what is, and a statement
    past its age is no better than a default.

    >>> str(weakened(Evidence.MEASURED)), str(weakened(Evidence.STATED))
    ('estimated', 'assumed')
    """
    return _WEAKENED[known]


@dataclass(frozen=True, kw_only=True)
class Source:
    """Something outside this program that a number was read from."""

    what: str
    where: str
    date: datetime.date
    licence: str = ""

    def __post_init__(self) -> None:
        _require(bool(self.what.strip()), "a source says what it is", self.what)
        _require(bool(self.where.strip()), "a source says where it is", self.where)


@dataclass(frozen=True, kw_only=True)
class Assumption:
    """An input of the plan: what is taken as true, on whose authority, and for how long.

    `low` and `high` are the range the value may take; equal to the value they say that it is exact. A `decision`
    is chosen, not known (how far ahead to plan, at which risk): it is listed like every input, with who chose it,
    but a default choice does not make a measurement less known.
    """

    name: str
    value: int | float | str
    unit: str
    evidence: Evidence
    source: Source
    low: int | float | None = None
    high: int | float | None = None
    max_age: datetime.timedelta | None = None
    decision: bool = False

    def __post_init__(self) -> None:
        _check_number(self.name, self.value)
        if self.low is None and self.high is None:
            return
        inside = (
            self.low is not None
            and self.high is not None
            and not isinstance(self.value, str)
            and self.low <= self.value <= self.high
        )
        _require(inside, f"{self.name}: the value lies in its range", (self.low, self.value, self.high))

    @property
    def sources(self) -> tuple[Source, ...]:
        return (self.source,)

    def age(self, as_of: datetime.date) -> datetime.timedelta:
        """Since its source's date; nothing on a day before it, as a clock that jumped back has it."""
        return max(as_of - self.source.date, datetime.timedelta())

    def is_stale(self, as_of: datetime.date) -> bool:
        """Whether the assumption is past its maximum age on this date."""
        return self.max_age is not None and self.age(as_of) > self.max_age

    def past(self, as_of: datetime.date) -> datetime.timedelta:
        """How long it has been past its maximum age."""
        return (
            datetime.timedelta() if self.max_age is None else max(datetime.timedelta(), self.age(as_of) - self.max_age)
        )

    def aged(self, max_age: datetime.timedelta, as_of: datetime.date) -> Assumption:
        """The same with this maximum age, weaker where it is past it; what is decided and not known has no age."""
        if self.decision or isinstance(self.value, str):
            return self
        found = replace(self, max_age=max_age)
        return replace(found, evidence=weakened(found.evidence)) if found.is_stale(as_of) else found


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A number that is printed: computed from inputs by a formula, or read from sources.

    `evidence` must be given for a figure read from sources. For a computed figure it is derived from
    the inputs and cannot be given stronger than they are; it can be given weaker (a calibrated step
    model makes `calibrated` out of measured load tests).
    """

    name: str
    value: int | float | str
    unit: str
    formula: str = ""
    inputs: tuple[Figure | Assumption, ...] = ()
    sources: tuple[Source, ...] = ()
    own_evidence: Evidence | None = None

    def __post_init__(self) -> None:
        _check_number(self.name, self.value)
        _require(bool(self.inputs or self.sources), f"{self.name}: a figure has inputs or sources", self.value)
        _require(
            bool(self.inputs) or self.own_evidence is not None,
            f"{self.name}: a figure read from sources states its evidence",
            self.value,
        )
        _require(bool(self.formula) or not self.inputs, f"{self.name}: a figure with inputs has a formula", self.value)

    @cached_property
    def evidence(self) -> Evidence:
        known = [each for each in self.inputs if not (isinstance(each, Assumption) and each.decision)]
        classes = [each.evidence for each in known]
        if self.own_evidence is not None:
            classes.append(self.own_evidence)
        return weakest(classes or [each.evidence for each in self.inputs])


def number(given: Figure | Assumption) -> float:
    """The value of what is a number; a text here is a fault of the program, not of its input."""
    _require(not isinstance(given.value, str), f"{given.name} is a number", given.value)
    return float(given.value)


def printed_number(value: float) -> int | float | None:
    """Nine significant digits, yet never less than cents: the order in which cores add does not reach there.

    A whole number is written as one, whether it was counted or computed. What is not a number is None: there was
    nothing to measure.

    >>> printed_number(0.1 + 0.2), printed_number(131072.0), printed_number(12345678.905), printed_number(math.nan)
    (0.3, 131072, 12345678.9, None)
    """
    if not math.isfinite(value):
        return None
    if value == 0.0:
        return 0
    rounded = round(float(value), max(2, _DIGITS - 1 - math.floor(math.log10(abs(value)))))
    return int(rounded) if rounded.is_integer() and abs(rounded) < _WHOLE_BELOW else rounded


def walk(root: Figure | Assumption) -> Iterator[tuple[int, Figure | Assumption | Source]]:
    """All that a number rests on, depth first, each with its depth; every branch ends in sources."""
    pending: list[tuple[int, Figure | Assumption | Source]] = [(0, root)]
    while pending:
        depth, each = pending.pop()
        yield depth, each
        if isinstance(each, Source):
            continue
        below: list[Figure | Assumption | Source] = [*each.sources]
        if isinstance(each, Figure):
            below = [*each.inputs, *below]
        pending.extend((depth + 1, one) for one in reversed(below))


def each_once(roots: Iterable[Figure | Assumption]) -> Iterator[Figure | Assumption | Source]:
    """All that these numbers rest on, in the order of `walk`, each value once however many rest on it."""
    pending: list[Figure | Assumption | Source] = [*reversed(tuple(roots))]
    seen: set[int] = set()
    while pending:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, Figure):
            pending.extend(reversed((*each.inputs, *each.sources)))
        elif isinstance(each, Assumption):
            pending.append(each.source)


def by_name(roots: Iterable[Figure | Assumption]) -> dict[str, Figure | Assumption]:
    """Every number that these rest on, themselves included, by the name that a document prints it under."""
    return {each.name: each for each in each_once(roots) if not isinstance(each, Source)}


def assumptions_of(roots: Iterable[Figure | Assumption]) -> tuple[Assumption, ...]:
    """Every assumption these numbers rest on, each once, in order of name."""
    found = {each for each in each_once(roots) if isinstance(each, Assumption)}
    return tuple(sorted(found, key=lambda each: each.name))


def _check_number(name: str, value: int | float | str) -> None:
    _require(isinstance(value, str) or math.isfinite(value), f"{name}: a number is finite", value)


def _require(holds: bool, law: str, value: object) -> None:
    if not holds:
        raise ValueError(f"{law}; got {value!r}")
