"""What `import ullage` offers is small, whole and light."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import ullage
from ullage.cli.help import VERBS


def test_what_is_offered_is_listed() -> None:
    assert dir(ullage) == sorted(ullage.__all__)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_a_function_of_the_package(verb: str) -> None:
    packages = {each.name for each in pkgutil.iter_modules(ullage.__path__)}
    (name,) = [name for name, called in ullage.RENAMED_VERBS.items() if called == verb] or [verb]
    assert getattr(ullage, name) is getattr(ullage.verbs, verb)
    assert name not in packages, "an import of that package would take the verb's place"


@pytest.mark.parametrize("name", ullage.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(ullage, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'plann'"):
        ullage.plann  # noqa: B018


@pytest.mark.slow
def test_verbs_stay_functions_whatever_was_imported_before() -> None:
    program = """
import ullage.planning.spec, ullage.verbs.plan, ullage.memory.budget, ullage.cost.bill, ullage.simulate, ullage
print(all(callable(getattr(ullage.verbs, each)) for each in ullage.verbs.__all__), callable(ullage.plan))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "True True\n"


@pytest.mark.parametrize(
    "arguments", [["-c", "import ullage"], ["-m", "ullage", "--help"], ["-m", "ullage", "--version"]]
)
def test_starting_imports_nothing_heavy(arguments: list[str]) -> None:
    run = subprocess.run([sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True, check=True)
    loaded = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in run.stderr.splitlines()}
    assert loaded.isdisjoint({"numpy", "numba", "duckdb", "rich", "typer", "scipy", "pydantic", "yaml"})


@pytest.mark.parametrize("arguments", [["facts", "devices"], ["facts", "models", "llama-3.1-8b"]])
def test_facts_are_shown_without_the_simulator(arguments: list[str]) -> None:
    program = f"""
import sys
from ullage.cli.app import run
code = run({arguments!r})
heavy = {{"numba", "numpy", "duckdb", "scipy", "yaml", "ullage.simulate", "ullage.planning"}}
print(code, sorted(heavy & set(sys.modules)), file=sys.stderr)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stderr == "0 []\n"
