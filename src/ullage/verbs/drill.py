"""`drill`: a plan file in, what goes wrong in practice played on its plan out."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ullage.errors import Rejection
    from ullage.planning.document import Plan
    from ullage.planning.drills.result import Drills


@dataclass(frozen=True, kw_only=True)
class Drilled:
    """A plan, and how it stood its drills."""

    plan: Plan
    drills: Drills


def drill(
    file: Path | None = None,
    names: Sequence[str] = (),
    *,
    as_of: datetime.date | None = None,
    seed: int = 0,
    workers: int | None = None,
) -> Drilled | Rejection:
    """Plan the service in `file` (the built-in example where it is None) and play these drills on it, all by default.

    A drill that is not known is an error before anything is planned.
    """
    from ullage.errors import Rejection, unknown_name
    from ullage.execute.pool import thread_map
    from ullage.planning.drills.drills import DRILLS, run_drills
    from ullage.verbs.plan import plan

    for name in names:
        if name not in DRILLS:
            raise unknown_name(field="drill", name=name, known=DRILLS)
    planned = plan(file, as_of=as_of, seed=seed, workers=workers)
    if isinstance(planned, Rejection):
        return planned
    with thread_map(workers=workers) as spread:
        return Drilled(plan=planned, drills=run_drills(planned, names, map=spread))
