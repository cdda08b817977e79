"""`plan`: a plan file in, the whole chain out."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ullage.errors import Rejection
    from ullage.facts.catalogue import Catalogue
    from ullage.facts.model import Model
    from ullage.files.plan_file import EvidenceSection, PlanFile, PoolSection
    from ullage.load.plan_spec import Loaded, LoadedPool
    from ullage.planning.document import Plan
    from ullage.planning.spec import PlanSpec
    from ullage.prices.price_list import PriceList
    from ullage.service.calibration.pool_step import StepEvidence, StepProfile
    from ullage.workload.demand.traffic import Traffic
    from ullage.workload.synthetic.model import SyntheticModel


def plan(
    file: Path | None = None, *, as_of: datetime.date | None = None, seed: int = 0, workers: int | None = None
) -> Plan | Rejection:
    """Plan the service in `file`, or the built-in example where there is none.

    `as_of` is the date on which ages are counted (today where it is None); together with `seed` it makes the
    answer the same bytes every time, on however many `workers`.
    """
    from ullage.errors import Rejection
    from ullage.execute.pool import thread_map
    from ullage.planning.pipeline import plan as run_pipeline
    from ullage.reconcile.score import score
    from ullage.uncertainty.study import study

    day = as_of or datetime.datetime.now(tz=datetime.UTC).date()
    spec = load_spec(file, as_of=day, seed=seed)
    with thread_map(workers=workers) as spread:
        found = run_pipeline(spec, as_of=day, seed=seed, map=spread)
    if isinstance(found, Rejection):
        return found
    return found.followed_by(uncertainty=study(spec), reconcile=score(spec))


def load_spec(file: Path | None, *, as_of: datetime.date, seed: int = 0) -> PlanSpec:
    """The specification in a plan file, with all that its names and paths stand for; the example's for None."""
    from ullage.files.plan_file import read_plan_file
    from ullage.files.sections.provenance import file_provenance
    from ullage.load.plan_spec import spec_of

    where = "built-in example" if file is None else str(file)
    read = read_plan_file(_text(file), file=where)
    provenance = file_provenance(file=where, dated=read.dated or as_of, is_example=file is None)
    return spec_of(read, _load(read, Path() if file is None else file.parent, as_of, seed), provenance)


def _load(read: PlanFile, folder: Path, as_of: datetime.date, seed: int) -> Loaded:
    """Look up names, and read the files that the plan file points to; paths are relative to it."""
    from ullage.facts.device import device_of
    from ullage.load.plan_spec import Loaded
    from ullage.verbs.facts import catalogue_of

    facts = None if read.facts is None else folder / read.facts
    devices = catalogue_of("devices", facts)
    return Loaded(
        pools=tuple(_load_pool(read, each, devices, folder, as_of) for each in read.every_pool),
        engines=catalogue_of("engines", facts),
        alternatives=tuple(device_of(sheet) for sheet in devices),
        traffic=_traffic(read, folder, as_of, seed) if read.workload.trace or read.workload.profile else None,
        synthetic=None if read.workload.synthetic is None else _synthetic(folder / read.workload.synthetic),
        startups=catalogue_of("startups", facts),
        operations=catalogue_of("operations", facts),
        prices=None if facts is None else catalogue_of("prices", facts),
        price_lists=_price_lists(read, folder),
        as_of=as_of,
        option_devices=_option_devices(read, devices),
        option_models=_option_models(read, folder, facts),
    )


def _option_devices(read: PlanFile, devices: Catalogue) -> tuple[str, ...]:
    """The devices that `options` names, as the catalogue calls them."""
    return tuple(devices.find(each, field="options.devices").name for each in read.options.devices)


def _option_models(read: PlanFile, folder: Path, facts: Path | None) -> dict[str, tuple[Model, ...]]:
    """The variants that `options` names, by the model they may stand in for."""
    from ullage.errors import unknown_name
    from ullage.verbs.facts import model_of

    def found(name: str) -> Model:
        return model_of(folder / name if (folder / name).exists() else name, facts)

    own = {each.model: found(each.model).name for each in read.every_pool} if read.options.models else {}
    for name in read.options.models:
        if name not in own and name not in own.values():
            raise unknown_name(field="options.models", name=name, known=own)
    return {
        own.get(name, name): tuple(found(each) for each in variants) for name, variants in read.options.models.items()
    }


def _load_pool(read: PlanFile, pool: PoolSection, devices: Catalogue, folder: Path, as_of: datetime.date) -> LoadedPool:
    """What the names and paths of one pool's section stand for."""
    from ullage.facts.device import find_device
    from ullage.load.plan_spec import LoadedPool
    from ullage.readers.engines import read_engine_reports
    from ullage.readers.engines.startup import read_starts
    from ullage.verbs.facts import model_of

    # What is said beside several pools is about none of them in particular, so each has its own evidence.
    evidence = pool.evidence or read.evidence
    logs = [folder / each for each in evidence.engine_logs]
    beside = folder / pool.model
    return LoadedPool(
        model=model_of(beside if beside.exists() else pool.model, None if read.facts is None else folder / read.facts),
        device=find_device(pool.device, devices, field="pool.device"),
        reported=read_engine_reports(logs, date=as_of, engine=pool.engine or "") if logs else None,
        tested=_tested(evidence, pool, folder, as_of),
        starts=read_starts([folder / each for each in evidence.startup_logs], date=as_of),
    )


def _price_lists(read: PlanFile, folder: Path) -> tuple[PriceList, ...]:
    """The price files that the plan file names."""
    from ullage.readers.prices import INSTALLED_LITELLM, read_prices
    from ullage.readers.prices.price_file import PriceProvenance

    return tuple(
        read_prices(
            each.path if each.path == INSTALLED_LITELLM else folder / each.path,
            PriceProvenance(dated=each.dated, provider=each.provider, on=each.on),
        )
        for each in read.prices.files
    )


def _tested(evidence: EvidenceSection, pool: PoolSection, folder: Path, as_of: datetime.date) -> StepEvidence:
    """The load tests, calibrations and step profile of one pool."""
    from ullage.evidence import Source
    from ullage.load.calibration import read_calibration
    from ullage.readers.loadtests import read_loadtest
    from ullage.service.calibration.pool_step import StepEvidence

    tests = [read_loadtest(folder / each) for each in evidence.load_tests]
    return StepEvidence(
        calibrations=tuple(read_calibration(folder / each, field="calibrations") for each in evidence.calibrations),
        load_tests=tuple(
            (test, Source(what=f"load test by {test.tool}", where=test.file, date=as_of)) for test in tests
        ),
        profile=None if evidence.step_profile is None else _profile(evidence.step_profile, pool, folder, as_of),
    )


def _profile(name: str, pool: PoolSection, folder: Path, as_of: datetime.date) -> StepProfile:
    """Measured steps of one pool's replica."""
    from ullage.load.step_profile import read_step_profile
    from ullage.memory.sharding import Sharding
    from ullage.verbs.facts import model_of

    beside = folder / pool.model
    return read_step_profile(
        name,
        folder=folder,
        model=model_of(beside if beside.exists() else pool.model),
        device=pool.device,
        engine=pool.value("engine"),
        sharding=Sharding(
            tp=pool.value("tensor_parallel"), pp=pool.value("pipeline_parallel"), ep=pool.value("expert_parallel")
        ),
        as_of=as_of,
        field="evidence.step_profile",
    )


def _traffic(read: PlanFile, folder: Path, as_of: datetime.date, seed: int) -> Traffic:
    """The classes of the plan in the traces it names."""
    import numpy as np

    from ullage.load.plan_spec import request_class
    from ullage.verbs.forecast import event_of
    from ullage.verbs.profile import load_profile, profile
    from ullage.workload.demand.traffic import traffic_of

    workload = read.workload
    if workload.profile is not None:
        found = load_profile(folder / workload.profile)
    else:
        found = profile(
            [folder / each for each in workload.trace],
            mapping=workload.columns,
            zone=workload.zone,
            classes=[one for each in workload.classes if (one := request_class(each)).rule is not None],
            as_of=as_of,
        ).own
    has_calendar = found.coverage.first_time is not None
    return traffic_of(
        found,
        [each.name for each in workload.classes],
        horizon_s=read.policy.value("horizon"),
        percentile_fraction=read.policy.value("planning_percentile"),
        as_of=as_of,
        rng=np.random.default_rng(seed),
        events=[event_of(f"{e.name}:{e.first}:{e.until}:{e.demand}", calendar=has_calendar) for e in workload.events],
    )


def _synthetic(file: Path) -> SyntheticModel:
    """What `ullage profile --synthesize` printed, edited or not."""
    import json

    from ullage.errors import InputError
    from ullage.workload.synthetic.model import from_document

    fix = "Give what ullage profile --synthesize printed."
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(document, dict) or not isinstance(document.get("model"), dict):
            raise InputError(field="workload.synthetic", value=str(file), problem="has no model", fix=fix)
        return from_document(document["model"])
    except (OSError, ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        problem = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise InputError(field="workload.synthetic", value=str(file), problem=problem, fix=fix) from None


def _text(file: Path | None) -> str:
    from importlib.resources import files

    from ullage.errors import InputError

    if file is None:
        return (files("ullage.files") / "example.yaml").read_text(encoding="utf-8")
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = (
            "is not text" if isinstance(error, UnicodeDecodeError) else (error.strerror or "cannot be read").lower()
        )
        fix = "Give a plan file, or none for the built-in example."
        raise InputError(field="file", value=str(file), problem=problem, fix=fix) from None
