"""Start-ups: how long each phase takes, and how fast weights are read from where they lie.

A phase is a row of an engine's sheet, or of `platform` for what passes outside engines; a rate is a row of `storage`:

    [[phases]]
    phase = "graphs"
    moves_with = "host"                      phases with the same value are slow or fast together
    per_doubling = 1.46                      growth for each doubling of a replica's devices
    value = { value = "15.4 s", low = "4.96 s", high = "47.5 s" }

`value` is the median, `low` and `high` are p10 and p90. An engine without a sheet takes vLLM's, and says so.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from ullage.errors import InputError, InternalError
from ullage.evidence import Assumption
from ullage.facts.catalogue import Catalogue, packaged
from ullage.facts.sheet import FactRow, Field, RowKind, Sheet, SheetKind

# Engines change how they start every few weeks, clouds less often; half a year as for their other defaults.
_MAX_AGE = datetime.timedelta(days=183)
# Disks and networks get faster with a generation of machines, not with a release.
_STORAGE_MAX_AGE = datetime.timedelta(days=730)

PHASES = (
    "node",
    "image",
    "container",
    "boot",
    "compile",
    "compile_cached",
    "graphs",
    "warmup",
    "wake",
    "probe",
    "discovery",
)
"""Phases that a sheet may state; the weights' follows from their bytes and the storage's rate."""

STORAGES = ("page-cache", "local-nvme", "shared-filesystem", "network-disk", "object-store", "streamed")
"""Where weights may lie: in the host's memory, on its own disk, on NFS or a parallel file system, on a cloud's block
volume, in a bucket from which they are downloaded first. `streamed` is a loader that reads many parts of a bucket or
volume at once, straight to the device."""

STAND_IN = "vllm"

STARTUP = SheetKind(
    noun="start-up sheet",
    folder="startups",
    howto="docs/explanation/time-to-ready.md",
    texts={"title": True},
    listed={"title": ""},
    fields={
        "repeat_spread": Field(
            unit="ratio",
            meaning="p90 over the median of a phase when the same host starts the same thing again",
            max_age=_MAX_AGE,
        )
    },
    rows={
        "phases": RowKind(
            texts={"phase": True, "moves_with": False},
            fields={
                "value": Field(unit="s", meaning="median on one device", required=True, max_age=_MAX_AGE),
                "per_doubling": Field(unit="ratio", meaning="growth per doubling of devices", max_age=_MAX_AGE),
            },
        ),
        "bandwidths": RowKind(
            texts={"storage": True},
            fields={
                "value": Field(
                    unit="bytes/s",
                    meaning="checkpoint over the time until its weights are on the devices",
                    required=True,
                    max_age=_STORAGE_MAX_AGE,
                )
            },
        ),
    },
)


@dataclass(frozen=True, kw_only=True)
class PhaseFact:
    """One phase on one device, and how it grows with devices. `moves_with` groups phases that vary together."""

    phase: str
    moves_with: str
    time: Assumption
    growth: Assumption | None = None

    @property
    def value_s(self) -> float:
        return _number(self.time.value)

    @property
    def low_s(self) -> float:
        return _number(self.time.low)

    @property
    def high_s(self) -> float:
        return _number(self.time.high)

    @property
    def per_doubling_ratio(self) -> float:
        return 1.0 if self.growth is None else _number(self.growth.value)

    def growth_at(self, devices: int) -> float:
        return float(self.per_doubling_ratio ** math.log2(devices))


@dataclass(frozen=True, kw_only=True)
class StartupFacts:
    """What is known of an engine's start. `fallback` says why another engine's phases stand in, where they do."""

    engine: str
    fallback: str
    phases: Mapping[str, PhaseFact]
    bandwidths: Mapping[str, Assumption]
    repeat_spread: Assumption

    @property
    def repeat_spread_ratio(self) -> float:
        return _number(self.repeat_spread.value)


@functools.cache
def startups() -> Catalogue:
    """The start-up sheets that come with ullage."""
    return packaged(STARTUP)


def startup_facts(engine: str, catalogue: Catalogue | None = None) -> StartupFacts:
    """The phases of an engine, of the platform around it, and the rates of storage."""
    sheets = startups() if catalogue is None else catalogue
    known = engine in sheets.sheets
    of_engine, platform, storage = (
        _layers(sheets, name) for name in (engine if known else STAND_IN, "platform", "storage")
    )
    phases = {fact.phase: fact for sheet in (*platform, *of_engine) for fact in _phases(sheet)}
    spread = platform[-1].values["repeat_spread"]
    return StartupFacts(
        engine=engine,
        fallback=""
        if known
        else f"No start-up log of {engine} is in the catalogue: {STAND_IN}'s phases are used instead. Give a log.",
        phases=phases,
        bandwidths={_storage(row): _rate(row) for sheet in storage for row in sheet.rows.get("bandwidths", ())},
        repeat_spread=dataclasses.replace(spread, name="start-up repeat_spread"),
    )


def _layers(sheets: Catalogue, name: str) -> list[Sheet]:
    """Our sheet, and a user's over it: one who states how long their nodes take keeps our other phases."""
    ours = startups().sheets.get(name)
    return [sheet for sheet in (ours, sheets.find(name)) if sheet is not None]


def _phases(sheet: Sheet) -> list[PhaseFact]:
    return [_phase(sheet.name, row) for row in sheet.rows.get("phases", ())]


def _phase(sheet: str, row: FactRow) -> PhaseFact:
    phase = row.texts["phase"]
    if phase not in PHASES:
        raise InputError(
            field=f"startups/{sheet}.toml: phase",
            value=phase,
            problem="is not a phase of a start",
            fix=f"Known: {', '.join(PHASES)}.",
        )
    growth = row.values.get("per_doubling")
    return PhaseFact(
        phase=phase,
        moves_with=row.texts.get("moves_with", phase),
        time=dataclasses.replace(_with_range(sheet, phase, row), name=f"{sheet} {phase} time"),
        growth=None if growth is None else dataclasses.replace(growth, name=f"{sheet} {phase} growth"),
    )


def _storage(row: FactRow) -> str:
    storage = row.texts["storage"]
    if storage not in STORAGES:
        raise InputError(
            field="startups/storage.toml: storage",
            value=storage,
            problem="is not a kind of storage",
            fix=f"Known: {', '.join(STORAGES)}.",
        )
    return storage


def _rate(row: FactRow) -> Assumption:
    storage = row.texts["storage"]
    return dataclasses.replace(_with_range("storage", storage, row), name=f"{storage} bandwidth")


def _with_range(sheet: str, what: str, row: FactRow) -> Assumption:
    """A fact without its p10 and p90 would be taken as certain."""
    fact = row.values["value"]
    if fact.low is None or fact.high is None:
        raise InputError(
            field=f"startups/{sheet}.toml: {what}",
            value=fact.value,
            problem="has no range",
            fix="Write low and high: its p10 and p90.",
        )
    return fact


def _number(value: int | float | str | None) -> float:
    if value is None or isinstance(value, str):
        raise InternalError(law="a start-up fact is a number with its range", left=value, right="a number")
    return float(value)
