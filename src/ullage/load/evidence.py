"""Measurements, from their files: load tests, calibrations, step profiles, engine logs, price lists."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ullage.errors import InputError
from ullage.load.texts import read_json

if TYPE_CHECKING:
    from ullage.facts.model import Model
    from ullage.files.sections.evidence import EvidenceSection
    from ullage.files.sections.prices import PricesSection
    from ullage.memory.engine_report import EngineMemory
    from ullage.memory.sharding import Sharding
    from ullage.prices.price_list import PriceList
    from ullage.service.calibration.evidence import CalibrationEvidence
    from ullage.service.calibration.pool_step import StepEvidence, StepProfile
    from ullage.service.calibration.validated import ValidationEvidence
    from ullage.service.loadtests.loadtest import LoadTest


def load_tests(files: Sequence[Path]) -> tuple[LoadTest, ...]:
    """Results of load tests, whichever tool wrote them; of a folder all of them, no file at all is an InputError.

    A run whose result and whose console text are both given is counted once.
    """
    from ullage.readers.loadtests import read_loadtest, result_files
    from ullage.service.loadtests.repeats import without_repeats

    if not files:
        raise InputError(
            field="files", value="none", problem="there is nothing to read", fix="Give at least one result file."
        )
    return without_repeats([read_loadtest(one) for each in files for one in result_files(each)])


def test_names(tests: Sequence[LoadTest]) -> list[str]:
    """What each test is called: its file's name without the ending, with as many folders as tell it from the others."""
    parts = [Path(each.file).with_suffix("").parts for each in tests]
    names = []
    for own in parts:
        tails = ([each[-length:] for each in parts] for length in range(1, len(own) + 1))
        length = next((place for place, each in enumerate(tails, 1) if each.count(own[-place:]) == 1), len(own))
        names.append("/".join(own[-length:]))
    return names


def load_step_evidence(
    section: EvidenceSection,
    *,
    folder: Path,
    model: Model,
    device: str,
    engine: str,
    sharding: Sharding,
    as_of: datetime.date,
) -> StepEvidence:
    """The load tests, calibrations and step profile of one pool; paths are relative to `folder`."""
    from ullage.evidence import Source
    from ullage.service.calibration.pool_step import StepEvidence

    tests = load_tests([folder / each for each in section.load_tests]) if section.load_tests else ()
    tests = tuple(_as_stated(each, section) for each in tests)
    named = section.step_profile
    return StepEvidence(
        calibrations=tuple(read_calibration(folder / each, field="calibrations") for each in section.calibrations),
        load_tests=tuple(
            (test, Source(what=f"load test by {test.tool}", where=test.file, date=as_of)) for test in tests
        ),
        cached_fraction=section.cached_share,
        replicas=section.tested_replicas,
        accepted=section.accept,
        validations=tuple(_read_validation(folder / each) for each in section.validated),
        profile=None
        if named is None
        else read_step_profile(
            named,
            folder=folder,
            model=model,
            device=device,
            engine=engine,
            sharding=sharding,
            as_of=as_of,
            field="evidence.step_profile",
        ),
    )


def _as_stated(test: LoadTest, section: EvidenceSection) -> LoadTest:
    """The test with what the plan file states of where it ran, over what its own file says."""
    from ullage.facts.device import find_device

    device, tp = section.tested_device, section.tested_tensor_parallel
    if device is not None:
        device = find_device(device, field="evidence.tested_device").name
    points = tuple(
        replace(each, subject=replace(each.subject, hardware=device or each.subject.hardware, tp=tp or each.subject.tp))
        for each in test.points
    )
    return replace(test, points=points)


def load_engine_report(files: Sequence[Path], *, engine: str, as_of: datetime.date) -> EngineMemory | None:
    """What an engine's logs and metrics report of its memory; nothing where there are none."""
    from ullage.readers.engines import read_engine_reports

    return read_engine_reports(files, date=as_of, engine=engine) if files else None


def load_price_lists(section: PricesSection, folder: Path) -> tuple[PriceList, ...]:
    """The price files that a plan file names."""
    from ullage.readers.prices import INSTALLED_LITELLM, read_prices
    from ullage.readers.prices.price_file import PriceProvenance

    return tuple(
        read_prices(
            each.path if each.path == INSTALLED_LITELLM else folder / each.path,
            PriceProvenance(dated=each.dated, provider=each.provider, on=each.on),
        )
        for each in section.files
    )


def read_calibration(file: Path, *, field: str = "--calibration") -> CalibrationEvidence:
    """What `ullage calibrate --out` wrote, or an InputError that names the file."""
    from ullage.service.calibration.evidence import evidence_of

    document = read_json(file, field=field, fix="Give the file that ullage calibrate wrote.")
    return evidence_of(document if isinstance(document, dict) else {}, file=str(file))


def _read_validation(file: Path) -> ValidationEvidence:
    from ullage.service.calibration.validated import validation_evidence

    fix = "Give the file that ullage validate --verdict wrote."
    document = read_json(file, field="evidence.validated", fix=fix)
    return validation_evidence(document if isinstance(document, dict) else {}, file=str(file))


def read_step_profile(
    name: str,
    *,
    folder: Path,
    model: Model,
    device: str,
    engine: str,
    sharding: Sharding,
    as_of: datetime.date,
    field: str,
) -> StepProfile:
    """The profile in a file relative to `folder`, or with a package's name what that package says of this replica."""
    from ullage.documents import reading
    from ullage.evidence import Source
    from ullage.readers.profiles import read_profile_rows
    from ullage.readers.profiles.kernel_tables import PACKAGES, KernelQuery
    from ullage.readers.profiles.packages import package_rows
    from ullage.service.calibration.pool_step import StepProfile
    from ullage.service.steps.profile_table import read_profile

    if name not in PACKAGES:
        with reading(name, fix="Give the file as it was written."):
            table = read_profile(read_profile_rows(folder / name, field=field))
        what = "profile of measured steps" if table.origin is None else f"step profile by {table.origin}"
        return StepProfile(table=table, source=Source(what=what, where=name, date=as_of))
    asked = KernelQuery(
        model_names=tuple(each for each in (*model.aliases, model.name) if "/" in each),
        device=device,
        engine=engine,
        tp=sharding.tp,
        pp=sharding.pp,
        ep=sharding.ep,
        dp_attention=sharding.dp_attention,
    )
    rows, version = package_rows(name, asked, field=field)
    source = Source(
        what=f"kernels measured by NVIDIA, added up to steps by {name} {version}", where=PACKAGES[name], date=as_of
    )
    return StepProfile(table=read_profile(rows), source=source)
