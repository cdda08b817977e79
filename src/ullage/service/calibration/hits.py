"""Prefix hits of a load test: as the user states them, as each request has them, as the file counts them, or as the
tool's configuration lays its prompts out. Where no source states them, none are assumed, and the output says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ullage.service.calibration.replay import Counts, EngineLimits
from ullage.service.loadtests.loadtest import LengthLaw, MeasuredRequest, Point, SharedPrefix

# Caches keep whole blocks; the last token of a prompt is always computed, for its successor comes out of it.
_BLOCK_TOKENS = 16
# Prompts whose lengths differ by this share of their mean were hardly made up by a generator.
_REAL_RATIO = 0.3


@dataclass(frozen=True, kw_only=True, eq=False)
class PrefixHits:
    """Prompt tokens that each request found cached; `shared_tokens` are those that all of them keep together."""

    cached_tokens: Counts
    shared_tokens: float | None
    said_by: str

    def limits(self, limits: EngineLimits, prompt: Counts, output: Counts) -> EngineLimits:
        """The engine's limits with the room that prefixes kept once leave: `kv_tokens` counts them in every request.

        n requests of context c with k cached tokens each need n (c - k) + shared, so that a cache of C tokens holds as
        many of them as one of (C - shared) c / (c - k) would, were nothing shared.
        """
        if self.shared_tokens is None or self.shared_tokens >= limits.kv_tokens:
            return limits
        context = float(prompt.mean()) + float(output.mean())
        own = max(context - float(self.cached_tokens.mean()), 1.0)
        room = (limits.kv_tokens - self.shared_tokens) * context / own
        return replace(limits, kv_tokens=max(limits.kv_tokens, int(room)))


def prefix_hits(
    point: Point, stated_fraction: float | None, prompt: Counts, requests: Sequence[MeasuredRequest]
) -> PrefixHits | None:
    """The hits of a point's requests, in their order; None where nobody states any."""
    if stated_fraction is not None:
        return _share(stated_fraction, prompt, "stated")
    kept = requests[: prompt.size]
    if len(kept) == prompt.size and any(each.cached_tokens for each in kept):
        own = np.minimum([each.cached_tokens or 0 for each in kept], prompt - 1).astype(np.int32)
        return PrefixHits(cached_tokens=own, shared_tokens=None, said_by="the requests of the file")
    tokens = point.tokens
    if tokens.cached_fraction is not None:
        return _share(tokens.cached_fraction, prompt, "the file")
    if tokens.cached_prompt_tokens is not None:
        total = tokens.prompt_tokens or float(prompt.mean()) * (point.completed_count or prompt.size)
        return _share(tokens.cached_prompt_tokens / total, prompt, "the file")
    return None if tokens.shared_prefix is None else _laid_out(tokens.shared_prefix, prompt)


def are_unknown(point: Point) -> bool:
    """Whether prompts may have repeated each other without anybody saying how much.

    Generators of random tokens make none; prompts of very different length, and a named data set, may well have.
    """
    tokens = point.tokens
    known = tokens.cached_fraction is not None or tokens.cached_prompt_tokens is not None
    if known or tokens.shared_prefix is not None or any(each.cached_tokens for each in point.requests):
        return False
    if tokens.rule is not None and tokens.rule.law is not LengthLaw.NORMAL:
        return False
    dataset = (point.subject.dataset or "").lower()
    if dataset:
        return not dataset.startswith(("random", "synthetic"))
    lengths = [each.prompt_tokens for each in point.requests if each.prompt_tokens]
    return len(lengths) > 1 and float(np.std(lengths)) > _REAL_RATIO * float(np.mean(lengths))


def _share(share: float, prompt: Counts, said_by: str) -> PrefixHits:
    cached = np.minimum(np.rint(min(share, 1.0) * prompt), prompt - 1).astype(np.int32)
    return PrefixHits(cached_tokens=cached, shared_tokens=None, said_by=said_by)


def _laid_out(layout: SharedPrefix, prompt: Counts) -> PrefixHits:
    """Prompts in turn: the first of a group computes its prefix, the first of a prompt the rest, later ones nothing."""
    place = np.arange(prompt.size)
    whole = np.maximum(prompt - 1, 0) // _BLOCK_TOKENS * _BLOCK_TOKENS
    prefix = np.minimum(layout.prefix_tokens // _BLOCK_TOKENS * _BLOCK_TOKENS, whole)
    # Tools send the first prompt of every group, then the second of each.
    first = np.where(place < layout.groups, 0, prefix)
    cached = np.where(place < layout.prompts, first, whole).astype(np.int32)
    shared = layout.prompts * float(prompt.mean()) - (layout.prompts - layout.groups) * layout.prefix_tokens
    return PrefixHits(cached_tokens=cached, shared_tokens=max(shared, 0.0), said_by=layout.said_by)
