"""`check`: a plan file in, the mistakes that were found in it out."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ullage.errors import Rejection
    from ullage.planning.checks.result import Checks
    from ullage.planning.document import Plan


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A plan, and what was found in it."""

    plan: Plan
    checks: Checks


def check(
    file: Path | None = None,
    names: Sequence[str] = (),
    *,
    as_of: datetime.date | None = None,
    seed: int = 0,
    workers: int | None = None,
) -> Checked | Rejection:
    """Plan the service in `file` (the built-in example where it is None) and look for these mistakes, all by default.

    A check that is not known is an error before anything is planned.
    """
    from ullage.errors import Rejection, unknown_name
    from ullage.execute.pool import thread_map
    from ullage.planning.checks.checks import CHECKS, check_plan
    from ullage.verbs.plan import plan

    for name in names:
        if name not in CHECKS:
            raise unknown_name(field="check", name=name, known=CHECKS)
    planned = plan(file, as_of=as_of, seed=seed, workers=workers)
    if isinstance(planned, Rejection):
        return planned
    with thread_map(workers=workers) as spread:
        return Checked(plan=planned, checks=check_plan(planned, names, map=spread))
