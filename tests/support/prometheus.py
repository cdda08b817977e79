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
    programs = [shutil.which(each) for each in ("promtool", "prometheus")]
    if None in programs:
        pytest.skip(ABSENT)
    promtool, server = (str(each) for each in programs)
    samples, data, config = folder / "samples.om", folder / "data", folder / "prometheus.yml"
    samples.write_text("".join(lines))
    config.write_text("global: {}\n")
    made = [promtool, "tsdb", "create-blocks-from", "--max-block-duration=672h", "openmetrics", str(samples), str(data)]
    subprocess.run(made, check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen(
        [
            server,
            f"--config.file={config}",
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
