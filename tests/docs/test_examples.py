"""Every example in the documentation runs and prints what the page says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support import docs_examples
from support.docs_examples import ROOT, blocks, commands, matches, pages, run, run_python

WITH_EXAMPLES = [page for page in pages() if any(blocks(page.read_text()))]


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_page_prints_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for kind, block in blocks(page.read_text()):
        if kind == "console":
            for each in commands(block):
                printed = run(each.typed, tmp_path)
                assert matches(each.printed, printed), f"$ {each.typed}\n{printed}\n(`make docs-record` renews it)"
        else:
            run_python(kind, block, names, str(page))


def test_no_page_records_a_crash() -> None:
    """An example that no longer runs is mended, not recorded: what it prints names files of one machine."""
    crashed = [
        str(page.relative_to(ROOT))
        for page in WITH_EXAMPLES
        for kind, block in blocks(page.read_text())
        if kind == "console" and any("Traceback (most recent call last)" in each.printed for each in commands(block))
    ]
    assert crashed == []


def test_a_wrong_output_does_not_match() -> None:
    assert matches("one\n...\nfour", "one\ntwo\nthree\nfour")
    assert matches("one\n...", "one\ntwo")
    assert not matches("one\ntwo", "one\nthree")
    assert not matches("one", "one\ntwo")


def test_an_ending_is_shown(tmp_path: Path) -> None:
    assert run("echo out; echo err >&2; exit 3", tmp_path) == "out\nerr\n[exit 3]"
    assert run("echo out; echo err >&2", tmp_path) == "out"


@pytest.mark.slow
def test_ullage_is_the_same_here_and_in_a_shell(tmp_path: Path) -> None:
    for typed in ("ullage --version", "ullage facts devices h100 | head -n 3", "ullage plan 'no such.yaml'"):
        here = docs_examples._run_here(typed, tmp_path)
        shell = docs_examples._run_in_bash(typed, tmp_path)
        assert here is not None
        assert (here.returncode, here.stdout) == (shell.returncode, shell.stdout)
        assert here.stderr == shell.stderr
    assert run("ullage facts devices h100 --json > h100.json", tmp_path) == ""
    assert json.loads((tmp_path / "h100.json").read_text())["sheets"]


@pytest.mark.parametrize("typed", ["head plan.yaml", "ullage plan *.yaml", "ullage plan; true", "ullage plan $FILE"])
def test_what_a_shell_would_change_is_left_to_it(typed: str, tmp_path: Path) -> None:
    assert docs_examples._run_here(typed, tmp_path) is None


def test_commands_go_on_over_lines() -> None:
    (one,) = commands("$ cat <<END\n> text\n> END\ntext\n")
    assert one.typed == "cat <<END\ntext\nEND"
    assert one.printed == "text"
    assert os.linesep == "\n"
