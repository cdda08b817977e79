"""Processes that do the work: one is started early and warmed, and every request is a fork of it.

A fork has the compiled kernel and the catalogues at once, where a fresh interpreter needs seconds. It does one task and
ends: nothing grows, nothing is left behind, and to cancel a task is to kill its process. The first process holds no
thread, opens no database and does no task itself, so that forking it is safe.

    service  --control socket-->  first process  --fork-->  task
       '------------ a socket of its own, sent over the control socket ---------'

A task writes lines of JSON: its process id, then how far it is, last its ending with the length of the body after it.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import socket
import sys
from pathlib import Path
from typing import Any

_LENGTH_BYTES = 8
READY = b"R"
# PR_SET_PDEATHSIG of prctl(2): the kernel ends a task whose parent has gone.
_PARENT_DIED = 1


def first_process(control_fd: int) -> None:
    """Warm up, say so, then fork a task for every socket that arrives; end when the service has gone."""
    control = socket.socket(fileno=control_fd)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warm_up()
    # What is there now stays for good: a collector that walked it in every task would copy all of its pages.
    gc.freeze()
    control.sendall(READY)
    while True:
        message, handles, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            return
        task_fd = handles[0]
        if os.fork() == 0:
            control.close()
            _task_process(task_fd)
        os.close(task_fd)


def warm_up() -> None:
    """Load what every task needs: the kernel, the catalogues and the stages of a plan."""
    import datetime

    import ullage.planning.pipeline
    import ullage.uncertainty.study
    import ullage.verbs  # noqa: F401
    from ullage.load.plan import load_plan
    from ullage.planning.estimate import estimate_plan
    from ullage.report.encode import to_text

    day = datetime.date(2026, 11, 15)
    estimate_plan(load_plan(None, as_of=day), as_of=day, seed=0)
    to_text({})


def _task_process(handle: int) -> None:
    """One task in a process of its own, and its end; nothing of the first process is run any further."""
    code = 1
    try:
        _end_with_parent()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with socket.socket(fileno=handle) as line:
            line.sendall(_json_line({"pid": os.getpid()}))
            task = json.loads(_received(line))
            _within(task)
            _do(line, task)
        code = 0
    except BaseException as error:  # noqa: BLE001 - a fork must never return into the first process
        sys.stderr.write(f"ullage serve: a task ended with {type(error).__name__}\n")
    finally:
        os._exit(code)


def _do(line: socket.socket, task: dict[str, Any]) -> None:
    from ullage.serve.tasks import perform

    def report(fraction: float, stage: str = "", /) -> None:
        line.sendall(_json_line({"fraction": min(max(float(fraction), 0.0), 1.0), "stage": stage}))

    kind, body = perform(task, report)
    line.sendall(_json_line({"end": kind, "bytes": len(body)}))
    line.sendall(body)


def _within(task: dict[str, Any]) -> None:
    """The task's own folder, its share of the machine, and the wall around it."""
    from ullage.serve.jail import put_on

    os.chdir(task["folder"])
    os.environ.pop("ULLAGE_LEDGER", None)
    if task.get("ledger"):
        os.environ["ULLAGE_LEDGER"] = task["ledger"]
    os.nice(int(task.get("nice", 0)))
    seconds = max(1, int(task["cpu_s"]))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (int(task["memory_bytes"]),) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    put_on(Path(task["folder"]), more=_places(task), network=bool(task.get("network")))


def _places(task: dict[str, Any]) -> list[str]:
    """Files beside the folder that the service itself names: the ledger's folder, credentials, compiled code."""
    ledger = str(task.get("ledger") or "")
    found = [] if not ledger or "://" in ledger else [str(Path(ledger).resolve().parent)]
    if task.get("http_config"):
        found.append(str(Path(task["http_config"]).resolve().parent))
    kept = os.environ.get("NUMBA_CACHE_DIR")
    return [*found, *([] if kept is None else [kept])]


def _end_with_parent() -> None:
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_PARENT_DIED, signal.SIGKILL)


def _json_line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _received(line: socket.socket) -> bytes:
    """A message: its length in eight bytes, then itself."""
    length = int.from_bytes(_exactly(line, _LENGTH_BYTES), "big")
    return _exactly(line, length)


def _exactly(line: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = line.recv(min(count - len(parts), 1 << 20))
        if not part:
            raise EOFError("the service has gone")
        parts += part
    return bytes(parts)


def message(value: dict[str, Any]) -> bytes:
    """A task as it is sent to its process."""
    body = json.dumps(value).encode()
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


if __name__ == "__main__":
    first_process(int(sys.argv[1]))
