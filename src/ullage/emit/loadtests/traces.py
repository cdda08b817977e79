"""Requests of a test as files: times, lengths, and prompts in blocks of which the leading ones are shared.

Load tools that replay take Mooncake's format: a time in milliseconds, lengths, and a number for each block of the
prompt. Blocks of equal number have equal text, so that a prompt whose leading blocks were sent before finds them in
the prefix cache. Each class has one chain of shared blocks; a request takes as many of them as the plan has cached
tokens for it, and the rest of its blocks are its own.
"""

from __future__ import annotations

import json

import numpy as np

from ullage.simulate.load import PS_PER_S, OpenLoop

BLOCK_TOKENS = 64
"""Four blocks of an engine's cache: files stay a few megabytes, and hits are right to half of this, either way."""
SGLANG_BLOCK_TOKENS = 130
"""SGLang's client makes of every block its number and 128 words, whatever length the file states."""
_MS_PS = PS_PER_S // 1000


def shapes_csv(load: OpenLoop) -> str:
    """One row a request, with its class and the part of its prompt that is meant to be cached: what Ullage reads."""
    found = load.requests
    names = [each.name for each in found.classes]
    lines = ["arrival_s,class,prompt_tokens,output_tokens,cached_tokens"]
    lines += [
        f"{ms / 1000:.3f},{json.dumps(names[kind]) if ',' in names[kind] else names[kind]},{prompt},{output},{cached}"
        for ms, kind, prompt, output, cached in zip(
            _arrivals_ms(load), _classes(load), found.prompt_tokens, found.output_tokens, _cached(load), strict=True
        )
    ]
    return "\n".join(lines) + "\n"


def mooncake_jsonl(load: OpenLoop, *, block_tokens: int, whole_blocks: bool = False, first_own: int = 0) -> str:
    """One line a request. With `whole_blocks` prompts are as long as their blocks, for a client that knows no other.

    Blocks that no two requests share are numbered from `first_own` on, or from the first number after the shared ones:
    a test that is run after another must not find the other's prompts in the cache.
    """
    requests = load.requests
    prompts = np.asarray(requests.prompt_tokens, np.int64)
    blocks = np.maximum(1, np.round(prompts / block_tokens) if whole_blocks else -(-prompts // block_tokens))
    blocks = blocks.astype(np.int64)
    # The last block is a request's own: at least one token of a prompt is always computed.
    shared = np.minimum(np.round(_cached(load) / block_tokens).astype(np.int64), blocks - 1)
    deepest = int(shared.max(initial=0))
    classes = _classes(load)
    own_from = max(first_own, len(requests.classes) * deepest)
    lines = []
    for ms, kind, prompt, output, count, hits in zip(
        _arrivals_ms(load), classes, prompts, requests.output_tokens, blocks, shared, strict=True
    ):
        own = int(count - hits)
        ids = [*range(kind * deepest, kind * deepest + int(hits)), *range(own_from, own_from + own)]
        own_from += own
        length = int(count) * block_tokens if whole_blocks else int(prompt)
        row = {"timestamp": int(ms), "input_length": length, "output_length": int(output), "hash_ids": ids}
        lines.append(json.dumps(row, separators=(",", ":")))
    return "\n".join(lines) + "\n"


def _arrivals_ms(load: OpenLoop) -> list[int]:
    assert load.arrival_ps is not None
    return [int(each) // _MS_PS for each in load.arrival_ps]


def _classes(load: OpenLoop) -> list[int]:
    count = load.requests.prompt_tokens.size
    return [0] * count if load.requests.class_of is None else [int(each) for each in load.requests.class_of]


def _cached(load: OpenLoop) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    cached = load.requests.cached_tokens
    count = load.requests.prompt_tokens.size
    return np.zeros(count, np.int64) if cached is None else np.asarray(cached, np.int64)
