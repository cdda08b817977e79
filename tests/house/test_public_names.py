"""What `import ullage` offers is small, whole and light."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ullage


def test_a_dozen_names_at_most() -> None:
    assert len(ullage.__all__) <= 12
    assert dir(ullage) == sorted(ullage.__all__)


@pytest.mark.parametrize("name", ullage.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(ullage, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'plann'"):
        ullage.plann  # noqa: B018


def test_verbs_stay_functions_whatever_was_imported_before() -> None:
    program = "import ullage.planning.spec, ullage.verbs.plan, ullage; print(callable(ullage.verbs.plan))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "True\n"


@pytest.mark.parametrize(
    "arguments", [["-c", "import ullage"], ["-m", "ullage", "--help"], ["-m", "ullage", "--version"]]
)
def test_starting_imports_nothing_heavy(arguments: list[str]) -> None:
    run = subprocess.run([sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True, check=True)
    loaded = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in run.stderr.splitlines()}
    assert loaded.isdisjoint({"numpy", "numba", "duckdb", "rich", "typer", "scipy", "pydantic", "yaml"})
