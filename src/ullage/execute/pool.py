"""Maps over the cores of one machine. The results, and their bytes, do not depend on the number of workers.

Core functions take `map=`; this is what to give them:

    with thread_map(workers=2) as spread:
        until_narrow(run, seed=1, map=spread)

Threads serve the simulator, whose kernel releases the interpreter. The order of results is the order of the inputs,
and every input carries its own seed, so that nothing depends on which worker took it or when. A map that travels with a
job to another process is a plain one there: the job has one core, and the pools of this process are not there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError

if TYPE_CHECKING:
    from concurrent.futures import Executor

Spread = Callable[..., Iterator[Any]]
Tell = Callable[[int, int], None]
# What its threads are called, so that a profiler, or a test, can tell the work on other cores.
THREADS = "ullage-core"


@contextmanager
def thread_map(*, workers: int | None = None) -> Iterator[Spread]:
    """A `map` over threads; for functions that spend their time in the kernel or in numpy."""
    if _checked(workers) == 1:
        yield inline
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_checked(workers), thread_name_prefix=THREADS) as pool:
        yield _PoolMap(pool)


def untold(done: int, count: int, /) -> None:
    """Nobody hears how many of how many are done."""


def inline(function: Callable[..., Any], *inputs: Iterable[Any], tell: Tell = untold) -> Iterator[Any]:
    """Every result before the first is read, as on many cores, so that one core does the same work."""
    given, found = list(zip(*inputs, strict=False)), []
    for each in given:
        found.append(function(*each))
        tell(len(found), len(given))
    return iter(found)


def plain() -> Spread:
    """What a map is that has travelled."""
    return inline


class _PoolMap:
    """A map over the workers of a pool."""

    def __init__(self, pool: Executor) -> None:
        self._pool = pool

    def __call__(self, function: Callable[..., Any], *inputs: Iterable[Any]) -> Iterator[Any]:
        return iter(list(self._pool.map(function, *inputs)))

    def __reduce__(self) -> tuple[Callable[[], Spread], tuple[()]]:
        return plain, ()


def available_cores() -> int:
    """Cores that this process may run on: a container or taskset may leave it fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _checked(workers: int | None) -> int:
    if workers is None:
        return available_cores()
    if workers < 1:
        raise InputError(field="workers", value=workers, problem="must be at least 1", fix="Give the number of cores.")
    return workers
