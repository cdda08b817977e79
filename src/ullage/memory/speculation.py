"""Speculation: tokens are drafted ahead and verified by the model in one wide step.

A step computes `draft_tokens` + 1 positions of each decoding sequence and brings the tokens up to the first that the
model would not have written, and one of its own. With a_i the share of steps in which the draft's position i is
accepted, as engines report it,

    tokens per step = 1 + a_1 + a_2 + ... + a_k

    mtp      the model's own multi-token prediction layers draft, one pass of them for each token
    eagle    a head that was trained for the model drafts, stated as a model of its own
    draft    a smaller model of the same vocabulary drafts
    ngram    tokens are looked up in the prompt; nothing is computed for them
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ullage.errors import InputError, check_name
from ullage.evidence import Assumption, Evidence, Source
from ullage.facts.model import Model

METHODS = ("mtp", "eagle", "draft", "ngram")
MOST_DRAFT_TOKENS = 16
_WITH_DRAFT = ("eagle", "draft")
_PUBLISHED = Source(
    what="acceptance lengths of four MTP and EAGLE-3 heads on SPEED-Bench coding: the median of models and modes",
    where="github.com/SemiAnalysisAI/InferenceX, golden_al_distribution",
    date=datetime.date(2026, 11, 15),
)
# Lowest, middle and highest of the published heads, for one to three drafted tokens. Code is easy to guess: on other
# text acceptance is lower, which is why a plan asks for a measurement of the user's own.
_USUAL: dict[str, dict[int, tuple[float, float, float]]] = {
    "mtp": {1: (1.79, 1.92, 1.93), 2: (2.27, 2.61, 2.73), 3: (2.49, 2.99, 3.39)},
    "eagle": {1: (1.78, 1.83, 1.84), 2: (2.33, 2.41, 2.52), 3: (2.75, 2.86, 2.97)},
}


@dataclass(frozen=True, kw_only=True)
class Speculation:
    """How an engine speculates, and what a step then brings. `draft` is the model of `eagle` and `draft`."""

    method: str
    draft_tokens: int
    tokens_per_step: Assumption
    draft: Model | None = None

    @property
    def positions(self) -> int:
        """Positions of a sequence that one step computes."""
        return self.draft_tokens + 1

    @property
    def rate_tokens(self) -> float:
        return float(self.tokens_per_step.value)

    @property
    def is_stated(self) -> bool:
        return self.tokens_per_step.evidence is not Evidence.ASSUMED


def speculation(
    method: str,
    draft_tokens: int,
    *,
    source: Source,
    field: str,
    acceptance: Sequence[float] = (),
    tokens_per_step: float | None = None,
    draft: Model | None = None,
    evidence: Evidence = Evidence.STATED,
) -> Speculation:
    """What the user states, checked; acceptance that is not stated is what was published for such heads."""
    check_name(method, METHODS, field=f"{field}.method")
    if not 1 <= draft_tokens <= MOST_DRAFT_TOKENS:
        fix = f"Give a whole number from 1 to {MOST_DRAFT_TOKENS}."
        raise InputError(field=f"{field}.tokens", value=draft_tokens, problem="is not a number of tokens", fix=fix)
    if (draft is not None) != (method in _WITH_DRAFT):
        raise InputError(
            field=f"{field}.draft",
            value=None if draft is None else draft.name,
            problem=f"{method} drafts without a model of its own" if draft else f"{method} needs a model that drafts",
            fix="Leave it out." if draft else "Name it, or give its config.json: an EAGLE head has one too.",
        )
    stated = _stated_rate(draft_tokens, acceptance, tokens_per_step, field)
    if stated is None:
        return Speculation(
            method=method, draft_tokens=draft_tokens, tokens_per_step=_usual(method, draft_tokens, field), draft=draft
        )
    rate = Assumption(name="speculation.tokens_per_step", value=stated, unit="tokens", evidence=evidence, source=source)
    return Speculation(method=method, draft_tokens=draft_tokens, tokens_per_step=rate, draft=draft)


def check_speculation(model: Model, given: Speculation | None) -> None:
    """Whether the model can speculate like this."""
    if given is not None and given.method == "mtp" and model.mtp is None:
        raise InputError(
            field="speculation.method",
            value="mtp",
            problem=f"{model.name} has no multi-token prediction layers",
            fix="Give eagle or draft with a draft model, or ngram.",
        )
    if given is not None and given.draft is not None and given.draft.vocabulary_tokens > model.vocabulary_tokens:
        raise InputError(
            field="speculation.draft",
            value=given.draft.name,
            problem=f"has {given.draft.vocabulary_tokens} tokens in its vocabulary, and {model.name} has "
            f"{model.vocabulary_tokens}: it drafts tokens that the model does not know",
            fix="Give a draft of the same family.",
        )


def _stated_rate(
    draft_tokens: int, acceptance: Sequence[float], tokens_per_step: float | None, field: str
) -> float | None:
    if acceptance and tokens_per_step is not None:
        fix = "Give one of the two: they mean the same."
        raise InputError(
            field=f"{field}.acceptance",
            value=list(acceptance),
            problem="cannot be combined with accepted_per_step",
            fix=fix,
        )
    if tokens_per_step is not None:
        if not 1.0 <= tokens_per_step <= draft_tokens + 1:
            raise InputError(
                field=f"{field}.accepted_per_step",
                value=tokens_per_step,
                problem=f"is not between 1 and the {draft_tokens + 1} tokens that a step can bring",
                fix="Count the model's own token: engines report it as the mean acceptance length.",
            )
        return tokens_per_step
    if not acceptance:
        return None
    falls = all(one >= other for one, other in itertools.pairwise(acceptance))
    if len(acceptance) != draft_tokens or not falls or not all(0.0 <= each <= 1.0 for each in acceptance):
        raise InputError(
            field=f"{field}.acceptance",
            value=list(acceptance),
            problem=f"is not one share for each of the {draft_tokens} positions that never rises from one to the next",
            fix="Give them as vLLM logs them: the share of drafts whose first, second, ... token was accepted.",
        )
    return 1.0 + math.fsum(acceptance)


def _usual(method: str, draft_tokens: int, field: str) -> Assumption:
    known = _USUAL.get(method, {})
    if draft_tokens not in known:
        raise InputError(
            field=f"{field}.acceptance",
            value=None,
            problem=f"no acceptance is published for {method} with {draft_tokens} drafted tokens",
            fix="Measure it: vLLM logs 'Mean acceptance length', SGLang 'accept len'; state accepted_per_step.",
        )
    low, value, high = known[draft_tokens]
    return Assumption(
        name="speculation.tokens_per_step",
        value=value,
        unit="tokens",
        evidence=Evidence.ASSUMED,
        source=_PUBLISHED,
        low=low,
        high=high,
    )
