"""What a release is made of: bill of materials, licences, advisories, and a build that takes nothing from outside."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from email.message import Message
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripts.supply.audit import AuditResult, exit_status, npm_answer, pip_answer
from scripts.supply.licences import ALLOWED, DECIDED, is_allowed, judged, rows, stated_licence
from scripts.supply.locked import ROOT, page_packages, python_packages, python_pins
from scripts.supply.sbom import bill_of_materials

PYPROJECT_SOURCES = (
    "pyproject.toml",
    "requirements",
    "page/package.json",
    "page/package-lock.json",
    "src/ullage/__init__.py",
)


def copied_locks(to: Path) -> Path:
    for each in PYPROJECT_SOURCES:
        target = to / each
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / each).is_dir() else shutil.copy)(ROOT / each, target)
    return to


def test_the_bill_names_every_pin_of_every_lock_once_with_all_its_hashes() -> None:
    components = bill_of_materials()["components"]
    assert len({each["bom-ref"] for each in components}) == len(components)
    sums = {each["purl"]: {one["content"] for one in each["hashes"]} for each in components}
    for lock in ("run", "serve", "dev"):
        text = (ROOT / "requirements" / f"{lock}.txt").read_text()
        pins = list(python_pins(text))
        assert sum(len(hashes) for *_, hashes in pins) == text.count("--hash=sha256:")
        for name, version, _, hashes in pins:
            assert sums[f"pkg:pypi/{name}@{version}"] == set(hashes)
    page = json.loads((ROOT / "page/package-lock.json").read_text())["packages"]
    assert {each.purl for each in page_packages()} == {purl for purl in sums if purl.startswith("pkg:npm/")}
    assert len(page_packages()) <= len(page) - 1


def test_the_bill_is_the_same_twice_and_another_lock_has_another_number(tmp_path: Path) -> None:
    root = copied_locks(tmp_path)
    assert json.dumps(bill_of_materials(root)) == json.dumps(bill_of_materials())
    lock = root / "requirements/run.txt"
    lock.write_text(lock.read_text() + f"planted-package==1.0 \\\n    --hash=sha256:{'ab' * 32}\n")
    changed = bill_of_materials(root)
    (planted,) = [each for each in changed["components"] if each["name"] == "planted-package"]
    assert (planted["scope"], planted["purl"]) == ("required", "pkg:pypi/planted-package@1.0")
    assert changed["serialNumber"] != bill_of_materials()["serialNumber"]


def test_what_is_not_pinned_is_refused() -> None:
    with pytest.raises(ValueError, match="not a pin: rich>=14"):
        list(python_pins("rich>=14\n"))


def test_direct_dependencies_are_those_of_the_project() -> None:
    (own,) = bill_of_materials()["dependencies"]
    named = {re.sub(r"@[^@]+$", "", each) for each in own["dependsOn"]}
    assert {"pkg:pypi/duckdb", "pkg:pypi/numpy", "pkg:npm/preact"} <= named
    assert "pkg:pypi/llvmlite" not in named


def test_every_package_a_user_runs_has_an_allowed_licence() -> None:
    found, _ = rows()
    assert [each for each in found if not each.is_fine] == []
    shipped = {each.name for each in python_packages() if each.scope == "required" and not each.marker}
    assert shipped <= {each.name for each in found}


@given(st.lists(st.sampled_from(sorted(ALLOWED)), min_size=1), st.sampled_from(["GPL-3.0-only", "SSPL-1.0", "mit"]))
def test_one_licence_too_many_is_not_allowed_and_a_choice_is(some: list[str], other: str) -> None:
    all_of = " AND ".join(some)
    assert is_allowed(all_of)
    assert not is_allowed(f"{all_of} AND {other}")
    assert not is_allowed(f"({all_of} OR {other}) AND {other}")
    assert is_allowed(f"{other} OR ({all_of})")
    assert not is_allowed(f"({all_of}")


def test_a_decision_holds_for_its_package_alone() -> None:
    (name, licence), *_ = DECIDED
    assert judged(name, "1", licence).is_fine
    assert not judged("another", "1", licence).is_fine
    assert judged("another", "1", "").verdict == "UNKNOWN"


def test_old_metadata_is_read_and_a_whole_licence_text_is_not_taken_for_a_name() -> None:
    old = Message()
    old["Classifier"] = "License :: OSI Approved :: MIT License"
    old["License"] = "anything"
    assert stated_licence(old) == "MIT"  # type: ignore[arg-type]
    text = Message()
    text["License"] = "Permission is hereby granted " * 9
    assert stated_licence(text) == ""  # type: ignore[arg-type]


def test_an_advisory_fails_and_no_answer_is_not_a_clean_one() -> None:
    clean = {"name": "rich", "version": "15.0.0", "vulns": []}
    bad = {"name": "idna", "version": "3.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.7"]}]}
    unknown = {"name": "own", "skip_reason": "not found on PyPI"}
    fine = pip_answer("a", json.dumps({"dependencies": [clean]}), "")
    assert (exit_status([fine]), fine.packages) == (0, 1)
    found = pip_answer("a", json.dumps({"dependencies": [clean, bad]}), "")
    assert found.advisories == ("idna 3.0: PYSEC-1, fixed in 3.7",)
    skipped = pip_answer("a", json.dumps({"dependencies": [clean, unknown]}), "")
    assert skipped.unasked == "1 of 2 packages, first not found on PyPI"
    down = pip_answer("a", "", "Traceback\nConnectionError: no route\n")
    assert down == AuditResult(lock="a", packages=0, advisories=(), unasked="ConnectionError: no route")
    assert [exit_status(each) for each in ([fine, found, down], [fine, skipped], [fine, down])] == [1, 2, 2]


def test_what_npm_says_of_the_page_is_read() -> None:
    document = {
        "vulnerabilities": {"vite": {"severity": "high", "range": "<7.1"}},
        "metadata": {"dependencies": {"total": 66}},
    }
    assert npm_answer("page", json.dumps(document), "").advisories == ("vite: high, versions <7.1",)
    assert npm_answer("page", json.dumps({"message": "405 Method Not Allowed"}), "").unasked == "405 Method Not Allowed"


def test_the_container_copies_everything_that_its_build_needs(tmp_path: Path) -> None:
    """The build stage without an engine: what it copies, the page as another stage left it, and the build backend."""
    text = (ROOT / "deploy/Containerfile").read_text()
    stage = text.partition(" AS build\n")[2].partition("\nFROM ")[0]
    for sources, target in re.findall(r"^COPY (?!--from)(.+) (\S+)$", stage, re.MULTILINE):
        for each in sources.split():
            to = tmp_path / (each if target == "./" else target)
            to.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / each).is_dir():
                shutil.copytree(
                    ROOT / each, to, ignore=shutil.ignore_patterns("__pycache__", "page"), dirs_exist_ok=True
                )
            else:
                shutil.copy(ROOT / each, to)
    assert "COPY --from=page /source/src/ullage/report/page src/ullage/report/page" in stage
    page = tmp_path / "src/ullage/report/page/report.html"
    page.parent.mkdir()
    page.write_text("<p>as it was built")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "out")]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = (tmp_path / "out").iterdir()
    names = zipfile.ZipFile(wheel).namelist()
    assert {"ullage/report/page/report.html", "ullage/cli/__init__.py", "ullage/serve/schemas/plan.schema.json"} <= {
        *names
    }
