"""Maps over the machines of a Ray cluster. The results, and their bytes, are those of one core.

    with ray_map("ray://head:10001") as (short, whole):
        study(plan, map=short, jobs=whole)

Whole jobs always go to the cluster. Short looks go there while they are long enough to be worth the way: the first of a
kind are sent and timed, and while a call of that kind is less work than `WORTH_S` it stays on the threads of this
machine. What a function holds goes to the cluster once a call and is unpacked once by a worker; inputs go with their
tasks. A task whose worker dies is tried again elsewhere; one that fails, or kills worker after worker, is reported with
its input, the first of several as on one core. Ctrl-C cancels what has not ended. A head that is gone is reported after
some seconds. Ray is an extra, imported here and nowhere else.
"""

from __future__ import annotations

import importlib
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ullage.errors import InputError, UllageError
from ullage.execute.pool import Spread, Tell, plain, thread_map, untold

RAY, _CLIENT = "ray", "ray://"
# A worker that a task ends so often is no accident of the machine.
_RETRIES = 3
_SHOWN = 120
WORTH_S = 0.5
"""Work of one call, in seconds of one core, from which the cluster is asked: some times what a call's way takes."""
# How often a head is looked for while nothing ends, and how many looks in vain mean that it is gone.
_LOOK_S, _LOOKS = 1.0, 5
# Results are small: figures, or a plan.
_STORE_BYTES = 512 * 2**20
# Nothing is told to others of what runs here, and a task that eats all memory is not tried for ever.
_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_task_oom_retries": str(_RETRIES)}
# What the latest call's function holds, unpacked, by its place in the cluster's store.
_UNPACKED: dict[str, Callable[..., Any]] = {}


def parse_run_on(text: str) -> str | None:
    """The address of `ray://address`; None for `ray`, which is the cluster that RAY_ADDRESS names, or this machine.

    >>> parse_run_on("ray"), parse_run_on("ray://head:10001")
    (None, 'ray://head:10001')
    """
    scheme, separator, address = text.partition("://")
    if scheme != RAY or (separator and not address):
        raise InputError(
            field="--run-on", value=text, problem="is not a place to run on", fix="Give ray, or ray://head:10001."
        )
    return text if address else None


@contextmanager
def ray_map(run_on: str, *, workers: int | None = None) -> Iterator[tuple[Spread, Spread]]:
    """Two maps over a cluster: for short looks, and for whole jobs. What it starts it stops again."""
    address = parse_run_on(run_on) or os.environ.get("RAY_ADDRESS")
    ray = _ray()
    was_running = ray.is_initialized()
    if not was_running:
        _connect(ray, address, run_on, workers)
    head = _head(ray, address)
    try:
        with thread_map(workers=workers) as here:
            yield _RayMap(ray, run_on, head, here=here), _RayMap(ray, run_on, head)
    finally:
        # Ray waits for a head that is gone, and whoever typed this has been told.
        if not was_running and _is_there(head):
            ray.shutdown()


def _connect(ray: Any, address: str | None, run_on: str, workers: int | None) -> None:
    # A client's settings go to the server, which takes others than Ray itself.
    own: dict[str, Any] = {} if address and address.startswith(_CLIENT) else {"logging_level": "ERROR"}
    if address is None:
        for name, value in _SETTINGS.items():
            os.environ.setdefault(name, value)
        own |= {"num_cpus": workers, "include_dashboard": False, "object_store_memory": _STORE_BYTES}
    try:
        ray.init(address=address, log_to_driver=False, **own)
    except (ConnectionError, ImportError, OSError, RuntimeError, ValueError) as error:
        raise InputError(
            field="--run-on",
            value=run_on,
            problem=f"cannot be reached ({_brief(error)})",
            fix="Check the address, and that the cluster has this version of ullage, Python and Ray.",
        ) from None


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


def _head(ray: Any, address: str | None) -> tuple[str, int]:
    """Where the head is listened to: by its client, or by machines of the cluster."""
    place = address if address and address.startswith(_CLIENT) else ray.get_runtime_context().gcs_address
    host, _, port = place.removeprefix(_CLIENT).rpartition(":")
    return host.strip("[]"), int(port.partition("/")[0])


def _is_there(head: tuple[str, int]) -> bool:
    with suppress(OSError), socket.create_connection(head, timeout=_LOOK_S):
        return True
    return False


def _version() -> str:
    # By name: the package at the top has all below it, and this is below.
    return str(importlib.import_module("ullage").__version__)


def _call(version: str, shared: Sequence[Any], arguments: Sequence[Any]) -> tuple[float, Any]:
    """On a worker: the function that `shared` refers to, with these arguments, and the seconds it took."""
    if version != _version():
        raise InputError(
            field="--run-on",
            value=f"ullage {_version()}",
            problem=f"is what a worker has, but this is {version}",
            fix="Install one version everywhere: another version may give another answer.",
        )
    name = shared[0].hex()
    function = _UNPACKED.get(name)
    if function is None:
        _UNPACKED.clear()
        function = _UNPACKED[name] = _ray().get(shared[0])
    return _timed(function, arguments)


def _timed(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[float, Any]:
    begun_s = time.perf_counter()
    found = function(*arguments)
    return time.perf_counter() - begun_s, found


class _RayMap:
    """A map over the tasks of a cluster; with `here`, calls that are too little work go there."""

    def __init__(self, ray: Any, run_on: str, head: tuple[str, int], *, here: Spread | None = None) -> None:
        self._ray, self._run_on, self._head, self._here = ray, run_on, head, here
        self._task = ray.remote(max_retries=_RETRIES)(_call)
        self._seconds: dict[object, float] = {}

    def __call__(self, function: Callable[..., Any], *inputs: Iterable[Any], tell: Tell = untold) -> Iterator[Any]:
        given = list(zip(*inputs, strict=False))
        # A job that is alone stays, so that what it has to spread can go.
        if len(given) < 2:
            return plain()(lambda each: function(*each), given, tell=tell)
        code = getattr(getattr(function, "func", function), "__code__", function)
        known_s = self._seconds.get(code)
        if self._here is not None and known_s is not None and known_s * len(given) < WORTH_S:
            timed = list(self._here(lambda each: _timed(function, each), given))
        else:
            timed = self._sent(function, given, tell)
        self._seconds[code] = sum(took_s for took_s, _ in timed) / len(timed)
        return iter([found for _, found in timed])

    def __reduce__(self) -> tuple[Callable[[], Spread], tuple[()]]:
        return plain, ()

    def _sent(self, function: Callable[..., Any], given: Sequence[Any], tell: Tell) -> list[tuple[float, Any]]:
        shared = self._ray.put(function)
        pending = [self._task.remote(_version(), [shared], each) for each in given]
        place = {one: at for at, one in enumerate(pending)}
        found: dict[int, tuple[float, Any] | Exception] = {}
        ready = 0
        try:
            while ready < len(given):
                for one in self._ended([each for each in pending if place[each] not in found]):
                    found[place[one]] = self._result(one, given[place[one]])
                    tell(len(found), len(given))
                # As on one core: of several that fail the first is told, and nothing after it is waited for.
                while ready in found:
                    if isinstance(failed := found[ready], Exception):
                        raise failed
                    ready += 1
        except BaseException:
            self._cancel(each for each in pending if place[each] not in found)
            raise
        return [each for at in range(len(given)) if not isinstance(each := found[at], Exception)]

    def _ended(self, pending: Sequence[Any]) -> Sequence[Any]:
        """Those that have ended, at least one; an error where the head is gone meanwhile."""
        in_vain = 0
        while True:
            try:
                ended, _ = self._ray.wait(list(pending), num_returns=1, timeout=_LOOK_S)
            except ConnectionError as error:
                raise self._lost(_brief(error)) from None
            if ended:
                return list(ended)
            in_vain = 0 if _is_there(self._head) else in_vain + 1
            if in_vain >= _LOOKS:
                raise self._lost("its head does not answer")

    def _cancel(self, pending: Iterable[Any]) -> None:
        if _is_there(self._head):
            for one in pending:
                self._ray.cancel(one, force=True)

    def _result(self, ended: Any, given: Sequence[Any]) -> tuple[float, Any] | Exception:
        """The result of a task; what went wrong is reported with the input that it went wrong on."""
        errors = self._ray.exceptions
        try:
            found: tuple[float, Any] = self._ray.get(ended)
        except errors.RayTaskError as error:
            cause = error.cause
            # What the task itself says of its input needs no more words.
            if isinstance(cause, UllageError):
                return cause
            problem = f"fails ({type(cause).__name__}: {cause})"
            return _poisoned(given, problem, "Run it alone, without --run-on.")
        except (errors.WorkerCrashedError, errors.OutOfMemoryError, errors.NodeDiedError):
            problem = f"ended its worker {_RETRIES + 1} times"
            return _poisoned(given, problem, "Run it alone; it may need more memory than a worker has.")
        except (errors.RaySystemError, errors.RayActorError, ConnectionError) as error:
            return self._lost(_brief(error))
        return found

    def _lost(self, said: str) -> InputError:
        return InputError(
            field="--run-on",
            value=self._run_on,
            problem=f"was lost ({said})",
            fix="Start the cluster, then run it again: what was stored before is unchanged.",
        )


def _brief(error: Exception) -> str:
    return " ".join(str(error).split())[:_SHOWN]


def _poisoned(given: Sequence[Any], problem: str, fix: str) -> InputError:
    shown = ", ".join(repr(each) for each in given)
    brief = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
    return InputError(field="task", value=brief, problem=problem, fix=fix)
