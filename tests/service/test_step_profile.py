"""Profiles: our own table and Dynamo's, what stands between their points and beyond, and whose evidence they are."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.replicas import SOURCE, small_model
from ullage.errors import InputError
from ullage.evidence import Evidence
from ullage.facts.device import find_device
from ullage.memory.kv import kv_dtype
from ullage.memory.sharding import Sharding
from ullage.service.stage import band_of
from ullage.service.steps.profile_table import Row, read_profile
from ullage.service.steps.profiled import profiled_model
from ullage.service.steps.step_model import StepModel, roofline_model

PLACES = [(n, n * context) for n in (1, 8, 64) for context in (100, 1_000, 10_000)]
PROMPTS = [(tokens, prefix) for tokens in (64, 512, 4_096) for prefix in (0, 2_000)]


def estimate() -> StepModel:
    return roofline_model(
        small_model(), find_device("h100-sxm"), sharding=Sharding(), engine="vllm", cache=kv_dtype("bf16")
    )


def own(kind: str, duration_s: float | str, **counts: int | str) -> Row:
    names = ("sequences", "kv_tokens", "tokens", "prefix_tokens")
    return {"kind": kind, **{each: str(counts.get(each, "")) for each in names}, "duration_s": str(duration_s)}


def rows_of(step: StepModel, *, ratio: float = 1.0, prefixes: bool = True, **said: str) -> list[Row]:
    """What a profiler would print of an engine whose steps are so many times the model's."""
    decode = [own("decode", step.step_s(sequences=n, kv_tokens=kv), sequences=n, kv_tokens=kv) for n, kv in PLACES]
    prefill = [
        own(
            "prefill",
            step.step_s(sequences=0, kv_tokens=0, prefill_tokens=tokens, pairs=tokens * (prefix + (tokens + 1) / 2)),
            tokens=tokens,
            prefix_tokens=prefix,
        )
        for tokens, prefix in PROMPTS
        if prefixes or not prefix
    ]
    return [{**row, "duration_s": repr(ratio * float(row["duration_s"])), **said} for row in (*decode, *prefill)]


def profiled(rows: list[Row], *, like: StepModel | None = None) -> StepModel:
    return profiled_model(read_profile(rows), like=like or estimate(), source=SOURCE)


@pytest.mark.parametrize("prefixes", [True, False])
@pytest.mark.parametrize("ratio", [1.0, 2.0])
def test_a_profile_of_the_estimate_is_the_estimate_and_one_twice_as_slow_is_twice_that(
    ratio: float, prefixes: bool
) -> None:
    """At the points, between them and far beyond them."""
    step = estimate()
    found = profiled(rows_of(step, ratio=ratio, prefixes=prefixes))
    n, kv = np.array([0.0, 1.0, 8.0, 23.0, 500.0]), np.array([0.0, 77.0, 80_000.0, 60_000.0, 3e7])
    # The estimate bends a little between points, and straight lines do not.
    assert found.decode_s(n, kv) == pytest.approx(ratio * step.decode_s(n, kv), rel=5e-3)
    tokens = np.array([1.0, 64.0, 777.0, 4_096.0, 60_000.0])
    assert found.prefill_s(tokens) == pytest.approx(ratio * step.prefill_s(tokens), rel=5e-3)
    assert found.pair_s == pytest.approx(ratio * step.pair_s)
    assert found.evidence is Evidence.PROFILED
    assert found.figures["step.decode_1_s"].evidence is Evidence.PROFILED


def test_a_profile_gives_back_its_points_whatever_its_shape() -> None:
    rng = np.random.default_rng(7)
    rows: list[Row] = [
        {**row, "duration_s": repr(float(row["duration_s"]) * rng.uniform(1.5, 3.0))} for row in rows_of(estimate())
    ]
    found = profiled(rows)
    for row in rows:
        if row["kind"] == "decode":
            step_s = found.step_s(sequences=float(row["sequences"]), kv_tokens=float(row["kv_tokens"]))
            assert step_s == pytest.approx(float(row["duration_s"]))


def test_a_profile_says_where_it_ends() -> None:
    found = profiled(rows_of(estimate()))
    assert found.measured is not None
    assert found.measured.covers(sequences=64, kv_tokens=640_000, prefill_tokens=4_096)
    assert not found.measured.covers(sequences=65, kv_tokens=640_000)
    assert any("Beyond 64 sequences and 640,000 KV tokens and 4,096 prompt tokens" in note for note in found.notes)


@pytest.mark.parametrize("kind", ["decode", "prefill"])
def test_what_a_profile_has_not_is_estimated(kind: str) -> None:
    step = estimate()
    found = profiled([row for row in rows_of(step, ratio=2.0) if row["kind"] != kind])
    assert found.evidence is Evidence.ESTIMATED
    assert any(f"has no {kind} steps" in note for note in found.notes)
    n, kv, tokens = np.array([8.0]), np.array([8_000.0]), np.array([512.0])
    assert found.decode_s(n, kv) / step.decode_s(n, kv) == pytest.approx(1.0 if kind == "decode" else 2.0)
    if kind == "prefill":
        assert found.prefill_s(tokens) == pytest.approx(step.prefill_s(tokens))


def test_kernels_are_taken_half_and_not_where_they_are_too_slow() -> None:
    """Half of the logarithm: 1.21 times the estimate becomes 1.1; at twice the estimate no engine runs that kernel."""
    step = estimate()
    n, kv = np.array([8.0]), np.array([8_000.0])
    near = profiled(rows_of(step, ratio=1.21, timed="kernels"))
    assert near.decode_s(n, kv) == pytest.approx(1.1 * step.decode_s(n, kv))
    assert near.evidence is Evidence.PROFILED
    assert near.band.new == "kernels"
    assert band_of(near).assumption.source.where != band_of(step).assumption.source.where
    far = profiled(rows_of(step, ratio=2.0, timed="kernels"))
    assert far.decode_s(n, kv) == pytest.approx(step.decode_s(n, kv))
    assert far.evidence is Evidence.ESTIMATED
    assert far.band == step.band
    assert any("At 100 % of its decode points" in note for note in far.notes)


def test_kernels_give_way_to_published_measurements_of_the_same_configuration() -> None:
    step = estimate()
    exact = replace(step, band=replace(step.band, new="exact"))
    found = profiled(rows_of(step, ratio=1.2, timed="kernels"), like=exact)
    assert found.times is exact.times
    assert "not used" in found.notes[0]


def test_a_profile_faster_than_physics_is_held_at_the_floor() -> None:
    found = profiled(rows_of(estimate(), ratio=1e-6))
    floor = float(found.floor.decode_s(np.array([8.0]), np.array([8000.0]))[0])
    assert found.step_s(sequences=8, kv_tokens=8000) == pytest.approx(floor)


def test_our_own_table() -> None:
    found = read_profile(
        [
            own("decode", 0.010, sequences=1, kv_tokens=1_000),
            own("decode", 0.020, sequences=8, kv_tokens=80_000),
            own("decode", 0.022, sequences=8, kv_tokens=80_000),
            own("decode", 0.012, sequences=8, kv_tokens=8_000),
            own("prefill", 0.050, tokens=1_024),
        ]
    )
    measured = found.measured
    assert (measured.sequences, measured.kv_tokens, measured.prefill_tokens) == (8, 80_000, 1024)
    assert [each.duration_s for each in found.grid.decode] == pytest.approx([0.010, 0.012, 0.021])


ONE = own("decode", 0.1, sequences=1, kv_tokens=1)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "columns"),
        ([{"batch": "1"}], "columns"),
        ([own("decode", 0.1, sequences="one", kv_tokens=1)], "line 2: sequences"),
        ([own("decode", 0.1, sequences=-1, kv_tokens=1)], "line 2: sequences"),
        ([own("decode", "nan", sequences=1, kv_tokens=1)], "line 2: duration_s"),
        ([own("decoding", 0.1, sequences=1, kv_tokens=1)], "line 2: kind"),
        ([own("decode", 0, sequences=1, kv_tokens=1)], "measured step"),
        ([{**ONE, "timed": "dreams"}], "timed"),
        ([{**ONE, "tp": "two"}], "tp"),
        ([{**ONE, "tp": "1"}, {**ONE, "tp": "2"}], "differs between rows"),
    ],
)
def test_a_bad_table_is_named(rows: list[Row], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_profile(rows)


def test_a_sweep_of_dynamo(shared_data: Path) -> None:
    """Its 16 prompt lengths and its decode grid; more context at the same load is never faster."""
    with (shared_data / "measured" / "dynamo_h200_profile.csv").open(newline="") as file:
        found = read_profile(csv.DictReader(file))
    assert found.measured.prefill_tokens > 16_000
    assert found.measured.kv_tokens > 500_000
    step = profiled_model(found, like=estimate(), source=SOURCE)
    # A client's TTFT has the time outside the engine inside it.
    assert step.request_overhead_s == 0.0
    tokens, pairs = 16_372, 16_372 * 16_373 / 2
    whole_s = step.step_s(sequences=0, kv_tokens=0, prefill_tokens=tokens, pairs=pairs)
    assert whole_s == pytest.approx(0.375, abs=0.01)
    table = step.table(max_sequences=64, budget_tokens=8_192, kv_tokens=500_000)
    assert (table.decode_slope_ps >= 0).all()
