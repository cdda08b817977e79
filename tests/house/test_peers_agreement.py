"""The comparison with published rows: what is drawn, what a peer is asked, and what is printed of the errors."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from bench.peers.agreement import (
    FEWEST_ROWS,
    OURS,
    Agreement,
    Sample,
    agreement_markdown,
    ahead,
    in_order,
    key_of,
    latencies,
    sampled,
)
from bench.peers.asked.serving_rows import BLOCK_TOKENS, prediction, requests
from bench.published.cases import Case
from bench.published.fit import USUAL_VENDOR, Floats

ROW = {
    "model": "m", "system": "b200_sxm", "backend": "sglang", "tp": 8, "ep": 4, "kvcache": "fp8", "gemm": None,
    "clients": 2, "prompt_tokens": [1, 512, 513], "output_tokens": [7, 8, 9], "budget_tokens": 8192,
    "max_sequences": 64, "interval_steps": 10,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """What a draw and its tables look at of a case."""

    place: int = 0
    family: str = "deepseek-v3"
    device: str = "h200-sxm"
    engine: str = "vllm"
    vendor: str = USUAL_VENDOR
    statistic: str = "mean"


def as_cases(rows: list[Drawn]) -> list[Case]:
    return cast("list[Case]", rows)


def found(ours: Floats, aisimulate: Floats, aiconfigurator: Floats) -> Agreement:
    return Agreement(
        date="2026-11-19",
        sample=Sample(),
        cases=as_cases([Drawn(place=place) for place in range(len(ours))]),
        errors={OURS: ours, "AISimulate": aisimulate, "AIConfigurator": aiconfigurator},
        refused={"AISimulate": Counter(), "AIConfigurator": Counter({"no such kernel": 1})},
    )


def test_every_stratum_gives_as_many_rows_as_it_has_up_to_the_limit_and_no_row_twice() -> None:
    rows = [Drawn(place=place, engine=engine) for engine in ("vllm", "sglang") for place in range(50)]
    few = [Drawn(place=place, engine="tensorrt-llm") for place in range(2)]
    other = [Drawn(place=place, vendor="AMD") for place in range(9)]
    drawn = cast("list[Drawn]", sampled(as_cases(rows + few + other), Sample(rows=3)))
    assert Counter(each.engine for each in drawn) == {
        "vllm": 3, "sglang": 3, "tensorrt-llm": 2,
    }  # fmt: skip
    assert len({(each.engine, each.place) for each in drawn}) == len(drawn)
    assert all(each.vendor == USUAL_VENDOR for each in drawn)
    again = [cast("list[Drawn]", sampled(as_cases(rows), Sample(seed=seed))) for seed in (29, 29, 30)]
    assert again[0] == again[1] != again[2]


def test_no_prompt_of_a_row_shares_a_block_with_another() -> None:
    asked = list(requests(ROW))
    blocks = [block for each in asked for block in each["hash_ids"]]
    assert len(set(blocks)) == len(blocks)
    for each in asked:
        assert each["input_length"] <= BLOCK_TOKENS * len(each["hash_ids"]) < each["input_length"] + BLOCK_TOKENS
    assert [each["output_length"] for each in asked] == ROW["output_tokens"]


def test_a_peer_is_told_the_interval_only_where_there_is_one_and_experts_share_the_devices() -> None:
    worker = prediction(ROW, Path("x"))["engine"]["workers"]["aggregated"]
    assert worker["scheduler"]["prefill_decode_interval"] == 10
    assert worker["parallelism"] == {"tensor": 8, "moe_tensor": 2, "moe_expert": 4}
    assert worker["timing"] == {"kvcache_quant_mode": "fp8"}
    assert "prefill_decode_interval" not in str(prediction({**ROW, "interval_steps": 0}, Path("x")))


def test_rows_that_repeat_a_measurement_share_its_answer_and_a_row_that_was_not_reached_has_a_reason() -> None:
    other = {**ROW, "clients": 3}
    found = in_order([ROW, other, ROW, {**ROW, "clients": 4}], {key_of(ROW): {"a": 1}, key_of(other): {"a": 2}})
    assert found[:3] == [{"a": 1}, {"a": 2}, {"a": 1}]
    assert "was not reached" in found[3]["reason"]


def test_an_answer_is_read_in_the_statistic_of_its_row_and_a_refusal_is_no_number() -> None:
    answer = {"ttft_mean_s": 1.0, "tpot_mean_s": 2.0, "ttft_p50_s": 3.0, "tpot_p50_s": 4.0}
    mean, median = as_cases([Drawn(), Drawn(statistic="p50")])
    assert latencies(answer, mean) == (1.0, 2.0)
    assert latencies(answer, median) == (3.0, 4.0)
    assert np.isnan(latencies({"reason": "no kernels"}, mean)).all()


def test_only_rows_that_everybody_answered_are_scored() -> None:
    refused = np.full((FEWEST_ROWS + 1, 2), 0.1)
    refused[0] = np.nan
    far = np.full((FEWEST_ROWS + 1, 2), 0.2)
    far[0] = 5.0
    text = agreement_markdown(found(far, np.full((FEWEST_ROWS + 1, 2), 0.1), refused))
    assert f"Scored are the {FEWEST_ROWS} rows" in text
    assert f"| **all** | {FEWEST_ROWS} | 22.1 / 22.1 (+22) | 10.5 / 10.5 (+11) |" in text
    assert "| AIConfigurator | 1 | no such kernel |" in text


@pytest.mark.parametrize(("rows", "is_named"), [(FEWEST_ROWS, True), (FEWEST_ROWS - 1, False)])
def test_a_peer_that_is_nearer_is_named_where_there_are_rows_enough(rows: int, is_named: bool) -> None:
    near, far = np.full((rows, 2), 0.1), np.full((rows, 2), 0.2)
    theirs, last = ahead(found(far, near, 2 * far)).split("\n\n")
    assert f"in {rows} of {rows} rows by TPOT and in {rows} by TTFT" in theirs
    assert ("TPOT of sglang" in theirs) is False
    assert ("TPOT of vllm (10.5 against 22.1 %)" in theirs) is is_named
    assert f"in 0 of {rows} rows" in last
    assert last.endswith("in: none.")
