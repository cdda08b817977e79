"""The laws of a memory budget: lines add up, a reported value wins, what is accepted fits, what is offered helps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.served import GEMMA_3_27B, LLAMA_2_7B, LLAMA_2_70B, LLAMA_3_8B, LLAMA_3_70B, QWEN3_235B, SERVED, SOURCE
from ullage.errors import InputError, Rejection
from ullage.evidence import Evidence, Source, walk
from ullage.facts.device import device_of, devices, find_device
from ullage.facts.model import Model
from ullage.memory.adapters import Adapters, adapter_bytes
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.memory.case import Approved
from ullage.memory.estimate import LineName
from ullage.memory.remedies import TP_DEGREES
from ullage.memory.settings import RuntimeSettings
from ullage.memory.sharding import Sharding

DEVICES = tuple(device_of(sheet) for sheet in devices())
H100 = find_device("h100-sxm")
H200 = find_device("h200-sxm")
ENGINES = ("vllm", "sglang", "tensorrt-llm")
GIB = 2**30

# By name: a model's own text is too long to print when a law is broken.
BY_NAME = {model.name: model for model in SERVED}
names = st.sampled_from(sorted(BY_NAME))
engines = st.sampled_from(ENGINES)
device_names = st.sampled_from([device.name for device in DEVICES])
degrees = st.sampled_from((1, 2, 4, 8))
dtypes = st.sampled_from(("fp32", "bf16", "fp8", "nvfp4"))


def settings(**stated: object) -> RuntimeSettings:
    tp = stated.pop("tp", 1)
    assert isinstance(tp, int)
    return RuntimeSettings(source=SOURCE, sharding=Sharding(tp=tp), **stated)  # type: ignore[arg-type]


def accepted(model: Model, **stated: object) -> MemoryBudget:
    device = stated.pop("device", H100)
    found = memory_budget(model, device, settings(**stated))  # type: ignore[arg-type]
    assert isinstance(found, MemoryBudget), found
    return found


@pytest.mark.slow
@given(name=names, device=device_names, engine=engines, tp=degrees, dtype=dtypes, fraction=st.floats(0.3, 1.0))
def test_lines_add_up_to_the_device_and_headroom_is_never_negative(
    name: str, device: str, engine: str, tp: int, dtype: str, fraction: float
) -> None:
    try:
        found = memory_budget(
            BY_NAME[name],
            find_device(device),
            settings(engine=engine, tp=tp, kv_dtype=dtype, memory_fraction=fraction, max_context_tokens=2048),
        )
    except InputError:
        return  # a tp that no engine can load this model with
    if isinstance(found, Rejection):
        assert found.stage == "memory"
        assert found.figure.value > 0  # type: ignore[operator]
        return
    assert sum(line.line_bytes for line in found.lines) == found.device_bytes
    assert min(line.line_bytes for line in found.lines) >= 0
    assert found.headroom_bytes >= 0
    assert found.worst.sequences >= 1
    assert found.kv_blocks * found.kv_block_bytes == found.line(LineName.KV_CACHE).line_bytes


@pytest.mark.slow
@given(name=names, tp=degrees, engine=engines)
def test_more_devices_never_lower_the_tokens_of_a_replica(name: str, tp: int, engine: str) -> None:
    """With the lines that do not depend on tp held equal, more tp leaves more cache and never dearer tokens."""
    try:
        pair = [
            memory_budget(
                BY_NAME[name], H200, settings(engine=engine, tp=each, max_context_tokens=4096, memory_fraction=0.9)
            )
            for each in (tp, 2 * tp)
        ]
    except InputError:
        return
    if isinstance(pair[0], Rejection):
        return
    assert isinstance(pair[1], MemoryBudget), pair[1]
    # The first second device brings communication buffers, which is another line; it never eats a whole percent here.
    slack = pair[1].line(LineName.COMMUNICATION).line_bytes - pair[0].line(LineName.COMMUNICATION).line_bytes
    assert pair[1].kv_bytes_per_token <= pair[0].kv_bytes_per_token
    assert pair[1].kv_tokens >= pair[0].kv_tokens * (1 - slack / pair[0].device_bytes)


@pytest.mark.slow
@given(name=names, tp=degrees, pair=st.sampled_from((("fp8", "bf16"), ("bf16", "fp32"), ("nvfp4", "fp8"))))
def test_a_larger_cache_dtype_never_raises_the_tokens(name: str, tp: int, pair: tuple[str, str]) -> None:
    """Exactly, but for hybrids with states: their page is a state rounded up to whole tokens of the dtype."""
    try:
        small, large = (
            memory_budget(BY_NAME[name], H200, settings(tp=tp, kv_dtype=dtype, max_context_tokens=4096))
            for dtype in pair
        )
    except InputError:
        return
    if isinstance(large, Rejection):
        return
    assert isinstance(small, MemoryBudget)
    slack = 0.01 if small.kv_block_tokens > 16 else 0.0
    assert small.kv_tokens >= large.kv_tokens * (1 - slack)


@pytest.mark.slow
@given(name=names, fraction=st.integers(50, 94))
def test_a_larger_fraction_never_lowers_the_tokens(name: str, fraction: int) -> None:
    less, more = (
        memory_budget(BY_NAME[name], H200, settings(tp=2, memory_fraction=each / 100, max_context_tokens=2048))
        for each in (fraction, fraction + 1)
    )
    assume(isinstance(less, MemoryBudget) and isinstance(more, MemoryBudget))
    assert isinstance(less, MemoryBudget)
    assert isinstance(more, MemoryBudget)
    assert more.kv_tokens >= less.kv_tokens


@pytest.mark.slow
@given(
    name=names,
    context=st.sampled_from((512, 4096, 32768, 131072)),
    sequences=st.sampled_from((1, 8, 64, 200)),
    tp=degrees,
)
def test_what_is_accepted_holds_the_approved_load(name: str, context: int, sequences: int, tp: int) -> None:
    model = BY_NAME[name]
    approved = Approved(context_tokens=min(context, model.max_context_tokens), sequences=sequences)
    try:
        found = memory_budget(
            model, H200, settings(tp=tp, max_context_tokens=approved.context_tokens), approved=approved
        )
    except InputError:
        return
    if isinstance(found, MemoryBudget):
        assert found.worst.sequences >= sequences
        needed = found.kv_bytes_per_token * approved.context_tokens * sequences
        assert needed <= found.line(LineName.KV_CACHE).line_bytes
        assert found.longest_context_tokens >= approved.context_tokens


def test_every_figure_ends_in_sources() -> None:
    found = accepted(QWEN3_235B, tp=8, device=H200)
    for name, figure in found.figures.items():
        assert name == figure.name
        leaves = [each for _, each in walk(figure) if isinstance(each, Source)]
        assert leaves, name


def test_defaults_are_listed_as_assumptions_and_stated_values_as_stated() -> None:
    found = accepted(LLAMA_3_8B, memory_fraction=0.8)
    evidence = {each.name: each.evidence for each in found.runtime.assumptions}
    assert evidence["memory fraction"] is Evidence.STATED
    assert evidence["vllm token_budget"] is Evidence.ASSUMED


# ---- what fits, against hand-worked figures -------------------------------------------------------------


def test_weights_of_llama_2_70b_over_four_devices() -> None:
    """68,976,648,192 parameters of 2 bytes; norms (161 x 8192) are whole on every device, the rest a quarter."""
    found = accepted(LLAMA_2_70B, tp=4, max_context_tokens=4096)
    norms = 161 * 8192
    assert found.line(LineName.WEIGHTS).line_bytes == 2 * ((68_976_648_192 - norms) // 4 + norms)
    assert found.kv_bytes_per_token == 80 * 2 * 2 * 128 * 2


def test_activations_are_the_wider_of_layer_and_sampler() -> None:
    """Llama-3.1-8B, 8192 tokens a step: 1024 x 128256 x 10 bytes sampled; with 16 sequences the feed-forward wins."""
    wide = accepted(LLAMA_3_8B, step_tokens=8192, max_sequences=1024)
    assert wide.line(LineName.ACTIVATIONS).line_bytes == 1024 * 128256 * 10
    narrow = accepted(LLAMA_3_8B, step_tokens=8192, max_sequences=16)
    assert narrow.line(LineName.ACTIVATIONS).line_bytes == 8192 * (2 * 4096 + 3 * 14336) * 2


def test_graphs_lie_inside_the_fraction_only_where_the_engine_takes_them_out_of_it() -> None:
    old = accepted(LLAMA_3_8B, version="0.16", memory_fraction=0.9)
    new = accepted(LLAMA_3_8B, version="0.27", memory_fraction=0.9)
    graphs = new.line(LineName.GRAPHS).line_bytes
    assert graphs == old.line(LineName.GRAPHS).line_bytes > 0
    difference = old.line(LineName.KV_CACHE).line_bytes - new.line(LineName.KV_CACHE).line_bytes
    workspace = new.line(LineName.WORKSPACE).line_bytes - old.line(LineName.WORKSPACE).line_bytes
    assert abs(difference - workspace - graphs) <= new.kv_block_bytes


def test_no_graphs_are_captured_when_told_not_to() -> None:
    assert accepted(LLAMA_3_8B, graphs=False).line(LineName.GRAPHS).line_bytes == 0


def test_offloaded_weights_leave_the_device_for_the_host() -> None:
    whole = accepted(LLAMA_2_7B)
    found = accepted(LLAMA_2_7B, weight_offload_bytes=4 * GIB)
    assert whole.line(LineName.WEIGHTS).line_bytes - found.line(LineName.WEIGHTS).line_bytes == 4 * GIB
    assert found.host.needed_bytes - whole.host.needed_bytes == 4 * GIB
    assert found.kv_tokens > whole.kv_tokens


def test_an_offloaded_cache_is_counted_in_tokens() -> None:
    found = accepted(LLAMA_3_8B, kv_offload_bytes=16 * GIB)
    assert found.host.offloaded_kv_tokens == 16 * GIB // 131072


def test_a_host_that_cannot_hold_the_offload_is_refused_with_an_offload_that_fits() -> None:
    asked = settings(kv_offload_bytes=64 * GIB, max_context_tokens=8192)
    found = memory_budget(LLAMA_3_8B, H100, asked, host_bytes=32 * GIB)
    assert isinstance(found, Rejection)
    assert found.reason.startswith("host memory: ")
    (remedy,) = found.remedies
    offload = int(float(remedy.change.split()[3]) * GIB)
    smaller = settings(kv_offload_bytes=offload, max_context_tokens=8192)
    again = memory_budget(LLAMA_3_8B, H100, smaller, host_bytes=32 * GIB)
    assert isinstance(again, MemoryBudget)
    assert again.host.headroom_bytes is not None
    assert again.host.headroom_bytes >= 0


def test_a_stated_cache_size_is_taken_as_it_is() -> None:
    found = accepted(LLAMA_2_7B, kv_pool_bytes=10 * GIB)
    assert found.kv_tokens == 10 * GIB // 524288


def test_adapters_take_what_their_matrices_take() -> None:
    """Llama-3.1-8B, rank 16, one slot, everything: per layer (in + out) of q, k, v, o, gate, up, down."""
    sides = (4096 + 4096) + 2 * (4096 + 1024) + (4096 + 4096) + 3 * (4096 + 14336)
    bytes_of_one = 32 * 16 * sides * 2
    assert adapter_bytes(LLAMA_3_8B, Sharding(), Adapters(slots=1, rank_channels=16)) == bytes_of_one
    found = accepted(LLAMA_3_8B, adapters=Adapters(slots=8, rank_channels=16))
    assert found.line(LineName.ADAPTERS).line_bytes == 8 * bytes_of_one


def test_pipeline_stages_are_budgeted_by_the_poorest() -> None:
    """81 layers would not split evenly; here the last of 4 stages of 80 layers carries the head."""
    sharding = Sharding(tp=1, pp=4)
    found = memory_budget(LLAMA_3_70B, H100, RuntimeSettings(source=SOURCE, sharding=sharding, max_context_tokens=8192))
    assert isinstance(found, MemoryBudget)
    assert found.kv_bytes_per_token == 20 * 4096
    assert any("pipeline stage" in note for note in found.notes)


def test_attention_groups_multiply_the_cache_of_a_replica() -> None:
    one = accepted(QWEN3_235B, device=H200, tp=8, max_context_tokens=8192)
    found = memory_budget(
        QWEN3_235B,
        H200,
        RuntimeSettings(source=SOURCE, sharding=Sharding(tp=8, dp_attention=8, ep=8), max_context_tokens=8192),
    )
    assert isinstance(found, MemoryBudget)
    assert found.kv_bytes_per_token == 4 * one.kv_bytes_per_token  # 4 heads whole on a device, against 1 of 4 copies
    assert found.kv_tokens % 8 == 0
    assert found.kv_tokens > one.kv_tokens  # copies of the heads waste half the cache under plain tp


def test_an_old_version_holds_fewer_tokens_of_a_hybrid() -> None:
    old, new = (
        accepted(GEMMA_3_27B, device=H200, version=version, memory_fraction=0.9, max_context_tokens=32768)
        for version in ("0.9.0", "0.9.1")
    )
    assert old.stored_bytes_per_token == 6.2 * new.stored_bytes_per_token  # 62 layers keep everything, not 10
    assert old.kv_block_bytes > 5 * new.kv_block_bytes
    assert old.kv_tokens < new.kv_tokens / 2


def test_a_step_is_in_flight_once_not_in_every_sequence() -> None:
    """Gemma-3, short contexts: a sequence that only writes keeps its window of 1024, not a step of 8192 beside it."""
    found = memory_budget(GEMMA_3_27B, H200, settings(step_tokens=8192), contexts_tokens=[16384])
    assert isinstance(found, MemoryBudget)
    (at,) = found.concurrency
    blocks = 16384 // 16 + 6 * (1024 // 16 + 1)
    surge = 6 * (-(-(1023 + 8192) // 16) - 1024 // 16)
    assert at.sequences == (found.kv_blocks - 1 - surge) // blocks


# ---- refusals and remedies ------------------------------------------------------------------------------

REFUSED = [
    (LLAMA_3_70B, H100, {"tp": 1}, None),
    (LLAMA_3_70B, H100, {"tp": 2}, None),
    (LLAMA_3_8B, H100, {"max_context_tokens": 32768}, Approved(context_tokens=32768, sequences=64)),
    (LLAMA_3_8B, find_device("l4"), {}, None),
    (GEMMA_3_27B, H100, {}, Approved(context_tokens=131072, sequences=4)),
    (QWEN3_235B, H100, {"tp": 4}, None),
    (LLAMA_3_8B, H100, {"memory_fraction": 0.22}, None),
]


@pytest.mark.parametrize(("model", "device", "stated", "approved"), REFUSED)
def test_every_remedy_of_a_refusal_really_fits(
    model: Model, device: object, stated: dict[str, object], approved: Approved | None
) -> None:
    found = memory_budget(model, device, settings(**stated), approved=approved, devices=DEVICES)  # type: ignore[arg-type]
    assert isinstance(found, Rejection)
    assert found.remedies, found.reason
    for remedy in found.remedies:
        changed, load, where = dict(stated), approved, device
        words = remedy.change.split()
        match words:
            case ["tp", degree]:
                changed["tp"] = int(degree)
            case ["KV", "dtype", dtype]:
                changed["kv_dtype"] = dtype
            case ["memory", "fraction", fraction]:
                changed["memory_fraction"] = float(fraction)
            case ["context", tokens]:
                changed["max_context_tokens"] = int(tokens)
                load = None if approved is None else replace(approved, context_tokens=int(tokens))
            case ["concurrency", sequences]:
                assert approved is not None
                load = replace(approved, sequences=int(sequences))
            case ["device", name]:
                where = find_device(name)
            case ["token", "budget", tokens, "and", "max", "sequences", sequences]:
                changed |= {"step_tokens": int(tokens), "max_sequences": int(sequences)}
            case _:
                pytest.fail(f"a remedy this test does not know: {remedy.change}")
        again = memory_budget(model, where, settings(**changed), approved=load)  # type: ignore[arg-type]
        assert isinstance(again, MemoryBudget), (remedy, again)
        tokens = next(
            reported for reported in remedy.effect.replace(";", "").split() if "," in reported or reported.isdigit()
        )
        assert f"{again.kv_tokens:,}" in remedy.effect, tokens


def test_the_smallest_tp_holds_and_no_smaller_one_does() -> None:
    found = accepted(LLAMA_3_70B, tp=8, max_context_tokens=131072)
    assert found.smallest_tp is not None
    for tp in TP_DEGREES:
        if tp > found.smallest_tp:
            break
        each = memory_budget(LLAMA_3_70B, H100, settings(tp=tp, max_context_tokens=131072))
        assert isinstance(each, MemoryBudget) == (tp == found.smallest_tp)


def test_one_more_token_than_the_longest_context_does_not_fit() -> None:
    approved = Approved(context_tokens=4096, sequences=100)
    found = memory_budget(LLAMA_3_8B, H100, settings(max_context_tokens=131072), approved=approved)
    assert isinstance(found, MemoryBudget)
    longest = found.longest_context_tokens
    assert 4096 <= longest < 131072
    for context, holds in ((longest, True), (longest + 1, False)):
        load = Approved(context_tokens=context, sequences=100)
        again = memory_budget(LLAMA_3_8B, H100, settings(max_context_tokens=131072), approved=load)
        assert isinstance(again, MemoryBudget) is holds


def test_a_refusal_names_the_line() -> None:
    found = memory_budget(LLAMA_3_70B, H100, settings(tp=1))
    assert isinstance(found, Rejection)
    assert found.reason.startswith("weights: ")
    found = memory_budget(LLAMA_3_70B, H100, settings(tp=2))
    assert isinstance(found, Rejection)
    assert found.reason.startswith("KV cache: ")
    found = memory_budget(LLAMA_3_8B, H100, settings(memory_fraction=1.0))
    assert isinstance(found, Rejection)
    assert found.reason.startswith("safety margin: ")


# ---- bad input ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "field"),
    [
        ({"tp": 3}, "tp"),
        ({"memory_fraction": 0.0}, "memory fraction"),
        ({"memory_fraction": 1.5}, "memory fraction"),
        ({"memory_fraction": float("nan")}, "memory fraction"),
        ({"step_tokens": 0}, "token budget"),
        ({"max_sequences": -1}, "max sequences"),
        ({"max_sequences": 10**9}, "max sequences"),
        ({"block_tokens": 10**6}, "block size"),
        ({"max_context_tokens": 10**6}, "context"),
        ({"kv_dtype": "fp9"}, "KV dtype"),
        ({"engine": "vlm"}, "engine"),
        ({"kv_pool_bytes": 0}, "KV memory"),
        ({"weight_offload_bytes": -5}, "weight offload"),
    ],
)
def test_wrong_settings_name_field_and_fix(stated: dict[str, object], field: str) -> None:
    with pytest.raises(InputError) as raised:
        memory_budget(LLAMA_3_8B, H100, settings(**stated))
    assert raised.value.field == field
    assert raised.value.fix


def test_experts_cannot_be_split_where_there_are_none() -> None:
    with pytest.raises(InputError, match="has none"):
        memory_budget(LLAMA_3_8B, H100, RuntimeSettings(source=SOURCE, sharding=Sharding(tp=4, ep=4)))


def test_more_sequences_than_the_engine_runs_is_a_contradiction() -> None:
    with pytest.raises(InputError, match="concurrency = 5000"):
        memory_budget(
            LLAMA_3_8B,
            H100,
            settings(max_context_tokens=64, max_sequences=100),
            approved=Approved(context_tokens=64, sequences=5000),
        )


def test_an_unknown_version_borrows_the_nearest_and_says_so() -> None:
    found = accepted(LLAMA_3_8B, version="0.99")
    assert any("0.99" in note for note in found.notes)


def test_an_engine_of_one_vendor_is_refused_on_anothers_device() -> None:
    settings = RuntimeSettings(source=SOURCE, engine="tensorrt-llm")
    with pytest.raises(InputError, match="does not run on mi300x"):
        memory_budget(LLAMA_3_8B, find_device("mi300x"), settings)
