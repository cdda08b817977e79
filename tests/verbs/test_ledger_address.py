"""Which ledger is meant: the one that was named, that of the environment, or the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.errors import InputError
from ullage.verbs.ledger import ledger_address


def test_what_is_named_goes_before_the_environment_and_that_before_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("ULLAGE_LEDGER", raising=False)
    own = tmp_path / "home" / ".local" / "share" / "ullage" / "ledger.sqlite"
    assert ledger_address() == str(own)
    assert not own.parent.exists()
    assert ledger_address(create=True) == str(own)
    assert own.parent.is_dir()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert ledger_address() == str(tmp_path / "data" / "ullage" / "ledger.sqlite")
    monkeypatch.setenv("ULLAGE_LEDGER", "postgresql://host/name")
    assert ledger_address() == "postgresql://host/name"
    assert ledger_address(Path("named.sqlite")) == "named.sqlite"


def test_without_a_home_a_ledger_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_DATA_HOME", "ULLAGE_LEDGER"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match=r"ledger.*no home folder.*--ledger or ULLAGE_LEDGER"):
        ledger_address()
