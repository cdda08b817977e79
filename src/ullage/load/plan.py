"""A plan as a file, a dict or the built-in example, with all that its names and paths stand for, as a specification."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import Rejection, unknown_name
from ullage.load.changes import NO_CHANGES, Changes, changed_document, with_traffic
from ullage.load.located import located
from ullage.load.texts import read_text

if TYPE_CHECKING:
    from ullage.evidence import Assumption
    from ullage.facts.catalogue import Catalogue
    from ullage.facts.model import Model
    from ullage.files.plan_file import PlanFile
    from ullage.files.sections.pool import PoolSection
    from ullage.files.strict_yaml import Document
    from ullage.load.plan_spec import Loaded, LoadedPool
    from ullage.planning.spec import PlanSpec, PoolSpec

PlanSource = str | Path | Mapping[str, Any] | None
"""A plan file by its path, the same as a dict, or None for the built-in example."""


def load_plan(
    source: PlanSource = None, *, as_of: datetime.date, seed: int = 0, changes: Changes = NO_CHANGES
) -> PlanSpec:
    """The specification of a plan. Paths in it are relative to the file; those of a dict to the working folder."""
    from ullage.files.plan_file import read_plan_document
    from ullage.files.sections.provenance import file_provenance
    from ullage.load.dates import check_dates, left_out_events
    from ullage.load.plan_spec import spec_of
    from ullage.load.scored_bands import with_scored_bands

    document = plan_document(source, changes)
    read = read_plan_document(document)
    where = ", ".join((document.file, *changes.texts))
    with located(lambda: document):
        check_dates(read, as_of)
        provenance = file_provenance(
            file=where, dated=read.dated or as_of, is_example=source is None, ages=read.ages, as_of=as_of
        )
        spec = spec_of(read, _load(read, document, _folder(source), as_of, seed), provenance)
        _look_ahead(spec, read, document)
    found = _with_readings(spec, read, _folder(source))
    chosen = with_traffic(_with_choices(found, left_out_events(read, provenance, spec.traffic)), changes)
    return with_scored_bands(chosen, as_of=as_of)


def plan_document(source: PlanSource, changes: Changes = NO_CHANGES) -> Document:
    """The plan's document, key by key with its lines, after these changes."""
    return changed_document(_document(source), changes)


def _look_ahead(spec: PlanSpec, read: PlanFile, document: Document) -> None:
    """Refuse now, by key and line, what a stage would refuse later by the name of an assumption."""
    from ullage.files.sections.pool import POOL
    from ullage.memory.budget import memory_budget
    from ullage.planning.planned_for import even_odds, pool_memory
    from ullage.service.stage import scheduler_limits

    places = {each.name or POOL: index for index, each in enumerate(read.every_pool)}
    for pool in spec.pools:
        with located(lambda: document, pool=_pool_key(read, places[pool.whole])):
            # What an engine states about itself is checked where it is used.
            memory = (
                pool_memory(pool)
                if pool.reported is None
                else memory_budget(pool.model, pool.device, pool.settings, approved=pool.approved, engines=pool.engines)
            )
            if not isinstance(memory, Rejection):
                scheduler_limits(memory)
    even_odds(spec)


def _pool_key(read: PlanFile, index: int) -> str:
    return "pool" if read.pool is not None else f"pools.{index}"


def own_traces(source: PlanSource) -> tuple[list[Path], Mapping[str, str]]:
    """The request logs that a plan is itself made from, where it names any, and their columns."""
    from ullage.files.plan_file import read_plan_document

    workload = read_plan_document(_document(source)).workload
    return [_folder(source) / each for each in workload.trace], workload.columns


def _document(source: PlanSource) -> Document:
    from importlib.resources import files

    from ullage.files.strict_yaml import Document, as_texts, read_yaml

    if source is None:
        return read_yaml((files("ullage.files") / "example.yaml").read_text(encoding="utf-8"), file="built-in example")
    if isinstance(source, Mapping):
        return Document(file="plan", content=as_texts(source))
    text = read_text(Path(source), fix="Give a plan file, or none for the built-in example.")
    return read_yaml(text, file=str(source))


def _folder(source: PlanSource) -> Path:
    return Path(source).parent if isinstance(source, str | Path) else Path()


def _load(read: PlanFile, document: Document, folder: Path, as_of: datetime.date, seed: int) -> Loaded:
    """Look up names, and read the files that the plan file points to; paths are relative to it."""
    from ullage.facts.device import device_of
    from ullage.load.evidence import load_price_lists
    from ullage.load.names import load_catalogue
    from ullage.load.plan_spec import Loaded
    from ullage.load.traffic import load_synthetic, load_traffic

    facts = None if read.facts is None else folder / read.facts
    devices = load_catalogue("devices", facts)
    synthetic = read.workload.synthetic
    pools = []
    for index, each in enumerate(read.every_pool):
        with located(lambda: document, pool=_pool_key(read, index)):
            pools.append(_load_pool(read, each, devices, folder, facts, as_of))
    return Loaded(
        pools=tuple(pools),
        engines=load_catalogue("engines", facts),
        alternatives=tuple(device_of(sheet) for sheet in devices),
        traffic=load_traffic(read, folder, as_of, seed),
        synthetic=None if synthetic is None else load_synthetic(folder / synthetic),
        startups=load_catalogue("startups", facts),
        operations=load_catalogue("operations", facts),
        prices=None if facts is None else load_catalogue("prices", facts),
        price_lists=load_price_lists(read.prices, folder),
        as_of=as_of,
        option_devices=tuple(devices.find(each, field="options.devices").name for each in read.options.devices),
        option_models=_option_models(read, folder, facts),
    )


def _with_readings(spec: PlanSpec, read: PlanFile, folder: Path) -> PlanSpec:
    """The specification, with what a short name was taken for as an assumption of its pool: h100 is h100-sxm."""
    from ullage.files.sections.pool import POOL
    from ullage.load.names import load_catalogue, short_reading

    facts = None if read.facts is None else folder / read.facts
    catalogues = {"device": load_catalogue("devices", facts), "model": load_catalogue("models", facts)}
    pools = []
    sections = {each.name or POOL: each for each in read.every_pool}
    for pool in spec.pools:
        section = sections[pool.whole]
        prefix = "pool" if len(sections) == 1 else f"{pool.whole}.pool"
        found = [
            short_reading(f"{prefix}.{key}", getattr(section, key), catalogue, chosen=getattr(pool, key).name)
            for key, catalogue in catalogues.items()
            # A prefill side on another device has said so itself, by another key.
            if getattr(pool, key) is not pool.device or not _has_own_device(pool, section)
        ]
        pools.append(replace(pool, choices=(*pool.choices, *(each for each in found if each is not None))))
    return replace(spec, pools=tuple(pools))


def _has_own_device(pool: PoolSpec, section: PoolSection) -> bool:
    """Whether a side stands on another device than the pool's own key says."""
    from ullage.service.phase import Side

    given = section.disaggregated
    is_prefill = pool.phase is not None and pool.phase.side is Side.PREFILL
    return is_prefill and given is not None and given.prefill.device is not None


def _with_choices(spec: PlanSpec, said: Sequence[Assumption]) -> PlanSpec:
    """The specification, with these listed among its inputs."""
    first, *others = spec.pools
    return replace(spec, pools=(replace(first, choices=(*first.choices, *said)), *others))


def _load_pool(
    read: PlanFile, pool: PoolSection, devices: Catalogue, folder: Path, facts: Path | None, as_of: datetime.date
) -> LoadedPool:
    """What the names and paths of one pool's section stand for."""
    from ullage.facts.device import find_device
    from ullage.load.evidence import load_engine_report, load_step_evidence
    from ullage.load.names import load_model
    from ullage.load.plan_spec import LoadedPool
    from ullage.memory.sharding import Sharding
    from ullage.readers.engines.startup import read_starts

    # What stands beside several pools is about none of them in particular, so each has its own evidence.
    evidence = pool.evidence or read.evidence
    model = load_model(pool.model, facts, folder=folder)
    device = find_device(pool.device, devices, field="pool.device")
    sharding = Sharding(
        tp=pool.value("tensor_parallel"), pp=pool.value("pipeline_parallel"), ep=pool.value("expert_parallel")
    )
    logs = [folder / each for each in evidence.engine_logs]
    drafts = None if pool.speculation is None else pool.speculation.draft
    apart = None if pool.disaggregated is None else pool.disaggregated.prefill.device
    return LoadedPool(
        model=model,
        prefill_device=None
        if apart is None
        else find_device(apart, devices, field="pool.disaggregated.prefill.device"),
        draft=None if drafts is None else load_model(drafts, facts, folder=folder),
        device=device,
        reported=load_engine_report(logs, engine=pool.engine or "", as_of=as_of),
        tested=load_step_evidence(
            evidence,
            folder=folder,
            model=model,
            device=device.name,
            engine=pool.value("engine"),
            sharding=sharding,
            as_of=evidence.dated or as_of,
        ),
        starts=read_starts([folder / each for each in evidence.startup_logs], date=as_of),
    )


def _option_models(read: PlanFile, folder: Path, facts: Path | None) -> dict[str, tuple[Model, ...]]:
    """The variants that `options` names, by the model they may stand in for."""
    from ullage.load.names import load_model

    def found(name: str) -> Model:
        return load_model(name, facts, folder=folder)

    own = {each.model: found(each.model).name for each in read.every_pool} if read.options.models else {}
    for name in read.options.models:
        if name not in own and name not in own.values():
            raise unknown_name(field="options.models", name=name, known=own)
    return {
        own.get(name, name): tuple(found(each) for each in variants) for name, variants in read.options.models.items()
    }
