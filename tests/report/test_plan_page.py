"""The first lines of a plan's page: what they say is what the tables below them say."""

from __future__ import annotations

import datetime
import io
import re
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from ullage import verbs
from ullage.errors import Rejection
from ullage.report.plan.page import plan_page
from ullage.report.tables import plain_table

FILE = """
version: 1
service: small
dated: 2026-11-15
workload:
  classes:
    - {name: chat, rate: 1 req/min, longest_context: 8192, slo: {ttft_p95: 2s}}
pool: {model: llama-3.1-8b, device: h100-sxm}
prices: {provider: me, own: {devices: [{device: h100-sxm, provider: me, price: 3 EUR/h}]}}
"""


def text_of(parts: list[RenderableType]) -> str:
    file = io.StringIO()
    console = Console(file=file, width=110)
    for part in parts:
        console.print(part)
    return file.getvalue()


def test_a_title_is_not_broken_at_the_width_of_its_table() -> None:
    table = plain_table("Settings that the plan does not have", "pool", "have")
    table.add_row("a", "1")
    assert text_of([table]).splitlines()[0] == "Settings that the plan does not have"


@pytest.mark.slow
def test_the_headline_claims_no_more_than_its_tables(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(FILE)
    plan = verbs.plan(file, as_of=datetime.date(2026, 11, 15), seed=0)
    assert not isinstance(plan, Rejection)
    page = text_of(plan_page(plan))
    headline = " ".join(page.split("\n\n")[0].split())
    # One replica is enough either way: there is nothing that better evidence would buy back.
    assert "would do" not in headline
    # Nothing broke, so nothing binds.
    assert "No SLO breaks up to 200% more traffic" in headline
    # The devices have a price in EUR and no rate to USD: a cost of a success would be that of everything else.
    assert "No price of its devices is known" in headline
    assert "a success" not in headline
    bought = re.search(r"and (\d+) in reserve", headline)
    assert bought is not None
    assert re.search(rf"^idle reserve +{bought.group(1)} replicas", page, flags=re.MULTILINE)


@pytest.mark.slow
def test_a_tool_that_takes_less_than_is_planned_stands_in_the_headline(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(f"{FILE}tools: [{{name: search, latency: 800ms, rate_limit: 0.001 req/s}}]\n")
    plan = verbs.plan(file, as_of=datetime.date(2026, 11, 15), seed=0)
    assert not isinstance(plan, Rejection)
    headline = " ".join(text_of(plan_page(plan)).split("\n\n")[0].split())
    assert "Short of the plan already is tool dependency, at most 0.00099 tasks/s of 0.0338 tasks/s" in headline
