"""The command line as a user meets it: answers on stdout, talk on stderr, every ending documented."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.kept_plans import kept_plans, typed_environment
from support.planned import ONE_REPLICA, TWO_POOLS
from ullage import verbs
from ullage.cli.app import run
from ullage.cli.help import COMMANDS, MODULES, SERVICES, VERBS
from ullage.errors import ExitCode, InternalError

ROOT = Path(__file__).resolve().parents[2]


def ullage(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ullage", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def typed(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The same, where what is planned is not the question: plans of one input are made once in a session."""
    kept = {name: value for name, value in typed_environment().items() if name != "NO_COLOR"}
    return subprocess.run(
        ["ullage", *arguments], capture_output=True, text=True, env={**kept, **environment}, check=False
    )


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """The same in this process: an interpreter of its own takes a CPU second, and adds nothing to the words."""
    code = run(arguments)
    return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())


def test_help_lists_every_verb() -> None:
    shown = ullage("--help")
    assert shown.returncode == ExitCode.OK
    assert all(f"\n  {verb} " in shown.stdout for verb in COMMANDS)
    assert ullage().stdout == shown.stdout == ullage("-h").stdout


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_its_files_its_help_and_its_function(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (ROOT / "src/ullage/cli" / f"{MODULES.get(verb, verb)}.py").is_file()
    assert (ROOT / "src/ullage/verbs" / f"{verb}.py").is_file()
    assert callable(getattr(verbs, verb))
    shown = said(capsys, verb, "--help")
    assert shown.returncode == ExitCode.OK
    assert f"Usage: ullage {verb}" in shown.stdout


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_has_its_file_and_its_help(service: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (ROOT / "src/ullage/cli" / f"{service}.py").is_file()
    assert f"Usage: ullage {service}" in said(capsys, service, "--help").stdout


def test_every_command_file_is_listed() -> None:
    frame = {"__init__", "app", "help", "options", "terminal"}
    files = {path.stem for path in (ROOT / "src/ullage/cli").glob("*.py")} - frame
    assert files == {MODULES.get(verb, verb) for verb in COMMANDS}


def test_version() -> None:
    assert re.fullmatch(r"ullage \d+\.\d+\.\d+\n", ullage("--version").stdout)


@pytest.mark.slow
def test_the_answer_is_on_stdout_and_the_talk_on_stderr() -> None:
    loud = typed("plan", "--as-of", "2026-11-15")
    assert loud.returncode == ExitCode.OK
    assert "built-in example" in loud.stderr
    quiet = typed("plan", "--as-of", "2026-11-15", "--quiet")
    assert quiet.stderr == ""
    assert quiet.stdout == loud.stdout


@pytest.mark.slow
def test_json_is_json_and_the_same_bytes_every_time(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(TWO_POOLS)
    asked = ("plan", str(file), "--json", "--quiet", "--as-of", "2026-11-15")
    # One is worked out from nothing, the other from windows that this session knows already.
    runs = [ullage(*asked, PYTHONHASHSEED="1", COLUMNS="40"), typed(*asked, PYTHONHASHSEED="2", COLUMNS="200")]
    assert runs[0].stdout == runs[1].stdout
    assert json.loads(runs[0].stdout)["schema"] == "ullage.plan/2"


@pytest.mark.slow
def test_a_pipe_gets_no_colour_and_one_width() -> None:
    plain = typed("plan", "--as-of", "2026-11-15", COLUMNS="300", FORCE_COLOR="1")
    assert "\x1b" not in plain.stdout
    assert max(len(line) for line in plain.stdout.splitlines()) <= 110


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plna"], "verb = 'plna': is not known. Did you mean plan?"),
        (["plan", "--jsno"], "No such option: --jsno"),
        (["plan", "--bogus"], "No such option: --bogus. See ullage plan --help."),
        (["plan", "--section", "limts"], "--section = 'limts': is not known. Did you mean limits"),
        (["plan", "--seed", "x"], "--seed"),
        (["plan", "--seed", "-1"], "--seed"),
        (["plan", "--as-of", "yesterday"], "--as-of = 'yesterday': is not a date. Give year, month and day"),
        (["plan", "missing.yaml"], "file = 'missing.yaml': no such file or directory. Give a plan file"),
    ],
)
def test_wrong_input_is_exit_2_and_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_one_line(said(capsys, *arguments, *(["--quiet"] if arguments[0] == "plan" else [])), message)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plan", "--seed", "-1"], "--seed = '-1': is not at least 0. See ullage plan --help."),
        (["plan", "--seed=1e3"], "--seed = '1e3': is not a whole number. See ullage plan --help."),
        (["plan", "--as-of", "9999-12-31"], "as_of = '9999-12-31': is not a day to plan from"),
        (["plan", "--set", "service=\udcff"], "service = '\\udcff': holds what is no character"),
        (["profile", "{log}", "--zone", "\udcff"], "zone = '\\udcff': is not a time zone"),
        (["profile", "{folder}/\udcff.csv"], "has a name that is not UTF-8"),
        (["calibrate", "{log}", "--inspect"], "field larger than field limit (131072)': is not CSV"),
    ],
)
def test_what_no_option_and_no_file_can_be_is_refused_in_our_words(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.csv"
    log.write_text(f'arrival_s,prompt_tokens,output_tokens\n0,1,2\n1,"{"9" * 140_000}",2\n')
    (tmp_path / "\udcff.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,1,2\n")
    given = [each.format(log=log, folder=tmp_path) for each in arguments]
    assert run([*given, *(["--quiet"] if given[0] == "plan" else [])]) == ExitCode.WRONG_INPUT
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_a_process_ends_as_it_says() -> None:
    """What the cases above are told in this process is how a program of its own ends."""
    assert_one_line(ullage("plan", "missing.yaml", "--quiet"), "file = 'missing.yaml': no such file or directory")


@pytest.mark.slow
def test_a_number_that_the_plan_has_not_is_exit_2_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with kept_plans():
        ended = said(capsys, "plan", "--quick", "--explain", "chat.mean_rat", "--as-of", "2026-11-15", "--quiet")
    assert_one_line(ended, "Did you mean chat.mean_rate")


def assert_one_line(ended: subprocess.CompletedProcess[str], message: str) -> None:
    assert ended.returncode == ExitCode.WRONG_INPUT
    assert ended.stdout == ""
    assert ended.stderr.startswith("error: ")
    assert message in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert "Traceback" not in ended.stderr


def test_a_refused_plan_is_exit_3_with_its_remedies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(
        """
        version: 1
        service: chat
        workload:
          classes: [{name: chat, rate: 1 req/s, longest_context: 8192, slo: {ttft_p95: 2s}}]
        pool: {model: llama-3.1-70b, device: l4}
        """
    )
    assert run(["plan", str(file), "--quiet"]) == ExitCode.REFUSED
    shown = capsys.readouterr().out
    assert "REFUSED at memory: " in shown
    assert re.search(r"\n  device \S+: ", shown)
    assert run(["plan", str(file), "--quiet", "--json"]) == ExitCode.REFUSED
    assert json.loads(capsys.readouterr().out)["refused"]["stage"]


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("division by zero"), InternalError(law="lines sum to the bill", left=1, right=2)]
)
def test_a_fault_of_ours_is_exit_4_and_says_so(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(verbs, "plan", fail)
    assert run(["plan", "--quiet"]) == ExitCode.INTERNAL
    shown = capsys.readouterr().err
    assert str(error) in shown
    assert "Traceback" not in shown


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(ONE_REPLICA)
    command = f"set -o pipefail; ullage plan {tmp_path}/small.yaml --json --quiet --as-of 2026-11-15 | true"
    ended = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, env=typed_environment()
    )
    assert ended.returncode == 0
    assert ended.stderr == ""


def test_the_shell_completes_verbs() -> None:
    shown = ullage(_ULLAGE_COMPLETE="complete_bash", COMP_WORDS="ullage pl", COMP_CWORD="1", _="x")
    assert shown.stdout.split() == ["plan"]
