"""Sections of the long document: every stage in one of them, no title twice, a comment that nothing breaks out of."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from support.planned import TWO_POOLS, planned
from ullage.errors import InputError
from ullage.foreign import markdown
from ullage.planning.document import Plan
from ullage.report.markdown import details, fenced, to_markdown
from ullage.report.plan.page import SECTIONS, check_sections, plan_document, plan_markdown, plan_sections
from ullage.report.tables import plain_table

PLANS = [pytest.param(None, id="built-in"), pytest.param(TWO_POOLS, id="two pools", marks=pytest.mark.slow)]


def tables(parts: list[RenderableType]) -> list[Table]:
    return [each for each in parts if isinstance(each, Table)]


def cells(table: Table, header: str) -> list[str]:
    column = next(each for each in table.columns if each.header == header)
    return [each.plain if isinstance(each, Text) else str(each) for each in column.cells]


def test_every_stage_is_in_one_section() -> None:
    listed = [name for each in SECTIONS.values() for name in each.stages]
    # Prefill and decode are apart in few plans.
    assert sorted(listed) == sorted({*(each.name for each in planned().stages), "disaggregated"})


@pytest.mark.slow
@pytest.mark.parametrize("name", SECTIONS)
def test_every_section_says_something_and_what_it_says_is_in_the_document(name: str) -> None:
    parts = plan_sections(planned(), [name], every=True)
    said = to_markdown(parts)
    assert len(said) > 20
    assert said.strip() in to_markdown(plan_document(planned())[1:])


def test_a_slip_in_a_name_is_answered_with_the_nearest() -> None:
    assert check_sections(["limits", "money"]) == ("limits", "money")
    with pytest.raises(InputError, match=r"--section = 'limts': is not known. Did you mean limits"):
        check_sections(["money", "limts"])


@pytest.mark.parametrize("text", PLANS)
def test_rows_of_one_title_have_one_value_in_the_whole_document(text: str | None) -> None:
    found: dict[str, str] = {}
    for table in tables(plan_document(planned(text))):
        if "value" in [each.header for each in table.columns]:
            for title, value in zip(cells(table, str(table.columns[0].header)), cells(table, "value"), strict=True):
                assert found.setdefault(title, value) == value, title
    assert len(found) > 100
    # The three that were once called alike.
    same = [each for each in found if "goodput_per_device" in each]
    assert len({each.rpartition(".")[2] for each in same}) == 3


@pytest.mark.parametrize("text", PLANS)
def test_no_machine_is_listed_that_cannot_hold_the_tensor_parallelism(text: str | None) -> None:
    plan = planned(text)
    listed = [each for each in tables(plan_sections(plan, ["fleet"], every=False)) if "machine" in _headers(each)]
    assert len(listed) == len(plan.pools)
    for pool, table in zip(plan.pools, listed, strict=True):
        sizes = [int(each) for each in cells(table, "devices each")]
        assert min(sizes) >= pool.memory.runtime.sharding.tp


def _headers(table: Table) -> list[str]:
    return [str(each.header) for each in table.columns]


def test_a_comment_has_the_answer_on_top_and_its_sections_folded() -> None:
    text = plan_markdown(planned())
    assert text.startswith("## TEST FIRST: built-in example")
    assert text.index("```text") < text.index("<details>")
    assert text.count("<details><summary>") == text.count("</details>") == len(SECTIONS)
    # What a comment on GitHub may hold.
    assert len(text) < 65_536
    only = plan_markdown(planned(), ["limits"])
    assert only.count("<details>") == 1
    assert "Admission limits" in only


def hostile(plan: Plan, name: str) -> Plan:
    return replace(plan, spec=replace(plan.spec, name=name))


def test_nothing_from_outside_breaks_out_of_a_comment() -> None:
    text = plan_markdown(hostile(planned(), "a```\n</details><b>@team #12 *x* [y](z)"))
    outside = re.sub(r"(?ms)^(`{3,})text\n.*?^\1$", "", text)
    assert "<b>" not in outside
    assert "@team" not in outside
    assert "#12" not in outside
    assert outside.count("</details>") == len(SECTIONS)
    assert "\\*x\\* \\[y\\](z)" in outside


def test_escaping_leaves_the_names_of_figures_alone() -> None:
    assert markdown("demand.chat.mean_rate 20 req/s") == "demand.chat.mean_rate 20 req/s"
    assert markdown("_x_ a_b") == "\\_x\\_ a_b"
    assert markdown("# head\ntext") == "\\# head\ntext"
    assert fenced("``` x ````").splitlines()[0] == "`````text"
    assert details("a <b>", "body") == "<details><summary>a &lt;b&gt;</summary>\n\nbody\n\n</details>"


def test_a_title_is_not_broken_at_the_width_of_its_table() -> None:
    table = plain_table("Settings that differ from the plan", "pool", "have")
    table.add_row("a|b", "1")
    assert to_markdown([table]).splitlines()[0] == "## Settings that differ from the plan"
    assert "| a\\|b | 1 |" in to_markdown([table])
