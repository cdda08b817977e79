"""The pages of drills and checks say everything that the values say: verdict, numbers, what would mend it."""

from __future__ import annotations

import datetime
import io
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console, RenderableType

from ullage.evidence import Evidence, Figure, Source
from ullage.planning.checks.checks import CHECKS
from ullage.planning.checks.result import CheckAnomaly, CheckResult, Checks, CheckSeverity
from ullage.planning.drills.drills import DRILLS
from ullage.planning.drills.result import DrillResult, Drills, DrillVerdict
from ullage.report.decisions.check_page import check_list, check_page
from ullage.report.decisions.drill_page import drill_list, drill_page
from ullage.report.encode import to_json

SOURCE = Source(what="a test", where="tests", date=datetime.date(2026, 11, 15))


def shown(parts: Sequence[RenderableType]) -> str:
    console = Console(width=200, file=io.StringIO(), record=True)
    for each in parts:
        console.print(each)
    return console.export_text()


def plan_of(*pools: str) -> Any:
    """What the pages read of a plan."""
    return SimpleNamespace(
        spec=SimpleNamespace(name="assistant"),
        pools=[
            SimpleNamespace(spec=SimpleNamespace(name=each), step_model=SimpleNamespace(anomalies=())) for each in pools
        ],
        stages=(),
        as_of=datetime.date(2026, 11, 15),
        seed=3,
    )


def share(name: str, value: float) -> Figure:
    return Figure(name=name, value=value, unit="fraction", sources=(SOURCE,), own_evidence=Evidence.ESTIMATED)


FAILS = DrillResult(
    name="zone",
    title="loss of a zone",
    pool="east",
    verdict=DrillVerdict.FAILS,
    figure="requests within chat ttft_p95",
    before=share("drill.zone.before_fraction", 0.99),
    during=share("drill.zone.during_fraction", 0.372),
    wanted="95 %",
    played="4 of 8 are gone.",
    change="2 more replicas",
)
IDLE = DrillResult(
    name="tool-outage", title="tool outage", pool="", verdict=DrillVerdict.NOT_PLAYED, played="No tool."
)  # fmt: skip
DRILLED = Drills(results=(FAILS, IDLE), notes=("three runs",))

CHECKED = Checks(
    results=(
        CheckResult(
            name="unsourced-assumptions",
            compared="3 of 9",
            anomalies=(
                CheckAnomaly(
                    name="unsourced-assumptions", weight=CheckSeverity.WARNING, sentence="3 of 9 are ours", fix="Say."
                ),
            ),
        ),
        CheckResult(
            name="average-length",
            pool="east",
            compared="4 and 5",
            anomalies=(
                CheckAnomaly(
                    name="average-length",
                    weight=CheckSeverity.MISTAKE,
                    sentence="4 claimed, 5 needed",
                    fix="Buy 5.",
                    pool="east",
                ),
            ),
        ),
    )
)


def test_a_drill_page_says_verdict_figures_and_the_change() -> None:
    page = shown(drill_page(plan_of("east"), DRILLED))
    assert "1 of 1 fail" in page
    for each in ("loss of a zone", "99 %", "37.2 %", "95 %", "fails", "not played", "4 of 8 are gone.", "three runs"):
        assert each in page
    assert "Would pass: 2 more replicas." in page
    assert "pool" not in page.splitlines()[1]
    assert "east: loss of a zone" in shown(drill_page(plan_of("east", "west"), DRILLED))


def test_drills_as_json_keep_unit_and_evidence_and_null_for_what_was_not_played() -> None:
    found = to_json(DRILLED)
    assert found["failed"] == ["zone"]
    first, second = found["results"]
    assert first["during"]["value"] == 0.372
    assert (first["during"]["unit"], first["during"]["evidence"]) == ("fraction", "estimated")
    assert (second["before"], second["change"], second["pool"]) == (None, "", "")


def test_a_check_page_says_mistakes_first_with_what_mends_them() -> None:
    page = shown(check_page(plan_of("east"), CHECKED))
    assert "1 mistake, 1 warning" in page
    assert page.index("mistake average-length: 4 claimed, 5 needed.") < page.index("warning unsourced-assumptions")
    assert "Buy 5." in page
    assert "4 and 5" in page
    assert "mistake average-length: east: 4 claimed" in shown(check_page(plan_of("east", "west"), CHECKED))
    assert "no mistakes, no warnings" in shown(check_page(plan_of("east"), Checks(results=())))


def test_checks_as_json_count_what_a_pipeline_asks_for() -> None:
    found = to_json(CHECKED)
    assert (found["mistakes"], found["warnings"]) == (["average-length"], ["unsourced-assumptions"])
    assert [each["weight"] for each in found["anomalies"]] == ["mistake", "warning"]
    assert found["anomalies"][1]["pool"] == ""
    assert [each["compared"] for each in found["results"]] == ["3 of 9", "4 and 5"]


@pytest.mark.parametrize(("table", "names"), [(drill_list(), DRILLS), (check_list(), CHECKS)])
def test_lists_name_everything_that_can_be_asked_for(table: RenderableType, names: dict[str, object]) -> None:
    page = shown([table])
    assert all(name in page for name in names)
