"""The models that come with ullage: complete, sourced, of the size their publishers state, and as their configs say."""

from __future__ import annotations

import csv
import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.model_configs import SOURCE
from ullage.errors import InputError
from ullage.facts.model import (
    CompressedAttention,
    DenseFeedForward,
    GroupedAttention,
    LatentAttention,
    LinearAttention,
    Model,
    MoeFeedForward,
    StateSpace,
)
from ullage.facts.model_sheet import find_model, model_of, models, read_order, write_order
from ullage.memory.kv import cache_cost
from ullage.memory.parameters import active_parameter_count, device_weights, parameter_count
from ullage.memory.sharding import Sharding

ROOT = Path(__file__).resolve().parents[2]
ALL = {sheet.name: model_of(sheet) for sheet in models()}


def test_there_are_models_of_every_architecture() -> None:
    assert len(ALL) >= 40
    kinds = {type(mixer) for model in ALL.values() for layer in model.each_layer() for mixer in layer.mixers}
    assert kinds >= {GroupedAttention, LatentAttention, CompressedAttention, LinearAttention, StateSpace}
    blocks = {type(layer.feed_forward) for model in ALL.values() for layer in model.each_layer()}
    assert blocks == {DenseFeedForward, MoeFeedForward, type(None)}
    grouped = [
        mixer
        for model in ALL.values()
        for layer in model.each_layer()
        for mixer in layer.mixers
        if isinstance(mixer, GroupedAttention)
    ]
    assert any(mixer.window_tokens for mixer in grouped)
    assert any(mixer.chunk_tokens for mixer in grouped)
    assert any(mixer.shares_key_value for mixer in grouped)
    formats = {layer.formats.routed.name for model in ALL.values() for layer in model.each_layer()}
    assert formats >= {"bf16", "fp8", "mxfp4", "nvfp4", "int4"}


@pytest.mark.parametrize("name", sorted(ALL))
def test_each_model_says_where_it_comes_from(name: str) -> None:
    model = ALL[name]
    assert model.sources
    assert all(source.where.startswith("huggingface.co/") for source in model.sources)
    assert "/" in model.aliases[0]
    assert find_model(model.aliases[0]).name == name
    assert find_model(model.aliases[0].upper()).name == name


# Billions of parameters as publishers state them on the model's card or show them for its repository.
PUBLISHED = {name: model for name, model in ALL.items() if model.published is not None}


def test_enough_sizes_are_published() -> None:
    assert len({model.published.total_parameters for model in PUBLISHED.values() if model.published}) >= 30


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_our_count_is_within_one_percent_of_the_published_size(name: str) -> None:
    model = PUBLISHED[name]
    assert model.published is not None
    assert parameter_count(model) == pytest.approx(model.published.total_parameters, rel=0.01)


@pytest.mark.parametrize("name", sorted(name for name, model in PUBLISHED.items() if model.published))
def test_our_active_count_is_the_published_one_to_its_last_digit(name: str) -> None:
    published = PUBLISHED[name].published
    if published is None or published.active_parameters is None:
        return
    stated = published.active_parameters / 1e9
    # Publishers round, or cut (3.35 is published as 3.3): 0.6 units of the last digit they state.
    unit = 0.1 if stated != round(stated) else 1.0
    assert active_parameter_count(PUBLISHED[name]) / 1e9 == pytest.approx(stated, abs=0.6 * unit)


@pytest.mark.parametrize(
    ("name", "billions", "embedding"),
    [
        ("gpt-oss-120b", 5.13, False),  # OpenAI counts the head and not the embedding
        ("gpt-oss-20b", 3.61, False),
        ("gemma-4-26b-a4b", 3.8, True),
        ("nemotron-3-nano-30b-a3b", 3.6, True),
        ("deepseek-v3", 37, False),
        ("mixtral-8x7b", 12.9, True),
    ],
)
def test_active_parameters_by_their_publishers_definition(name: str, billions: float, embedding: bool) -> None:
    model = ALL[name]
    table = 0 if embedding else model.vocabulary_tokens * model.hidden_channels
    assert (active_parameter_count(model) - table) / 1e9 == pytest.approx(billions, rel=0.015)


def test_the_text_model_of_gemma_4_has_the_published_size() -> None:
    assert parameter_count(ALL["gemma-4-26b-a4b"], vision=False) == pytest.approx(25.2e9, rel=0.01)


@pytest.mark.parametrize(
    ("name", "bytes_per_token"),
    [
        ("llama-2-7b", 524_288),
        ("llama-2-70b", 327_680),
        ("qwen3-235b-a22b", 192_512),
        ("qwen3-next-80b-a3b", 24_576),
        ("gemma-3-27b", 81_920),
        ("deepseek-v3", 70_272),
        ("gpt-oss-120b", 36_864),
        ("glm-5", 89_856),
        ("granite-4.0-h-small", 16_384),
        ("nemotron-3-nano-30b-a3b", 6_144),
        ("kimi-linear-48b-a3b", 7 * (512 + 64) * 2),
    ],
)
def test_cache_of_named_models(name: str, bytes_per_token: int) -> None:
    assert cache_cost(ALL[name]).kv_bytes_per_token == bytes_per_token


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_model_facts", ROOT / "scripts" / "write_model_facts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["write_model_facts"] = module
    spec.loader.exec_module(module)
    return module


def test_a_checkpoint_of_mixed_precision_has_the_size_of_its_files() -> None:
    """Nemotron 3 Super in NVFP4 is 75 GB (as `du` counts, GiB) in 17 files; all of it in NVFP4 would be 66."""
    (held,) = device_weights(ALL["nemotron-3-super-120b-a12b-nvfp4"], Sharding(tp=1), mtp=True)
    assert sum(line.stored_bytes for line in held.lines) / 2**30 == pytest.approx(75, rel=0.03)


@pytest.mark.slow
def test_sheets_say_what_the_reader_reads(shared_data: Path) -> None:
    """Each sheet is the model its config gives, but for what a sheet says about itself."""
    script = _script()
    entries = script.entries()
    assert {entry.name for entry in entries} == set(ALL)
    for entry in entries:
        read = script.model_of_entry(entry, shared_data / "model_configs")
        assert _bare(read) == _bare(ALL[entry.name]), entry.name
        written = (ROOT / "src" / "ullage" / "facts" / "models" / f"{entry.name}.toml").read_text(encoding="utf-8")
        assert script.sheet_text(entry, read) == written, entry.name


def _bare(model: Model) -> Model:
    return replace(model, sources=(SOURCE,), aliases=(), published=None, assumptions=(), notes=(), name="")


def test_the_table_of_models_is_in_order_and_without_doubles() -> None:
    with (ROOT / "scripts" / "models.csv").open(encoding="utf-8", newline="") as table:
        rows = list(csv.DictReader(table))
    names = [row["name"] for row in rows]
    assert names == sorted(set(names))
    repositories = [each for row in rows for each in (row["repository"], *row["other_repositories"].split())]
    assert len(repositories) == len(set(repositories))


@given(st.lists(st.sampled_from(("full", "linear", "dense")), min_size=1, max_size=40))
def test_an_order_is_read_back_as_it_was_written(names: list[str]) -> None:
    assert read_order(write_order(names), field="order") == names


def test_orders_that_are_none() -> None:
    for written in ("3*", "(full", "full)", "2**full", "9999*full", "2*(3*(a))"):
        with pytest.raises(InputError):
            read_order(written, field="order")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (('order = "4*layer"', 'order = "4*other"'), "order = 'other': is not known"),
        (("kv_heads = 2", "kv_heads = 3"), "mixers.full"),
        (("kv_heads = 2", ""), "has no kv_heads"),
        (("kv_heads = 2", "kv_heads = 2\nlatent_channels = 8"), "latent_channels"),
        (('kind = "grouped"', 'kind = "magic"'), "mixers.kind = 'magic'"),
        (('weights = "bf16"', 'weights = "fp7"'), "weights = 'fp7'"),
    ],
)
def test_a_users_own_sheet_is_checked(change: tuple[str, str], problem: str) -> None:
    assert find_model("mine", models().overlaid({"mine.toml": _OWN})).layer_count == 4
    broken = models().overlaid({"mine.toml": _OWN.replace(*change)})
    with pytest.raises(InputError) as refusal:
        find_model("mine", broken)
    assert problem in str(refusal.value)


_OWN = """
title = "My model"
architecture = "LlamaForCausalLM"
order = "4*layer"
source = "me"

[sources.me]
what = "our own training run"
where = "here"
date = 2026-11-15
evidence = "stated"

[values]
hidden_channels = 128
vocabulary_tokens = 1000
max_context_tokens = 4096
tied_embeddings = true
weights = "bf16"

[[mixers]]
name = "full"
kind = "grouped"
query_heads = 8
kv_heads = 2
key_channels = 16
value_channels = 16

[[blocks]]
name = "dense"
kind = "dense"
inner_channels = 256

[[layers]]
name = "layer"
mixers = "full"
block = "dense"
"""


def test_an_unknown_model_gets_the_nearest_names() -> None:
    with pytest.raises(InputError, match=r"Did you mean .*llama-3\.1-70b"):
        find_model("llama-3.1-71b")
