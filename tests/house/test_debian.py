"""A missing Debian package fails its test with the install line, and never skips it."""

from __future__ import annotations

import pytest

from support import debian


def test_a_program_that_is_there_is_found() -> None:
    assert debian.require_program("sh", package="dash").endswith("/sh")


def test_a_missing_program_fails_with_the_line_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "can_install", lambda: False)
    with pytest.raises(pytest.fail.Exception, match="Run: sudo apt-get install prometheus"):
        debian.require_program("no-such-program", package="prometheus")
