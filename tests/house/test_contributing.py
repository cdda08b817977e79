"""What CONTRIBUTING says about folders and files is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "ullage"
TEXT = (ROOT / "CONTRIBUTING.md").read_text()


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found.group(1)


def rows(title: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def test_ten_changes_have_a_file_that_exists() -> None:
    changes = rows("Where would this go")
    assert len(changes) == 10
    for change, where in changes:
        named = re.findall(r"`([^`]+)`", where)
        assert named, change
        for each in named:
            assert (SOURCE / each).exists(), f"{change}: {each}"


def test_each_change_goes_to_another_place() -> None:
    places = [re.findall(r"`([^`]+)`", where)[0] for _, where in rows("Where would this go")]
    assert len({Path(each).parent for each in places}) == 10


def test_every_package_is_in_the_table_and_every_folder_named_there_exists() -> None:
    cells = rows("Where things are")
    named = {each for row in cells for each in re.findall(r"`([a-z_/.]+)`", " ".join(row))}
    for each in named:
        assert (SOURCE / each).exists(), each
    packages = {each.parent.name for each in SOURCE.glob("*/__init__.py")}
    assert packages <= {each.split("/", 1)[0] for each in named}


@pytest.mark.parametrize("target", re.findall(r"`?make ([a-z-]+)", TEXT))
def test_every_make_target_that_is_named_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target
