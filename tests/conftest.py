"""What every test can ask for: the published data set, and how many random cases to try."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from support.kept_plans import name_folder
from support.shared_data import ABSENT, find_shared_data

# quick: `make check` and `make test`; full: `make soak`. Deadlines are timing assertions, so there are none.
settings.register_profile(
    "quick", max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("full", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture(scope="session", autouse=True)
def _plans_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Workers of one session share the plans they make."""
    own = tmp_path_factory.getbasetemp()
    name_folder((own.parent if os.environ.get("PYTEST_XDIST_WORKER") else own) / "plans")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The published data set beside the repository; the test is skipped, and counted, where it is absent."""
    found = find_shared_data()
    if found is None:
        pytest.skip(ABSENT)
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [each for each in terminalreporter.stats.get("skipped", []) if ABSENT in str(each.longrepr)]
    if skipped:
        terminalreporter.write_line(f"{len(skipped)} tests skipped: {ABSENT}", yellow=True)
