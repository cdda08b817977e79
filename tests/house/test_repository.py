"""The repository as a newcomer finds it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_locks_pin_everything_with_hashes_and_name_no_host() -> None:
    for name in ("run", "dev", "serve"):
        lock = (ROOT / "requirements" / f"{name}.txt").read_text()
        assert "://" not in lock
        assert "--index-url" not in lock
        entries = re.split(r"\n(?=\S)", lock.strip())
        assert all("==" in entry and "--hash=sha256:" in entry for entry in entries), name


def test_the_run_lock_is_part_of_the_dev_lock() -> None:
    def pins(name: str) -> set[str]:
        return set(re.findall(r"^(\S+==\S+)", (ROOT / "requirements" / f"{name}.txt").read_text(), re.MULTILINE))

    assert pins("run") < pins("dev")


def test_every_dependency_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lock = (ROOT / "requirements" / "run.txt").read_text().lower()
    for dependency in project["dependencies"]:
        name = re.split(r"[<>=!~\[ ]", dependency)[0].lower()
        assert f"\n{name}==" in f"\n{lock}", name


def test_continuous_integration_runs_the_test_command() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text()
