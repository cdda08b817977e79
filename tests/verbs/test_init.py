"""`init` writes a file that can be planned as it stands, from whatever the user has; what nobody stated is marked."""

from __future__ import annotations

import csv
import datetime
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage import verbs
from ullage.errors import InputError
from ullage.files.plan_file import read_plan_file
from ullage.files.strict_yaml import read_yaml
from ullage.load.pool import ReplicaChoice
from ullage.planning.document import Plan
from ullage.verbs.calibrate_fit import fit_calibration
from ullage.verbs.init import save_starter
from ullage.verbs.simulate import LoadChoice, RepeatedTests

AS_OF = datetime.date(2026, 11, 15)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "requests.csv"
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["arrival_s", "prompt_tokens", "output_tokens"])
        writer.writerows([at * 2.0, 100 + at % 900, 20 + at % 50] for at in range(40_000))
    return file


@pytest.fixture
def load_test(tmp_path: Path) -> Path:
    """A result of `vllm bench serve`, as that tool lays it out."""
    file = tmp_path / "bench.json"
    file.write_text(
        json.dumps(
            {
                "date": "20261101-120000",
                "endpoint_type": "vllm",
                "backend": "vllm",
                "model_id": "meta-llama/Llama-3.1-8B-Instruct",
                "num_prompts": 200,
                "request_rate": 5.0,
                "burstiness": 1.0,
                "max_concurrency": None,
                "duration": 40.0,
                "completed": 200,
                "total_input_tokens": 200 * 512,
                "total_output_tokens": 200 * 128,
                "request_throughput": 5.0,
                "output_throughput": 640.0,
                "total_token_throughput": 3200.0,
                "mean_ttft_ms": 50.0,
                "median_ttft_ms": 45.0,
                "p99_ttft_ms": 120.0,
                "mean_tpot_ms": 12.0,
                "median_tpot_ms": 12.0,
                "p99_tpot_ms": 15.0,
                "mean_itl_ms": 12.0,
                "median_itl_ms": 12.0,
                "p99_itl_ms": 20.0,
            }
        )
    )
    return file


def read(text: str) -> dict[str, object]:
    read_plan_file(text, file="plan.yaml")
    return read_yaml(text, file="plan.yaml").content


@pytest.mark.slow
def test_a_model_alone_is_enough_to_plan(tmp_path: Path) -> None:
    text = verbs.init(model="llama-3.1-8b", as_of=AS_OF)
    assert "decide: not stated" in text
    file = tmp_path / "plan.yaml"
    save_starter(text, file)
    assert isinstance(verbs.plan(file, as_of=AS_OF, quick=True), Plan)


def test_a_trace_gives_the_longest_context_and_no_rate(trace: Path, tmp_path: Path) -> None:
    text = verbs.init(model="llama-3.1-8b", traces=[trace], folder=tmp_path, as_of=AS_OF)
    found = read(text)
    (only,) = found["workload"]["classes"]  # type: ignore[index]
    assert found["workload"]["trace"] == ["requests.csv"]  # type: ignore[index]
    assert "rate" not in only
    assert int(only["longest_context"]) >= 999 + 69


@pytest.mark.slow
def test_a_load_test_names_its_model(load_test: Path, tmp_path: Path) -> None:
    text = verbs.init(load_tests=[load_test], folder=tmp_path, as_of=AS_OF)
    found = read(text)
    # The file says nothing of devices: where it ran is a question, not a fact.
    assert len(re.findall(r"  tested_\w+: \S+  # decide: ", text)) == 2
    assert found["pool"]["model"] == "llama-3.1-8b"  # type: ignore[index]
    tested = {"tested_device": found["pool"]["device"], "tested_tensor_parallel": found["pool"]["tensor_parallel"]}  # type: ignore[index]
    assert found["evidence"] == {"load_tests": ["bench.json"], **tested}


@pytest.mark.slow
def test_a_folder_of_load_tests_is_its_files(load_test: Path, tmp_path: Path) -> None:
    (tmp_path / "runs" / "again").mkdir(parents=True)
    for place in ("runs/a.json", "runs/again/a.json"):
        (tmp_path / place).write_bytes(load_test.read_bytes())
    folder = tmp_path / "runs"
    found = read(verbs.init(load_tests=[folder], folder=tmp_path, as_of=AS_OF))
    assert found["evidence"]["load_tests"] == ["runs"]  # type: ignore[index]
    fitted = fit_calibration([folder], model="llama-3.1-8b", device="h100-sxm", as_of=AS_OF)
    assert fitted.provenance.files == ("a.json", "a.json")
    repeated = verbs.simulate(
        LoadChoice(load_tests=(str(folder),)),
        replica=ReplicaChoice(model="llama-3.1-8b", device="h100-sxm"),
        as_of=AS_OF,
    )
    assert isinstance(repeated, RepeatedTests)
    assert len({each.name for each in repeated.predictions}) == 2


def test_a_large_model_is_cut_until_it_fits() -> None:
    found = read(verbs.init(model="llama-3.1-70b", device="h100-sxm", as_of=AS_OF))
    assert found["pool"]["tensor_parallel"] == "4"  # type: ignore[index]


def test_without_a_model_nothing_is_guessed(trace: Path) -> None:
    with pytest.raises(InputError, match="--model"):
        verbs.init(traces=[trace], as_of=AS_OF)


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        save_starter("new", file)
    assert file.read_text() == "mine"
    save_starter("new", file, force=True)
    assert file.read_text() == "new"
    with pytest.raises(InputError, match="lies in no existing folder"):
        save_starter("new", tmp_path / "nowhere" / "plan.yaml")
    assert [each.name for each in tmp_path.iterdir()] == ["plan.yaml"]


@given(service=st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=30))
def test_any_name_of_a_service_is_written_so_that_it_reads_back(service: str) -> None:
    text = verbs.init(model="llama-3.1-8b", device="h100-sxm", service=service, as_of=AS_OF)
    assert read(text)["service"] == service


def test_a_commented_key_is_a_key_of_the_plan_file(load_test: Path, tmp_path: Path) -> None:
    """What the comments offer can be uncommented."""
    text = verbs.init(load_tests=[load_test], folder=tmp_path, as_of=AS_OF)
    offered = re.sub(r"(?m)^  # (\w+): (\[[^\]]*\]|\S+)  # .*$", r"  \1: \2", text)
    assert offered != text
    read_plan_file(offered, file="plan.yaml")


def test_what_decides_a_plan_and_was_not_found_is_asked(trace: Path, tmp_path: Path) -> None:
    stated = verbs.init(model="llama-3.1-8b", device="h100-sxm", as_of=AS_OF)
    assert "# prompt: {p50" in stated
    assert "# cached_fraction:" in stated
    traced = verbs.init(model="llama-3.1-8b", device="h100-sxm", traces=[trace], as_of=AS_OF)
    assert "# prompt: {p50" not in traced
    assert "# cached_fraction:" in traced
    rates = tmp_path / "rates.csv"
    rates.write_text("timestamp,requests\n" + "".join(f"2026-11-01T{hour:02d}:00:00Z,60\n" for hour in range(24)))
    counted = verbs.init(model="llama-3.1-8b", device="h100-sxm", traces=[rates], as_of=AS_OF)
    assert "# prompt: {p50" in counted
