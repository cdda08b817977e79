"""One mutant against its tests, in a process of its own that is forked with the libraries imported already."""

from __future__ import annotations

import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# The quickest tests of a few files run before the others are even collected: most mutants go no further.
_FIRST_TESTS, _FIRST_FILES = 30, 4
_SPARE_S = 30
BROKEN = 70
"""What a child ends with where the trial itself failed, which says nothing about the mutant."""
_IMPORTED = "hypothesis numpy numba duckdb pydantic scipy.optimize rich.console typer yaml jsonschema coverage".split()


def import_libraries() -> None:
    """What every child would import for itself. Nothing of the package is among it."""
    for name in _IMPORTED:
        __import__(name)
    if any(each == "ullage" or each.startswith("ullage.") for each in sys.modules):
        raise SystemExit("the package is imported already: its mutants would not be seen")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A module, its mutant and the tests to ask, within so many CPU seconds."""

    module: str
    source: str
    tests: Sequence[str]
    tests_s: float

    def start(self, told: Path) -> int:
        """The process that runs it; it writes who saw the mutant to `told` and ends with pytest's code."""
        child = os.fork()
        if child:
            return child
        try:
            code = self._run(told)
        except BaseException as error:  # noqa: BLE001 - a child must end here, whatever happened in it
            told.write_text(repr(error))
            code = BROKEN
        os._exit(code)

    def _run(self, told: Path) -> int:
        limit_s = int(3.0 * self.tests_s) + _SPARE_S
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5))
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        folder = Path(tempfile.mkdtemp(prefix="mutant-"))
        mutant = folder / "mutant.py"
        mutant.write_text(self.source)
        os.environ["ULLAGE_MUTANT"] = f"{self.module}={mutant}"
        seen = _Seen()
        try:
            first = _first(self.tests)
            for tests in (first, [each for each in self.tests if each not in first]):
                code = _asked(tests, folder / "basetemp", seen) if tests else 0
                if code:
                    told.write_text(seen.by or f"collection, code {code}")
                    return 1
            return 0
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _first(tests: Sequence[str]) -> list[str]:
    files: list[str] = []
    chosen = []
    for test in tests:
        file = test.split("::", 1)[0]
        if file not in files and len(files) < _FIRST_FILES:
            files.append(file)
        if file in files:
            chosen.append(test)
    return chosen[:_FIRST_TESTS]


class _Seen:
    """The first test that failed."""

    by = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.by:
            self.by = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.by:
            self.by = f"import of {report.nodeid}"


def _asked(tests: Sequence[str], basetemp: Path, seen: _Seen) -> int:
    options = [
        "-x",
        "--assert=plain",
        "-q",
        "-n",
        "0",
        "--tb=no",
        "--no-header",
        "--disable-warnings",
        f"--basetemp={basetemp}",
    ]
    return int(pytest.main([*options, *tests], plugins=[seen]))
