"""A real Prometheus on loopback scrapes a fake engine and loads the emitted rules: what must fire fires."""

from __future__ import annotations

import http.server
import json
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.debian import require_program
from support.emitted import documents, emitted

RUNNING, WAITING = 12, 30
METRICS = f"""\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{model_name="qwen3-32b",engine="0"}} {RUNNING}
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{model_name="qwen3-32b",engine="0"}} {WAITING}
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{model_name="qwen3-32b",engine="0"}} 0.2
"""


class _Engine(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(METRICS.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Scrapes are not worth a line."""


@contextmanager
def fake_engine() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Engine)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def prometheus(folder: Path, engine_port: int) -> Iterator[str]:
    program = require_program("prometheus", package="prometheus")
    job = {
        "job_name": "engine",
        "static_configs": [{"targets": [f"127.0.0.1:{engine_port}"], "labels": {"namespace": "llm"}}],
    }
    pace = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config = {"global": pace, "rule_files": ["ullage.rules.yaml"], "scrape_configs": [job]}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    words = [
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=20)


def answered(address: str, query: str) -> list[dict[str, Any]]:
    asked = f"{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with urllib.request.urlopen(asked, timeout=5) as reply:
            found: list[dict[str, Any]] = json.load(reply)["data"]["result"]
    except OSError:
        return []
    return found


def waited(address: str, query: str, *, most_s: float) -> list[dict[str, Any]]:
    """The answer as soon as there is one."""
    until = time.monotonic() + most_s
    while time.monotonic() < until:
        found = answered(address, query)
        if found:
            return found
        time.sleep(0.5)
    return []


@pytest.mark.slow
def test_the_alert_that_must_fire_fires_and_the_trigger_counts(tmp_path: Path) -> None:
    (rules,) = emitted("prometheus", figures={"limit.retry_after_s": 1})
    (tmp_path / rules.name).write_text(rules.text)
    (scaled,) = documents(emitted("keda"))
    (trigger,) = scaled["spec"]["triggers"]
    with fake_engine() as engine_port, prometheus(tmp_path, engine_port) as address:
        (found,) = waited(address, trigger["metadata"]["query"], most_s=30)
        assert float(found["value"][1]) == RUNNING + WAITING
        recorded = waited(address, 'ullage_in_flight_requests{pool="pool"}', most_s=30)
        assert [float(each["value"][1]) for each in recorded] == [RUNNING + WAITING]
        fired = waited(address, 'ALERTS{alertname="UllageQueueCollapse", alertstate="firing"}', most_s=120)
        assert [each["metric"]["failure_mode"] for each in fired] == ["queue-collapse"]
        # A cache that is hardly used does not press on memory.
        assert answered(address, 'ALERTS{alertname="UllageMemoryPressure"}') == []
