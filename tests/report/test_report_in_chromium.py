"""The report as people meet it: real Chromium, no network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from support.built_page import needs_page
from support.chromium import chromium, opened
from support.planned import ONE_REPLICA, TWO_POOLS, planned
from support.report_beside import drilled, reconciled
from ullage.report.encode import to_text
from ullage.report.html_report import html_report, report_page

pytestmark = [pytest.mark.slow, needs_page]

MOST_BYTES = 1_500_000
VIEWS = (
    "answer",
    "demand",
    "memory",
    "service",
    "limits",
    "fleet",
    "losses",
    "scaling",
    "money",
    "risk",
    "assumptions",
)
HOSTILE = "<script>document.title='taken'</script><img src=x onerror=document.title='taken'>"
# A4 between its margins, in CSS pixels.
PAPER_WIDTH = 688


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def written(folder: Path, text: str) -> Path:
    file = folder / "plan.html"
    file.write_text(html_report(json.loads(text), report_page()))
    return file


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("example"), to_text(planned().to_dict()))  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def two_pools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pools, and a class whose name is a script."""
    text = to_text(planned(TWO_POOLS).to_dict())  # type: ignore[attr-defined]
    return written(tmp_path_factory.mktemp("two"), text.replace("chat", HOSTILE))


@pytest.mark.parametrize("width", [1280, 390])
def test_every_view_answers_with_a_sentence_and_a_chart(browser: Browser, example: Path, width: int) -> None:
    with opened(browser, example, width=width) as found:
        page = found.page
        assert [each.get_attribute("id") for each in page.query_selector_all("section.view")] == [*VIEWS]
        for name in VIEWS:
            view = page.locator(f"#{name}")
            assert view.locator("h2").inner_text().endswith("?"), name
            assert len(view.locator("p.sentence").first.inner_text()) > 40, name
            assert view.locator(".drawing svg, .lines canvas").count() > 0, name
            assert "not known" not in view.locator("p.sentence").first.inner_text(), name
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        plan = json.loads(page.eval_on_selector("#plan", "each => each.textContent"))
        listed, own = len(plan["assumptions"]), plan["summary"]["assumption_count"]
        assert f"{own} assumptions" in page.locator("header.top").inner_text()
        sentence = page.locator("#assumptions p.sentence").first.inner_text()
        assert f"rests on {own} assumptions" in sentence
        assert f"on {listed - own} more" in sentence
        assert found.complaints == []
        assert found.asked == [example.as_uri()]


CUT = """
() => [...document.querySelectorAll('.scroll')]
  .filter(each => each.scrollWidth > each.clientWidth + 1)
  .map(each => each.getAttribute('aria-label'))
"""
COLLIDING = """
() => [...document.querySelectorAll('.drawing svg')].flatMap(drawing => {
  const texts = [...drawing.querySelectorAll('text')].filter(each => each.textContent);
  const words = texts.map(each => [each.textContent, each.getBoundingClientRect()]);
  const place = drawing.getBoundingClientRect();
  const apart = (a, b) => a.right < b.left + 2 || b.right < a.left + 2 || a.bottom < b.top + 4 || b.bottom < a.top + 4;
  return words.flatMap(([word, box], at) => [
    ...(box.left < place.left - 1 || box.right > place.right + 1 ? [`${word} leaves its chart`] : []),
    ...words.slice(at + 1).filter(([, other]) => !apart(box, other)).map(([other]) => `${word} on ${other}`),
  ]);
})
"""


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("plan", [None, TWO_POOLS], ids=["example", "two pools"])
def test_no_table_is_cut_and_no_word_stands_on_another(
    browser: Browser, tmp_path: Path, plan: str | None, width: int
) -> None:
    text = to_text(planned(plan).to_dict())  # type: ignore[attr-defined]
    with opened(browser, written(tmp_path, text), width=width) as found:
        assert found.page.evaluate(CUT) == []
        assert found.page.evaluate(COLLIDING) == []


def test_a_figure_explains_itself_down_to_its_sources_by_mouse_and_by_keyboard(browser: Browser, example: Path) -> None:
    with opened(browser, example) as found:
        page, dialog = found.page, found.page.locator("dialog.explanation")
        page.locator("#answer p.sentence button.fig[data-name='bill.total_usd']").click()
        expect(dialog).to_be_visible()
        said = dialog.inner_text()
        assert "bill.total_usd = " in said
        assert "sum of the priced lines" in said
        assert "ullage plan --explain" in said
        assert dialog.locator("li.source").count() > 0
        page.keyboard.press("Escape")
        expect(dialog).not_to_be_visible()
        bar = page.locator("#fleet g.mark").first
        bar.focus()
        page.keyboard.press("Enter")
        expect(dialog.locator("h2")).to_have_text(bar.get_attribute("data-name") or "")


def test_every_number_of_the_plan_that_is_shown_has_an_explanation(browser: Browser, example: Path) -> None:
    with opened(browser, example) as found:
        shown = found.page.eval_on_selector_all("[data-name]", "all => all.map(each => each.dataset.name)")
        plan = json.loads(found.page.eval_on_selector("#plan", "each => each.textContent"))
        assert len({*shown}) > 200
        assert {*shown} <= plan["figures"].keys() | plan["assumptions"].keys()
        # The rule's figures have names for people in the page: none of them is left out.
        rule = {each for each in plan["figures"] if each.startswith("scaling.")}
        assert rule <= {
            *found.page.eval_on_selector_all("#scaling [data-name]", "all => all.map(each => each.dataset.name)")
        }
        assert "requests requests" not in found.page.locator("main").inner_text()
        # What demand, step times and lengths add is what is not known well enough, and has that colour.
        unsure = found.page.locator("#answer rect.bar.evidence")
        steps = [each for pool in plan["summary"]["pools"] for each in pool["replicas"]]
        added = [
            each["name"]
            for each in steps
            if each["amount"]["value"] and ("uncertainty" in each["name"] or "untested" in each["name"])
        ]
        assert unsure.count() == len(added) > 1


def test_names_stay_text_and_each_of_several_pools_has_its_own_part(browser: Browser, two_pools: Path) -> None:
    with opened(browser, two_pools) as found:
        page = found.page
        assert page.title() == "two models, 2026-11-15"
        assert page.locator("#page img, #page script").count() == 0
        assert HOSTILE in page.locator("#demand table").first.inner_text()
        for name in ("memory", "service", "limits", "losses", "scaling", "risk"):
            assert page.locator(f"#{name} h3").all_inner_texts() == ["small", "large"], name
            assert page.locator(f"#{name} p.sentence").count() == 2, name
            assert "not known" not in page.locator(f"#{name}").inner_text(), name
        # Each pool is held to its part of the service's chance of a shortfall.
        target = (
            page.locator("#answer .tiles", has_text="Risk of a shortfall, small")
            .locator("small button.fig")
            .first.inner_text()
        )
        assert f"target: {target.split()[0]} %" in (page.locator("#risk").text_content() or "")
        assert "could not be drawn" not in page.locator("main").inner_text()
        assert found.complaints == []


def test_drills_production_and_load_tests_are_shown_where_they_are_given(browser: Browser, tmp_path: Path) -> None:
    plan = json.loads(to_text(planned(ONE_REPLICA).to_dict()))  # type: ignore[attr-defined]
    residual = {"latency": "ttft", "statistic": "mean", "measured_s": 0.3, "simulated_s": 0.2, "low_s": 0.15}
    plan["series"]["pools"][0]["tests"] = [
        {
            "name": "bench run 1",
            "offered_rps": plan["series"]["pools"][0]["curve"][0]["offered_rps"],
            "slos_s": {"chat ttft_p95": 0.5},
            "residuals": [{**residual, "high_s": 0.25, "ratio": 1.5, "is_outside": True}],
            "is_like_mix": True,
            "reason": None,
            "anomalies": [],
        }
    ]
    beside = {"drilled": drilled("small"), "reconciled": reconciled("small")}
    file = tmp_path / "plan.html"
    file.write_text(html_report(plan, report_page(), beside=beside))
    with opened(browser, file, width=390) as found:
        page = found.page
        for name, said in (("drills", "1 of 2 drills fail: loss of a zone"), ("reconcile", "past its tolerances")):
            assert said in page.locator(f"#{name} p.sentence").inner_text()
            assert page.locator(f"#{name} .drawing svg").count() >= 2, name
        service = page.locator("#service")
        assert "1 of 1 measured latencies lie outside" in service.inner_text()
        assert service.locator(".legend", has_text="load test").count() > 0
        page.locator("#drills button.fig[data-name='drill.zone.during_fraction']").first.click()
        expect(page.locator("dialog.explanation")).to_contain_text("drill.zone.during_fraction = 41 %")
        page.keyboard.press("Escape")
        assert found.serious_violations() == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert found.complaints == []


def test_a_burst_is_replayed_and_lengths_stand_together(browser: Browser, example: Path) -> None:
    with opened(browser, example) as found:
        page = found.page
        assert page.locator("#demand figure", has_text="Prompt against output").count() == 2
        assert page.locator("#demand figure", has_text="found in the cache").locator("canvas").count() == 1
        assert page.locator("#limits figure", has_text="The burst").locator("canvas").count() == 3
        said = page.locator("#limits p.lead").inner_text()
        assert "times the planned load" in said
        assert "not known" not in said


def test_what_is_not_priced_is_not_drawn_and_said(browser: Browser, tmp_path: Path) -> None:
    text = to_text(planned(ONE_REPLICA).to_dict())  # type: ignore[attr-defined]
    with opened(browser, written(tmp_path, text)) as found:
        assert "Nothing of this plan is priced" in found.page.locator("#money p.sentence").inner_text()
        assert "nothing of it is priced" in found.page.locator("#answer p.sentence").inner_text()
        assert found.page.locator("#answer .drawing svg").count() == 2
        # One replica more or less is one: no fleet stands there twice, and no axis goes beyond all of the variance.
        words = found.page.locator("#risk svg text").all_text_contents()
        fleets = [each for each in words if "replica" in each]
        assert len({*fleets}) == len(fleets) > 1
        assert not {"1 replicas", "150 %"} & {*words}
        assert found.complaints == []


def test_a_plan_without_series_says_so_where_a_chart_would_be(browser: Browser, example: Path, tmp_path: Path) -> None:
    with opened(browser, example) as found:
        plan = json.loads(found.page.eval_on_selector("#plan", "each => each.textContent"))
    del plan["series"]
    with opened(browser, written(tmp_path, json.dumps(plan))) as found:
        for name in ("demand", "memory", "service", "losses", "scaling", "money", "risk"):
            assert found.page.locator(f"#{name} .nothing").count() > 0, name
            assert found.page.locator(f"#{name} p.sentence").count() > 0, name
        assert found.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_people_from_using_it(browser: Browser, example: Path, scheme: str) -> None:
    with opened(browser, example, scheme="dark" if scheme == "dark" else "light") as found:
        assert found.serious_violations() == []
        found.page.locator("#answer button.fig").first.click()
        assert found.serious_violations() == []


def test_it_prints_without_a_cut_chart_and_stays_small(browser: Browser, example: Path, tmp_path: Path) -> None:
    assert example.stat().st_size < MOST_BYTES
    with opened(browser, example, scheme="dark", width=PAPER_WIDTH) as found:
        page = found.page
        page.pdf(path=tmp_path / "plan.pdf", prefer_css_page_size=True)
        assert (tmp_path / "plan.pdf").read_bytes().startswith(b"%PDF")
        page.emulate_media(media="print")
        rights = page.eval_on_selector_all(
            ".drawing svg, .lines canvas, table", "all => all.map(each => each.getBoundingClientRect().right)"
        )
        assert len(rights) > 20
        assert max(rights) <= PAPER_WIDTH + 1
        # Paper is white, whatever the screen was.
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
