"""The verb: the same bytes every time, nobody's name in what is shared, and a page that lists anomalies."""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ullage.errors import InputError
from ullage.load.traffic import read_profile
from ullage.load.typed import parse_class, parse_columns
from ullage.report.encode import to_text
from ullage.report.workload.profile_page import profile_page, spark
from ullage.verbs.profile import Profiled, keyed_names, profile, save_profile
from ullage.workload.synthetic.model import from_document

SECRETS = ("acme-corp", "jane@acme.example", "sess-77", "req-000", "tell me about", "secret-path")


def log(folder: Path, requests: int = 400) -> Path:
    """A LiteLLM log full of what must not leave the house."""
    path = folder / "spend.jsonl"
    with path.open("w") as stream:
        for at in range(requests):
            record = {
                "request_id": f"req-000{at}",
                "call_type": "acompletion",
                "team_id": "acme-corp" if at % 3 else "jane@acme.example",
                "startTime": f"2026-11-{1 + at // 100:02d}T10:{at % 60:02d}:{at % 50:02d}.5Z",
                "endTime": f"2026-11-{1 + at // 100:02d}T10:{at % 60:02d}:{at % 50 + 2:02d}.5Z",
                "model": "llama",
                "prompt_tokens": 10_000 if at % 3 else 20,
                "completion_tokens": 20,
                "session_id": f"sess-77{at % 20}",
                "status": "success",
                "messages": "tell me about the merger",
                "path": "secret-path",
            }
            stream.write(json.dumps(record) + "\n")
        stream.write(
            '{"request_id": "req-000x", "call_type": "x", "startTime": "tell me about it", "team_id": "acme-corp"}\n'
        )
    return path


@pytest.fixture
def profiled(tmp_path: Path) -> Profiled:
    return profile([log(tmp_path)], tenant_key="correct horse")


@pytest.mark.slow
def test_nobody_is_named_in_what_is_saved(profiled: Profiled, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    save_profile(profiled, file)
    text = file.read_text()
    for secret in SECRETS:
        assert secret not in text
    # The trace is one mix of two tenants of different shape, so the suggestion would name them.
    assert profiled.own.suggestion is not None
    assert profiled.own.suggestion.by == "tenant"
    assert {"acme-corp", "jane@acme.example"} == {one.name for one in profiled.own.suggestion.classes}
    assert len(text) < 200_000


@pytest.mark.slow
def test_a_key_gives_the_same_names_and_another_key_others(tmp_path: Path) -> None:
    path = log(tmp_path)

    def names(key: str | None) -> list[str]:
        return [group.name for group in profile([path], tenant_key=key).shared.of("tenant")]

    assert names("correct horse") == names("correct horse")
    assert set(names("correct horse")).isdisjoint(names("battery staple"))
    assert all(re.fullmatch(r"tenant-[0-9a-f]{12}", name) for name in names("correct horse"))
    assert names(None) == ["tenant-1", "tenant-2"]


def test_a_key_of_any_bytes_is_a_key() -> None:
    """A random key on a command line need not be UTF-8."""
    found = [keyed_names(key)("acme", 1) for key in ("\udcff" * 8, "\udcfe" * 8)]
    assert len({*found}) == 2


def test_a_short_key_is_refused_and_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="could be guessed") as refused:
        profile([log(tmp_path)], tenant_key="abc")
    assert "abc" not in str(refused.value)


@pytest.mark.slow
def test_what_is_saved_can_be_loaded(profiled: Profiled, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    save_profile(profiled, file)
    again = read_profile(file)
    assert to_text(replace(profiled, own=again, shared=again).to_dict()) == file.read_text()
    file.write_text("[]")
    with pytest.raises(InputError, match="not a saved profile"):
        read_profile(file)


@pytest.mark.slow
def test_the_command_prints_the_same_bytes(tmp_path: Path) -> None:
    path = log(tmp_path)
    command = [sys.executable, "-m", "ullage", "profile", str(path), "--json", "--as-of", "2026-11-15"]
    outputs = [subprocess.run(command, capture_output=True, check=True).stdout for _ in range(2)]
    assert outputs[0] == outputs[1]
    plain = json.loads(outputs[0])
    assert plain["schema"] == "ullage.profile/2"
    assert plain["rows"]["dropped"][0]["reason"].startswith("an arrival time that is neither a date and time")


@pytest.mark.slow
def test_the_page_says_what_is_odd(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ullage", "profile", str(log(tmp_path)), "--as-of", "2027-03-01"]
    page = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    for words in ("Profile of spend.jsonl: 400 requests", "By tenant (2)", "acme-corp", "1 of 401 rows were left out"):
        assert words in page
    assert "days before 2027-03-01" in re.sub(r"\s+", " ", page)


@pytest.mark.slow
def test_a_wrong_file_is_one_line_and_exit_2(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "ullage", "profile", str(tmp_path / "none.csv")],
        capture_output=True,
        check=False,
        text=True,
    )
    assert run.returncode == 2
    assert run.stderr.startswith("error: trace = ")
    # However long the path is, its end is there.
    assert "/none.csv'" in run.stderr
    assert run.stderr.count("\n") == 1


def test_the_season_is_drawn_as_a_map(tmp_path: Path) -> None:
    path = tmp_path / "week.csv"
    rows = [f"{1_760_000_000 + hour * 3600 + n * 60},10,5" for hour in range(24 * 15) for n in range(1 + hour % 24)]
    path.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]))
    console = Console(width=110, record=True, file=io.StringIO())
    for part in profile_page(profile([path]).own):
        console.print(part)
    page = console.export_text()
    assert "Season by hour of the week (UTC)" in page
    assert len(re.findall(r"^ (Mon|Tue|Wed|Thu|Fri|Sat|Sun) .*█", page, flags=re.MULTILINE)) == 7


def test_suggested_classes_can_be_pasted(tmp_path: Path) -> None:
    tenants = ("arn:aws:iam::1:user/" + "a" * 150, "it's, <odd>; 1")
    path = tmp_path / "log.jsonl"
    rows = [
        {"arrival_s": n, "prompt_tokens": (10, 9000)[n % 2], "output_tokens": 5, "tenant": tenants[n % 2]}
        for n in range(200)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    console = Console(width=110, record=True, file=io.StringIO())
    for part in profile_page(profile([path]).own):
        console.print(part)
    # A line is filled up to its last cell where a word runs on, and ends with a space where it does not.
    lines = console.export_text().partition("To profile them separately: ")[2].partition("\n?")[0].split("\n")
    pasted = shlex.split("".join(line[2:] if at else line for at, line in enumerate(lines)))
    rules = [parse_class(text).rule for text in pasted[1::2]]
    assert {rule.tenant for rule in rules if rule} == set(tenants)


def test_a_spark_line_keeps_its_width_and_its_peak() -> None:
    line = spark([0] * 500 + [9] * 20 + [0] * 480, width=50)
    assert len(line) == 50
    assert line.count("█") == 1
    assert spark([]) == ""


def test_options_are_read() -> None:
    assert parse_columns(["arrival_s=ts", "prompt_tokens=usage.in"]) == {"arrival_s": "ts", "prompt_tokens": "usage.in"}
    found = parse_class("chat:model=llama*,below_prompt_tokens=4000")
    assert found.rule is not None
    assert (found.name, found.rule.model, found.rule.below_prompt_tokens) == ("chat", "llama*", 4000)
    named = parse_class("arn:aws:x,y:tenant=arn:aws:x,y, model=claude-v2:1")
    assert named.rule is not None
    assert (named.name, named.rule.tenant, named.rule.model) == ("arn:aws:x,y", "arn:aws:x,y", "claude-v2:1")
    for nothing in ("chat:model", "chat:model=", ":model=llama", ""):
        with pytest.raises(InputError, match="is not NAME:KEY=VALUE"):
            parse_class(nothing)
    with pytest.raises(InputError, match="--column = 'arrival_s': is not NAME=VALUE"):
        parse_columns(["arrival_s"])
    with pytest.raises(InputError, match="Did you mean model"):
        parse_class("chat:tenant=a,modl=llama")
    with pytest.raises(InputError, match="number of tokens"):
        parse_class("chat:below_prompt_tokens=many")


@pytest.mark.slow
def test_the_fitted_model_is_printed_and_read_back(tmp_path: Path) -> None:
    rows = ["arrival_s,prompt_tokens,output_tokens"]
    rows += [f"{second / 4},{100 + second * 7 % 900},{10 + second * 3 % 90}" for second in range(4000)]
    (tmp_path / "log.csv").write_text("\n".join(rows))
    command = [sys.executable, "-m", "ullage", "profile", str(tmp_path / "log.csv"), "--synthesize", "--quiet"]
    printed = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert printed[0] == printed[1]
    document = json.loads(printed[0])
    (model,) = from_document(document["model"]).classes
    assert model.mean_rate_rps == pytest.approx(4.0, rel=0.01)
    assert {each["name"] for each in document["matches"]} >= {"mean rate"}
