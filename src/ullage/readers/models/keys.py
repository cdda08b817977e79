"""Typed reading of a config's keys: every refusal names the key by its JSON path, every default is recorded.

A key counts as absent when it is missing or null. Where a config says the same thing under two spellings,
they must agree. What the reader takes from a class default instead of from the file is listed in
`Record.assumed` and ends up on the model.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Source

MOST = 2**40
"""No size or count in a model config is above this; a greater one is a typing error, or an attack."""

CLASSES = Source(
    what="transformers model classes, and vLLM model code where transformers has none (August 2026)",
    where="https://github.com/huggingface/transformers",
    date=datetime.date(2026, 8, 21),
    licence="Apache-2.0",
)
"""Where class defaults and conventions come from that a config leaves unsaid."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a reading used up, assumed and wants to tell."""

    used: set[str] = field(default_factory=set)
    assumed: dict[str, Assumption] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)

    def assume(self, path: str, value: int | float | str, unit: str, why: str) -> None:
        source = Source(what=f"{CLASSES.what}: {why}", where=CLASSES.where, date=CLASSES.date, licence=CLASSES.licence)
        self.assumed[path] = Assumption(name=path, value=value, unit=unit, evidence=Evidence.ASSUMED, source=source)

    def note(self, text: str) -> None:
        self.notes[text] = None


@dataclass(frozen=True, kw_only=True)
class Keys:
    """One JSON object of a config and the path that leads to it."""

    table: Mapping[str, object]
    path: str = ""
    record: Record = field(default_factory=Record)

    def where(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        return self.table.get(name) is not None

    def states(self, *names: str) -> str | None:
        """The first of these spellings that the config uses."""
        return next((name for name in names if self.has(name)), None)

    def value(self, name: str) -> object:
        self.record.used.add(self.where(name))
        return self.table.get(name)

    def sub(self, name: str) -> Keys:
        """A nested object."""
        found = self.value(name)
        if not isinstance(found, dict):
            raise self.wrong(name, "is not an object", "Write it as a JSON object.")
        return Keys(table=found, path=self.where(name), record=self.record)

    def count(self, *names: str, least: int = 1) -> int:
        """A whole number that the config must state under one of these spellings."""
        found = self.count_or(*names, least=least)
        if found is None:
            raise self.missing(*names)
        return found

    def count_or(self, *names: str, least: int = 1) -> int | None:
        """The same where the key may be absent."""
        stated = [name for name in names if self.has(name)]
        counts = [self._one_count(name, least) for name in stated]
        if len(set(counts)) > 1:
            pairs = ", ".join(f"{name} = {count}" for name, count in zip(stated, counts, strict=True))
            problem, fix = f"contradicts another spelling of the same thing ({pairs})", "Keep one of them."
            raise InputError(field=self.where(stated[1]), value=counts[1], problem=problem, fix=fix)
        return counts[0] if counts else None

    def _one_count(self, name: str, least: int) -> int:
        found = self.value(name)
        if isinstance(found, float) and math.isfinite(found) and found.is_integer():
            found = int(found)
        if isinstance(found, bool) or not isinstance(found, int):
            raise self.wrong(name, "is not a whole number", f"Write a whole number of at least {least}.")
        if not least <= found <= MOST:
            raise self.wrong(name, f"lies outside {least} to {MOST}", "Correct the config, or give the real one.")
        return found

    def flag(self, name: str, default: bool = False) -> bool:
        found = self.value(name)
        if found is None:
            return default
        if not isinstance(found, bool) and found not in (0, 1):
            raise self.wrong(name, "is neither true nor false", "Write true or false.")
        return bool(found)

    def text_or(self, *names: str) -> str | None:
        name = self.states(*names)
        if name is None:
            return None
        found = self.value(name)
        if not isinstance(found, str):
            raise self.wrong(name, "is not a text", "Write it in quotes.")
        return found

    def ratio(self, name: str) -> float:
        found = self.value(name)
        if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found) or found <= 0:
            raise self.wrong(name, "is not a positive number", "Write a number above 0.")
        return float(found)

    def items(self, name: str, *, least: int = 0, most: int | None = None) -> Sequence[object]:
        """A list of a length between bounds."""
        found = self.value(name)
        if not isinstance(found, list):
            raise self.wrong(name, "is not a list", "Write it as a JSON list.")
        if len(found) < least or (most is not None and len(found) > most):
            wanted = f"{least}" if most == least else f"{least} to {most}"
            raise self.wrong(name, f"has {len(found)} entries where {wanted} are due", "One entry per layer.")
        return found

    def whole_items(self, name: str, *, least: int = 0, most: int | None = None, low: int = 0) -> list[int]:
        """A list of whole numbers."""
        found = self.items(name, least=least, most=most)
        for index, each in enumerate(found):
            if not isinstance(each, int) or not low <= each <= MOST:
                place = f"{self.where(name)}[{index}]"
                fix = f"Write a whole number of at least {low}."
                raise InputError(field=place, value=each, problem="is not a whole number", fix=fix)
        return [int(each) for each in found if isinstance(each, int)]

    def missing(self, *names: str) -> InputError:
        also = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
        fix = f"Give the model's own config.json, in which {names[0]}{also} stands."
        return InputError(field=self.where(names[0]), value=None, problem="is missing", fix=fix)

    def wrong(self, name: str, problem: str, fix: str) -> InputError:
        return InputError(field=self.where(name), value=self.table.get(name), problem=problem, fix=fix)
