"""`memory`: does a model fit, and how much fits beside it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from ullage.errors import Rejection
from ullage.execute.run import today
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.facts.model import Model
    from ullage.memory.adapters import Adapters
    from ullage.memory.budget import MemoryBudget


@dataclass(frozen=True, kw_only=True, repr=False)
class MemoryAnswer(VerbAnswer):
    """The budget or the refusal, and the date on which ages are counted."""

    found: MemoryBudget | Rejection
    as_of: datetime.date

    def dated(self) -> datetime.date:
        return self.as_of

    def printed(self) -> object:
        return self.found

    def headlines(self) -> tuple[Headline, ...]:
        if isinstance(self.found, Rejection):
            return (Headline(name="refused", value=self.found.reason),)
        where = f"{self.found.model.name} on {self.found.device.name}"
        return (
            Headline(name="replica", value=where),
            Headline(name="cache", value=self.found.kv_tokens, unit="tokens"),
        )

    def page(self) -> list[RenderableType]:
        from ullage.report.memory_page import memory_page, refused_page

        return refused_page(self.found) if isinstance(self.found, Rejection) else memory_page(self.found, self.as_of)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document, refusal_json

        if isinstance(self.found, Rejection):
            return refusal_json(self.found)
        return document("memory", self.found, as_of=self.as_of, behind=self.found.figures.values())


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
    speculation: str | None = None,
    engine_logs: Sequence[str | Path] = (),
    facts: str | Path | None = None,
    as_of: datetime.date | None = None,
    **stated: Unpack[Stated],
) -> MemoryAnswer:
    """Budget the memory of one device of a replica.

    `model` is a name in the catalogue, or the path of a config.json or of the directory that holds it. What is not
    stated comes from `engine_logs`, then from the engine's defaults. `concurrency` sequences of
    `max_context_tokens` must fit; without it, one does. `speculation` is METHOD:TOKENS[:PER_STEP][@DRAFT].
    `facts` is a directory of facts that lie over ours.
    """
    from ullage.evidence import Source
    from ullage.facts.device import device_of, find_device
    from ullage.facts.model import Model
    from ullage.load.evidence import load_engine_report
    from ullage.load.names import load_catalogue, load_model
    from ullage.load.typed import parse_speculation
    from ullage.memory.budget import memory_budget
    from ullage.memory.case import Approved
    from ullage.memory.settings import RuntimeSettings
    from ullage.memory.sharding import Sharding
    from ullage.memory.sharing import mig_slice_bytes

    day, own = today(as_of), None if facts is None else Path(facts)
    devices, engines = load_catalogue("devices", own), load_catalogue("engines", own)
    engine = stated.get("engine")
    stated["engine"] = None if engine is None else engines.find(engine, field="engine").name
    asked, served = find_device(device, devices), model if isinstance(model, Model) else load_model(model, own)
    settings = RuntimeSettings(
        source=Source(what="stated by the user", where="ullage memory", date=day),
        sharding=Sharding(tp=tp, pp=pp, ep=ep, dp_attention=dp_attention),
        speculation=parse_speculation(speculation, lambda name: load_model(name, own), as_of=day),
        **stated,
    )
    logs = [Path(each) for each in engine_logs]
    reported = load_engine_report(logs, engine=settings.engine or "", as_of=day)
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
