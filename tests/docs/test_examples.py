"""Every example in the documentation runs and prints what the page says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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


def test_a_wrong_output_does_not_match() -> None:
    assert matches("one\n...\nfour", "one\ntwo\nthree\nfour")
    assert matches("one\n...", "one\ntwo")
    assert not matches("one\ntwo", "one\nthree")
    assert not matches("one", "one\ntwo")


def test_an_ending_is_shown(tmp_path: Path) -> None:
    assert run("echo out; echo err >&2; exit 3", tmp_path) == "out\nerr\n[exit 3]"
    assert run("echo out; echo err >&2", tmp_path) == "out"


def test_commands_go_on_over_lines() -> None:
    (one,) = commands("$ cat <<END\n> text\n> END\ntext\n")
    assert one.typed == "cat <<END\ntext\nEND"
    assert one.printed == "text"
    assert os.linesep == "\n"
