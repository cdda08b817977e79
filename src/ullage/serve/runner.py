"""The service's side of its processes: start the first one, send it tasks, hear of their progress, kill what is not
wanted any more."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ullage.serve.children import READY, message
from ullage.serve.disk import make_folder, task_folder
from ullage.serve.problems import ServedProblem
from ullage.serve.settings import ServeSettings
from ullage.serve.tasks import PROBLEM

Heard = Callable[[float, str], None]
# A task's CPU seconds beyond its seconds on the clock: it may run on several cores.
_CORES_FRACTION = 4.0
_MOST_LINE_BYTES = 1 << 16
# Long work leaves the cores to first looks.
_NICE = 10
_TRIES = 3


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a task ended: `kind` is answer, text or problem, `body` what is sent."""

    kind: str
    body: bytes

    @property
    def status(self) -> int:
        return int(json.loads(self.body)["status"]) if self.kind == PROBLEM else 200


@dataclass(frozen=True, kw_only=True)
class ServedWork:
    """A verb, its request, the uploads that it names, and how urgent it is."""

    verb: str
    request: Mapping[str, Any]
    uploads: frozenset[str] = frozenset()
    is_urgent: bool = False


class Runner:
    """Runs tasks, each in a fork of one warm process; a first process that dies is started again."""

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._control: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._started: asyncio.Task[None] | None = None
        self.is_ready = False
        self.uploads = settings.folder / "uploads"
        self._tasks = settings.folder / "tasks"

    async def start(self) -> None:
        """Start the first process; it warms up while the service answers already."""
        for each in (self.uploads, self._tasks):
            make_folder(each)
        self._started = asyncio.create_task(self._keep_started())

    async def stop(self) -> None:
        """End the first process, and with it every task."""
        if self._started is not None:
            self._started.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._started
        self._close()
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _keep_started(self) -> None:
        while True:
            ours, theirs = socket.socketpair()
            self._control = ours
            environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "ullage.serve.children", str(theirs.fileno()),
                pass_fds=(theirs.fileno(),), env=environment, stdin=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            theirs.close()
            await asyncio.to_thread(self._wait_until_warm, ours)
            await self._process.wait()
            self._close()
            await asyncio.sleep(0.5)

    def _wait_until_warm(self, control: socket.socket) -> None:
        with contextlib.suppress(OSError):
            self.is_ready = control.recv(1) == READY

    def _close(self) -> None:
        self.is_ready = False
        if self._control is not None:
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_RDWR)
            self._control.close()
            self._control = None

    async def run(self, work: ServedWork, *, seconds: float, heard: Heard = lambda _fraction, _stage: None) -> Ending:
        """Do it; a cancelled caller kills it. One that takes longer is killed, and ends with a problem."""
        with task_folder(self._tasks, self.uploads, work.uploads) as folder:
            try:
                async with asyncio.timeout(seconds):
                    return await self._in_process(self._task(work, folder, seconds), heard)
            except TimeoutError:
                detail = f"It was stopped after {seconds:g} s. Ask for less, or of a service with a longer limit."
                return _ended("too-much", detail)

    def _task(self, work: ServedWork, folder: Path, seconds: float) -> dict[str, Any]:
        settings = self._settings
        http_config = settings.http_config
        return {
            "verb": work.verb,
            "request": work.request,
            "uploads": sorted(work.uploads),
            "folder": str(folder),
            "ledger": settings.ledger,
            "prometheus": settings.prometheus,
            "http_config": None if http_config is None else str(http_config.resolve()),
            "network": work.verb == "reconcile" and bool(work.request.get("from_prometheus")),
            "workers": 1,
            "nice": 0 if work.is_urgent else _NICE,
            "cpu_s": seconds * _CORES_FRACTION,
            "memory_bytes": settings.limits.job_bytes,
        }

    async def _in_process(self, task: dict[str, Any], heard: Heard) -> Ending:
        reader, writer = await self._fork()
        process: int | None = None
        try:
            first = await reader.readline()
            if not first:
                return _ended("not-ready", "The process for it could not be started.")
            with contextlib.suppress(ProcessLookupError):
                process = os.pidfd_open(int(json.loads(first)["pid"]))
            writer.write(message(task))
            await writer.drain()
            while line := await reader.readline():
                said = json.loads(line)
                if "end" in said:
                    return Ending(kind=said["end"], body=await reader.readexactly(said["bytes"]))
                heard(float(said["fraction"]), str(said["stage"]))
            detail = "Its process ended without an answer: it took more memory or time than a request is given."
            return _ended("too-much", detail)
        finally:
            writer.close()
            if process is not None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                os.close(process)

    async def _fork(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A line to a new task; where the first process has just died, the next one is waited for."""
        for _ in range(_TRIES):
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            try:
                assert self._control is not None
                socket.send_fds(self._control, [b"T"], [theirs.fileno()])
                return await asyncio.open_unix_connection(sock=ours, limit=_MOST_LINE_BYTES)
            except (OSError, AssertionError):
                ours.close()
                await asyncio.sleep(0.5)
            finally:
                theirs.close()
        raise OSError("the first process does not answer")


def _ended(name: str, detail: str) -> Ending:
    return Ending(kind=PROBLEM, body=ServedProblem(name=name, detail=detail).body())
