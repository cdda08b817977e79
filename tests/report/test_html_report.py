"""The report as a file: what stands in it, and what a name of others can do to it."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import json_schemas
from support.built_page import needs_page
from support.planned import ONE_REPLICA, planned
from support.report_beside import drilled, reconciled
from ullage import verbs
from ullage.cli.app import run
from ullage.errors import ExitCode, InputError
from ullage.report.encode import to_text
from ullage.report.html_report import html_report, report_page
from ullage.verbs.report import ReportAnswer

pytestmark = needs_page

PAGE = "<!doctype html><title>Ullage</title><!--plan--><p>after</p>"
HOSTILE = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>]]>&lt;\u2028'\""


class Reader(HTMLParser):
    """The elements of a page, and the text in those that matter here."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[str] = []
        self.texts: dict[str, str] = {}
        self.attributes: dict[str, dict[str, str | None]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes[tag] = dict(attrs)

    def handle_data(self, data: str) -> None:
        self.texts[self.elements[-1]] = self.texts.get(self.elements[-1], "") + data


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader


def document(service: str) -> dict[str, Any]:
    return {"service": service, "as_of": "2026-11-16", "summary": {"verdict": service, service: [service]}}


@given(service=st.text() | st.sampled_from([HOSTILE, "<!--", "<script>", "\ud800"]))
def test_whatever_a_name_says_the_page_has_the_same_elements_and_the_plan_reads_back(service: str) -> None:
    html = html_report(document(service), PAGE)
    found = read(html)
    assert found.elements == ["title", "script", "p"]
    assert json.loads(found.texts["script"]) == document(service)
    assert found.texts["p"] == "after"
    assert html.isascii()


def test_a_name_stands_in_the_title_as_people_see_it() -> None:
    assert read(html_report(document("<b>chat</b> & más"), PAGE)).texts["title"] == "<b>chat</b> & más, 2026-11-16"


def test_a_notebook_shows_the_whole_report_in_a_frame_that_reaches_nothing_outside_it() -> None:
    html = html_report(document(HOSTILE), PAGE)
    framed = read(ReportAnswer(document=document(HOSTILE), html=html)._repr_html_())
    assert framed.elements == ["iframe"]
    assert framed.attributes["iframe"]["srcdoc"] == html
    assert framed.attributes["iframe"]["sandbox"] == "allow-scripts"


def test_without_the_built_page_the_verb_says_what_to_do_before_it_plans(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ullage.report.html_report._PAGE", "page/absent.html")
    with pytest.raises(InputError, match="make page"):
        report_page()
    assert run(["report", "--out", str(tmp_path / "plan.html")]) == ExitCode.WRONG_INPUT
    assert "make page" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_built_page_lets_nothing_in_but_its_own_script_and_style() -> None:
    page = (files("ullage.report") / "page/report.html").read_text(encoding="utf-8")
    policy = page.split('Content-Security-Policy" content="')[1].split('"')[0]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert page.count("<!--plan-->") == 1


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    found = planned(ONE_REPLICA)
    file = tmp_path / "plan.json"
    file.write_text(to_text(found.to_dict()))  # type: ignore[attr-defined]
    return file


@pytest.mark.slow
def test_a_stored_plan_is_written_whole_once_and_the_same_every_time(stored: Path, tmp_path: Path) -> None:
    target = tmp_path / "plan.html"
    assert run(["report", str(stored), "-o", str(target), "--quiet"]) == ExitCode.OK
    first = target.read_bytes()
    assert run(["report", str(stored), "-o", str(target), "--quiet"]) == ExitCode.WRONG_INPUT
    assert run(["report", str(stored), "-o", str(target), "--force", "--quiet"]) == ExitCode.OK
    assert target.read_bytes() == first
    made = verbs.report(stored)
    assert isinstance(made, ReportAnswer)
    assert made.html.encode() == first
    assert made.to_dict() == json.loads(stored.read_text())


@pytest.mark.slow
def test_a_stored_plan_cannot_be_changed_and_a_garbled_one_is_refused(stored: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="already made"):
        verbs.report(stored, traffic="+30%")
    whole = json.loads(stored.read_text())
    for each in ("figures", "summary", "schema"):
        stored.write_text(json.dumps({key: value for key, value in whole.items() if key != each}))
        with pytest.raises(InputError):
            verbs.report(stored)


@pytest.mark.parametrize(("verb", "made"), [("drill", drilled), ("reconcile", reconciled)])
def test_what_stands_beside_a_plan_in_these_tests_is_what_the_verbs_print(verb: str, made: Any) -> None:
    schema = json.loads((json_schemas.FOLDER / f"{verb}.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(made("small"))


@pytest.mark.slow
def test_drills_and_a_reconciliation_stand_in_the_page_and_not_in_the_plan(stored: Path, tmp_path: Path) -> None:
    files = {"drills": tmp_path / "drills.json", "reconciled": tmp_path / "reconciled.json"}
    for each, made in zip(files.values(), (drilled, reconciled), strict=True):
        each.write_text(json.dumps(made("small")))
    found = verbs.report(stored, drills=files["drills"], reconciled=files["reconciled"])
    assert isinstance(found, ReportAnswer)
    assert "loss of a zone" in found.html
    assert "needs +1.3 replicas" in found.html
    assert found.to_dict() == json.loads(stored.read_text())


@pytest.mark.slow
def test_answers_of_other_verbs_and_other_services_are_refused(stored: Path, tmp_path: Path) -> None:
    file = tmp_path / "beside.json"
    file.write_text(json.dumps(reconciled("small")))
    with pytest.raises(InputError, match="is not an answer of ullage drill"):
        verbs.report(stored, drills=file)
    file.write_text(json.dumps(drilled("another")))
    with pytest.raises(InputError, match="to another service"):
        verbs.report(stored, drills=file)
    file.write_text("[")
    with pytest.raises(InputError):
        verbs.report(stored, reconciled=file)
