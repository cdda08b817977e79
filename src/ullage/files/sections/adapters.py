"""`adapters:` of a pool: LoRA adapters that are applied to each request beside one base model."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ullage.files.sections.quantities import Count, Range, ShareOrNone
from ullage.files.sections.section import Key, Section
from ullage.memory.adapters import MOST_RANK, SLOWDOWN, TARGETS
from ullage.units import FRACTION


class AdaptersSection(Section):
    """Slots on the device for adapters of one base model. Each adapter in use is taken to have one."""

    slots: Annotated[
        Count,
        Range(least=1, most=10000),
        Key(
            means="Adapters that are on a device at once (vLLM's --max-loras, SGLang's --max-loras-per-batch). Give as "
            "many as are in use: waiting for a slot is not planned.",
            moves="memory.adapters_bytes",
        ),
    ]
    rank: Annotated[
        Count,
        Range(least=1, most=MOST_RANK),
        Key(means="The largest rank of any of them (--max-lora-rank).", moves="memory.adapters_bytes"),
    ]
    targets: Annotated[
        tuple[str, ...],
        Field(max_length=len(TARGETS)),
        Key(
            means="What they adapt: attention, feed-forward, experts.",
            default="attention and feed-forward",
            moves="memory.adapters_bytes",
        ),
    ] = ()
    slowdown: Annotated[
        ShareOrNone | None,
        Range(least=0.0, most=1.0, dimension=FRACTION),
        Key(
            means="What they add to the time of a step, its KV reads aside; measure it, or give a load test with them.",
            default=SLOWDOWN,
            moves="step.decode_1_s",
        ),
    ] = None
