"""The reference is complete: every verb, exit code and word of the vocabulary has its place."""

from __future__ import annotations

import re

import pytest

from support.docs_examples import ROOT, pages
from ullage.cli.help import COMMANDS
from ullage.errors import ExitCode
from ullage.evidence import Evidence

VOCABULARY = (
    "request, class, tenant, product, task, success, goodput, device, replica, node, zone, region, pool, step, "
    "step model, service curve, knee, operating point, headroom, reserve, warm, time to ready, burst budget, shed, "
    "evidence, assumption, trial, scenario, replication, forecast, shortfall, price book, bill, attribution, "
    "reconcile, SLO, nominal, conservative, stated value, reported value, provenance, anomaly, warning, diff, "
    "check result"
).split(", ")


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_verb_is_in_the_reference(verb: str) -> None:
    assert f"$ ullage {verb} --help" in (ROOT / "docs/reference/cli.md").read_text()


@pytest.mark.parametrize("code", ExitCode)
def test_every_exit_code_is_documented(code: ExitCode) -> None:
    assert f"| {code.value} |" in (ROOT / "docs/reference/exit-codes.md").read_text()


@pytest.mark.parametrize("word", VOCABULARY)
def test_every_word_is_in_the_glossary(word: str) -> None:
    assert re.search(rf"^\| \*\*{word}\*\* \|", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("evidence", Evidence)
def test_every_class_of_evidence_is_explained(evidence: Evidence) -> None:
    assert f"| `{evidence}` |" in (ROOT / "docs/explanation/evidence.md").read_text()


def test_every_page_is_in_the_contents() -> None:
    docs = ROOT / "docs"
    for page in pages():
        if page == ROOT / "README.md" or page.name == "index.md":
            continue
        index = (page.parent if page.parent != docs else docs) / "index.md"
        assert re.search(rf"^{re.escape(page.stem)}$", index.read_text(), re.MULTILINE), (
            f"{page} is in no table of contents"
        )


def test_links_between_pages_lead_somewhere() -> None:
    for page in pages():
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"
