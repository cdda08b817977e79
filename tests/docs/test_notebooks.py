"""Every notebook runs from the top in a fresh namespace, and what its cells end in can be shown."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from support.docs_examples import ROOT
from support.kept_plans import kept_plans

NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))


def code_cells(notebook: Path) -> list[str]:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(each["source"]) for each in cells if each["cell_type"] == "code"]


def run_cell(source: str, names: dict[str, Any], where: str) -> object:
    """As a notebook does: statements are executed, and the value of a last expression is what is shown."""
    tree = ast.parse(source, filename=where)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, where, "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), where, "eval"), names)


def test_there_is_a_notebook_and_it_is_one() -> None:
    assert NOTEBOOKS
    for each in NOTEBOOKS:
        found = json.loads(each.read_text(encoding="utf-8"))
        assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
        # Outputs would be somebody's machine and day: who runs it sees their own.
        assert all(not cell["outputs"] for cell in found["cells"] if cell["cell_type"] == "code")
        assert len({cell["id"] for cell in found["cells"]}) == len(found["cells"])


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda each: each.stem)
def test_every_cell_runs_and_shows_something(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, source in enumerate(code_cells(notebook)):
        with kept_plans():
            shown = run_cell(source, names, f"{notebook.name}[{number}]")
        printed = capsys.readouterr().out
        if hasattr(shown, "_repr_html_"):
            assert "<" in shown._repr_html_()
        assert shown is not None or printed or number == 0, f"cell {number} shows nothing"


def test_a_cell_that_fails_fails_the_test() -> None:
    with pytest.raises(ZeroDivisionError):
        run_cell("1 / 0", {}, "planted")
    assert run_cell("x = 2\nx + 1", {}, "planted") == 3
