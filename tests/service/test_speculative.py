"""Speculation: what a step brings, what it costs by load, and what the draft takes of memory."""

from __future__ import annotations

import datetime
import itertools
from typing import Any

import numpy as np
import pytest

from support.replicas import roofline, small_model
from ullage.errors import InputError
from ullage.evidence import Evidence, Source
from ullage.facts.device import find_device
from ullage.facts.model import Model
from ullage.facts.model_sheet import find_model
from ullage.load.plan import load_plan
from ullage.load.typed import parse_speculation
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.memory.parameters import device_weights
from ullage.memory.settings import RuntimeSettings
from ullage.memory.speculation import Speculation, speculation
from ullage.planning.options.candidates import candidates_of
from ullage.service.calibration.evidence import engine_limits
from ullage.service.calibration.pool_step import pool_step
from ullage.service.calibration.replay import LoadTestReplay, replay
from ullage.service.stage import replica_of
from ullage.service.steps.speculative import PredictionLayers, SpeculativeStep

DAY = datetime.date(2026, 11, 16)
SOURCE = Source(what="test", where="here", date=DAY)


def stated(method: str = "mtp", tokens: int = 3, **more: Any) -> Speculation:
    return speculation(method, tokens, source=SOURCE, field="pool.speculation", **more)


def budget(name: str, given: Speculation | None, **more: Any) -> MemoryBudget:
    settings = RuntimeSettings(source=SOURCE, engine="vllm", max_context_tokens=8192, speculation=given, **more)
    found = memory_budget(find_model(name), find_device("h100-sxm"), settings)
    assert isinstance(found, MemoryBudget)
    return found


def test_tokens_per_step_are_one_and_the_accepted_shares() -> None:
    assert stated(acceptance=[0.8, 0.5, 0.2]).rate_tokens == pytest.approx(2.5)
    assert stated(tokens_per_step=2.5).rate_tokens == 2.5
    assert stated(acceptance=[0.8, 0.5, 0.2]).tokens_per_step.evidence is Evidence.STATED


def test_acceptance_that_is_not_stated_is_published_and_has_a_range() -> None:
    usual = stated().tokens_per_step
    assert usual.evidence is Evidence.ASSUMED
    assert usual.low is not None
    assert usual.high is not None
    assert 1.0 < usual.low < float(usual.value) < usual.high < 4.0


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"method": "magic"}, "pool.speculation.method"),
        ({"tokens": 0}, "pool.speculation.tokens"),
        ({"tokens": 5}, "pool.speculation.acceptance"),  # nothing is published for five
        ({"acceptance": [0.8, 0.5]}, "pool.speculation.acceptance"),  # one share is missing
        ({"acceptance": [0.5, 0.8, 0.2]}, "pool.speculation.acceptance"),  # the second cannot be accepted more often
        ({"tokens_per_step": 4.5}, "pool.speculation.accepted_per_step"),
        ({"tokens_per_step": 2.0, "acceptance": [0.5, 0.3, 0.2]}, "pool.speculation.acceptance"),
        ({"method": "draft", "tokens_per_step": 2.0}, "pool.speculation.draft"),
        ({"method": "ngram", "tokens_per_step": 2.0, "draft": small_model()}, "pool.speculation.draft"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        stated(**given)
    assert caught.value.field == field


def test_a_model_without_prediction_layers_cannot_draft_with_them() -> None:
    with pytest.raises(InputError, match="no multi-token prediction layers"):
        budget("llama-3.1-8b", stated())


@pytest.mark.parametrize(
    ("text", "rate"), [("mtp:3", 2.99), ("mtp:3:2.4", 2.4), ("ngram:4:1.5", 1.5), ("draft:4:2@llama-3.2-1b", 2.0)]
)
def test_it_is_typed_in_one_word(text: str, rate: float) -> None:
    found = parse_speculation(text, find_model, as_of=DAY)
    assert found is not None
    assert found.rate_tokens == rate


@pytest.mark.parametrize("text", ["mtp", "mtp:x", "mtp:3:much", "mtp:3:2:1"])
def test_another_word_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--speculation"):
        parse_speculation(text, find_model, as_of=DAY)


def test_a_draft_model_takes_its_weights_and_its_cache() -> None:
    draft = find_model("llama-3.2-1b")
    plain = budget("llama-3.1-8b", None)
    drafted = budget("llama-3.1-8b", stated("draft", 3, tokens_per_step=2.0, draft=draft))
    (held,) = device_weights(draft, plain.runtime.sharding)
    weights = [each.figures["memory.weights_bytes"].value for each in (plain, drafted)]
    assert float(weights[1]) - float(weights[0]) == held.stored_bytes
    per_token = [float(each.figures["memory.kv_cache_bytes"].value) / each.kv_tokens for each in (plain, drafted)]
    # 16 layers of 8 heads of 64 channels, keys and values of two bytes.
    assert per_token[1] - per_token[0] == pytest.approx(16 * 8 * 64 * 2 * 2)
    assert drafted.kv_tokens < plain.kv_tokens


def test_prediction_layers_are_loaded_to_draft() -> None:
    plain, drafting, loaded = (
        budget("mimo-7b", each, mtp=mtp) for each, mtp in ((None, False), (stated(), False), (None, True))
    )
    assert drafting.kv_tokens == loaded.kv_tokens < plain.kv_tokens


def test_without_speculation_the_step_model_is_the_same_object_of_the_same_table() -> None:
    memory = budget("mimo-7b", None)
    engine = replica_of(pool_step(memory), memory).engine
    assert (engine.tokens_per_step, engine.step_positions) == (1.0, 1)
    assert "speculation" not in pool_step(memory).kind
    times = roofline()
    n, kv = np.array([1.0, 64.0]), np.array([1000.0, 64_000.0])
    assert np.array_equal(times.decode_s(n, kv), times.wide_s(n, kv, positions=1))


def speed_up(model: Model, sequences: float, *, accepted: float = 2.5) -> float:
    times = roofline(model)
    draft = PredictionLayers(roofline=times, layers_fraction=1 / model.layer_count)
    step = SpeculativeStep(times=times, roofline=times, draft_tokens=3, draft=draft)
    n, kv = np.array([sequences]), np.array([sequences * 100.0])
    return accepted * float(times.decode_s(n, kv)[0] / step.decode_s(n, kv)[0])


@pytest.mark.parametrize("experts", [0, 64])
def test_it_helps_when_idle_and_hurts_when_full(experts: int) -> None:
    model = small_model(experts=experts)
    gains = [speed_up(model, each) for each in (1, 64, 256, 1024, 4096)]
    assert gains[0] > 1.1
    assert gains[-1] < 1.0
    if not experts:
        # Experts are touched by few tokens at first, so that their gain dips before all of them are read anyway.
        assert all(one >= other for one, other in itertools.pairwise(gains))


def test_drafting_costs_more_with_every_token_and_look_up_nothing() -> None:
    times = roofline()
    n, kv = np.array([8.0]), np.array([8000.0])
    found = [
        SpeculativeStep(
            times=times, roofline=times, draft_tokens=k, draft=PredictionLayers(roofline=times, layers_fraction=0.1)
        )
        for k in (1, 2, 3)
    ]
    steps = [float(each.decode_s(n, kv)[0]) for each in found]
    assert steps == sorted(steps)
    looked_up = SpeculativeStep(times=times, roofline=times, draft_tokens=3, draft=None)
    assert float(looked_up.decode_s(n, kv)[0]) == pytest.approx(float(times.wide_s(n, kv, positions=4)[0]))
    assert looked_up.prefill_s(n) == times.prefill_s(n)


def test_time_per_token_is_a_step_over_what_it_brings() -> None:
    """One client: each output token takes its part of a wide step, as an engine's TPOT counts it."""
    memory = budget("mimo-7b", stated(tokens_per_step=2.0))
    step = pool_step(memory)
    trial = LoadTestReplay(
        prompt_tokens=np.full(4, 1000, np.int32),
        output_tokens=np.full(4, 201, np.int32),
        limits=engine_limits(memory.runtime, memory.kv_tokens),
        clients=1,
    )
    found = replay(step, trial)
    step_s = step.step_s(sequences=1, kv_tokens=1100)
    assert found.statistic("tpot", "mean") == pytest.approx(step_s / 2.0, rel=0.01)


HEADED = """
version: 1
service: headed
dated: 2026-11-15
workload: {classes: [{name: chat, rate: 2 req/s, longest_context: 8192, slo: {tpot_p95: 50ms}}]}
pool: {model: MODEL, device: h100-sxmSPECULATION}
options: {devices: [h100-sxm], tensor_parallel: [1]}
"""


@pytest.mark.parametrize(
    ("model", "has", "tried"),
    [
        ("mimo-7b", "", ["mtp 1", "mtp 3"]),
        ("mimo-7b", ", speculation: {method: mtp, tokens: 2}", ["no speculation"]),
        ("llama-3.1-8b", "", []),
    ],
)
def test_options_try_speculation_where_the_model_or_the_plan_has_it(model: str, has: str, tried: list[str]) -> None:
    text = HEADED.replace("MODEL", model).replace("SPECULATION", has)
    spec = load_plan(_as_dict(text), as_of=DAY)
    found = candidates_of(spec.pool, spec.options, book=None, buying=spec.buying)
    assert [each.name.split(", ")[-1] for each in found[1:]] == tried


def _as_dict(text: str) -> dict[str, Any]:
    from ullage.files.strict_yaml import read_yaml

    return dict(read_yaml(text, file="plan.yaml").content)
