"""A short round of `make fuzz`, and every anomaly that it ever had."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.fuzz import ANOMALIES, ANSWER, CASES, PLACED, coverage_of, ending, search
from support.fuzz_families import FAMILIES, Family

pytestmark = pytest.mark.slow

# A trace takes a database and a profile for each case, a verb a plan, the others a parser.
SHORT = {"traces": 16, "plans": 60, "verbs": 9}
KEPT = sorted(CASES.glob("*/*"))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda each: each.name)
def test_damaged_files_are_answered_or_refused_with_their_place(family: Family) -> None:
    found = search(family, cases=SHORT.get(family.name, 250), seed=1)
    assert {each: found.outcomes[each] for each in ANOMALIES} == dict.fromkeys(ANOMALIES, 0), found.anomalies
    assert found.outcomes[ANSWER] > 0, "seeds are read"
    assert found.coverage.reached


@pytest.mark.parametrize("case", KEPT, ids=lambda each: f"{each.parent.name}/{each.name}")
def test_an_anomaly_stays_mended(case: Path, tmp_path: Path) -> None:
    assert ending(FAMILIES[case.parent.name], case.read_bytes(), tmp_path).outcome in (ANSWER, PLACED)


def test_the_search_tells_a_fault_from_a_refusal(tmp_path: Path) -> None:
    def broken(_file: Path) -> None:
        raise ZeroDivisionError

    family = FAMILIES["configs"]
    faulty = Family(name="x", seeds=family.seeds, read=broken, packages=family.packages, suffixes=family.suffixes)
    assert ending(faulty, b"{}", tmp_path).outcome == "exit 4"
    assert ending(family, b"{}", tmp_path).outcome == PLACED
    assert search(faulty, cases=3).anomalies


def test_lines_are_counted_in_functions_alone() -> None:
    found = coverage_of(("readers/models",))
    assert found.lines
    assert not found.reached
