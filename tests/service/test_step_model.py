"""Step models of every kind: tables equal the function, floors hold, ranges are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.replicas import SOURCE, floor_of, roofline, small_model
from ullage.errors import InputError
from ullage.evidence import Evidence, walk
from ullage.facts.device import find_device
from ullage.memory.kv import kv_dtype
from ullage.memory.settings import RuntimeSettings, resolve
from ullage.memory.sharding import Sharding
from ullage.service.steps.step_model import StepModel, replica_step, roofline_model
from ullage.service.steps.tables import step_table
from ullage.simulate.engine import PS_PER_S


def model(*, tp: int = 1) -> StepModel:
    return roofline_model(
        small_model(), find_device("h100-sxm"), sharding=Sharding(tp=tp), engine="vllm", cache=kv_dtype("bf16")
    )


def test_the_table_is_the_function_on_its_grid() -> None:
    step = model()
    table = step.table(max_sequences=32, budget_tokens=2048, kv_tokens=100_000)
    assert table.kv_segment_tokens == 4096
    for sequences in (1, 7, 32):
        for segment in (1, 5, 31):
            kv = segment * table.kv_segment_tokens
            expected = step.step_s(sequences=sequences, kv_tokens=kv)
            assert table.decode_base_ps[sequences, segment] == pytest.approx(expected * PS_PER_S, rel=1e-9)
    for segment in (1, 7, 31):
        tokens = segment * table.token_segment_tokens
        added = step.step_s(sequences=0, kv_tokens=0, prefill_tokens=tokens) - step.step_s(sequences=0, kv_tokens=0)
        assert table.token_base_ps[segment] == pytest.approx(added * PS_PER_S, rel=1e-6)
    assert table.pair_ps == pytest.approx(step.pair_s * PS_PER_S)


@given(sequences=st.integers(1, 64), kv=st.integers(64, 400_000), tokens=st.integers(64, 4096))
def test_the_table_follows_the_function_between_grid_points(sequences: int, kv: int, tokens: int) -> None:
    step = model()
    table = step.table(max_sequences=64, budget_tokens=4096, kv_tokens=400_000)
    g = min(kv // table.kv_segment_tokens, table.decode_base_ps.shape[1] - 1)
    ps = table.decode_base_ps[sequences, g] + table.decode_slope_ps[sequences, g] * (kv - g * table.kv_segment_tokens)
    assert ps == pytest.approx(step.step_s(sequences=sequences, kv_tokens=kv) * PS_PER_S, rel=0.01)
    h = min(tokens // table.token_segment_tokens, table.token_base_ps.size - 1)
    ps = table.token_base_ps[h] + table.token_slope_ps[h] * (tokens - h * table.token_segment_tokens)
    assert ps == pytest.approx(float(step.prefill_s(np.array([float(tokens)]))[0]) * PS_PER_S, rel=0.05)


def test_figures_walk_back_to_the_device_and_the_fit() -> None:
    for figure in model().figures.values():
        assert figure.evidence is Evidence.ESTIMATED
        names = {getattr(each, "name", "") for _, each in walk(figure)}
        assert {"memory_bandwidth", "efficiency.shared.kernel_overhead"} <= names
        assert isinstance(figure.value, float)
        assert 1e-4 < figure.value < 1


def test_the_plan_gets_its_step_model_from_what_the_memory_stage_resolved() -> None:
    device = find_device("h100-sxm")
    runtime = resolve(RuntimeSettings(source=SOURCE, sharding=Sharding(tp=2)), small_model(), device)
    step = replica_step(small_model(), device, runtime)
    assert step.step_s(sequences=8, kv_tokens=8000) < model().step_s(sequences=8, kv_tokens=8000)


def test_a_replica_of_several_devices_needs_a_link() -> None:
    bare = replace(find_device("l4"), link_bandwidth=None, pcie_bandwidth=None)
    with pytest.raises(InputError, match="link"):
        roofline_model(small_model(), bare, sharding=Sharding(tp=2), engine="vllm", cache=kv_dtype("bf16"))


def test_tables_never_fall_as_kv_grows() -> None:
    times = roofline(small_model(window_tokens=512))
    table = step_table(times, max_sequences=16, budget_tokens=1024, kv_tokens=1_000_000)
    assert (table.decode_slope_ps >= 0).all()
    assert (np.diff(table.decode_base_ps, axis=0) >= 0).all()
    assert floor_of(times).decode_s(np.array([1.0]), np.array([1.0]))[0] * PS_PER_S <= table.decode_base_ps[1, 0]
