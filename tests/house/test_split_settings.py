"""The settings of published disaggregated runs: every line can have been run, and no run has two of them."""

from __future__ import annotations

import csv
from collections import Counter
from datetime import date

from bench.published.split_settings import COLUMNS, SETTINGS, settings_of

with SETTINGS.open(newline="") as file:
    LINES = list(csv.DictReader(file))


def test_sides_divide_into_replicas_and_replicas_into_ranks() -> None:
    for line in LINES:
        for side in ("prefill", "decode"):
            each, ranks = int(line[f"devices_per_{side}_replica"]), int(line[f"{side}_ranks"])
            assert int(line[f"{side}_devices"]) % each == 0, line
            assert ranks in (1, each), line


def test_a_run_that_speculates_drafts_and_no_other_that_says_so() -> None:
    for line in LINES:
        if line["speculation"]:
            assert (line["speculation"] == "mtp") == (int(line["draft_tokens"]) > 0), line


def test_no_run_has_two_settings() -> None:
    runs = Counter(
        (*(line[name] for name in COLUMNS), clients, day)
        for line in LINES
        for clients in line["clients"].split()
        for day in line["measured_on"].split()
    )
    assert [run for run, count in runs.items() if count > 1] == []


def test_every_line_has_its_source_and_its_date() -> None:
    for line in LINES:
        assert "/" in line["source"], line
        assert date.fromisoformat(line["source_date"]) <= date(2026, 11, 19), line


def test_a_run_is_found_by_its_columns_and_no_other_is() -> None:
    line = next(each for each in LINES if each["decode_rank_sequences"] == "1")
    clients, day = int(line["clients"].split()[0]), line["measured_on"].split()[0]
    found = settings_of(line, clients=clients, day=day)
    assert found is not None
    assert found.decode.sequences == 1
    assert found.prefill.step_tokens == int(line["prefill_rank_tokens"])
    assert settings_of(line, clients=clients + 10_000, day=day) is None
