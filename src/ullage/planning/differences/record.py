"""A plan as it was written down: the numbers and what each rests on, without the values that computed them.

A plan that was saved as JSON months ago can no longer be computed with, but it can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ullage.evidence import Assumption, Figure, Source, printed_number, walk
from ullage.planning.answer.answer import answer
from ullage.planning.document import Plan


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One number of a plan; `rests_on` are the names of its direct inputs, none for an input."""

    name: str
    value: int | float | str
    unit: str
    evidence: str
    formula: str = ""
    rests_on: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class RecordedStep:
    """One step of a pool's bridge, by the names of its figures; `usd` is empty where it costs nothing."""

    name: str
    amount: str
    usd: str = ""


@dataclass(frozen=True, kw_only=True)
class RecordedPool:
    """How a pool's fleet is made up: the figure of its load, and its steps, whole machines last."""

    name: str
    load: str
    steps: tuple[RecordedStep, ...]


DEVICE_LINES = frozenset(
    {"compute reservation", "compute usage", "idle hours", "failed work", "idle reserve", "stranded devices"}
)
"""Lines of the bill that the bridge of a pool divides."""


@dataclass(frozen=True, kw_only=True)
class PlanRecord:
    """All numbers of a plan by name, and which of them it prints as figures.

    `pools` and `lines` say how its fleet and the other lines of its bill are made up, by the names of figures.
    """

    service: str
    as_of: str
    seed: int
    verdict: str
    figures: Mapping[str, Entry]
    inputs: Mapping[str, Entry]
    pools: tuple[RecordedPool, ...] = ()
    lines: Mapping[str, str] = field(default_factory=dict)
    is_of_devices: bool = True

    def grounds(self, name: str) -> frozenset[str]:
        """The inputs that a number rests on, directly or not."""
        found: set[str] = set()
        pending, seen = [name], set[str]()
        while pending:
            each = pending.pop()
            if each in seen:
                continue
            seen.add(each)
            if each in self.inputs:
                found.add(each)
            pending += self.figures[each].rests_on if each in self.figures else ()
        return frozenset(found)


def record_of(plan: Plan) -> PlanRecord:
    figures: dict[str, Entry] = {}
    inputs: dict[str, Entry] = {}
    summary = answer(plan)
    roots: list[Figure | Assumption] = [*plan.spec.inputs, *plan.figures, *summary.figures.values()]
    for root in roots:
        for _, each in walk(root):
            if isinstance(each, Figure):
                figures[each.name] = _figure(each)
            elif isinstance(each, Assumption):
                inputs[each.name] = _input(each)
    return PlanRecord(
        service=plan.spec.name,
        as_of=plan.as_of.isoformat(),
        seed=plan.seed,
        verdict=plan.verdict.value,
        figures=dict(sorted(figures.items())),
        inputs=dict(sorted(inputs.items())),
        pools=tuple(
            RecordedPool(
                name=each.name,
                load=each.load.name,
                steps=tuple(
                    RecordedStep(name=one.name, amount=one.amount.name, usd="" if one.usd is None else one.usd.name)
                    for one in (*each.replicas, each.rounding)
                ),
            )
            for each in summary.pools
        ),
        lines={each.name: each.usd.name for each in summary.money if each.name not in DEVICE_LINES},
        is_of_devices=summary.total_usd is not None,
    )


def _figure(each: Figure) -> Entry:
    return Entry(
        name=each.name,
        value=_value(each),
        unit=each.unit,
        evidence=str(each.evidence),
        formula=each.formula,
        rests_on=tuple(one.name for one in each.inputs),
        source=_sources(each.sources),
    )


def _input(each: Assumption) -> Entry:
    return Entry(
        name=each.name, value=_value(each), unit=each.unit, evidence=str(each.evidence), source=_sources(each.sources)
    )


def _value(each: Figure | Assumption) -> int | float | str:
    """As it is printed: a plan that was saved and read back is the same plan."""
    found = each.value if isinstance(each.value, str) else printed_number(each.value)
    assert found is not None, each.name
    return found


def _sources(sources: tuple[Source, ...]) -> str:
    return ", ".join(each.what for each in sources)
