"""One running service for all tests that only ask it something."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.services import RunningService, running_service, token_file


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder: Path = tmp_path_factory.mktemp("service")
    tokens, ledger = token_file(folder), folder / "ledger.sqlite"
    more = ("--requests-per-s", "500", "--jobs", "2")
    with running_service(folder, "--token-file", str(tokens), "--ledger", str(ledger), *more) as found:
        yield found
