"""A running `ullage serve` for tests: a process of its own on a free port of this machine, stopped at the end."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

ALICE, BOB, READER = "alice-token-0123456789abcdef", "bob-token-0123456789abcdefgh", "reader-token-0123456789abcdef"
TOKENS = f"# who may ask\nalice plan {ALICE}\nbob plan {BOB}\nrita read {READER}\n"
_WARM_S = 240.0


@dataclass(frozen=True, kw_only=True)
class RunningService:
    """Where it listens, its process, and what it wrote to stderr."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def client(self, token: str | None = ALICE, **more: object) -> httpx.Client:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=120.0, trust_env=False, **more)  # type: ignore[arg-type]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def running_service(folder: Path, *options: str, is_warm: bool = True, **environment: str) -> Iterator[RunningService]:
    """`ullage serve` with these options; with `is_warm` once it says that it is ready."""
    port, log = free_port(), folder / "serve.log"
    command = [sys.executable, "-m", "ullage", "serve", "--port", str(port), *options]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, stdout=sink, stderr=sink, env={**os.environ, **environment}, start_new_session=True
        )
    found = RunningService(url=f"http://127.0.0.1:{port}", process=process, log=log)
    try:
        _wait(found, "/readyz" if is_warm else "/healthz")
        yield found
    finally:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20.0)
            process.kill()
        process.wait()


def token_file(folder: Path) -> Path:
    file = folder / "tokens"
    file.write_text(TOKENS)
    file.chmod(0o600)
    return file


def _wait(found: RunningService, path: str) -> None:
    until_s = time.monotonic() + _WARM_S
    with found.client(None) as client:
        while time.monotonic() < until_s:
            assert found.process.poll() is None, found.log.read_text()
            with contextlib.suppress(httpx.TransportError):
                if client.get(path).status_code == 200:
                    return
            time.sleep(0.1)
    raise AssertionError(f"not ready after {_WARM_S} s: {found.log.read_text()[-2000:]}")
