"""Where the published data is absent, the tests that need it are skipped, counted and explained."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]


@pytest.mark.slow
def test_absence_is_counted(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    tests = Path(__file__).resolve().parents[1]
    monkeypatch.syspath_prepend(str(tests))
    pytester.makeconftest((tests / "conftest.py").read_text())
    pytester.makepyfile(
        """
        import support.shared_data
        support.shared_data.find_shared_data = lambda: None
        import conftest
        conftest.find_shared_data = lambda: None

        def test_one(shared_data): pass
        def test_two(shared_data): pass
        def test_three(): pass
        """
    )
    run = pytester.runpytest("-p", "no:cacheprovider")
    run.assert_outcomes(passed=1, skipped=2)
    run.stdout.fnmatch_lines(["2 tests skipped: ../shared/data is absent*"])
