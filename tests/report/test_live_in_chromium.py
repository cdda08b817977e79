"""The live page on a running service, in real Chromium: one move after another, as in a meeting."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from support.built_page import needs_page
from support.chromium import AXE, TEAM_HOST, chromium, opened
from support.planned import ONE_REPLICA
from ullage import verbs
from ullage.errors import Rejection
from ullage.report.encode import to_text

pytestmark = [pytest.mark.slow, needs_page]

DECIDED_MS = 180_000
EMITTED = f"{ONE_REPLICA}emit: {{workloads: {{pool: {{name: chat}}}}}}\n"
TRACE = "arrival_s,prompt_tokens,output_tokens\n" + "".join(
    f"{at * 30},{900 + at % 7},{120 + at % 5}\n" for at in range(200)
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@contextmanager
def service(*options: str) -> Iterator[str]:
    """A service on a port that was free, once it listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    made = [sys.executable, "-m", "ullage", "serve", "--port", str(port), "--jobs", "1", *options]
    with subprocess.Popen(made, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            while True:
                assert process.poll() is None
                with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz"):
                    break
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    with service("--requests-per-s", "500") as found:
        yield found


@contextmanager
def live(browser: Browser, place: str, *, width: int = 1280) -> Iterator[tuple[Page, list[str]]]:
    context = browser.new_context(viewport={"width": width, "height": 900}, accept_downloads=True)
    page, complaints = context.new_page(), list[str]()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if "Security" in said.text else None)
    page.goto(place)
    yield page, complaints
    context.close()


def decided(page: Page) -> None:
    expect(page.locator(".status")).to_have_attribute("data-state", "decided", timeout=DECIDED_MS)


def plan_small(page: Page, text: str = ONE_REPLICA) -> None:
    """A plan that takes seconds, by its file's text."""
    page.get_by_text("Plan file", exact=True).click()
    page.locator("textarea").fill(text)
    page.get_by_role("button", name="Plan this file").click()
    expect(page.locator(".status")).to_contain_text("Estimate, being decided", timeout=DECIDED_MS)
    decided(page)
    expect(page.locator("h1")).to_have_text("small")


def downloaded(page: Page, button: str) -> str:
    with page.expect_download() as waited:
        page.get_by_role("button", name=button).click()
    return Path(waited.value.path()).read_text()


def test_a_move_is_estimated_at_once_and_decided_as_the_command_line_decides_it(
    browser: Browser, place: str, tmp_path: Path
) -> None:
    with live(browser, place) as (page, complaints):
        plan_small(page, EMITTED)
        page.locator("#traffic").focus()
        for _ in range(4):
            page.keyboard.press("ArrowRight")
        expect(page.locator(".status")).to_have_attribute("data-state", "estimate")
        decided(page)
        page.get_by_text("Export this plan").click()
        expect(page.locator(".live .command")).to_contain_text("--traffic x2")
        shown = json.loads(downloaded(page, "The plan as JSON"))
        file = tmp_path / "plan.yaml"
        file.write_text(EMITTED)
        planned = verbs.plan(file, traffic="x2", quick=True)
        assert not isinstance(planned, Rejection)
        assert shown["figures"].keys() == json.loads(to_text(planned.to_dict()))["figures"].keys()
        assert shown["summary"] == json.loads(to_text(planned.to_dict()))["summary"]

        page.get_by_label("Emit").select_option("tfvars")
        with page.expect_download(timeout=DECIDED_MS) as waited:
            page.get_by_role("button", name="The emitted files").click()
        with tarfile.open(waited.value.path()) as files:
            assert ["tfvars" in each.name and each.size > 0 for each in files] == [True]

        page.get_by_text("Drills", exact=True).first.click()
        page.get_by_role("button", name="Run the drills").click()
        expect(page.locator("#drills p.sentence")).to_contain_text("drill", timeout=DECIDED_MS)
        report = tmp_path / "plan.html"
        report.write_text(downloaded(page, "The report as one file"))
        with opened(browser, report) as offline:
            assert offline.page.locator("h1").inner_text() == "small"
            assert offline.page.locator("#drills table").count() == 1
            assert offline.complaints == []
        assert complaints == []


def test_scenarios_stand_side_by_side_and_a_link_shows_the_same_controls(browser: Browser, place: str) -> None:
    with live(browser, place) as (page, complaints):
        plan_small(page)
        page.get_by_text("Scenarios", exact=True).click()
        for name, moved in (("now", 0), ("double", 4)):
            page.locator("#traffic").focus()
            for _ in range(moved):
                page.keyboard.press("ArrowRight")
            decided(page)
            page.get_by_label("Name").fill(name)
            page.get_by_role("button", name="Keep this plan").click()
        table = page.locator("table.compared")
        assert table.locator("thead th").all_inner_texts() == ["figure", "now", "double"]
        rates = table.locator("tbody tr", has_text="busiest hour").locator("td").all_inner_texts()
        assert float(rates[1].split()[0]) == pytest.approx(2 * float(rates[0].split()[0]), rel=0.02)
        # Its devices are priced in EUR, without a rate: logs and disks alone are no bill.
        assert table.locator("tbody tr", has_text="a month").locator("td").all_inner_texts() == ["\u2013", "\u2013"]
        link = page.url
        assert "?" not in link
        # Who goes to a view keeps the controls, and a link may name both.
        page.get_by_role("link", name="Money").click()
        expect(page).to_have_url(f"{link}&view=money")
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found = page.evaluate("async () => (await axe.run()).violations")
        assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
        other = page.context.new_page()
        other.goto(f"{link}&view=money")
        expect(other.locator("output[for=traffic]")).to_have_text("\u00d7 2")
        decided(other)
        expect(other.locator("h1")).to_have_text("small")
        # Another tab, and one that is loaded again, have the scenarios too.
        assert other.locator("table.compared thead th").all_inner_texts() == ["figure", "now", "double"]
        assert complaints == []


def test_files_are_read_with_their_anomalies_and_a_job_can_be_cancelled(
    browser: Browser, place: str, tmp_path: Path
) -> None:
    (tmp_path / "requests.csv").write_text(TRACE)
    (tmp_path / "broken.csv").write_text("no,columns\nthat,we\nknow,of\n")
    with live(browser, place, width=390) as (page, complaints):
        page.get_by_text("Your files").click()
        page.locator("input[type=file]").set_input_files(tmp_path / "requests.csv")
        expect(page.locator("ul.read > li").first).to_contain_text("requests.csv", timeout=DECIDED_MS)
        expect(page.get_by_role("button", name="Plan with it")).to_be_visible()
        page.locator("input[type=file]").set_input_files(tmp_path / "broken.csv")
        expect(page.locator("ul.read .problem")).to_contain_text("wrong", timeout=DECIDED_MS)
        page.locator("#traffic").focus()
        page.keyboard.press("ArrowLeft")
        page.get_by_role("button", name="Cancel").click(timeout=DECIDED_MS)
        expect(page.locator(".status")).to_contain_text("Cancelled")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert complaints == []


def test_a_refused_plan_says_what_would_fit_and_a_lost_service_that_it_is_lost(browser: Browser) -> None:
    with service() as place, live(browser, place, width=390) as (page, complaints):
        page.get_by_text("Plan file", exact=True).click()
        page.locator("textarea").fill(ONE_REPLICA.replace("llama-3.1-8b", "llama-3.3-70b"))
        page.get_by_role("button", name="Plan this file").click()
        said = page.locator(".status")
        expect(said).to_contain_text("The plan does not hold. memory", timeout=DECIDED_MS)
        expect(said.locator("li").first).to_contain_text("KV tokens")
        expect(said).to_be_in_viewport()
        # A long plan file stands in the address too, and is in no request for the page.
        page.locator("textarea").fill(ONE_REPLICA + f"# {'x' * 100}\n" * 500)
        page.get_by_role("button", name="Plan this file").click()
        expect(said).to_have_attribute("data-state", "decided", timeout=DECIDED_MS)
        page.reload()
        expect(said).to_have_attribute("data-state", "decided", timeout=DECIDED_MS)
        expect(page.locator("h1")).to_have_text("small")
        page.route("**/v1/**", lambda route: route.abort())
        page.locator("#traffic").focus()
        page.keyboard.press("ArrowRight")
        expect(said).to_contain_text("The service does not answer.")
        assert complaints == []


def test_a_busy_service_is_said_to_be_busy_and_asked_again(browser: Browser) -> None:
    with service("--requests-per-s", "2") as slow, live(browser, slow) as (page, _):
        page.wait_for_selector(".status")
        # Others ask all the time, so that whatever the page asks for comes too often.
        page.evaluate("() => { window.others = setInterval(() => fetch('/v1'), 20); }")
        page.locator("#traffic").focus()
        page.keyboard.press("ArrowRight")
        said = page.locator(".status")
        expect(said).to_contain_text("The service is busy.", timeout=DECIDED_MS)
        expect(said).to_contain_text("Asking again in")
        page.evaluate("() => clearInterval(window.others)")
        expect(said).not_to_contain_text("busy", timeout=DECIDED_MS)


def test_a_service_with_tokens_asks_for_one(browser: Browser, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("ana plan 0123456789abcdef0123456789abcdef\n")
    tokens.chmod(0o600)
    team = ("--token-file", str(tokens), "--public-host", TEAM_HOST)
    with service(*team) as closed, live(browser, closed.replace("127.0.0.1", TEAM_HOST)) as (page, complaints):
        expect(page.locator(".status")).to_contain_text("token", timeout=DECIDED_MS)
        page.get_by_label("Token").fill("0123456789abcdef0123456789abcdef")
        page.get_by_role("button", name="Use it for this tab").click()
        expect(page.locator(".status")).to_contain_text("Estimate, being decided", timeout=DECIDED_MS)
        page.get_by_text("Export this plan").click()
        page.get_by_role("button", name="Copy a link to these controls").click()
        expect(page.get_by_text("Copy it from the address bar")).to_be_visible()
        assert complaints == []
