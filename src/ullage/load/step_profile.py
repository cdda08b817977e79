"""A step profile by its file's name, or from the installed AIConfigurator: for the verbs that use it."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ullage.facts.model import Model
    from ullage.memory.sharding import Sharding
    from ullage.service.calibration.pool_step import StepProfile


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
    """The profile in a CSV relative to `folder`, or with the name `aiconfigurator` that package's of this replica."""
    from ullage.evidence import Source
    from ullage.readers.profiles import aiconfigurator, read_profile_rows
    from ullage.service.calibration.pool_step import StepProfile
    from ullage.service.steps.profile_table import read_profile

    if name != aiconfigurator.NAME:
        grid, measured = read_profile(read_profile_rows(folder / name, field=field))
        source = Source(what="profile of measured steps", where=name, date=as_of)
        return StepProfile(grid=grid, measured=measured, source=source)
    asked = aiconfigurator.ProfileQuery(
        model_names=[each for each in (*model.aliases, model.name) if "/" in each],
        device=device,
        engine=engine,
        tp=sharding.tp,
        pp=sharding.pp,
        ep=sharding.ep,
        dp_attention=sharding.dp_attention,
    )
    grid, measured = read_profile(aiconfigurator.profile_rows(asked))
    version = aiconfigurator.installed_version()
    source = Source(
        what=f"steps of AIConfigurator {version}, from kernels measured by NVIDIA",
        where="aiconfigurator-core",
        date=as_of,
    )
    return StepProfile(grid=grid, measured=measured, source=source)
