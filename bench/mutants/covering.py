"""Which tests run a line, and how long each takes: gathered once, and again for test files that changed since.

A line counts as run by a test where it ran during the test or its set-up. What a fixture or a cache keeps is run by
the first test that asks for it and checked by its neighbours, so the other tests of the same file follow.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "ullage"
# Recorded pages are no tests here: whoever records them anew accepts the bug. The house's own rules run no lines.
LEFT_OUT = ("tests/docs", "tests/house")
_SETTINGS = "[run]\nsource_pkgs = ullage\n"
# A line that fewer tests run than this is one of an import or a cache: the tests of its package are asked too.
_FEW = 4
# Tests longer than this are asked when all others have passed.
_LONG_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Covering:
    """The tests of every line, from the folder that keeps what was gathered."""

    folder: Path

    @cached_property
    def took_s(self) -> dict[str, float]:
        """Every test that passed, and its seconds."""
        times: dict[str, float] = json.loads((self.folder / "times.json").read_text())
        return times

    @cached_property
    def _data(self) -> Any:
        from coverage import CoverageData

        data = CoverageData(basename=str(self.folder / "coverage"))
        data.read()
        return data

    def tests(self, path: Path, lines: range) -> list[str]:
        """The tests to ask about these lines: those that run them, fastest first, then the others of their files."""
        by_line: dict[int, list[str]] = self._data.contexts_by_lineno(str(path))
        direct = {_test(context) for line in lines for context in by_line.get(line, ())}
        if len(direct) < _FEW:
            near = {_test(context) for contexts in by_line.values() for context in contexts}
            package = path.relative_to(SOURCE).parts[0].removesuffix(".py")
            near |= {each for each in self.took_s if each.startswith(f"tests/{package}/")}
        else:
            files = {each.split("::")[0] for each in direct}
            near = {each for each in self.took_s if each.split("::")[0] in files}
        known = [each for each in direct | near if each in self.took_s]
        return sorted(known, key=lambda each: (self.took_s[each] > _LONG_S, each not in direct, self.took_s[each]))


def _test(context: str) -> str:
    """The test of a context such as `tests/a.py::b|run`."""
    return context.split("|", 1)[0]


def gathered(folder: Path, *, workers: int, quick: bool, keep: bool) -> Covering:
    """What runs what, gathered anew where the source changed, and for changed tests alone where it did not.

    `quick` leaves out the slow tests; `keep` takes what was gathered though the source changed since.
    """
    folder.mkdir(parents=True, exist_ok=True)
    known, now = _read(folder / "hashes.json"), _hashes(quick)
    changed = [each for each in now if each.startswith("tests/") and now[each] != known.get(each)]
    if not known or (not keep and any(now[each] != known[each] for each in _WHOLE)):
        _gather(folder, [], workers=workers, quick=quick)
    elif changed:
        _gather(folder, changed, workers=workers, quick=quick)
    kept = {each: known[each] for each in _WHOLE} if keep and known else {}
    (folder / "hashes.json").write_text(json.dumps({**now, **kept}))
    return Covering(folder=folder)


_WHOLE = ("source", "support", "quick")


def _hashes(quick: bool) -> dict[str, str]:
    """What the answer depends on: all of the source, what tests share, and every test file by itself."""
    tests = ROOT / "tests"
    files = {str(each.relative_to(ROOT)): each for each in sorted(tests.rglob("test_*.py"))}
    return {
        "source": _hash(SOURCE.rglob("*.py")),
        "support": _hash([*tests.rglob("conftest.py"), *(tests / "support").rglob("*.py")]),
        "quick": str(quick),
        **{name: _hash([each]) for name, each in files.items() if not name.startswith(LEFT_OUT)},
    }


def _gather(folder: Path, files: list[str], *, workers: int, quick: bool) -> None:
    """Run the tests under coverage, each under its own name."""
    settings, times, fresh = (folder / each for each in ("coveragerc", "times.json", "times-fresh.json"))
    settings.write_text(_SETTINGS)
    fresh.unlink(missing_ok=True)
    command = [
        sys.executable, "-m", "pytest", "-q", "-n", str(0 if files else workers), *_slow(quick),
        "-p", "bench.mutants.timing", "--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report=",
        *(f"--ignore={each}" for each in LEFT_OUT), *(["--cov-append"] if files else []), *files,
    ]  # fmt: skip
    print(f"gathering which tests run which lines, of {len(files) or 'all'} files", file=sys.stderr, flush=True)
    # A plan that the session keeps would run its lines in the first test that asks for it, and in no other.
    env = {
        **environment(),
        "ULLAGE_TEST_NOTHING_KEPT": "1",
        "COVERAGE_FILE": str(folder / "coverage"),
        "ULLAGE_TIMES": str(fresh),
    }
    ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    (folder / "gather.log").write_text(ended.stdout + ended.stderr)
    if ended.returncode not in (0, 1, 5) or not fresh.exists():
        raise SystemExit(f"the tests do not run: {folder / 'gather.log'}")
    if ended.returncode == 1:
        failed = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        print("these fail without a mutant and are not asked:", *failed, sep="\n", file=sys.stderr)
    times.write_text(json.dumps({**(_read(times) if files else {}), **_read(fresh)}))


def _slow(quick: bool) -> list[str]:
    return ["-m", "not slow"] if quick else []


def environment() -> dict[str, str]:
    """That of the tests, with the hook that reads mutants."""
    paths = [ROOT / "bench" / "mutants" / "hook", ROOT / "src", ROOT / "tests", ROOT]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(str(each) for each in paths)}


def _read(path: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    return found


def _hash(paths: Iterable[Path]) -> str:
    made = hashlib.sha256()
    for each in sorted(paths):
        made.update(each.read_bytes())
    return made.hexdigest()
