"""`brownfield`: what runs and a plan file in; have, need, change, risk and steps out."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ullage.errors import Rejection
    from ullage.planning.brownfield import Brownfield
    from ullage.planning.document import Plan
    from ullage.planning.running import Running


@dataclass(frozen=True, kw_only=True)
class BrownfieldPlan:
    """A plan laid over what runs."""

    plan: Plan
    running: Running
    found: Brownfield


def brownfield(
    files: Sequence[Path],
    *,
    plan_file: Path | None = None,
    as_of: datetime.date | None = None,
    seed: int = 0,
    workers: int | None = None,
) -> BrownfieldPlan | Rejection:
    """Compare what `kubectl get -o yaml` printed with the plan of a file (the built-in example's where it is None)."""
    from ullage.errors import Rejection
    from ullage.planning.brownfield import brownfield as lay
    from ullage.readers.kubernetes import read_running
    from ullage.verbs.plan import plan

    running = read_running(files)
    planned = plan(plan_file, as_of=as_of, seed=seed, workers=workers)
    if isinstance(planned, Rejection):
        return planned
    names = {each.model: _catalogue_name(each.model) for each in running.pools if each.model}
    return BrownfieldPlan(plan=planned, running=running, found=lay(planned, running, models=names))


def _catalogue_name(model: str) -> str:
    """What the catalogue calls a model that a command line names; itself where it is not known there."""
    from ullage.errors import InputError
    from ullage.verbs.facts import model_of

    try:
        return model_of(model).name
    except InputError:
        return model
