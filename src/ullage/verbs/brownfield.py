"""`brownfield`: what runs and a plan in; have, need, change, risk and steps out."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError, Rejection
from ullage.execute.run import Progress, running, silent
from ullage.load.changes import SetValues, parse_changes
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.load.plan import PlanSource
    from ullage.planning.brownfield.brownfield import Brownfield
    from ullage.planning.brownfield.running import Running
    from ullage.planning.document import Plan
    from ullage.verbs.answer import Refusal


@dataclass(frozen=True, kw_only=True, repr=False)
class BrownfieldPlan(VerbAnswer):
    """A plan laid over what runs."""

    plan: Plan
    running: Running
    found: Brownfield

    def headlines(self) -> tuple[Headline, ...]:
        return tuple(
            Headline(name=f"{each.pool} needs", value=each.need_replicas, unit="replicas")
            for each in self.found.changes
        )

    def page(self) -> list[RenderableType]:
        from ullage.report.decisions.brownfield_page import brownfield_page

        return brownfield_page(self.found, self.running)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        made = self.plan
        return document("brownfield", self, as_of=made.as_of, seed=made.seed, service=made.spec.name)


def brownfield(
    files: Sequence[str | Path],
    *,
    plan: PlanSource = None,
    set: SetValues = (),  # noqa: A002
    traffic: str | float | None = None,
    as_of: datetime.date | None = None,
    seed: int = 0,
    limit: str | None = None,
    workers: int | None = None,
    progress: Progress = silent,
) -> BrownfieldPlan | Refusal:
    """Compare what `kubectl get -o yaml` printed with a plan (the built-in example's where it is None)."""
    from ullage.planning.brownfield.brownfield import brownfield as lay
    from ullage.readers.kubernetes import read_running
    from ullage.verbs.plan import planned

    runs = read_running([Path(each) for each in files])
    with running(as_of=as_of, seed=seed, limit=limit, workers=workers, progress=progress) as run:
        needed = planned(plan, run, parse_changes(set, traffic))
    if isinstance(needed, Rejection):
        return needed
    names = {each.model: _catalogue_name(each.model) for each in runs.pools if each.model}
    return BrownfieldPlan(plan=needed, running=runs, found=lay(needed, runs, models=names))


def _catalogue_name(model: str) -> str:
    """What the catalogue calls a model that a command line names; itself where it is not known there."""
    from ullage.facts.model_sheet import find_model
    from ullage.load.names import load_catalogue

    try:
        # A path of theirs is one of their cluster, and none of this machine.
        return find_model(model, load_catalogue("models")).name
    except InputError:
        return model
