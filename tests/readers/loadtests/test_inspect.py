"""`ullage calibrate --inspect`: what was read, on one page or as the same bytes of JSON every time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.loadtest_samples import SAMPLES, guide_request, guidellm_report, to_json, vllm_arrays, vllm_run
from ullage import verbs
from ullage.cli.app import run
from ullage.errors import ExitCode, InputError
from ullage.load.typed import parse_limits


def write(folder: Path, name: str, data: bytes) -> str:
    path = folder / name
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_every_format_makes_a_page_and_json(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, "result", SAMPLES[name].make(1.0))
    assert run(["calibrate", "--inspect", file]) == ExitCode.OK
    page = capsys.readouterr().out
    assert "E2E" in page
    assert "end - sent; one a request" in page
    assert run(["calibrate", "--inspect", "--json", file]) == ExitCode.OK
    first = capsys.readouterr().out
    assert run(["calibrate", "--inspect", "--json", file]) == ExitCode.OK
    assert capsys.readouterr().out == first
    found = json.loads(first)
    assert found["schema"] == "ullage.calibrate/2"
    assert found["loadtests"][0]["loadtest"]["reader"] == name
    latencies = found["loadtests"][0]["loadtest"]["points"][0]["latencies"]
    assert all(each["definition"] and each["formula"] for each in latencies)


def test_several_files_stand_in_the_order_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [write(tmp_path, name, SAMPLES[name].make(1.0)) for name in ("sglang", "vllm")]
    assert run(["calibrate", "--inspect", *files]) == ExitCode.OK
    page = capsys.readouterr().out
    assert page.index("sglang bench_serving") < page.index("vllm bench serve")


def test_goodput_is_counted_anew_by_both_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = vllm_arrays()
    arrays["output_lens"][:10] = [1] * 10
    file = write(tmp_path, "run.json", to_json(vllm_run(**arrays)))
    assert run(["calibrate", "--inspect", "--goodput", "ttft:500ms tpot:10ms", file]) == ExitCode.OK
    page = capsys.readouterr().out
    assert "by the rule of ullage: 10 of 40 sent (25 %), 1 req/s; limits ttft 500 ms, tpot 10 ms" in page
    assert "by the rule of vllm" in page
    assert run(["calibrate", "--inspect", "--goodput", "tpot:10ms", "--goodput-rule", "aiperf", file]) == ExitCode.OK
    assert "by the rule of aiperf: 0 of 40 ended" in capsys.readouterr().out


def test_limits_that_the_file_states_are_used_without_asking(tmp_path: Path) -> None:
    kept = [guide_request(each, output=1 if each < 2 else 46) for each in range(5)]
    report = guidellm_report(requests={"successful": kept, "errored": [], "incomplete": []})
    found = verbs.calibrate([Path(write(tmp_path, "g.json", to_json(report)))], inspect=True)
    by = {each.rule.name: (each.good_count, each.judged_count) for each in found.loadtests[0].goodputs[0]}
    assert by == {"ullage": (5, 5), "guidellm": (3, 3)}


def test_fitting_asks_for_model_and_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, "run.json", SAMPLES["vllm"].make(1.0))
    assert run(["calibrate", file]) == ExitCode.WRONG_INPUT
    assert "Give --model and --device" in capsys.readouterr().err


def test_a_missing_file_and_an_empty_folder_are_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path, problem in ((tmp_path / "absent.json", "cannot be read"), (tmp_path, "folder without a result")):
        assert run(["calibrate", "--inspect", str(path)]) == ExitCode.WRONG_INPUT
        assert problem in capsys.readouterr().err


def test_a_side_file_says_what_to_give(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, "slices.json", b'{"timeslices": []}')
    assert run(["calibrate", "--inspect", file]) == ExitCode.WRONG_INPUT
    assert "profile_export_aiperf.json" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["ttft", "ttft:500", "speed:5ms", "ttft:5parsecs", ""])
def test_limits_that_cannot_be_read_are_named(text: str) -> None:
    with pytest.raises(InputError, match="--goodput"):
        parse_limits(text)


def test_limits_are_read_with_spaces_or_commas() -> None:
    assert parse_limits("ttft:500ms, e2e=2s").given == {"ttft": 0.5, "e2e": 2.0}
