"""`disaggregated:` of a pool: prompts and answers on replicas of their own."""

from __future__ import annotations

from typing import Annotated

from ullage.files.sections.quantities import Bandwidth, Count, Range, ShareOrNone, Tokens
from ullage.files.sections.section import Key, Section
from ullage.service.phase import DECODE_SHARE, OVERLAP
from ullage.simulate.fleet import ROUTINGS
from ullage.units import FRACTION, TOKENS

_LIKE_DECODE = "the pool's own, which decodes"


class PrefillSection(Section):
    """The replicas that compute prompts, where they differ from those that decode."""

    device: Annotated[str | None, Key(means="Their device.", default=_LIKE_DECODE, moves="step.prefill_1000_s")] = None
    tensor_parallel: Annotated[
        Count | None,
        Range(least=1, most=1024),
        Key(
            means="Devices over which each of their layers is sharded.",
            default=_LIKE_DECODE,
            moves="memory.weights_bytes",
        ),
    ] = None
    token_budget: Annotated[
        Tokens | None,
        Range(least=1, most=16777216, dimension=TOKENS),
        Key(
            means="Tokens that one of their steps may compute.",
            default=_LIKE_DECODE,
            moves="memory.activations_bytes",
        ),
    ] = None
    max_sequences: Annotated[
        Count | None,
        Key(
            means="Prompts that run on one of them at once.",
            default=_LIKE_DECODE,
            moves="memory.activations_bytes",
        ),
    ] = None
    router: Annotated[
        str | None,
        Key(
            means="How prompts are given to them, for example round_robin, the default of NVIDIA Dynamo.",
            default="the pool's own, of the replicas that decode",
            moves="disaggregated.*.used_fraction",
            choices=ROUTINGS,
        ),
    ] = None
    instance: Annotated[
        str | None,
        Key(
            means="The machine they run on, by name.",
            default="the pool's own on the same device, else the one that needs the fewest devices",
            moves="packing.*",
        ),
    ] = None


class DisaggregatedSection(Section):
    """Prefill and decode apart. The pool's own keys are then of the replicas that decode."""

    transfer: Annotated[
        Bandwidth,
        Key(
            means="KV transfer bandwidth between two replicas, such as 50GB/s; it decides TTFT.",
            moves="disaggregated.*_prefill_s",
        ),
    ]
    overlap: Annotated[
        ShareOrNone | None,
        Range(least=0.0, most=0.99, dimension=FRACTION),
        Key(
            means="The part of it that is sent while the prompt is still computed, layer by layer.",
            default=OVERLAP,
            moves="disaggregated.*_prefill_s",
        ),
    ] = None
    decode_share: Annotated[
        ShareOrNone | None,
        Range(least=0.01, most=0.9, dimension=FRACTION),
        Key(
            means="The share of each TTFT limit kept for waiting at the decode side.",
            default=DECODE_SHARE,
            moves="disaggregated.*_prefill_s",
        ),
    ] = None
    prefill: Annotated[PrefillSection, Key(means="The replicas that compute prompts.")] = PrefillSection()
