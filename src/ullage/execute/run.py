"""What every run of a verb has in common: the day ages are counted on, the seed, the cores, and who hears of progress.

A verb opens one context and hands its parts to the core, which takes `seed=` and `map=`; no verb chooses cores itself:

    with running(as_of=None, seed=1, workers=None) as run:
        plan(spec, as_of=run.as_of, seed=run.seed, map=run.map)
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from ullage.execute.pool import Spread, thread_map
from ullage.execute.ray_map import ray_map


class Progress(Protocol):
    """How a run says how far it is: the share done, from 0 to 1, and where it names them the stage."""

    def __call__(self, fraction: float, stage: str = "", /) -> None: ...


def silent(fraction: float, stage: str = "", /) -> None:
    """Nobody listens."""


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """One run: the same day and seed give the same answer, on however many cores `map` spreads over.

    `limit` is the most work that it may be, as it was typed; who plans parses it (limit.py).
    """

    as_of: datetime.date
    seed: int
    map: Spread
    progress: Progress = silent
    limit: str | None = None


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
    with thread_map(workers=workers) if run_on is None else ray_map(run_on, workers=workers) as spread:
        yield RunContext(as_of=today(as_of), seed=seed, map=spread, progress=progress, limit=limit)


def today(as_of: datetime.date | None) -> datetime.date:
    """The day that was given, or today."""
    return as_of or datetime.datetime.now(tz=datetime.UTC).date()
