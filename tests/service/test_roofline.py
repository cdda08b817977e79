"""Laws of the roofline: monotone in every input, never below the floor, exact against a hand count."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.replicas import EFFICIENCIES, RATES, floor_of, roofline, small_model
from ullage.facts.model_sheet import find_model
from ullage.memory.kv import kv_dtype
from ullage.memory.parameters import active_parameter_count, parameter_count
from ullage.memory.sharding import Sharding
from ullage.service.steps.coefficients import coefficients, engine_age_years, generation_of
from ullage.service.steps.roofline import Roofline
from ullage.service.steps.work import MatrixWork, replica_work

MODELS = {"dense": small_model(), "experts": small_model(experts=64), "window": small_model(window_tokens=1024)}
batches = st.integers(1, 512)
contexts = st.integers(1, 16_384)
prompts = st.integers(0, 8192)


def one(value: float) -> np.ndarray:
    return np.array([float(value)])


def test_weights_and_operations_are_those_of_the_parameters() -> None:
    work = replica_work(MODELS["dense"], Sharding(), kv_dtype("bf16"))
    embedding = 128_256 * 4096
    stored = sum(each.stored_bytes for each in work.matrices)
    assert stored == pytest.approx(2 * (parameter_count(MODELS["dense"]) - embedding), rel=1e-4)
    flops = sum(each.flops_per_token for each in work.matrices)
    assert flops == pytest.approx(2 * (active_parameter_count(MODELS["dense"]) - embedding), rel=1e-4)


def test_experts_are_read_as_far_as_tokens_are_sent_to_them() -> None:
    (routed,) = [
        each for each in replica_work(MODELS["experts"], Sharding(), kv_dtype("bf16")).matrices if each.experts
    ]
    tokens = np.array([1.0, 2.0, 10_000.0])
    share = routed.even_bytes(tokens) / routed.stored_bytes
    assert share[[0, 2]] == pytest.approx([8 / 64, 1.0])
    # Two tokens meet at popular experts more often than by chance alone, and never read less than one does.
    assert 8 / 64 < share[1] < 1 - (56 / 64) ** 2


def _routed(sharding: Sharding, experts: int = 64) -> MatrixWork:
    work = replica_work(small_model(experts=experts), sharding, kv_dtype("bf16"))
    (found,) = [each for each in work.matrices if each.experts]
    return found


@given(tokens=st.integers(1, 4096), ep=st.sampled_from([2, 4, 8]))
def test_whole_experts_wait_for_the_group_that_most_tokens_choose(tokens: int, ep: int) -> None:
    """Slices of every expert share out the work evenly; whole experts do so only when all of them are read."""
    sliced, whole = _routed(Sharding(tp=8)), _routed(Sharding(tp=8, ep=ep))
    assert whole.stored_bytes == pytest.approx(sliced.stored_bytes)
    assert whole.even_bytes(one(tokens))[0] == pytest.approx(sliced.even_bytes(one(tokens))[0])
    assert whole.flops(one(tokens))[0] >= sliced.flops(one(tokens))[0]
    assert whole.read_bytes(one(tokens))[0] >= sliced.read_bytes(one(tokens))[0]


def test_expert_parallelism_changes_the_time_of_a_step() -> None:
    """Dearer at a few tokens, where one group has more experts to read; cheaper in a long prefill, where slices of
    experts each move a copy of every token."""
    model = small_model(experts=64)
    sliced, whole = (
        Roofline(
            work=replica_work(model, Sharding(tp=8, ep=ep), kv_dtype("bf16")), rates=RATES, efficiencies=EFFICIENCIES
        )
        for ep in (1, 8)
    )
    assert whole.work.activation_bytes_per_token < sliced.work.activation_bytes_per_token
    slices, groups = (each.work.matrices[-2] for each in (sliced, whole))
    assert groups.experts == slices.experts == 64
    few = one(4)
    assert groups.read_bytes(few)[0] > slices.read_bytes(few)[0]
    assert whole.decode_s(few, few)[0] != sliced.decode_s(few, few)[0]


@pytest.mark.parametrize(("ep", "most"), [(1, 7 / 8), (8, 1.0), (2, 7 / 8)])
def test_tokens_of_attention_groups_travel_to_experts_and_back(ep: int, most: float) -> None:
    """Two messages a layer in place of a sum, none larger than gathering all tokens on every device."""
    work = replica_work(small_model(experts=64), Sharding(tp=8, ep=ep, dp_attention=8), kv_dtype("bf16"))
    (exchange,) = work.collectives
    assert exchange.count == 2 * 32
    assert 0 < exchange.sent_bytes_per_token <= most * 4096 * 2


def test_one_device_sends_nothing() -> None:
    assert replica_work(small_model(experts=64), Sharding(), kv_dtype("bf16")).collectives == ()


def test_mixers_of_more_parts_launch_more_kernels() -> None:
    """A scorer beside attention counts, and so does quantising what goes into narrow matrices."""
    kernels = {
        name: replica_work(find_model(name), Sharding(), kv_dtype("fp8")).kernels / find_model(name).layer_count
        for name in (
            "llama-3.1-8b",
            "llama-3.1-70b-fp8",
            "qwen3-8b",
            "deepseek-v3",
            "deepseek-v3.2",
            "qwen3-next-80b-a3b",
        )
    }
    assert kernels["llama-3.1-8b"] < kernels["qwen3-8b"] < kernels["qwen3-next-80b-a3b"]
    assert kernels["llama-3.1-8b"] < kernels["llama-3.1-70b-fp8"] < kernels["deepseek-v3"] < kernels["deepseek-v3.2"]


def test_an_older_engine_is_slower() -> None:
    assert engine_age_years("vllm", None) == engine_age_years("vllm", "0.32.0") == 0.0
    assert engine_age_years("nobody's", "1.0") == 0.0
    now, then = (
        coefficients("vllm", "Hopper", years=engine_age_years("vllm", version)).values
        for version in ("0.19.1", "0.11.0")
    )
    assert then.kernel_overhead_s > now.kernel_overhead_s
    assert then.bandwidth_fraction == now.bandwidth_fraction


def test_what_is_known_of_a_vendor_holds_for_its_new_generation() -> None:
    """CDNA 4 was not measured; that launches take longer on its vendor's devices was."""
    usual, other = coefficients("vllm", "Rubin", vendor="NVIDIA"), coefficients("vllm", "CDNA 4", vendor="AMD")
    assert other.values.kernel_overhead_s > usual.values.kernel_overhead_s
    assert other.band.new == usual.band.new == "generation"


def test_a_window_bounds_what_is_read() -> None:
    times = roofline(MODELS["window"])
    full = times.decode_s(one(4), one(4 * 1024))
    assert times.decode_s(one(4), one(4 * 9000))[0] == pytest.approx(full[0])


@pytest.mark.parametrize("name", MODELS)
@given(sequences=batches, context=contexts, tokens=prompts)
def test_more_of_anything_never_takes_less_time(name: str, sequences: int, context: int, tokens: int) -> None:
    times = roofline(MODELS[name])
    kv = sequences * context
    here = times.decode_s(one(sequences), one(kv))[0]
    assert times.decode_s(one(sequences + 1), one(kv))[0] >= here
    assert times.decode_s(one(sequences), one(kv + 1000))[0] >= here
    assert times.prefill_s(one(tokens + 64))[0] >= times.prefill_s(one(tokens))[0]
    assert times.pair_s >= 0


@pytest.mark.parametrize("name", MODELS)
@given(sequences=batches, context=contexts, tokens=prompts, tp=st.sampled_from([1, 2, 4, 8]))
def test_no_step_is_faster_than_the_floor(name: str, sequences: int, context: int, tokens: int, tp: int) -> None:
    times = roofline(MODELS[name], tp=tp)
    floor = floor_of(times)
    kv, pairs = sequences * context, tokens * tokens // 2
    decode = times.decode_s(one(sequences), one(kv))[0]
    assert decode >= floor.decode_s(one(sequences), one(kv))[0]
    step = decode + times.prefill_s(one(tokens))[0] + pairs * times.pair_s
    assert step >= floor.step_s(sequences, kv, tokens, pairs) * (1 - 1e-9)


@given(sequences=batches, context=contexts, tokens=st.integers(1, 8192))
def test_more_devices_never_do_the_work_itself_slower(sequences: int, context: int, tokens: int) -> None:
    """Without messages and overheads, cutting a model over twice the devices cannot take longer."""
    free = {name: 0.0 for name in EFFICIENCIES.__dataclass_fields__ if name.endswith("_s")}
    without = type(EFFICIENCIES)(
        **{**{n: getattr(EFFICIENCIES, n) for n in EFFICIENCIES.__dataclass_fields__}, **free, "link_fraction": 1e9}
    )
    fewer, more = roofline(tp=2, efficiencies=without), roofline(tp=4, efficiencies=without)
    kv = sequences * context
    assert more.decode_s(one(sequences), one(kv))[0] <= fewer.decode_s(one(sequences), one(kv))[0] * (1 + 1e-9)
    assert more.prefill_s(one(tokens))[0] <= fewer.prefill_s(one(tokens))[0] * (1 + 1e-9) + 1e-12


def test_groups_of_devices_share_out_the_sequences() -> None:
    """Data-parallel attention: each group reads the KV of its own sequences alone."""
    both = replica_work(small_model(experts=64), Sharding(tp=8, ep=8, dp_attention=8), kv_dtype("bf16"))
    times = Roofline(work=both, rates=RATES, efficiencies=EFFICIENCIES)
    more = times.decode_s(one(64), one(64 * 4000))[0] - times.decode_s(one(64), one(64))[0]
    each = small_model(experts=64)
    alone = Roofline(work=replica_work(each, Sharding(), kv_dtype("bf16")), rates=RATES, efficiencies=EFFICIENCIES)
    assert more == pytest.approx(
        (alone.decode_s(one(8), one(8 * 4000))[0] - alone.decode_s(one(8), one(8))[0]), rel=1e-6
    )


def test_packaged_efficiencies_are_shares_and_times() -> None:
    for engine in ("vllm", "sglang", "trtllm", "an engine nobody knows"):
        for architecture in ("Hopper", "Blackwell Ultra", "CDNA 3", "Ampere"):
            found = coefficients(engine, architecture)
            for name in found.values.__dataclass_fields__:
                value = getattr(found.values, name)
                assert 0 < value < (1 if name.endswith("_fraction") else 0.1), name
            assert found.band.tpot_low_ratio < 1 < found.band.tpot_high_ratio
            assert found.band.new == ("generation" if architecture == "Ampere" else "model")


def test_what_is_less_known_has_a_wider_band() -> None:
    """A model of a known generation, a generation of a known vendor, a vendor nobody measured."""
    cases = (("Hopper", "NVIDIA"), ("Rubin", "NVIDIA"), ("Gaudi 3", "Intel"))
    model, generation, vendor = (coefficients("vllm", each, vendor=maker).band for each, maker in cases)
    assert (model.new, generation.new, vendor.new) == ("model", "generation", "vendor")
    assert vendor.tpot_high_ratio / vendor.tpot_low_ratio > generation.tpot_high_ratio / generation.tpot_low_ratio


def test_ultra_is_the_same_generation() -> None:
    assert generation_of("Blackwell Ultra") == generation_of("Blackwell")
    assert coefficients("vllm", "Blackwell Ultra").values == coefficients("vllm", "Blackwell").values
