"""Maps over the cores of one machine. The results, and their bytes, do not depend on the number of workers.

Core functions take `map=`; this is what to give them:

    with thread_map(workers=2) as spread:
        replicate(run, seed=1, count=8, map=spread)

Threads serve the simulator, whose kernel releases the interpreter; processes serve work that is Python. The
order of results is the order of the inputs, and every input carries its own seed, so that nothing depends on
which worker took it or when.
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
# What its threads are called, so that a profiler, or a test, can tell the work on other cores.
THREADS = "ullage-core"


@contextmanager
def thread_map(*, workers: int | None = None) -> Iterator[Spread]:
    """A `map` over threads; for functions that spend their time in the kernel or in numpy."""
    if _checked(workers) == 1:
        yield _inline
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_checked(workers), thread_name_prefix=THREADS) as pool:
        yield _ordered(pool)


@contextmanager
def process_map(*, workers: int | None = None) -> Iterator[Spread]:
    """A `map` over fresh processes; the function and its inputs must be importable and picklable."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(_checked(workers), mp_context=get_context("spawn")) as pool:
        yield _ordered(pool)


def _inline(function: Callable[..., Any], *inputs: Iterable[Any]) -> Iterator[Any]:
    """Every result before the first is read, as on many cores, so that one core does the same work."""
    return iter([function(*each) for each in zip(*inputs, strict=False)])


def _ordered(pool: Executor) -> Spread:
    def spread(function: Callable[..., Any], *inputs: Iterable[Any]) -> Iterator[Any]:
        return iter(list(pool.map(function, *inputs)))

    return spread


def _checked(workers: int | None) -> int:
    if workers is None:
        return os.cpu_count() or 1
    if workers < 1:
        raise InputError(field="workers", value=workers, problem="must be at least 1", fix="Give the number of cores.")
    return workers
