"""`ullage facts`: lists, one sheet, search, nearest names, ages and a user's own directory."""

from __future__ import annotations

import datetime
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from ullage import verbs
from ullage.cli.app import run
from ullage.errors import ExitCode, InputError
from ullage.facts.device import devices
from ullage.load.names import KINDS
from ullage.report.facts_page import list_page, one_page

TODAY = datetime.date(2026, 11, 15)

MINE = """
[sources.ours]
what = "nvidia-smi on our nodes"
where = "node-7"
date = 2026-10-01
evidence = "measured"
[values]
memory = { value = "79.3 GiB", source = "ours" }
"""


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["facts", *arguments]) == ExitCode.OK
    return capsys.readouterr().out


def overlay(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(f"{path.name}.toml").write_text(text)
    return folder


def test_a_list_shows_every_device_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "devices").splitlines()
    for sheet in devices():
        assert sum(line.split()[:1] == [sheet.name] for line in lines) == 1


def test_one_device_shows_every_value_its_source_and_its_age(capsys: pytest.CaptureFixture[str]) -> None:
    page = printed(capsys, "devices", "NVIDIA H200", "--as-of", "2026-11-25")
    sheet = devices().find("h200")
    for key, fact in sheet.values.items():
        assert f"\n{key} " in page
        assert fact.source.where.split(",")[0] in page.replace("\n", " ")
    assert " 10 d" in page, "measured on 2026-11-15"


def test_the_age_is_counted_to_the_date_given(capsys: pytest.CaptureFixture[str]) -> None:
    stale = []
    for day in ("2026-11-15", "2027-11-15"):
        fact = json.loads(printed(capsys, "engines", "vllm", "--json", "--as-of", day))["sheets"][0]
        (row, *_) = fact["rows"]["memory_fraction"]
        stale.append(row["values"]["value"]["is_stale"])
    assert stale == [False, True]


def test_json_holds_what_the_catalogue_holds_and_is_stable(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("devices", "--json", "--as-of", "2026-11-15")
    text = printed(capsys, *arguments)
    assert text == printed(capsys, *arguments)
    found = json.loads(text)
    assert (found["schema"], found["kind"]["folder"]) == ("ullage.facts/2", "devices")
    assert [each["name"] for each in found["sheets"]] == sorted(devices().sheets)
    for each in found["sheets"]:
        for key, value in each["values"].items():
            fact = devices().sheets[each["name"]].values[key]
            assert (value["value"], value["unit"], value.get("low")) == (fact.value, fact.unit, fact.low)


def test_words_that_name_no_one_device_search(capsys: pytest.CaptureFixture[str]) -> None:
    found = verbs.facts("devices", "nvidia hopper", as_of=TODAY)
    assert not found.is_one
    assert {sheet.texts["architecture"] for sheet in found.sheets} == {"Hopper"}
    assert [sheet.name for sheet in verbs.facts("devices", "nvidia ampere a100", as_of=TODAY).sheets] == [
        "a100-40gb-sxm",
        "a100-80gb-pcie",
        "a100-80gb-sxm",
    ]
    assert "h100-sxm" in printed(capsys, "devices", "hopper")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["devises"], "devices"),
        (["devices", "h300"], "h100"),
        (["engines", "vlm"], "vllm"),
        (["devices", "--facts", "nowhere"], "is not a directory"),
        (["devices", "--as-of", "tomorrow"], "is not a date"),
    ],
)
def test_a_slip_ends_with_exit_2_and_the_nearest(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["facts", *arguments]) == ExitCode.WRONG_INPUT
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.out == ""


def test_a_users_directory_lies_over_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = overlay(tmp_path, **{"devices__h100-sxm": MINE})
    page = printed(capsys, "devices", "h100", "--facts", str(folder), "--as-of", "2026-11-15")
    assert "79.3 GiB" in page
    assert "node-7" in page
    assert "3.35 TB/s" in page


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("devices__h100-sxm", MINE.replace("memory =", "memry ="), "memory"),
        ("devices__h100-sxm", MINE.replace("79.3 GiB", "79.3"), "has no unit"),
        ("devices__new", MINE, "has no title"),
        ("devises__h100-sxm", MINE, "devices"),
    ],
)
def test_a_slip_in_a_users_facts_names_file_and_key(name: str, text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        verbs.facts("devices", directory=overlay(tmp_path, **{name: text}), as_of=TODAY)


@pytest.mark.parametrize("stray", ["notes.txt", "devices/readme.md"])
def test_a_stray_file_is_an_error_not_silence(stray: str, tmp_path: Path) -> None:
    overlay(tmp_path, **{"devices__h100-sxm": MINE})
    (tmp_path / stray).write_text("hello")
    with pytest.raises(InputError, match=Path(stray).name):
        verbs.facts("devices", directory=tmp_path, as_of=TODAY)


def test_an_empty_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no facts"):
        verbs.facts("devices", directory=tmp_path, as_of=TODAY)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_listed_exists_and_every_sheet_can_be_shown(kind: str) -> None:
    found = verbs.facts(kind, as_of=TODAY)
    assert found.sheets
    assert all(key in found.kind.fields or key in found.kind.texts for key in found.kind.listed)
    console = Console(file=io.StringIO(), width=110)
    for sheet in found.sheets:
        for part in one_page(found.kind, sheet, TODAY):
            console.print(part)
    for part in list_page(found.kind, found.sheets):
        console.print(part)
