"""By which definition an SLO's latency is counted, so that a plan and a load tool mean the same number.

The tools use the same four names for different things. A limit of 50 ms on TPOT is met by a request that waited two
seconds for its first token, or missed, depending on whether that token counts; a p99 of ITL over all gaps sees a pause
that a mean over each request hides.

    ttft   from_due             counted from when the request was to be sent: what a user waits
           from_sent            counted from when the client sent it: a queue inside the client is not in it
    tpot   without_first_token  (end - first token) / (output tokens - 1), one a request
           with_first_token     (end - sent) / output tokens, one a request, weighted by its output tokens
    itl    pooled               one a gap, all requests together
           per_request          the mean gap of each request
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from ullage.errors import InputError, check_name


class TtftCount(enum.Enum):
    FROM_DUE = "from_due"
    FROM_SENT = "from_sent"


class TpotCount(enum.Enum):
    WITHOUT_FIRST = "without_first_token"
    WITH_FIRST = "with_first_token"


class ItlCount(enum.Enum):
    POOLED = "pooled"
    PER_REQUEST = "per_request"


@dataclass(frozen=True, kw_only=True)
class Definitions:
    """One choice for each latency that tools disagree on; E2E is the same to all of them."""

    ttft: TtftCount = TtftCount.FROM_DUE
    tpot: TpotCount = TpotCount.WITHOUT_FIRST
    itl: ItlCount = ItlCount.POOLED

    @property
    def changed(self) -> tuple[str, ...]:
        """What differs from our own definitions, as `tpot with_first_token`."""
        return tuple(
            f"{name} {getattr(self, name).value}"
            for name in ("ttft", "tpot", "itl")
            if getattr(self, name) is not getattr(OUR_DEFINITIONS, name)
        )


OUR_DEFINITIONS = Definitions()
_SENT = TtftCount.FROM_SENT
# How each tool counts what it prints, read from its source (docs/reference and readers/loadtests).
TOOL_DEFINITIONS: Mapping[str, Definitions] = {
    "ullage": OUR_DEFINITIONS,
    "vllm": Definitions(ttft=_SENT),
    "sglang": Definitions(ttft=_SENT),
    "inference-perf": Definitions(ttft=_SENT),
    "mlperf": Definitions(),
    "guidellm": Definitions(ttft=_SENT, tpot=TpotCount.WITH_FIRST, itl=ItlCount.PER_REQUEST),
    "aiperf": Definitions(ttft=_SENT, itl=ItlCount.PER_REQUEST),
    "llmperf": Definitions(ttft=_SENT, tpot=TpotCount.WITH_FIRST, itl=ItlCount.PER_REQUEST),
}
_KINDS: Mapping[str, type[TtftCount] | type[TpotCount] | type[ItlCount]] = {
    "ttft": TtftCount,
    "tpot": TpotCount,
    "itl": ItlCount,
}


def definitions_of(given: str | Mapping[str, str], *, field: str = "definitions") -> Definitions:
    """The definitions of a tool by its name, or one choice for each latency.

    >>> definitions_of("guidellm").tpot.value, definitions_of({"itl": "per_request"}).changed
    ('with_first_token', ('itl per_request',))
    """
    if isinstance(given, str):
        check_name(given, TOOL_DEFINITIONS, field=field)
        return TOOL_DEFINITIONS[given]
    chosen: dict[str, TtftCount | TpotCount | ItlCount] = {}
    for latency, choice in given.items():
        check_name(latency, _KINDS, field=field)
        kind = _KINDS[latency]
        if choice not in [each.value for each in kind]:
            raise InputError(
                field=f"{field}.{latency}",
                value=choice,
                problem="is not a known definition",
                fix=f"Give {' or '.join(each.value for each in kind)}.",
            )
        chosen[latency] = kind(choice)
    return Definitions(**chosen)  # type: ignore[arg-type]
