"""A real Prometheus over samples that are back-filled, for tests and benchmarks."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ABSENT = "Prometheus is not installed (Debian: prometheus)"


@contextmanager
def prometheus(folder: Path, lines: Iterator[str]) -> Iterator[str]:
    """A server over these samples, back-filled; the test is skipped where there is none."""
    if None in [shutil.which(each) for each in ("promtool", "prometheus")]:
        pytest.skip(ABSENT)
    samples, data = folder / "samples.om", folder / "data"
    samples.write_text("".join(lines))
    made = ["promtool", "tsdb", "create-blocks-from", "--max-block-duration=672h", "openmetrics"]
    subprocess.run([*made, str(samples), str(data)], check=True, capture_output=True)
    with server(folder, "global: {}\n") as address:
        yield address


@contextmanager
def server(folder: Path, config: str) -> Iterator[str]:
    """A server with this configuration, over what lies in the folder's data."""
    file, data = folder / "prometheus.yml", folder / "data"
    file.write_text(config)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={file}",
            f"--storage.tsdb.path={data}",
            f"--web.listen-address={address}",
            "--storage.tsdb.retention.time=20y",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(200):
            try:
                with urllib.request.urlopen(f"http://{address}/-/ready", timeout=1):
                    break
            except OSError:
                time.sleep(0.05)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait()
