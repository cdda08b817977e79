"""What one layer is made of, before its sizes are read: its kinds of mixer and of feed-forward block."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from ullage.readers.models.keys import Keys


class MixerKind(enum.Enum):
    """What carries information between tokens in a layer."""

    FULL = "full"
    SPARSE = "sparse"
    SLIDING = "sliding"
    CHUNKED = "chunked"
    COMPRESSED = "compressed"
    LINEAR = "linear"
    STATE_SPACE = "state space"
    CONVOLUTION = "convolution"


class BlockKind(enum.Enum):
    """Whether a layer has a feed-forward block: as the expert keys say, or fixed by the pattern."""

    BY_KEYS = "by keys"
    DENSE = "dense"
    MOE = "moe"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One layer: its mixers, its feed-forward block, and what its own entry in a list adds.

    `entry` is Nemotron-NAS's own notation; an `override` states ordinary keys that hold for this layer alone.
    """

    mixers: tuple[MixerKind, ...]
    block: BlockKind = BlockKind.BY_KEYS
    ratio: int = 0
    entry: Keys | None = None
    override: Keys | None = None


def plain_slots(kinds: Iterable[MixerKind]) -> tuple[Slot, ...]:
    """Layers with one mixer each and a feed-forward block as the expert keys say."""
    return tuple(Slot(mixers=(kind,)) for kind in kinds)
