"""A pytest plugin that writes how long every test took that passed: from its set-up to the end of its call."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

_took_s: defaultdict[str, float] = defaultdict(float)
_not_passed: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _took_s[report.nodeid] += 0.0 if report.when == "teardown" else report.duration
    if not report.passed:
        _not_passed.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        passed = {name: took for name, took in _took_s.items() if name not in _not_passed}
        Path(os.environ["ULLAGE_TIMES"]).write_text(json.dumps(passed))
