"""Text of others, on its way out by each verb: it is shown, and it does nothing."""

from __future__ import annotations

import csv
import io
import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.panel import Panel

from support.planned import planned
from ullage.cli.app import run
from ullage.cli.terminal import answer
from ullage.errors import ExitCode, InputError
from ullage.files.plan_file import read_plan_file
from ullage.files.strict_yaml import read_yaml
from ullage.foreign import csv_cell, json_text, markdown, shell_word, visible, yaml_scalar
from ullage.report.foreign_parts import seen_parts
from ullage.report.markdown import to_markdown
from ullage.report.plan.page import plan_document, plan_markdown, plan_page
from ullage.verbs.plan_answer import PlanAnswer

# An escape sequence, a window title, markup that closes nothing, a heading, a formula, a line that runs backwards.
HOSTILE = "red\x1b[31m\x1b]0;owned\x07[/bold]\n# heading\r=cmd|'/c calc'!A0\u202eevil\x9b2J"


def assert_inert(shown: str) -> None:
    """Nothing but visible characters and line ends, and no line that is a heading of the name's making."""
    assert all(each == "\n" or each.isprintable() for each in shown), [each for each in shown if not each.isprintable()]
    assert not any(line.startswith("# heading") for line in shown.splitlines())


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A request log whose classes, tenants and models have such names."""
    path = tmp_path_factory.mktemp("logs") / "log.jsonl"
    rows = (
        {
            "arrival_s": 30.0 * at,
            "prompt_tokens": 100 + at % 7,
            "output_tokens": 20 + at % 5,
            "class": HOSTILE if at % 2 else "chat",
            "tenant": HOSTILE + "tenant" if at % 3 else "acme",
            "model": HOSTILE + "model",
        }
        for at in range(400)
    )
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [[], ["--json"], ["--synthesize"]])
def test_profile_shows_what_a_log_says_and_does_nothing(
    log: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["profile", str(log), "--as-of", "2026-11-15", *arguments]) == ExitCode.OK
    shown = capsys.readouterr().out
    assert "heading" in shown
    assert_inert(shown)


def test_forecast_and_simulate_do_nothing_either(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replica = ["--model", "llama-3.1-8b", "--device", "h100-sxm", "--rate", "2 req/s"]
    for arguments in (["forecast", str(log), "--by", "class"], ["simulate", str(log), *replica]):
        ending = run([*arguments, "--quiet"])
        printed = capsys.readouterr()
        assert ending in (ExitCode.OK, ExitCode.WRONG_INPUT), printed.err
        assert_inert(printed.out + printed.err)


def test_a_first_plan_file_is_not_written_by_the_log_that_it_is_made_from(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    named = tmp_path / "a: [x]\n# log.jsonl"
    named.write_bytes(log.read_bytes())
    made = ["init", "--model", "llama-3.1-8b", "--device", "h100-sxm", "--trace", named.name, "--service", "it's: #1"]
    assert run([*made, "--out", "my plan;.yaml"]) == ExitCode.OK
    assert "ullage plan 'my plan;.yaml'" in capsys.readouterr().err
    text = (tmp_path / "my plan;.yaml").read_text()
    found = read_plan_file(text, file="plan.yaml")
    assert found.service == "it's: #1"
    assert yaml.safe_load(text)["workload"]["trace"] == [named.name]


def named(service: str) -> PlanAnswer:
    """The built-in plan under another name."""
    found = planned()
    assert isinstance(found, PlanAnswer)
    return replace(found, spec=replace(found.spec, name=service))


@pytest.mark.slow
def test_a_service_of_any_name_has_a_screen_a_comment_and_a_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    plan = named(HOSTILE)
    answer(*plan_page(plan), *plan_document(plan))
    assert_inert(capsys.readouterr().out)
    text = plan_markdown(plan)
    assert_inert(text)
    assert text.count("\n## ") == plan_markdown(named("chat")).count("\n## ")
    html = plan._repr_html_()
    assert_inert(html)
    assert "<script" not in named("<script>alert(1)</script>")._repr_html_()


@pytest.mark.parametrize("name", ["\x1b[31mred", "a\x00b", "\x9b2J"])
def test_a_plan_file_has_no_control_characters(name: str) -> None:
    with pytest.raises(InputError, match=r"plan.yaml:1: service.*control character"):
        read_yaml(f"service: {json.dumps(name)}", file="plan.yaml")


def test_a_text_of_several_lines_is_one() -> None:
    assert read_yaml("service: |\n  one\n  # two\n", file="plan.yaml").content["service"] == "one # two"


def test_errors_are_one_visible_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x\x1b[31m\n.yaml"
    file.write_text("version: 2\n")
    assert run(["plan", str(file)]) == ExitCode.WRONG_INPUT
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert_inert(shown)


def test_markup_in_a_name_is_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    answer("[/bold] [red]x[/red] :smile:")
    assert capsys.readouterr().out == "[/bold] [red]x[/red] :smile:\n"
    assert to_markdown(["a\n# b"]) == "a # b\n"


def test_a_part_that_nobody_looks_through_is_a_fault_of_ours() -> None:
    with pytest.raises(TypeError, match="Panel"):
        seen_parts([Panel("x")])


@given(st.text())
def test_nothing_that_acts_is_left_in_any_medium(text: str) -> None:
    assert visible(text).isprintable()
    assert len(visible(text)) == len(text)
    assert "\n" not in markdown(visible(text))
    assert "<" not in markdown(text)
    out = io.StringIO()
    csv.writer(out).writerow([csv_cell(text), "end"])
    ((cell, end),) = csv.reader(io.StringIO(out.getvalue()), strict=True)
    assert end == "end"
    assert not cell.lstrip().startswith(("=", "@", "|", "+x", "-x"))
    assert shlex.split(f"ullage plan {shell_word(text)}") == ["ullage", "plan", visible(text)]
    assert json_text(json.dumps(text, ensure_ascii=False)).isprintable()
    assert json.loads(json_text(json.dumps(text, ensure_ascii=False), ascii_only=True)) == text


@given(st.text(st.characters(codec="utf-8")))
def test_yaml_reads_back_what_was_written(text: str) -> None:
    assert yaml.safe_load(f"key: {yaml_scalar(text)}  # comment")["key"] in (text, _number(text))


def _number(text: str) -> object:
    """A plan file takes numbers as the text they are; YAML itself guesses."""
    return yaml.safe_load(text) if text.isascii() and text.isprintable() and text[:1].isdigit() else text


def test_numbers_stay_numbers_in_a_spreadsheet() -> None:
    assert [csv_cell(each) for each in ("-12.50", "+1e9", "0.0", "chat", "-x")] == [
        "-12.50",
        "+1e9",
        "0.0",
        "chat",
        "'-x",
    ]


def test_what_is_written_like_an_entity_is_shown_as_it_was_written() -> None:
    assert markdown("a & b &lt; <c>") == "a &amp; b &amp;lt; &lt;c&gt;"
