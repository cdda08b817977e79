"""Serving engines: the defaults of each version.

A default is a list of rows; each row says for which versions it holds, and where the engine decides by
hardware, from (and below) which device memory, from how many devices and for which devices not:

    [[token_budget]]
    versions = "0.9 to 0.27"
    device_memory_from = "70 GiB"
    not_on = "a100"
    value = 8192

Of the rows that hold, the most demanding one counts (most device memory, then most devices). A version
outside the known range is refused; on request, the nearest known version is used, with a note.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ullage.errors import InputError
from ullage.evidence import Assumption
from ullage.facts.catalogue import Catalogue, bare_name, packaged
from ullage.facts.sheet import FactRow, Field, RowKind, Sheet, SheetKind

# Engines release every two to four weeks; half a year later a default has had a dozen chances to change.
_MAX_AGE = datetime.timedelta(days=183)

COVERS = ("everything", "weights-and-kv", "kv-of-free")
"""What an engine's memory fraction is a fraction of.

everything      of the device: weights, activations, workspace and KV cache together (vLLM)
weights-and-kv  of the device: weights and KV cache; activations and graphs live outside it (SGLang)
kv-of-free      of what is free once weights and workspace are in place: the KV cache alone (TensorRT-LLM)
"""


def _default(unit: str, meaning: str, choices: tuple[str, ...] = ()) -> RowKind:
    return RowKind(
        texts={"versions": True, "not_on": False},
        fields={
            "value": Field(unit=unit, meaning=meaning, required=True, choices=choices, max_age=_MAX_AGE),
            "device_memory_from": Field(unit="bytes", meaning="least device memory for which this row holds"),
            "device_memory_below": Field(unit="bytes", meaning="device memory from which this row no longer holds"),
            "devices_from": Field(unit="count", meaning="least devices in a replica (tp x pp) for which it holds"),
        },
    )


CAPACITY_POLICIES = ("present_need", "new_token_ratio", "guaranteed_no_evict", "max_utilization")
POLICIES_OF = {
    "vllm": ("present_need",),
    "sglang": ("new_token_ratio",),
    "tensorrt-llm": ("guaranteed_no_evict", "max_utilization"),
}


ENGINES = SheetKind(
    noun="engine",
    folder="engines",
    howto="docs/howto/add-a-device.md",
    texts={"title": True, "versions": True},
    listed={"title": "", "versions": ""},
    fields={},
    rows={
        "memory_fraction": _default(
            "fraction", "share of memory the engine takes; memory_fraction_covers says of what"
        ),
        "memory_fraction_covers": _default("text", "what the memory fraction is a fraction of", COVERS),
        "reserve_base": _default("bytes", "memory left outside the fraction, whatever the settings"),
        "reserve_per_budget_token": _default("bytes", "memory left outside the fraction per token of the budget"),
        "reserve_per_graph_sequence": _default("bytes", "memory left outside it per sequence of the largest graph"),
        "reserve_per_device": _default("bytes", "memory left outside the fraction per device of the replica"),
        "reserve_at_least": _default("bytes", "least memory left outside the fraction"),
        "token_budget": _default("tokens", "tokens of one step"),
        "max_sequences": _default("count", "sequences that run at once"),
        "state_cache_ratio": _default(
            "ratio", "memory set aside for states of recurrent layers, by that of the KV cache beside them"
        ),
        "state_slots": _default("count", "states of recurrent layers that are set aside, whatever the memory"),
        "states_per_sequence": _default("count", "states of those set aside that each running sequence may take"),
        "poll_steps": _default("count", "decode steps between two looks for new requests"),
        "capacity_policy": _default("text", "what must fit before a request is admitted", CAPACITY_POLICIES),
        "block_size": _default("tokens", "tokens of one KV block"),
        "graph_sequences": _default("count", "sequences of the largest captured graph"),
        "graph_memory": _default("bytes", "memory of the captured graphs"),
        "graphs_in_fraction": _default("flag", "whether the graphs' memory is taken out of the fraction"),
        "context_memory": _default("bytes", "memory that the driver's context takes before the engine counts"),
        "non_torch_memory": _default("bytes", "memory the engine takes outside its allocator"),
        "communication_memory": _default("bytes", "buffers of the collectives, where a replica has several devices"),
    },
)


@dataclass(frozen=True, kw_only=True)
class EngineDefaults:
    """The defaults of one engine version on one device."""

    engine: str
    version: str
    fallback: str
    values: Mapping[str, Assumption]

    def number(self, key: str) -> int | float | None:
        found = self.values.get(key)
        return None if found is None or isinstance(found.value, str) else found.value

    def text(self, key: str) -> str | None:
        found = self.values.get(key)
        return found.value if found is not None and isinstance(found.value, str) else None


@functools.cache
def engines() -> Catalogue:
    """The engines that come with ullage."""
    return packaged(ENGINES)


def engine_defaults(
    name: str,
    version: str | None,
    device_memory_bytes: int,
    *,
    device_name: str = "",
    devices: int = 1,
    nearest: bool = False,
    catalogue: Catalogue | None = None,
) -> EngineDefaults:
    """What this engine version does by default on a device of this memory, in a replica of so many devices.

    Without a version the newest known one is taken. A version outside the known range is an InputError
    unless `nearest` is set; then the nearest known one is used, and `fallback` says which and why.
    """
    sheet = (engines() if catalogue is None else catalogue).find(name, field="engine")
    asked = _asked_version(sheet, version)
    used, fallback = _known_version(sheet, asked, nearest=nearest)
    case = _Case(version=used, memory_bytes=device_memory_bytes, device=bare_name(device_name), devices=devices)
    rows = {key: case.choose(rows) for key, rows in sheet.rows.items()}
    found = {key: row for key, row in rows.items() if row is not None}
    values = {key: dataclasses.replace(row.values["value"], name=f"{sheet.name} {key}") for key, row in found.items()}
    return EngineDefaults(
        engine=sheet.name,
        version=asked,
        fallback=fallback,
        values=_with_fraction(values, sheet.name, device_memory_bytes, devices),
    )


# The first version whose own flags refuse what there is no room to queue; TensorRT-LLM has none.
_QUEUE_BOUNDED_FROM = {"vllm": (0, 29), "sglang": (0,)}


def bounds_queue(engine: str, version: str | None) -> bool:
    """Whether the engine's own flags bound its queue; None is the newest version."""
    first = _QUEUE_BOUNDED_FROM.get(engine)
    return first is not None and (version is None or version_key(version) >= first)


@functools.lru_cache(maxsize=1024)
def version_key(version: str) -> tuple[int, ...]:
    """The numbers of a version or of an image's tag, for comparing.

    >>> version_key("v0.8.5.post1"), version_key("lmsysorg/sglang:v0.5.9-cu130")
    ((0, 8, 5), (0, 5, 9))
    """
    found = re.match(r"v?(\d+(?:\.\d+)*)", _tag(version))
    if found is None:
        raise InputError(field="version", value=version, problem="is not a version", fix="Give one such as 0.32.0.")
    return tuple(int(part) for part in found[1].split("."))


def _tag(version: str) -> str:
    """The tag of an image's name; a version as it is."""
    return version.strip().rpartition(":")[2]


def in_range(version: str, versions: str) -> bool:
    """Whether a version lies in a range such as "0.9 to 0.27", both ends included with all their patches."""
    low, high = _ends(versions)
    key = version_key(version)
    return version_key(low) <= key and key[: len(version_key(high))] <= version_key(high)


@dataclass(frozen=True, kw_only=True)
class _Case:
    version: str
    memory_bytes: int
    device: str
    devices: int

    def choose(self, rows: Iterable[FactRow]) -> FactRow | None:
        fitting = [row for row in rows if self._fits(row)]
        return max(
            fitting, key=lambda row: (_least(row, "device_memory_from"), _least(row, "devices_from")), default=None
        )

    def _fits(self, row: FactRow) -> bool:
        excluded = row.texts.get("not_on")
        return (
            in_range(self.version, row.texts["versions"])
            and self.memory_bytes >= _least(row, "device_memory_from")
            and self.memory_bytes < _bound(row, "device_memory_below", math.inf)
            and self.devices >= _least(row, "devices_from")
            and not (excluded and excluded in self.device)
        )


def _least(row: FactRow, key: str) -> float:
    return _bound(row, key, 0.0)


def _bound(row: FactRow, key: str, absent: float) -> float:
    condition = row.values.get(key)
    return absent if condition is None or isinstance(condition.value, str) else float(condition.value)


def _with_fraction(
    values: Mapping[str, Assumption], engine: str, device_memory_bytes: int, devices: int
) -> dict[str, Assumption]:
    """Engines that reserve bytes rather than a share: fraction = (memory - reserve) / memory, to three digits.

    SGLang since 0.4.8: reserve = base + budget x per token + largest graph x per sequence + devices x per
    device, and at least `reserve_at_least`.
    """
    base = values.get("reserve_base")
    if "memory_fraction" in values or base is None:
        return dict(values)

    def of(key: str) -> float:
        found = values.get(key)
        return 0.0 if found is None or isinstance(found.value, str) else float(found.value)

    reserve_bytes = (
        of("reserve_base")
        + of("token_budget") * of("reserve_per_budget_token")
        + of("graph_sequences") * of("reserve_per_graph_sequence")
        + devices * of("reserve_per_device")
    )
    reserve_bytes = max(reserve_bytes, of("reserve_at_least"))
    if reserve_bytes >= device_memory_bytes:
        raise InputError(
            field="device_memory",
            value=device_memory_bytes,
            problem=f"{engine} reserves {reserve_bytes:.0f} bytes on such a device, all of it",
            fix="Take a device with more memory, or state the memory fraction.",
        )
    fraction = round((device_memory_bytes - reserve_bytes) / device_memory_bytes, 3)
    return {
        **values,
        "memory_fraction": dataclasses.replace(base, name=f"{engine} memory_fraction", value=fraction, unit="fraction"),
    }


def _asked_version(sheet: Sheet, version: str | None) -> str:
    if version is None:
        return _ends(sheet.texts["versions"])[1]
    version_key(version)
    return _tag(version).removeprefix("v")


def _known_version(sheet: Sheet, version: str, *, nearest: bool) -> tuple[str, str]:
    """The version whose rows are used, and why where it is not the requested one."""
    known = sheet.texts["versions"]
    if in_range(version, known):
        return version, ""
    low, high = _ends(known)
    stand_in = low if version_key(version) < version_key(low) else high
    if not nearest:
        raise InputError(
            field="version",
            value=version,
            problem=f"the defaults of {sheet.name} are known from {low} to {high}",
            fix=f"Give {stand_in}, the nearest, or allow it as a stand-in and check the engine's own settings.",
        )
    return stand_in, f"{sheet.name} {version} is outside {known}: the defaults of {stand_in}, the nearest, are used"


def _ends(versions: str) -> tuple[str, str]:
    parts = [part.strip() for part in versions.split(" to ")]
    if len(parts) != 2 or not all(parts):
        raise InputError(
            field="versions", value=versions, problem="is not a range of versions", fix='Write "0.9 to 0.27".'
        )
    return parts[0], parts[1]
