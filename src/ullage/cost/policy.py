"""What drives the lines around the devices: how much is logged, kept, sent, judged and looked after.

Every driver is an assumption. Those that follow from how the software works have a sourced default. Those that only
the user can know (which share is judged, how many hours a pool costs its engineers) have none: their lines say
`not priced` and what to give.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, fields

from ullage.evidence import Assumption, Evidence, Source, number
from ullage.prices.purchase import HOURS_PER_MONTH

_OURS = Source(what="default of Ullage", where="docs/explanation/cost.md", date=datetime.date(2026, 11, 15))
_STREAM = Source(
    what="one chunk of an OpenAI-compatible stream as vLLM 0.32 writes it, one token of text in it",
    where="docs/explanation/cost.md",
    date=datetime.date(2026, 11, 15),
)
_METRICS = Source(
    what="samples on the metrics page of one vLLM 0.32.0 engine",
    where="https://github.com/vllm-project/vllm",
    date=datetime.date(2026, 8, 31),
)
_TEXT = Source(
    what="rule of thumb for English: a token is about four characters",
    where="https://help.openai.com/en/articles/4936856",
    date=datetime.date(2025, 8, 1),
)


def _default(
    name: str, value: float, unit: str, source: Source, *, low: float, high: float, decision: bool = False
) -> Assumption:
    return Assumption(
        name=f"cost.{name}",
        value=value,
        unit=unit,
        evidence=Evidence.ASSUMED,
        source=source,
        low=low,
        high=high,
        decision=decision,
    )


# Providers bill by the hour and quote by the month of 730 hours.
PERIOD = _default("period", HOURS_PER_MONTH, "h", _OURS, low=HOURS_PER_MONTH, high=HOURS_PER_MONTH, decision=True)
# One copy in the object store of each region, one on the disk of each replica: what a start without download needs.
STORE_COPIES = _default("store_copies", 1, "copies/region", _OURS, low=0, high=3, decision=True)
DISK_COPIES = _default("disk_copies", 1, "copies/replica", _OURS, low=0, high=1, decision=True)
# An access log line with models, tokens, times and identifiers as JSON.
LOG_BYTES = _default("log_bytes", 1000, "bytes/request", _OURS, low=300, high=20_000)
LOG_RETENTION = _default("log_retention", 1, "months", _OURS, low=0, high=13, decision=True)
# An envelope of some 240 bytes around four bytes of text: streaming sends every token by itself.
ANSWER_BYTES = _default("answer_bytes", 241, "bytes/token", _STREAM, low=4, high=400)
PROMPT_BYTES = _default("prompt_bytes", 4.5, "bytes/token", _TEXT, low=3, high=8)
# All answers leave by the internet: the dearest case, and the usual one for a service with outside users.
EGRESS_SHARE = _default("egress_share", 1.0, "fraction", _OURS, low=0.0, high=1.0)
# A gateway and an engine each write one span.
SPANS = _default("spans", 2, "spans/request", _OURS, low=0, high=30)
SERIES = _default("series", 440, "series/replica", _METRICS, low=200, high=2000)


@dataclass(frozen=True, kw_only=True)
class Judging:
    """How answers are judged: a share of traffic all the time, and suites of items at each release.

    With a `model` of `provider`, a judgement costs its tokens; without, the price of one `evaluation`.
    """

    sampled_share: Assumption
    suites: Assumption
    suite_items: Assumption
    provider: str = ""
    model: str = ""
    prompt: Assumption | None = None
    output: Assumption | None = None


@dataclass(frozen=True, kw_only=True)
class CostPolicy:
    """The drivers of a bill. None is `not given`, and the line that needs it says so."""

    period: Assumption = PERIOD
    store_copies: Assumption = STORE_COPIES
    disk_copies: Assumption = DISK_COPIES
    log_bytes: Assumption = LOG_BYTES
    log_retention: Assumption = LOG_RETENTION
    answer_bytes: Assumption = ANSWER_BYTES
    prompt_bytes: Assumption = PROMPT_BYTES
    egress_share: Assumption = EGRESS_SHARE
    zone_share: Assumption | None = None
    # What one kWh of the site's grid emits, in kg of CO2e, and the site's power over that of its devices.
    grid: Assumption | None = None
    facility: Assumption | None = None
    spans: Assumption = SPANS
    series: Assumption = SERIES
    judging: Judging | None = None
    on_call: Assumption | None = None
    changes: Assumption | None = None
    tool_calls: Mapping[str, Assumption] | None = None

    @property
    def period_hours(self) -> float:
        return number(self.period)

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        """Every driver that is given, in the order of the lines."""
        plain = [getattr(self, each.name) for each in fields(self)]
        judging = [] if self.judging is None else [getattr(self.judging, each.name) for each in fields(self.judging)]
        calls = [] if self.tool_calls is None else list(self.tool_calls.values())
        return tuple(each for each in (*plain, *judging, *calls) if isinstance(each, Assumption))

    @property
    def stated(self) -> tuple[Assumption, ...]:
        """The drivers that are not our defaults."""
        return tuple(each for each in self.inputs if each not in _DEFAULTS)


_DEFAULTS = (
    PERIOD,
    STORE_COPIES,
    DISK_COPIES,
    LOG_BYTES,
    LOG_RETENTION,
    ANSWER_BYTES,
    PROMPT_BYTES,
    EGRESS_SHARE,
    SPANS,
    SERIES,
)
