"""Models in a few lines, for tests of memory: each is a published shape, without reading a config."""

from __future__ import annotations

import datetime

from ullage.evidence import Source
from ullage.facts.model import (
    BF16,
    DenseFeedForward,
    FeedForward,
    GroupedAttention,
    LatentAttention,
    Layer,
    LayerGroup,
    LinearAttention,
    LinearKind,
    Mixer,
    Model,
    MoeFeedForward,
)

SOURCE = Source(what="a test", where="tests/support/served.py", date=datetime.date(2026, 11, 15))


def model_of(
    name: str,
    *layers: tuple[int, Mixer, FeedForward],
    hidden: int,
    vocabulary: int,
    context: int = 8192,
    tied: bool = False,
) -> Model:
    return Model(
        name=name,
        architecture="TestForCausalLM",
        hidden_channels=hidden,
        vocabulary_tokens=vocabulary,
        layers=tuple(
            LayerGroup(layer=Layer(mixers=(mixer,), feed_forward=block), layers=count) for count, mixer, block in layers
        ),
        max_context_tokens=context,
        tied_embeddings=tied,
        base_format=BF16,
        embedding_format=BF16,
        head_format=BF16,
        sources=(SOURCE,),
    )


def attention(query_heads: int, kv_heads: int, channels: int, *, window: int | None = None) -> GroupedAttention:
    return GroupedAttention(
        query_heads=query_heads,
        kv_heads=kv_heads,
        key_channels=channels,
        value_channels=channels,
        window_tokens=window,
    )


def dense(inner: int) -> DenseFeedForward:
    return DenseFeedForward(inner_channels=inner)


LLAMA_2_7B = model_of(
    "llama-2-7b", (32, attention(32, 32, 128), dense(11008)), hidden=4096, vocabulary=32000, context=4096
)
LLAMA_2_70B = model_of(
    "llama-2-70b", (80, attention(64, 8, 128), dense(28672)), hidden=8192, vocabulary=32000, context=4096
)
LLAMA_3_8B = model_of(
    "llama-3.1-8b", (32, attention(32, 8, 128), dense(14336)), hidden=4096, vocabulary=128256, context=131072
)
LLAMA_3_70B = model_of(
    "llama-3.1-70b", (80, attention(64, 8, 128), dense(28672)), hidden=8192, vocabulary=128256, context=131072
)
QWEN3_235B = model_of(
    "qwen3-235b-a22b",
    (94, attention(64, 4, 128), MoeFeedForward(routed_experts=128, experts_per_token=8, expert_channels=1536)),
    hidden=4096,
    vocabulary=151936,
    context=40960,
)
GEMMA_3_27B = model_of(
    "gemma-3-27b",
    *(
        each
        for _ in range(10)
        for each in (
            (5, attention(32, 16, 128, window=1024), dense(21504)),
            (1, attention(32, 16, 128), dense(21504)),
        )
    ),
    (2, attention(32, 16, 128, window=1024), dense(21504)),
    hidden=5376,
    vocabulary=262208,
    context=131072,
    tied=True,
)
QWEN3_NEXT_80B = model_of(
    "qwen3-next-80b-a3b",
    *(
        each
        for _ in range(12)
        for each in (
            (
                3,
                LinearAttention(
                    kind=LinearKind.GATED_DELTA,
                    key_heads=16,
                    value_heads=32,
                    key_channels=128,
                    value_channels=128,
                    conv_taps=4,
                ),
                MoeFeedForward(routed_experts=512, experts_per_token=10, expert_channels=512, shared_channels=512),
            ),
            (
                1,
                attention(16, 2, 256),
                MoeFeedForward(routed_experts=512, experts_per_token=10, expert_channels=512, shared_channels=512),
            ),
        )
    ),
    hidden=2048,
    vocabulary=151936,
    context=262144,
)
DEEPSEEK_V3 = model_of(
    "deepseek-v3",
    (
        61,
        LatentAttention(
            query_heads=128,
            latent_channels=512,
            rope_channels=64,
            nope_channels=128,
            value_channels=128,
            query_latent_channels=1536,
        ),
        MoeFeedForward(routed_experts=256, experts_per_token=8, expert_channels=2048, shared_channels=2048),
    ),
    hidden=7168,
    vocabulary=129280,
    context=163840,
)

SERVED = (LLAMA_2_7B, LLAMA_2_70B, LLAMA_3_8B, LLAMA_3_70B, QWEN3_235B, GEMMA_3_27B, QWEN3_NEXT_80B, DEEPSEEK_V3)
