"""A run that is in two files counts once, whichever comes first; two runs that are alike count twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.loadtest_samples import aiperf_csv, aiperf_export, console_text, to_json, vllm_run
from ullage.load.evidence import load_tests
from ullage.service.loadtests.loadtest import Flag


def written(folder: Path, **files: bytes) -> list[Path]:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return [folder / name for name in files]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("tool", ["vllm", "aiperf"])
def test_what_was_printed_of_a_run_is_not_counted_beside_its_result(tool: str, turned: bool, tmp_path: Path) -> None:
    result, printed = (
        (to_json(vllm_run()), console_text()) if tool == "vllm" else (to_json(aiperf_export()), aiperf_csv())
    )
    files = written(tmp_path, result=result, printed=printed)
    (test,) = load_tests(files[::-1] if turned else files)
    assert Path(test.file).name == "result"
    assert [each.flag for each in test.anomalies] == [Flag.ROWS_LEFT_OUT]
    assert test.anomalies[0].sentence.startswith("printed has the same run")


def test_a_printed_run_without_its_result_is_kept(tmp_path: Path) -> None:
    files = written(tmp_path, result=to_json(vllm_run(k=1.02)), printed=console_text())
    assert [Path(each.file).name for each in load_tests(files)] == ["result", "printed"]
    assert [each.anomalies for each in load_tests(files[1:])] == [load_tests(files)[1].anomalies]


def test_two_results_that_are_alike_are_two_runs(tmp_path: Path) -> None:
    files = written(tmp_path, one=to_json(vllm_run()), two=to_json(vllm_run()))
    assert len(load_tests(files)) == 2
