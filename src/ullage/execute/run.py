"""What every run of a verb has in common: the day ages are counted on, the seed, the cores, and who hears of progress.

A verb opens one context and hands its parts to the core, which takes `seed=` and `map=`; no verb chooses cores itself:

    with running(as_of=None, seed=1, workers=None) as run:
        plan(spec, as_of=run.as_of, seed=run.seed, map=run.map)

`map` is for looks that are many and short; `jobs` for whole jobs, such as a pool or a plan, each of which may use `map`
again. On this machine jobs are done in order, with all threads for each; on a cluster each has a core of its own.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from ullage.errors import InputError
from ullage.execute.pool import Spread, inline, thread_map
from ullage.execute.ray_map import ray_map


class Progress(Protocol):
    """How a run says how far it is: the share done, from 0 to 1, and where it names them the stage."""

    def __call__(self, fraction: float, stage: str = "", /) -> None: ...


def silent(fraction: float, stage: str = "", /) -> None:
    """No progress is reported."""


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """One run: the same day and seed give the same answer, on however many cores `map` spreads over.

    `limit` is the most work that it may be, as it was typed; who plans parses it (limit.py).
    """

    as_of: datetime.date
    seed: int
    map: Spread
    jobs: Spread = inline
    progress: Progress = silent
    limit: str | None = None

    def told(self, low: float, high: float, stage: str) -> Spread:
        """The map over whole jobs, with progress from `low` to `high` as they end."""

        def tell(done: int, count: int) -> None:
            self.progress(low + (high - low) * done / count, stage)

        return partial(self.jobs, tell=tell)

    def quiet(self) -> RunContext:
        """The same run, of which nobody hears: it can travel with a job."""
        return replace(self, progress=silent)


@contextmanager
def running(
    *,
    as_of: datetime.date | None = None,
    seed: int = 0,
    limit: str | None = None,
    workers: int | None = None,
    run_on: str | None = None,
    progress: Progress = silent,
) -> Iterator[RunContext]:
    """A run on `workers` threads (every core where it is None), counting ages on `as_of` (today where it is None).

    `limit`, such as `cpu=10min,memory=8GiB`, is the most that it may take by the estimate made before. With `run_on`
    work goes to a Ray cluster instead of threads.
    """
    given: dict[str, Any] = {"as_of": today(as_of), "seed": seed, "progress": progress, "limit": limit}
    if run_on is None:
        with thread_map(workers=workers) as spread:
            yield RunContext(map=spread, **given)
        return
    with ray_map(run_on, workers=workers) as (short, whole):
        yield RunContext(map=short, jobs=whole, **given)


_FIRST_DAY, _LAST_DAY = datetime.date(2000, 1, 1), datetime.date(2099, 12, 31)


def today(as_of: datetime.date | None) -> datetime.date:
    """The day that was given, or today; one that no price and no calendar of ours knows is refused."""
    if as_of is not None and not _FIRST_DAY <= as_of <= _LAST_DAY:
        fix = "Give a day from 2000 to 2099, for example 2026-11-15."
        raise InputError(field="as_of", value=as_of.isoformat(), problem="is not a day to plan from", fix=fix)
    return as_of or datetime.datetime.now(tz=datetime.UTC).date()
