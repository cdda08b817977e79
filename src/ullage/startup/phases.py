"""The phases between wanting a replica and routing to it, and which of them a cold, a warm and a hot start have."""

from __future__ import annotations

import enum


class Phase(enum.StrEnum):
    """One phase. Weights and compilation have two forms: as on a new node, and as on one that did it before.

    `ENGINE` is measured alone: `vllm bench startup` times boot, weights, graphs and warm-up as one.
    """

    NODE = "node"
    IMAGE = "image"
    CONTAINER = "container"
    BOOT = "boot"
    WEIGHTS = "weights"
    WEIGHTS_LOCAL = "weights_local"
    COMPILE = "compile"
    COMPILE_CACHED = "compile_cached"
    GRAPHS = "graphs"
    WARMUP = "warmup"
    ENGINE = "engine"
    WAKE = "wake"
    PROBE = "probe"
    DISCOVERY = "discovery"


class Level(enum.StrEnum):
    """From where a replica starts."""

    COLD = "cold"
    WARM = "warm"
    HOT = "hot"


ENGINE_PHASES = (Phase.BOOT, Phase.WEIGHTS_LOCAL, Phase.GRAPHS, Phase.WARMUP)
"""What `Phase.ENGINE` covers where it was measured."""

LEVELS: dict[Level, tuple[Phase, ...]] = {
    Level.COLD: (
        Phase.NODE,
        Phase.IMAGE,
        Phase.CONTAINER,
        Phase.ENGINE,
        Phase.BOOT,
        Phase.WEIGHTS,
        Phase.COMPILE,
        Phase.GRAPHS,
        Phase.WARMUP,
        Phase.PROBE,
        Phase.DISCOVERY,
    ),
    Level.WARM: (
        Phase.CONTAINER,
        Phase.ENGINE,
        Phase.BOOT,
        Phase.WEIGHTS_LOCAL,
        Phase.COMPILE_CACHED,
        Phase.GRAPHS,
        Phase.WARMUP,
        Phase.PROBE,
        Phase.DISCOVERY,
    ),
    Level.HOT: (Phase.WAKE, Phase.PROBE, Phase.DISCOVERY),
}
"""Each level's phases in order; a phase that an engine does not have takes no time there."""

HOLDS = {
    Level.COLD: "nothing",
    Level.WARM: "a node with the image, the weights on a local disk and the compile cache; its devices idle",
    Level.HOT: "an engine asleep on its devices, its weights in host memory",
}
"""What must be kept, and is paid, for a start of this level."""
