"""A pytest plugin that writes how long every test took: from its set-up to the end of its call."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

_took_s: defaultdict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped:
        _took_s.pop(report.nodeid, None)
    elif report.when != "teardown":
        _took_s[report.nodeid] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        Path(os.environ["ULLAGE_TIMES"]).write_text(json.dumps(_took_s))
