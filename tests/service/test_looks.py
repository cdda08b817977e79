"""What a token costs that attention looks at: bytes read and operations, by the papers of each kind, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ullage.facts.model import CompressedAttention, GroupedAttention, Indexer, LatentAttention
from ullage.memory.kv import KV_DTYPES
from ullage.service.calibration.replay import EngineLimits, LoadTestReplay, _engine, polling_s
from ullage.service.steps.work import _looks

FP16 = KV_DTYPES["fp16"]
SCORER = Indexer(heads=4, key_channels=8, top_tokens=64, tokens_per_key=2)
# A scorer looks at half as many keys: 4 heads of 8 channels, and reads a byte of each channel.
SCORED = (0, 8 / 2, 2 * 4 * 8 / 2, 2 * 4 * 8 / 2)


def test_grouped_attention_multiplies_keys_for_scores_and_values_for_answers() -> None:
    """Eight query heads share two of keys (16 channels) and values (24)."""
    given: dict[str, Any] = {"query_heads": 8, "kv_heads": 2, "key_channels": 16, "value_channels": 24}
    pair = 2 * 8 * (16 + 24)
    assert list(_looks(GroupedAttention(**given), 1, FP16)) == [(0, 2 * 40 * 2, pair, pair)]
    # On four devices each has two query heads, and a whole head of keys all the same.
    assert list(_looks(GroupedAttention(**given), 4, FP16)) == [(0, 1 * 40 * 2, pair / 4, pair / 4)]
    window = GroupedAttention(**given, window_tokens=128, shares_key_value=True)
    assert list(_looks(window, 1, FP16)) == [(128, 2 * 16 * 2, pair, pair)]
    sparse = GroupedAttention(**given, indexer=SCORER)
    assert list(_looks(sparse, 1, FP16)) == [(64, 2 * 40 * 2, pair, pair), SCORED]


def test_latent_attention_decodes_in_the_latent_and_prefills_expanded() -> None:
    """A latent of 32 channels and 8 of positions; heads of 16 and 8 channels, with values of 24."""
    given: dict[str, Any] = {
        "query_heads": 4, "latent_channels": 32, "nope_channels": 16, "value_channels": 24, "rope_channels": 8,
    }  # fmt: skip
    # Decoding: scores over 32 + 8, answers over 32. A prefill: scores over 16 + 8, answers over 24.
    decode, pair = 2 * 4 * (40 + 32), 2 * 4 * (24 + 24)
    assert list(_looks(LatentAttention(**given), 1, FP16)) == [(0, 40 * 2, decode, pair)]
    # The latent is the same for all heads, so that no device is spared reading it.
    assert list(_looks(LatentAttention(**given), 2, FP16)) == [(0, 40 * 2, decode / 2, pair / 2)]
    assert list(_looks(LatentAttention(**given, indexer=SCORER), 1, FP16)) == [(64, 80, decode, pair), SCORED]


def test_compressed_attention_looks_at_its_window_and_at_one_entry_for_many_tokens() -> None:
    given: dict[str, Any] = {
        "query_heads": 4, "head_channels": 16, "query_latent_channels": 8, "output_groups": 2,
        "output_latent_channels": 8, "window_tokens": 128,
    }  # fmt: skip
    pair = 4 * 4 * 16
    window = (128, 16 * 2, pair, pair)
    assert list(_looks(CompressedAttention(**given), 1, FP16)) == [window]
    entries = (0, 16 * 2 / 4, pair / 4, pair / 4)
    assert list(_looks(CompressedAttention(**given, tokens_per_entry=4), 1, FP16)) == [window, entries]


class Steps:
    """A millisecond, a hundredth of one more for a sequence and a millionth for a token; two outside for a request."""

    request_overhead_s = 0.002
    pair_s = 0.0

    def decode_s(self, sequences: Any, kv_tokens: Any) -> Any:
        return 0.001 + 1e-5 * sequences + 1e-9 * kv_tokens

    def prefill_s(self, tokens: Any) -> Any:
        return 1e-6 * tokens


def trial(**more: Any) -> LoadTestReplay:
    given: dict[str, Any] = {
        "prompt_tokens": np.array([100, 900, 50], np.int32), "output_tokens": np.array([50, 100, 60], np.int32),
        "cached_tokens": None, "arrival_s": np.array([0.0, 1.0, 2.0]),
    }  # fmt: skip
    return LoadTestReplay(**{**given, **more})


def test_an_engine_holds_its_longest_request_and_no_more_than_the_test_fills() -> None:
    limits = EngineLimits(max_sequences=8, budget_tokens=512, kv_tokens=160, block_tokens=16)
    found = _engine(Steps(), limits, trial(limits=limits))
    # Three requests are all that can run; 900 + 100 tokens need 64 blocks of 16 where 160 tokens would be ten.
    assert found.max_sequences == 3
    assert found.kv_blocks == (1000 + 2 * 16) // 16
    large = EngineLimits(max_sequences=2, budget_tokens=512, kv_tokens=16_000, block_tokens=16)
    found = _engine(Steps(), large, trial(limits=large))
    assert (found.max_sequences, found.kv_blocks) == (2, 1000)
    assert found.request_overhead_s == pytest.approx(0.002)
    # In a crowd a request more adds a fiftieth of what one takes alone.
    assert found.crowd_overhead_s == pytest.approx(0.002 / 50)


def test_a_scheduler_that_looks_every_few_steps_makes_requests_wait_half_of_them() -> None:
    alone_s, each_s = 0.001 + 1e-5 + 1e-6, 1e-5 + 1e-6
    steps: Any = Steps()
    assert polling_s(steps, 1) == (0.0, 0.0)
    assert polling_s(steps, 8) == pytest.approx((4 * alone_s, 4 * each_s))
    assert polling_s(steps, 1, 3) == pytest.approx((3 * alone_s, 3 * each_s))
    assert polling_s(steps, 2, 3) == pytest.approx((4 * alone_s, 4 * each_s))
