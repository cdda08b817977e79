"""The import contracts hold, and catch what they are for, by name."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PLANTED = {
    # An upward import: memory is below planning.
    "memory/planted_upward.py": "from ullage.planning import spec\n",
    # A sibling import: report and readers stand on one line.
    "report/planted_sibling.py": "from ullage.readers import models\n",
    # The outside world in the core.
    "cost/planted_os.py": "import os\n",
    # A second model of a pool under load.
    "fleet/planted_simulator.py": "from ullage.simulate.simulation import simulate\n",
}


def _lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache", "--config", root / "pyproject.toml"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_planted_imports_are_caught_by_name(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src")
    for where, source in PLANTED.items():
        (tmp_path / "src" / "ullage" / where).write_text(source)
    run = _lint_imports(tmp_path)
    assert run.returncode != 0
    assert "ullage.memory.planted_upward -> ullage.planning" in run.stdout
    assert "ullage.report.planted_sibling -> ullage.readers" in run.stdout
    assert "ullage.cost.planted_os -> os" in run.stdout
    assert "ullage.fleet.planted_simulator -> ullage.simulate.simulation" in run.stdout


def test_nobody_gets_the_simulator_from_its_package_either() -> None:
    """The package hands `simulate` to users; a module of ours that took it there would pass the contract."""
    source = ROOT / "src" / "ullage"
    found = [
        str(file.relative_to(source))
        for file in sorted(source.rglob("*.py"))
        if not file.is_relative_to(source / "simulate") and "from ullage.simulate import" in (text := file.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        and node.module == "ullage.simulate"
        and any(name.name == "simulate" for name in node.names)
    ]
    assert found == []


@pytest.mark.slow
def test_a_package_outside_the_layers_is_caught(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src")
    (tmp_path / "src" / "ullage" / "helpers.py").write_text("")
    run = _lint_imports(tmp_path)
    assert run.returncode != 0
    assert "helpers" in run.stdout + run.stderr
