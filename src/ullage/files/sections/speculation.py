"""`speculation:` of a pool: tokens drafted ahead and verified in one step."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ullage.files.sections.quantities import Count, Number, Range, ShareOrNone
from ullage.files.sections.section import Key, Section
from ullage.memory.speculation import METHODS, MOST_DRAFT_TOKENS


class SpeculationSection(Section):
    """How the engine speculates. A step verifies the drafted tokens and one of the model's own."""

    method: Annotated[str, Key(means="What drafts the tokens.", moves="step.decode_1_s", choices=METHODS)]
    tokens: Annotated[
        Count,
        Range(least=1, most=MOST_DRAFT_TOKENS),
        Key(means="Tokens drafted for each step.", moves="step.decode_1_s"),
    ]
    acceptance: Annotated[
        tuple[ShareOrNone, ...],
        Field(max_length=MOST_DRAFT_TOKENS),
        Key(
            means="The share of steps in which the first, second, ... drafted token is accepted, such as [85%, 70%]: "
            "vLLM logs it by position.",
            default="what was published for such heads on code, with mtp and eagle up to 3 tokens",
            moves="point.highest_rps",
        ),
    ] = ()
    accepted_per_step: Annotated[
        Number | None,
        Range(least=1.0, most=MOST_DRAFT_TOKENS + 1.0),
        Key(
            means="In place of acceptance by position: tokens that a step brings, the model's own counted.",
            default="1 and the sum of acceptance",
            moves="point.highest_rps",
        ),
    ] = None
    draft: Annotated[
        str | None,
        Key(
            means="The model that drafts, for eagle and draft: a name in the catalogue, or a config.json.",
            default="none",
            moves="memory.weights_bytes",
        ),
    ] = None
