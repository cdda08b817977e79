"""Every format ends in a page that can be read and a profile that can be saved."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from support.trace_samples import REQUESTS, SAMPLES, Sample
from ullage.report.encode import document, to_text
from ullage.report.workload.profile_page import profile_page
from ullage.verbs.profile import profile
from ullage.workload.profile.saved import from_plain


def page_of(path: Path, width: int = 110) -> str:
    console = Console(width=width, file=io.StringIO(), record=True, color_system=None)
    for part in profile_page(profile([path]).own):
        console.print(part)
    return console.export_text()


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_the_page_of_a_sample_says_what_it_is(sample: Sample, tmp_path: Path) -> None:
    path = sample.write(tmp_path)
    page = page_of(path)
    assert page.startswith(f"Profile of {path.name}: ")
    assert f"format {sample.name}" in page
    assert "Anomalies" in page
    if not sample.is_counted:
        assert f"{len(REQUESTS)} requests" in page
        assert "prompt_tokens" not in sample.columns or f"{max(each.prompt_tokens for each in REQUESTS)}" in page


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_the_profile_of_a_sample_is_saved_and_read(sample: Sample, tmp_path: Path) -> None:
    found = profile([sample.write(tmp_path)])
    plain = json.loads(to_text(found.to_dict()))
    assert document("profile", from_plain(plain), as_of=found.as_of) == plain


@pytest.mark.slow
def test_everything_a_log_can_tell_is_on_the_page(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    with path.open("w") as stream:
        for at in range(600):
            record = {
                "arrival_s": 1_760_000_000 + at * 7.3,
                "prompt_tokens": 200 + at % 40,
                "output_tokens": 50 + at % 9,
                "cached_tokens": 64,
                "reasoning_tokens": 10,
                "duration_s": 12.5 if at % 6 == 0 else 2.5,
                "status": "failed" if at % 50 == 0 else "ok",
                "tenant": f"tenant {at % 2}",
                "model": "m",
                "session": f"s{at // 6}",
                "after_tool": at % 3 > 0,
                "tool_calls": 1,
                "block_hashes": [1, 2, at % 7],
            }
            stream.write(json.dumps(record) + "\n")
    page = page_of(path)
    for words in (
        "Arrivals, req/s",
        "Lengths, tokens",
        "of prompt tokens were cached",
        "Outcomes: 2.00% failed",
        "In flight, at each second",
        "highest active tokens over time",
        "Sessions: 100",
        "tool time",
        "100 requests were sent before the session's previous answer ended",
        "tool calls per task",
        "Prefix reuse: 1,800 uses of",
        "The ids are not chained",
        "With an unlimited warm cache per tenant",
        "By model (1)",
        "By tenant (2)",
        "reasoning",
    ):
        assert words in page, words


def test_a_narrow_window_loses_no_anomaly(tmp_path: Path) -> None:
    path = SAMPLES["azure"].write(tmp_path)
    assert "carry no zone" in " ".join(page_of(path, width=60).split())
