"""`memory`: does a model fit, and how much fits beside it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

if TYPE_CHECKING:
    from ullage.errors import Rejection
    from ullage.evidence import Figure
    from ullage.facts.model import Model
    from ullage.memory.adapters import Adapters
    from ullage.memory.budget import MemoryBudget


@dataclass(frozen=True, kw_only=True)
class MemoryAnswer:
    """The budget or the refusal, and the date on which ages are counted."""

    found: MemoryBudget | Rejection
    as_of: datetime.date


class Stated(TypedDict, total=False):
    """What can be stated about the engine; the fields of `RuntimeSettings`, where each is explained."""

    engine: str | None
    version: str | None
    memory_fraction: float | None
    step_tokens: int | None
    max_sequences: int | None
    block_tokens: int | None
    kv_dtype: str | None
    max_context_tokens: int | None
    kv_pool_bytes: int | None
    graphs: bool
    mtp: bool
    vision: bool
    adapters: Adapters | None
    weight_offload_bytes: int
    kv_offload_bytes: int


def memory(
    model: str | Path | Model,
    *,
    device: str,
    tp: int = 1,
    pp: int = 1,
    ep: int = 1,
    dp_attention: int = 1,
    concurrency: int | None = None,
    host_bytes: int | None = None,
    mig: str | None = None,
    logs: Sequence[Path] = (),
    facts: Path | None = None,
    as_of: datetime.date | None = None,
    **stated: Unpack[Stated],
) -> MemoryAnswer:
    """Budget the memory of one device of a replica.

    `model` is a name in the catalogue, or the path of a config.json or of the directory that holds it. What is not
    stated comes from `logs` of the engine, then from the engine's defaults. `concurrency` sequences of
    `max_context_tokens` must fit; without it, one does. `facts` is a directory of facts that lie over ours.
    """
    from ullage.evidence import Source
    from ullage.facts.device import device_of, find_device
    from ullage.facts.model import Model
    from ullage.memory.budget import memory_budget
    from ullage.memory.case import Approved
    from ullage.memory.settings import RuntimeSettings
    from ullage.memory.sharding import Sharding
    from ullage.memory.sharing import mig_slice_bytes
    from ullage.readers.engines import read_engine_reports
    from ullage.verbs.facts import catalogue_of, model_of

    day = as_of or datetime.datetime.now(tz=datetime.UTC).date()
    devices, engines = catalogue_of("devices", facts), catalogue_of("engines", facts)
    engine = stated.get("engine")
    stated["engine"] = None if engine is None else engines.find(engine, field="engine").name
    asked, served = find_device(device, devices), model if isinstance(model, Model) else model_of(model, facts)
    settings = RuntimeSettings(
        source=Source(what="stated by the user", where="ullage memory", date=day),
        sharding=Sharding(tp=tp, pp=pp, ep=ep, dp_attention=dp_attention),
        **stated,
    )
    reported = read_engine_reports(logs, date=day, engine=settings.engine or "") if logs else None
    logged = None if reported is None else reported.number("context_tokens")
    longest = settings.max_context_tokens or int(logged or served.max_context_tokens)
    found = memory_budget(
        served,
        asked,
        settings,
        approved=None if concurrency is None else Approved(context_tokens=longest, sequences=concurrency),
        contexts_tokens=[longest // part for part in _SHOWN_PARTS if longest // part],
        reported=reported,
        host_bytes=host_bytes,
        device_bytes=None if mig is None else mig_slice_bytes(asked, mig),
        engines=engines,
        devices=[device_of(sheet) for sheet in devices],
    )
    return MemoryAnswer(found=found, as_of=day)


_SHOWN_PARTS = (16, 4, 2, 1)
"""Concurrency is shown at these parts of the longest context, since few requests use all of it."""


# ---- what people type ----------------------------------------------------------------------------------


def tokens_of(text: str | None, field: str) -> int | None:
    """Tokens as typed, such as 32768 or 32Ki."""
    from ullage.units import TOKENS, parse_whole

    return None if text is None else parse_whole(text, TOKENS, field=field)


def bytes_of(text: str | None, field: str) -> int | None:
    """Bytes as typed, such as 80GiB."""
    from ullage.units import BYTES, parse_whole

    return None if text is None else parse_whole(text, BYTES, field=field)


def share_of(text: str | None, field: str) -> float | None:
    """A share as typed, such as 0.9 or 90%."""
    from ullage.units import FRACTION, parse

    return None if text is None else parse(text, FRACTION, field=field)


def adapters_of(text: str | None) -> Adapters | None:
    """Slots and rank of adapters as typed, such as 8:16."""
    from ullage.errors import InputError
    from ullage.memory.adapters import Adapters

    if text is None:
        return None
    slots, colon, rank = text.partition(":")
    if not (colon and slots.isdecimal() and rank.isdecimal()):
        fix = "Give the number of slots and the largest rank, for example 8:16."
        raise InputError(field="--adapters", value=text, problem="is not SLOTS:RANK", fix=fix)
    return Adapters(slots=int(slots), rank_channels=int(rank))


def figure_of(budget: MemoryBudget, name: str) -> Figure:
    """The figure of this name; an unknown one is answered with the nearest."""
    from ullage.errors import unknown_name

    found = budget.figures.get(name) or budget.figures.get(f"memory.{name}")
    if found is None:
        raise unknown_name(field="--explain", name=name, known=budget.figures)
    return found
