"""schemathesis against the running service: no fault of ours, no answer that is not described."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.described import probe
from support.services import running_service, token_file
from ullage.serve.requests import REQUESTS


@pytest.mark.slow
def test_what_is_answered_is_what_is_described(tmp_path: Path) -> None:
    options = ("--token-file", str(token_file(tmp_path)), "--ledger", str(tmp_path / "l.sqlite"), "--jobs", "1")
    with running_service(tmp_path, *options, "--requests-per-s", "500") as service, service.client() as client:
        found = probe(client, seconds=10.0)
        assert service.process.poll() is None
    assert not [status for status in found.by_status if status >= 500], found
    assert len(found.by_operation) == len(REQUESTS) + 9, sorted(found.by_operation)
    assert {200, 422} <= set(found.by_status)
