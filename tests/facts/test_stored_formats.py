"""Bits that a weight takes with its share of a scale, as the formats are published."""

from __future__ import annotations

import pytest

from ullage.facts.quantised import _BLOCK_FP8, _FORMATS


@pytest.mark.parametrize(
    ("word", "bits"),
    [
        # Sixteen values of four bits share a scale of eight; of MX formats 32 values do.
        ("nvfp4", 4.5), ("fp4", 4.5), ("mxfp4", 4.25),
        # Groups of 128 with a scale of 16 bits.
        ("awq", 4.125), ("gptq", 4.125), ("int4", 4.125), ("w4a16", 4.125),
        ("fp8", 8.0), ("int8", 8.0), ("w8a8", 8.0),
    ],
)  # fmt: skip
def test_a_word_for_a_format_says_how_large_a_weight_is(word: str, bits: float) -> None:
    assert _FORMATS[word].stored_bits == bits


def test_blocks_of_128_by_128_share_a_scale_of_four_bytes() -> None:
    assert _BLOCK_FP8.stored_bits == 8 + 32 / 16_384
