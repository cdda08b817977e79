"""A map over the machines of a Ray cluster. The results, and their bytes, are those of one core.

    with ray_map("ray://head:10001") as spread:
        list(spread(look, files))

The function goes to the cluster once and is shared by its tasks; inputs go with their tasks. A task whose worker dies
is tried again elsewhere; one that kills worker after worker, or fails, is reported with its input. Ctrl-C cancels what
has not ended. Ray is an extra, imported here and nowhere else.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ullage.errors import InputError, UllageError
from ullage.execute.pool import Spread

RAY = "ray"
# A worker that a task ends so often is no accident of the machine.
_RETRIES = 3
_SHOWN = 120


def parse_run_on(text: str) -> str | None:
    """The address of `ray://address`; None for `ray`, which starts Ray on this machine.

    >>> parse_run_on("ray"), parse_run_on("ray://head:10001")
    (None, 'ray://head:10001')
    """
    scheme, separator, address = text.partition("://")
    if scheme != RAY or (separator and not address):
        raise InputError(
            field="--run-on", value=text, problem="is no place to run on", fix="Give ray, or ray://head:10001."
        )
    return text if address else None


@contextmanager
def ray_map(run_on: str, *, workers: int | None = None) -> Iterator[Spread]:
    """A `map` over the tasks of a cluster; what it starts it stops again."""
    address = parse_run_on(run_on)
    ray = _ray()
    was_running = ray.is_initialized()
    if not was_running:
        try:
            ray.init(
                address=address,
                num_cpus=None if address else workers,
                log_to_driver=False,
                logging_level="ERROR",
                include_dashboard=False if address is None else None,
            )
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            said = " ".join(str(error).split())[:_SHOWN]
            raise InputError(
                field="--run-on",
                value=run_on,
                problem=f"cannot be reached ({said})",
                fix="Check the address, and that the cluster has this version of ullage, Python and Ray.",
            ) from None
    try:
        yield _spread(ray)
    finally:
        if not was_running:
            ray.shutdown()


def _ray() -> Any:
    try:
        return importlib.import_module(RAY)
    except ImportError:
        raise InputError(
            field="--run-on",
            value=RAY,
            problem="needs Ray, which is not installed",
            fix="Install ullage[ray], or leave --run-on out.",
        ) from None


def _call(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    return function(*arguments)


def _spread(ray: Any) -> Spread:
    task = ray.remote(max_retries=_RETRIES)(_call)

    def spread(function: Callable[..., Any], *inputs: Iterable[Any]) -> Iterator[Any]:
        given = list(zip(*inputs, strict=False))
        # Once for all tasks: what a function holds, such as a plan, is copied to a machine and not to every task.
        shared = ray.put(function)
        pending = [task.remote(shared, each) for each in given]
        try:
            return iter([_result(ray, one, each) for one, each in zip(pending, given, strict=True)])
        except BaseException:
            for one in pending:
                ray.cancel(one, force=True)
            raise

    return spread


def _result(ray: Any, pending: Any, given: Sequence[Any]) -> Any:
    """The result of a task; what went wrong is reported with the input that it went wrong on."""
    try:
        return ray.get(pending)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        # What the task itself says of its input needs no more words.
        if isinstance(cause, UllageError):
            raise cause from None
        raise _poisoned(given, f"fails ({type(cause).__name__}: {cause})", "Run it alone, without --run-on.") from None
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError, ray.exceptions.NodeDiedError):
        problem = f"ended its worker {_RETRIES + 1} times"
        raise _poisoned(given, problem, "Run it alone; it may need more memory than a worker has.") from None
    except (ray.exceptions.RaySystemError, ray.exceptions.RayActorError, ConnectionError) as error:
        said = " ".join(str(error).split())[:_SHOWN]
        raise InputError(
            field="--run-on", value=RAY, problem=f"was lost ({said})", fix="Start the cluster, then run it again."
        ) from None


def _poisoned(given: Sequence[Any], problem: str, fix: str) -> InputError:
    shown = ", ".join(repr(each) for each in given)
    brief = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
    return InputError(field="task", value=brief, problem=problem, fix=fix)
