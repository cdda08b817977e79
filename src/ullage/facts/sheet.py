"""One fact file: TOML in which every value has a source, and every source a date.

    title = "NVIDIA H200 SXM 141GB"          identity: plain text, listed in the kind
    aliases = ["h200"]
    source = "datasheet"                     the source of every value that names no other

    [sources.datasheet]
    what = "NVIDIA H200 data sheet"
    where = "https://..."
    date = 2024-11-01
    evidence = "estimated"                   measured: a driver, an engine or a benchmark reported it

    [values]
    memory_bandwidth = "4.8 TB/s"            short form, or with source, range and note:
    memory = { value = "139.8 GiB", low = "139 GiB", high = "141 GB", source = "driver", note = "..." }

    [[instances]]                            rows, where a kind has them; `source` works here too
    name = "p5en.48xlarge"
    devices = 8

Sources that disagree are kept as a range: `low` and `high`, with `disputed_by` naming the other source.
Reading is strict: an unknown key, a value without source and an unused source are errors.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ullage.errors import InputError, check_name, unknown_name
from ullage.evidence import Assumption, Evidence, Source
from ullage.facts.quantity import FLAG_UNIT, TEXT_UNIT, read_quantity


@dataclass(frozen=True, kw_only=True)
class Field:
    """One value a fact file may state: its unit inside, what it means, and how long it stays valid."""

    unit: str
    meaning: str
    required: bool = False
    choices: tuple[str, ...] = ()
    max_age: datetime.timedelta | None = None


@dataclass(frozen=True, kw_only=True)
class RowKind:
    """One array of tables: the texts that identify a row, and its values."""

    texts: Mapping[str, bool]
    fields: Mapping[str, Field]


@dataclass(frozen=True, kw_only=True)
class SheetKind:
    """What the files of one folder hold.

    `texts` and a row's texts map each key to whether it is required; `listed` are the texts and values that a
    list of many sheets shows, each value with the unit it is shown in.
    """

    noun: str
    folder: str
    texts: Mapping[str, bool]
    fields: Mapping[str, Field]
    howto: str
    rows: Mapping[str, RowKind] = field(default_factory=dict)
    listed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FactRow:
    texts: Mapping[str, str]
    values: Mapping[str, Assumption]
    notes: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """One fact file. `name` is the file's name without `.toml`."""

    name: str
    texts: Mapping[str, str]
    aliases: tuple[str, ...]
    values: Mapping[str, Assumption]
    notes: Mapping[str, str]
    rows: Mapping[str, tuple[FactRow, ...]]

    def number(self, key: str) -> int | float | None:
        """The value of a numeric fact, or None where the file does not state it."""
        found = self.values.get(key)
        return None if found is None or isinstance(found.value, str) else found.value

    def over(self, below: Sheet) -> Sheet:
        """This sheet on top of another: what it states replaces the same value, text or kind of rows there."""
        return Sheet(
            name=self.name,
            texts={**below.texts, **self.texts},
            aliases=tuple(dict.fromkeys((*below.aliases, *self.aliases))),
            values={**below.values, **self.values},
            notes={**{key: note for key, note in below.notes.items() if key not in self.values}, **self.notes},
            rows={**below.rows, **self.rows},
        )


_FILE_KEYS = ("aliases", "source", "sources", "values")
_SOURCE_KEYS = ("what", "where", "date", "evidence", "licence")
_VALUE_KEYS = ("value", "low", "high", "source", "disputed_by", "note")


def read_sheet(text: str, *, name: str, kind: SheetKind, file: str, partial: bool = False) -> Sheet:
    """Read one fact file. `partial` is for an overlay on a sheet that exists: nothing is required of it."""
    table = _toml(text, file)
    _refuse_unknown(file, table, {*_FILE_KEYS, *kind.texts, *kind.rows})
    reader = _Reader(file=file, sources=_sources(file, table.get("sources", {})), default=table.get("source"))
    values, notes = reader.values(f"{file}: values", _table(f"{file}: values", table.get("values", {})), kind.fields)
    rows = {key: reader.rows(key, table[key], row) for key, row in kind.rows.items() if key in table}
    reader.refuse_unused_sources()
    sheet = Sheet(
        name=name,
        texts=_texts(file, table, kind.texts, partial=partial),
        aliases=_aliases(file, table.get("aliases", [])),
        values=values,
        notes=notes,
        rows=rows,
    )
    if not partial:
        _require(f"{file}: values", values, kind.fields)
    return sheet


@dataclass(frozen=True, kw_only=True)
class _Reader:
    """Reads values against one file's sources, and remembers which of those were used."""

    file: str
    sources: Mapping[str, tuple[Source, Evidence]]
    default: object
    used: set[str] = field(default_factory=set)

    def rows(self, key: str, written: object, kind: RowKind) -> tuple[FactRow, ...]:
        if not isinstance(written, list) or not all(isinstance(each, dict) for each in written):
            raise InputError(
                field=f"{self.file}: {key}", value=written, problem="is not a list of tables", fix=f"Write [[{key}]]."
            )
        return tuple(self._row(f"{self.file}: {key}[{index}]", each, kind) for index, each in enumerate(written))

    def _row(self, where: str, written: Mapping[str, Any], kind: RowKind) -> FactRow:
        _refuse_unknown(where, written, {"source", *kind.texts, *kind.fields})
        facts = {key: value for key, value in written.items() if key in kind.fields}
        values, notes = self.values(where, facts, kind.fields, source=written.get("source"))
        _require(where, values, kind.fields)
        return FactRow(texts=_texts(where, written, kind.texts), values=values, notes=notes)

    def values(
        self, where: str, written: Mapping[str, Any], fields: Mapping[str, Field], source: object = None
    ) -> tuple[dict[str, Assumption], dict[str, str]]:
        _refuse_unknown(where, written, fields)
        values, notes = {}, {}
        for key, each in written.items():
            full = each if isinstance(each, dict) else {"value": each}
            values[key] = self._value(f"{where}.{key}", key, full, fields[key], source)
            if "note" in full:
                notes[key] = str(read_quantity(f"{where}.{key}.note", full["note"], TEXT_UNIT))
        return values, notes

    def _value(self, where: str, key: str, full: Mapping[str, Any], kind: Field, row_source: object) -> Assumption:
        _refuse_unknown(where, full, _VALUE_KEYS)
        if "value" not in full:
            raise InputError(field=where, value=dict(full), problem="has no value", fix="Write value = ...")
        source, evidence = self._source(where, full.get("source", row_source or self.default))
        if "disputed_by" in full:
            self._source(f"{where}.disputed_by", full["disputed_by"])
        value = read_quantity(where, full["value"], kind.unit)
        if kind.choices and value not in kind.choices:
            raise unknown_name(field=where, name=str(value), known=kind.choices)
        low, high = self._range(where, full, kind, value)
        return Assumption(
            name=key,
            value=value,
            unit=kind.unit,
            evidence=evidence,
            source=source,
            low=low,
            high=high,
            max_age=kind.max_age,
        )

    def _range(
        self, where: str, full: Mapping[str, Any], kind: Field, value: int | float | str
    ) -> tuple[int | float | None, int | float | None]:
        if "low" not in full and "high" not in full:
            return None, None
        if isinstance(value, str) or kind.unit == FLAG_UNIT:
            raise InputError(
                field=where, value=value, problem="is not a number, but has a range", fix="Drop low, high."
            )
        low = read_quantity(f"{where}.low", full.get("low", full["value"]), kind.unit)
        high = read_quantity(f"{where}.high", full.get("high", full["value"]), kind.unit)
        if isinstance(low, str) or isinstance(high, str) or not low <= value <= high:
            raise InputError(
                field=where,
                value=full["value"],
                problem=f"lies outside its range {low} to {high}",
                fix="Widen the range.",
            )
        return low, high

    def _source(self, where: str, key: object) -> tuple[Source, Evidence]:
        if key is None:
            fix = 'Name one: source = "..." beside the value, or once at the top of the file.'
            raise InputError(field=where, value=None, problem="has no source", fix=fix)
        if key not in self.sources:
            fix = f"Describe it in a table [sources.{key}] of this file."
            raise unknown_name(field=f"{where}: source", name=str(key), known=self.sources, fix=fix)
        self.used.add(str(key))
        return self.sources[str(key)]

    def refuse_unused_sources(self) -> None:
        for key in self.sources:
            if key not in self.used:
                raise InputError(
                    field=f"{self.file}: sources", value=key, problem="is the source of no value", fix="Remove it."
                )


def _toml(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(field=file, value=str(error), problem="is not TOML", fix="Mend that line.") from error
    except RecursionError:
        raise InputError(field=file, value=text[:20], problem="is nested too deep", fix="Write flat tables.") from None


def _sources(file: str, written: object) -> dict[str, tuple[Source, Evidence]]:
    return {
        key: _one_source(f"{file}: sources.{key}", each) for key, each in _table(f"{file}: sources", written).items()
    }


def _one_source(where: str, written: object) -> tuple[Source, Evidence]:
    table = _table(where, written)
    _refuse_unknown(where, table, _SOURCE_KEYS)
    for key in ("what", "where", "date", "evidence"):
        if key not in table:
            raise InputError(field=where, value=None, problem=f"has no {key}", fix=f"Write {key} = ...")
    date = table["date"]
    if not isinstance(date, datetime.date) or isinstance(date, datetime.datetime):
        raise InputError(
            field=f"{where}.date", value=date, problem="is not a date", fix="Write date = 2026-11-15, without quotes."
        )
    classes = {str(each): each for each in Evidence}
    check_name(str(table["evidence"]), classes, field=f"{where}.evidence")
    texts = {key: str(read_quantity(f"{where}.{key}", table[key], TEXT_UNIT)) for key in ("what", "where")}
    licence = str(table.get("licence", ""))
    return Source(what=texts["what"], where=texts["where"], date=date, licence=licence), classes[table["evidence"]]


def _texts(where: str, table: Mapping[str, Any], known: Mapping[str, bool], *, partial: bool = False) -> dict[str, str]:
    for key, required in known.items():
        if required and key not in table and not partial:
            raise InputError(field=where, value=None, problem=f"has no {key}", fix=f'Write {key} = "..."')
    return {key: str(read_quantity(f"{where}: {key}", table[key], TEXT_UNIT)) for key in known if key in table}


def _aliases(file: str, written: object) -> tuple[str, ...]:
    if not isinstance(written, list) or not all(isinstance(each, str) and each.strip() for each in written):
        raise InputError(
            field=f"{file}: aliases", value=written, problem="is not a list of names", fix='Write aliases = ["..."].'
        )
    return tuple(written)


def _table(where: str, written: object) -> dict[str, Any]:
    if not isinstance(written, dict):
        raise InputError(field=where, value=written, problem="is not a table", fix="Write it as a TOML table.")
    return written


def _refuse_unknown(where: str, table: Mapping[str, Any], known: Collection[str]) -> None:
    for key in table:
        check_name(key, known, field=where)


def _require(where: str, values: Mapping[str, Assumption], fields: Mapping[str, Field]) -> None:
    for key, each in fields.items():
        if each.required and key not in values:
            fix = f"Write {key} = ... ({each.meaning}; in {each.unit})."
            raise InputError(field=where, value=None, problem=f"has no {key}", fix=fix)
