"""What-ifs change what they name and nothing else, and compose."""

from __future__ import annotations

import numpy as np
import pytest

from support.demand_laws import local_dispersion
from ullage.errors import InputError
from ullage.workload.synthetic.builtin import builtin
from ullage.workload.synthetic.model import Launch, SyntheticModel, synthesised
from ullage.workload.synthetic.whatif import (
    and_then,
    cache_cold,
    launch,
    mix_shift,
    outputs,
    prompts,
    traffic,
)


def rates(model: SyntheticModel) -> dict[str, float]:
    return {each.name: each.mean_rate_rps for each in model.classes}


@pytest.mark.slow
def test_more_traffic_is_more_users_and_keeps_dispersion() -> None:
    more = and_then(builtin(), traffic(1.5))
    assert rates(more) == {"chat": 30.0, "coding": 6.0}
    span_s = 24 * 3600.0
    before, after = (
        synthesised(model, span_s=span_s, rng=np.random.default_rng(0)).of_class("coding")
        for model in (builtin(), and_then(builtin(), traffic(3.0)))
    )
    assert after.requests / before.requests == pytest.approx(3.0, rel=0.05)
    for width_s in (1.0, 10.0, 60.0):
        assert local_dispersion(after.counts(width_s)) == pytest.approx(
            local_dispersion(before.counts(width_s)), rel=0.2
        )


def test_one_class_can_grow_alone() -> None:
    assert rates(and_then(builtin(), traffic(2.0, of="coding"))) == {"chat": 20.0, "coding": 8.0}
    with pytest.raises(InputError, match="coding"):
        and_then(builtin(), traffic(2.0, of="codng"))


def test_longer_outputs_leave_prompts_alone_and_the_other_way_round() -> None:
    before = builtin().named("chat").lengths
    longer = and_then(builtin(), outputs(2.0)).named("chat").lengths
    assert longer.output_tokens == tuple(2.0 * tokens for tokens in before.output_tokens)
    assert longer.prompt_tokens == before.prompt_tokens
    assert and_then(builtin(), prompts(2.0)).named("chat").lengths.output_tokens == before.output_tokens


def test_a_cold_cache_holds_nothing() -> None:
    stream = synthesised(and_then(builtin(), cache_cold()), span_s=600.0, rng=np.random.default_rng(0))
    assert stream.cached_tokens.sum() == 0


def test_a_shifted_mix_keeps_the_total() -> None:
    assert rates(and_then(builtin(), mix_shift({"chat": 0.5, "coding": 0.5}))) == pytest.approx(
        {"chat": 12.0, "coding": 12.0}
    )
    with pytest.raises(InputError, match="adding up to 1"):
        and_then(builtin(), mix_shift({"chat": 0.5}))


def test_a_launch_climbs_settles_and_leaves_what_came_before_alone() -> None:
    event = Launch(at_s=86_400.0, peak_ratio=3.0, settled_ratio=1.2, ramp_s=3600.0, settle_s=86_400.0)
    changed = and_then(builtin(), launch(event, of="chat"))
    before, after = builtin().named("chat"), changed.named("chat")
    at_s = np.array([0.0, 86_399.0, 90_000.0, 40 * 86_400.0])
    assert after.rate_at(at_s) / before.rate_at(at_s) == pytest.approx([1.0, 1.0, 3.0, 1.2], rel=1e-6)
    assert changed.named("coding") == builtin().named("coding")


@pytest.mark.slow
def test_changes_compose_in_order() -> None:
    assert rates(and_then(builtin(), traffic(2.0), traffic(0.5))) == pytest.approx(rates(builtin()))
