"""What outlives the service: kept plans, whatever happens to its process; and nothing of its processes themselves."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from support.postgres import server
from support.services import running_service, token_file
from ullage import verbs
from ullage.verbs.ledger import LedgerAnswer


def children_of(pid: int) -> list[int]:
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = each.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(each.parent.name))
    return found


@pytest.mark.slow
def test_a_killed_service_loses_no_kept_plan_and_leaves_no_process(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    small = {"set": {"workload.classes.chat.rate": "1 req/s"}, "quick": True, "keep": True}
    options = ("--token-file", str(token_file(tmp_path)), "--ledger", str(ledger))
    with running_service(tmp_path, *options) as service, service.client() as client:
        kept = client.post("/v1/plan", json=small, params={"wait": 60})
        while kept.status_code == 202:
            kept = client.get(f"/v1/jobs/{kept.json()['id']}/result", params={"wait": 60})
        assert kept.status_code == 200, kept.text
        under_way = client.post("/v1/plan", json={**small, "seed": 5}, params={"wait": 0}).json()["id"]
        until_s = time.monotonic() + 30.0
        while client.get(f"/v1/jobs/{under_way}").json()["state"] != "running" and time.monotonic() < until_s:
            time.sleep(0.05)
        (first,) = children_of(service.process.pid)
        os.kill(service.process.pid, signal.SIGKILL)
        service.process.wait()
        until_s = time.monotonic() + 20.0
        while (Path(f"/proc/{first}").exists() or children_of(first)) and time.monotonic() < until_s:
            time.sleep(0.05)
        assert not Path(f"/proc/{first}").exists()
    found = verbs.ledger("verify", ledger=ledger)
    assert isinstance(found, LedgerAnswer)
    assert (found.seen_count, found.damage) == (1, ())
    with running_service(tmp_path, *options) as again, again.client() as client:
        listed = client.post("/v1/ledger", json={"action": "list"}).json()
        assert [each["kind"] for each in listed["entries"]] == ["plan"]


@pytest.mark.slow
def test_a_first_process_that_dies_is_started_again(tmp_path: Path) -> None:
    with running_service(tmp_path) as service, service.client(None) as client:
        (first,) = children_of(service.process.pid)
        os.kill(first, signal.SIGKILL)
        until_s = time.monotonic() + 120.0
        found = client.post("/v1/facts", json={"kind": "engines"})
        while found.status_code != 200 and time.monotonic() < until_s:
            assert found.status_code in (503, 422), found.text
            time.sleep(0.3)
            found = client.post("/v1/facts", json={"kind": "engines"})
        assert found.status_code == 200
        assert children_of(service.process.pid) != [first]


@pytest.mark.slow
def test_a_ledger_may_be_a_database(tmp_path: Path) -> None:
    with server() as database, running_service(tmp_path, ULLAGE_LEDGER=database.address) as service:
        with service.client(None) as client:
            assert client.get("/v1").json()["keeps"] is True
            for action in ("list", "verify"):
                found = client.post("/v1/ledger", json={"action": action}, params={"wait": 60})
                assert (found.status_code, found.json()["entries"]) == (200, []), found.text
        assert "ullage@" not in service.log.read_text()
