"""The numbers of a plan as `ullage plan --json` prints them: a plan and its stored file give the same files."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.errors import InputError

_SCHEMA = "ullage.plan/2"
_FIX = "Give a file that ullage plan --json of this version wrote."


@dataclass(frozen=True, kw_only=True)
class PlanNumber:
    """One number of a plan: what it is called, how it is known, and by which rule it was found."""

    name: str
    value: int | float | str
    unit: str
    evidence: str
    formula: str = ""

    @property
    def why(self) -> str:
        """The number in words, as a comment of a file names it."""
        value = f"{self.value:.7g}" if isinstance(self.value, float) else self.value
        shown = f"{self.name} = {value} {self.unit}".rstrip()
        return f"{shown}, {self.evidence}" + (f": {self.formula}" if self.formula else "")


@dataclass(frozen=True, kw_only=True)
class EmitClass:
    """A class of requests: its priority, 0 first, and its SLOs, such as `ttft_p95` -> 1.0 s."""

    name: str
    priority: int
    slos: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Expiry:
    """An assumption, and the last day on which it may be relied on."""

    assumption: str
    last_day: datetime.date


@dataclass(frozen=True, kw_only=True)
class PlanNumbers:
    """A plan as a document: head, numbers by name, classes, and which assumptions end when, the first one first."""

    service: str
    as_of: datetime.date
    seed: int
    verdict: str
    pools: tuple[str, ...]
    classes: tuple[EmitClass, ...]
    numbers: Mapping[str, PlanNumber]
    expiries: tuple[Expiry, ...]

    @property
    def origin(self) -> str:
        """The plan in a phrase: which service, of which day, and what it says of itself."""
        return f"the plan for {self.service} of {self.as_of} (seed {self.seed}, verdict {self.verdict})"


def plan_numbers(document: Any, *, file: str) -> PlanNumbers:
    """Read the document that `ullage plan --json` prints; anything else is an InputError."""
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
        said = document.get("schema") if isinstance(document, dict) else type(document).__name__
        raise InputError(field=f"{file}: schema", value=said, problem=f"is not {_SCHEMA}", fix=_FIX)
    if "refused" in document:
        raise InputError(field=f"{file}: refused", value=True, problem="is a refusal, which has no plan", fix=_FIX)
    try:
        rows = {**document["assumptions"], **document["figures"]}
        return PlanNumbers(
            service=str(document["service"]),
            as_of=datetime.date.fromisoformat(document["as_of"]),
            seed=int(document["seed"]),
            verdict=str(document["summary"]["verdict"]),
            pools=tuple(str(each["name"]) for each in document["summary"]["pools"]),
            classes=tuple(_class(each) for each in document["classes"]),
            numbers={name: _number(name, each) for name, each in rows.items()},
            expiries=_expiries(document),
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        problem = f"lacks or garbles {error.args[0] if error.args else error}"
        raise InputError(field=file, value=str(error), problem=problem, fix=_FIX) from None


def _number(name: str, row: Mapping[str, Any]) -> PlanNumber:
    value = row["value"]
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError(name)
    if not isinstance(value, str) and not math.isfinite(value):
        raise ValueError(name)
    return PlanNumber(
        name=name,
        value=value,
        unit=str(row["unit"]),
        evidence=str(row["evidence"]),
        formula=str(row.get("formula", "")),
    )


def _class(row: Mapping[str, Any]) -> EmitClass:
    slos = {str(each["name"]): float(each["limit_s"]) for each in row["slos"]}
    return EmitClass(name=str(row["name"]), priority=int(row["priority"]), slos=slos)


def _expiries(document: Mapping[str, Any]) -> tuple[Expiry, ...]:
    """Of what the plan rests on: its inputs, and what is behind the figures of its stages.

    The headline's figures have others behind them, such as the price of a seller that nothing is bought from.
    """
    rows, behind = document["assumptions"], _behind(document)
    found = [
        Expiry(assumption=name, last_day=_dated(row["sources"]) + datetime.timedelta(days=int(row["max_age_days"])))
        for name, row in rows.items()
        if name in behind and row.get("max_age_days") is not None
    ]
    return tuple(sorted(found, key=lambda each: (each.last_day, each.assumption)))


def _behind(document: Mapping[str, Any]) -> set[str]:
    """The names of everything that the plan's inputs and stages come from."""
    figures = document["figures"]
    open_names = [*document["inputs"], *(name for stage in document["stages"] for name in stage["figures"])]
    found: set[str] = set()
    while open_names:
        name = open_names.pop()
        if name not in found:
            found.add(name)
            open_names += figures.get(name, {}).get("inputs", ())
    return found


def _dated(sources: Sequence[Mapping[str, Any]]) -> datetime.date:
    return datetime.date.fromisoformat(sources[0]["date"])
