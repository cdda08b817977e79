"""`options`: a plan file in; candidates ranked and refused, a mix of devices and order-by dates out."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ullage.planning.options.options import Options


def options(
    file: Path | None = None, *, as_of: datetime.date | None = None, seed: int = 0, workers: int | None = None
) -> Options:
    """Compare what the pools of `file` could be made of; the built-in example's where there is none.

    The answer is the same bytes for one file, date and seed, on however many `workers`.
    """
    from ullage.execute.pool import thread_map
    from ullage.planning.options.options import options as compare
    from ullage.verbs.plan import load_spec

    day = as_of or datetime.datetime.now(tz=datetime.UTC).date()
    spec = load_spec(file, as_of=day, seed=seed)
    with thread_map(workers=workers) as spread:
        return compare(spec, as_of=day, seed=seed, map=spread)
