"""What a machine does to a program: each fault loses nothing that was kept, ends with a documented code, and says why.

| fault | where it is tested |
|---|---|
| disk full: a ledger file, a server's disk | tests/ledger/test_ledger.py `test_a_full_disk*` |
| disk full: stdout | tests/cli/test_terminal.py `test_a_full_disk_is_named` |
| disk full, a file of an answer | here, `test_a_full_disk_leaves_the_old_answer` |
| kill -9: a writer of the ledger | tests/ledger/test_ledger.py `test_a_killed_writer_loses_the_write_in_flight_alone` |
| kill -9: the service | tests/serve/test_survival.py |
| kill -9, before an answer's file takes its place | here, `test_a_killed_writer_leaves_the_old_answer` |
| broken pipe | tests/cli/test_terminal.py, tests/cli/test_command_line.py `test_a_reader_that_goes_away_is_no_error` |
| clock jump | here, `test_a_clock_that_jumps*`; a server's clock: tests/readers/test_prometheus_client.py |
| Prometheus gone, failing, refusing, partial | tests/readers/test_prometheus_client.py |
| Prometheus slow, trickling, answering for other times | here, `test_a_prometheus_that*` |
| PostgreSQL restarted | tests/ledger/test_ledger.py `test_a_restart_of_the_server_is_waited_for` |
| numba's cache empty, damaged, not writable | tests/rim/test_environment.py |
| ledger: a damaged body | tests/ledger/test_ledger.py `test_damage_is_found_and_named` |
| ledger: damaged pages of the file | here, `test_a_damaged_page*` |
| memory limit | here, `test_a_memory_limit*` |
| Ray: a worker killed, a poisoned task, the head lost, no Ray | tests/execute/test_ray_map.py |
"""

from __future__ import annotations

import datetime
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb
import pytest

from ullage.cli.app import run
from ullage.errors import ExitCode, InputError
from ullage.execute.machine import check_memory, resident_limit_bytes
from ullage.files.whole import write_whole
from ullage.ledger.body import EntryBody, EntryKind
from ullage.ledger.ledger import opened
from ullage.readers.prometheus.client import PrometheusClient
from ullage.readers.prometheus.settings import HttpSettings

NOW = datetime.datetime(2026, 11, 16, 12, 0, tzinfo=datetime.UTC)
MIB = 2**20


def entry(name: str, size: int = 0) -> EntryBody:
    return EntryBody(
        kind=EntryKind.PLAN,
        service="chat",
        as_of="2026-11-16",
        summary=f"plan {name}",
        # Text that does not compress, so that bodies fill pages.
        content={"name": name, "text": os.urandom(size).hex()},
        about=(),
    )


WRITE = """
import os, signal, sys
from pathlib import Path
from ullage.files import whole
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
whole.write_whole(Path(sys.argv[1]), "new" * 100_000, field="--out", force=True)
"""


def test_a_killed_writer_leaves_the_old_answer(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text("old")
    done = subprocess.run([sys.executable, "-c", WRITE, str(file)], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert file.read_text() == "old"
    # What is left beside it is in nobody's way: the next answer is written whole.
    write_whole(file, "next", field="--out", force=True)
    assert file.read_text() == "next"


def test_a_full_disk_leaves_the_old_answer(tmp_path: Path) -> None:
    """A limit on the size of files fails a write as a full disk does, without the rights to mount one."""
    file = tmp_path / "plan.json"
    file.write_text("old")
    code = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from ullage.errors import InputError\n"
        "from ullage.files.whole import write_whole\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try:\n"
        "    write_whole(Path(sys.argv[1]), 'new' * 100_000, field='--out', force=True)\n"
        "except InputError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True)
    assert "cannot be written" in done.stdout
    assert file.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["plan.json"]


def test_a_clock_that_jumps_back_loses_no_entry_and_orders_them_as_they_were_kept(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    with opened(place, create=True) as ledger:
        for name, at in (("first", NOW), ("after the jump", NOW - datetime.timedelta(days=400))):
            assert ledger.keep(entry(name), at=at)
        assert {each.summary for each in ledger.entries()} == {"plan first", "plan after the jump"}
        assert ledger.verify() == (2, [])


def test_a_clock_that_jumps_reaches_no_age_below_zero(capsys: pytest.CaptureFixture[str]) -> None:
    """A machine whose clock stands before the facts were dated still answers, and no fact is of negative age."""
    assert run(["facts", "devices", "h100-sxm", "--as-of", "2001-01-01"]) == ExitCode.OK
    ages = re.findall(r"(-?\d+) d\b", capsys.readouterr().out)
    assert ages
    assert {*ages} == {"0"}


@pytest.mark.parametrize("place", ["first", "middle", "cut"])
def test_a_damaged_page_is_named_and_the_file_is_left_as_it_is(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ledger.sqlite"
    with opened(str(file), create=True) as ledger:
        for each in range(40):
            ledger.keep(entry(str(each), size=4096), at=NOW)
        # Everything from the write-ahead log into the file, as it is after a restart.
        assert len(ledger.entries()) == 40
    content = bytearray(file.read_bytes())
    assert len(content) > 40 * 4096
    if place == "cut":
        content = content[: len(content) // 2]
    else:
        begin = 0 if place == "first" else len(content) // 2 // 4096 * 4096
        span = 100 if place == "first" else 20 * 4096
        content[begin : begin + span] = bytes([0x5A]) * span
    file.write_bytes(content)
    ending = run(["ledger", "verify", "--ledger", str(file)])
    shown = capsys.readouterr()
    assert ending in (ExitCode.WRONG_INPUT, ExitCode.REFUSED), shown
    assert "damaged" in (shown.out + shown.err).lower(), shown
    assert "Traceback" not in shown.err
    assert file.read_bytes() == bytes(content)


def limited(limit_mib: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`ullage` with so much address space, which is what a cgroup's limit is to a program that asks for more."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit_mib * MIB, limit_mib * MIB))

    return subprocess.run(
        [sys.executable, "-m", "ullage", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        preexec_fn=limit,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )


@pytest.mark.parametrize("limit_mib", [230, 600])
def test_a_memory_limit_is_named_before_a_library_dies_of_it(limit_mib: int, tmp_path: Path) -> None:
    """At 230 MiB the database that reads logs segfaults; at the larger one the compiler aborts on some machines."""
    log, kept = tmp_path / "log.csv", tmp_path / "kept.toml"
    log.write_text("arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{at},10,5\n" for at in range(1000)))
    kept.write_text("old")
    done = limited(limit_mib, "profile", str(log), "--save", str(kept), "--force", "--quiet")
    assert done.returncode == ExitCode.WRONG_INPUT, (done.returncode, done.stderr[-2000:])
    assert f"memory = '{limit_mib} MiB'" in done.stderr
    assert "ulimit -v" in done.stderr
    assert kept.read_text() == "old"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"memory.max": "max\n"}, None),
        ({"memory.max": f"{300 * MIB}\n"}, 300 * MIB),
        ({"memory/memory.limit_in_bytes": "9223372036854771712\n"}, None),
        ({"memory/memory.limit_in_bytes": f"{700 * MIB}\n"}, 700 * MIB),
        ({}, None),
    ],
)
def test_a_memory_limit_of_a_control_group_is_read(files: dict[str, str], found: int | None, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert resident_limit_bytes(tmp_path) == found
    if found is not None and found < 512 * MIB:
        with pytest.raises(InputError, match="control group"):
            check_memory(tmp_path)
    else:
        check_memory(tmp_path)


def test_a_memory_limit_reached_in_a_log_is_not_the_log_s_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database with 4 MiB runs out of it while it counts; the file is fine, and nobody is sent to look at it."""
    log = tmp_path / "log.parquet"
    rows = "SELECT range::DOUBLE AS arrival_s, 10 AS prompt_tokens, 5 AS output_tokens FROM range(100000)"
    duckdb.sql(f"COPY ({rows}) TO '{log}'")
    monkeypatch.setattr("ullage.readers.traces.open.MEMORY_LIMIT", "4MiB")
    ending = run(["profile", str(log), "--quiet"])
    shown = capsys.readouterr()
    assert ending == ExitCode.WRONG_INPUT, shown.out
    assert shown.err.startswith("error: memory: not enough of it")


@contextmanager
def listening(answer: bytes, pause_s: float) -> Iterator[str]:
    """A server that takes a request and sends its answer a byte at a time."""
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set():
            with suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    for each in answer:
                        connection.sendall(bytes([each]))
                        ended.wait(pause_s)

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            ended.set()
            thread.join()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "pause_s"), [(b"HTTP", 2.0), (HEAD + b" " * 1000, 0.02)], ids=["silent", "trickling"]
)
def test_a_prometheus_that_is_slow_is_given_up_and_named(answer: bytes, pause_s: float) -> None:
    with listening(answer, pause_s) as address:
        asking = PrometheusClient(address, HttpSettings(timeout_s=0.3, retries=0), pause=lambda _: None)
        with pytest.raises(InputError, match="cannot be reached"):
            asking.range("up", start_s=0.0, end_s=60.0, step_s=60.0)
        asking.close()


def test_a_prometheus_that_answers_for_other_times_is_not_followed() -> None:
    values = [[60.0, "1"], [120.0, "2"], [86_400.0 * 365, "1e9"]]
    document = {"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {}, "values": values}]}}
    body = json.dumps(document).encode()
    with listening(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body, 0.0) as address:
        asking = PrometheusClient(address, HttpSettings(), pause=lambda _: None)
        found = asking.range("up", start_s=0.0, end_s=120.0, step_s=60.0)
        asking.close()
    assert [each.values for each in found.series] == [(1.0, 2.0)]
    assert any("not requested" in each for each in found.warnings)
