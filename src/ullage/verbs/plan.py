"""`plan`: a specification in, the whole chain out."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ullage.errors import Rejection
    from ullage.plan.document import Plan


def plan(file: Path | None = None, *, as_of: datetime.date | None = None, seed: int = 0) -> Plan | Rejection:
    """Plan the service in `file`, or the built-in example where there is none.

    `as_of` is the date on which ages are counted (today where it is None); together with `seed` it makes the
    answer the same bytes every time.
    """
    from ullage.errors import InputError, Rejection
    from ullage.plan.example import example
    from ullage.plan.pipeline import plan as run_pipeline
    from ullage.reconcile.score import score
    from ullage.uncertainty.study import study

    if file is not None:
        raise InputError(
            field="file",
            value=str(file),
            problem="plan files are not built in this version",
            fix="Run ullage plan without a file to plan the built-in example.",
        )
    spec = example()
    found = run_pipeline(spec, as_of=as_of or _today(), seed=seed)
    if isinstance(found, Rejection):
        return found
    return found.followed_by(uncertainty=study(spec), reconcile=score(spec))


def _today() -> datetime.date:
    return datetime.datetime.now(tz=datetime.UTC).date()
