"""bench/RESULTS.md: its links lead to sections, and the commands it names exist."""

from __future__ import annotations

import re

import pytest

from support.tidy import ROOT

RESULTS = (ROOT / "bench" / "RESULTS.md").read_text()


def anchor(heading: str) -> str:
    """The anchor that a forge gives a heading: lower case, without punctuation, spaces as hyphens."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def broken_links(text: str) -> list[str]:
    anchors = {anchor(line.lstrip("#").strip()) for line in text.splitlines() if line.startswith("#")}
    return [target for target in re.findall(r"\]\(#([^)]*)\)", text) if target not in anchors]


def test_every_link_leads_to_a_section() -> None:
    assert broken_links(RESULTS) == []


def test_a_link_to_a_renamed_section_is_named() -> None:
    text = "## Targets\n[Risk](#risk) [Seeds](#the-seed-law-make-bench-seeds)\n## Risk\n"
    assert broken_links(text) == ["the-seed-law-make-bench-seeds"]
    assert broken_links(f"{text}## The seed law (`make bench-seeds`)\n") == []


@pytest.mark.parametrize("target", sorted(set(re.findall(r"`make ([a-z-]+)", RESULTS))))
def test_every_command_is_a_target_of_the_makefile(target: str) -> None:
    assert re.search(rf"\b{target}\b", (ROOT / "Makefile").read_text())
