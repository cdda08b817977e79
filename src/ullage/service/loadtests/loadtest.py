"""What a load test measured, in one shape whatever tool wrote it.

    LoadTest         one file: the tool, its version, the points, and what was left out
    Point            one run at one load: what was offered, what was observed, how it was measured
    Request          one request of a point, where the tool kept them
    LatencySummary   mean, spread and percentiles of one latency, with the *definition* they were taken by

Two rules hold throughout. What a file does not say is None, never 0. A latency is never without its
definition, because the tools disagree: `TPOT` in one file leaves the first token out and in another counts it,
and an `ITL` may be pooled over all gaps, averaged over a request, or weighted by tokens.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from ullage.workload.anomalies import Severity
from ullage.workload.classes import Metric


class Loop(enum.StrEnum):
    """Who decides when the next request is sent."""

    OPEN = "open"  # a clock does: requests arrive whether or not earlier ones are done
    CLOSED = "closed"  # the server does: a client sends again when its last request is done
    TRACE = "trace"  # a recorded list of arrival times does
    BURST = "burst"  # nobody does: everything is sent at once


class SeenBy(enum.StrEnum):
    """Whose clock a latency was taken on. The engine does not see the network, nor a request that never reached it."""

    CLIENT = "client"
    ENGINE = "engine"


class Definition(enum.StrEnum):
    """How a latency was computed: which span, divided by what, one value for each what.

    The simulator computes a latency by the same definition before it is compared with a measurement.
    """

    TTFT = "ttft"
    E2E = "e2e"
    TPOT = "tpot"
    TPOT_WITH_FIRST = "tpot_with_first_token"
    TPOT_OVER_ALL = "tpot_over_all_tokens"
    NTPOT = "ntpot"
    ITL_POOLED = "itl_pooled"
    ITL_PER_REQUEST = "itl_per_request"
    ITL_PER_REQUEST_BY_TOKEN = "itl_per_request_weighted_by_token"
    CLIENT_DELAY = "client_delay"

    @property
    def metric(self) -> Metric | None:
        """The latency an SLO would limit by it; None for one that no SLO names."""
        return _METRIC.get(self)

    @property
    def formula(self) -> str:
        """The span and the divisor, and what each single value stands for."""
        return _FORMULA[self]


_METRIC = {
    Definition.TTFT: Metric.TTFT,
    Definition.E2E: Metric.E2E,
    Definition.TPOT: Metric.TPOT,
    Definition.TPOT_WITH_FIRST: Metric.TPOT,
    Definition.TPOT_OVER_ALL: Metric.TPOT,
    Definition.NTPOT: Metric.TPOT,
    Definition.ITL_POOLED: Metric.ITL,
    Definition.ITL_PER_REQUEST: Metric.ITL,
    Definition.ITL_PER_REQUEST_BY_TOKEN: Metric.ITL,
}
_FORMULA = {
    Definition.TTFT: "first token - sent; one a request",
    Definition.E2E: "end - sent; one a request",
    Definition.TPOT: "(end - first token) / (output tokens - 1); one a request",
    Definition.TPOT_WITH_FIRST: "(last token - sent) / output tokens; one a request, weighted by its output tokens",
    Definition.TPOT_OVER_ALL: (
        "(last token - first token) / output tokens; one a request, weighted by its output tokens"
    ),
    Definition.NTPOT: "(end - sent) / output tokens; one a request",
    Definition.ITL_POOLED: "gap between two chunks; one a gap, all requests pooled",
    Definition.ITL_PER_REQUEST: "(last token - first token) / (output tokens - 1); one a request",
    Definition.ITL_PER_REQUEST_BY_TOKEN: (
        "(last token - first token) / (output tokens - 1); one a request, weighted by its gaps"
    ),
    Definition.CLIENT_DELAY: "sent - the moment it should have been sent; one a request",
}


@dataclass(frozen=True, kw_only=True)
class LatencySummary:
    """One latency over a point: moments and percentiles, by one definition.

    `percentiles` are pairs (fraction, value in seconds) in rising order of fraction. `floor_s` is the first bucket edge
    where the numbers come from a histogram: nothing below it can be told apart.
    """

    definition: Definition
    mean_s: float | None = None
    std_s: float | None = None
    min_s: float | None = None
    max_s: float | None = None
    percentiles: tuple[tuple[float, float], ...] = ()
    sample_count: int | None = None
    seen_by: SeenBy = SeenBy.CLIENT
    floor_s: float | None = None

    def at(self, fraction: float) -> float | None:
        """The percentile in seconds, where the file states exactly this one."""
        return next((value for each, value in self.percentiles if math.isclose(each, fraction, abs_tol=1e-9)), None)

    @property
    def formula(self) -> str:
        """What its definition counts, as a formula."""
        return self.definition.formula

    @property
    def middle_s(self) -> float | None:
        """The mean, or the median where a file keeps no mean."""
        return self.mean_s if self.mean_s is not None else self.at(0.5)

    @property
    def is_empty(self) -> bool:
        return self.mean_s is None and not self.percentiles and self.max_s is None


@dataclass(frozen=True, kw_only=True)
class LengthSummary:
    """Prompt or output lengths over a point."""

    mean_tokens: float | None = None
    std_tokens: float | None = None
    min_tokens: float | None = None
    max_tokens: float | None = None
    percentiles: tuple[tuple[float, float], ...] = ()


class LengthLaw(enum.StrEnum):
    """How a tool draws the lengths of its requests."""

    FIXED = "fixed"  # all alike
    UNIFORM = "uniform"  # evenly from a share of the nominal length up to all of it
    NORMAL = "normal"  # around the nominal length, with a spread


@dataclass(frozen=True, kw_only=True)
class LengthRule:
    """A tool's own rule for lengths, from its name or its configuration.

    `least_fraction` is of a uniform rule, the spreads are of a normal one; `said_by` names who says so.
    """

    law: LengthLaw
    said_by: str
    least_fraction: float = 1.0
    prompt_std_tokens: float = 0.0
    output_std_tokens: float = 0.0


@dataclass(frozen=True, kw_only=True)
class SharedPrefix:
    """Prompts that repeat: so many groups with a prefix in common, and so many different prompts in each.

    Every prompt is sent again and again, so that all of it is a prefix hit once it has been seen; before that, the
    prefix is one where another prompt of its group was seen.
    """

    groups: int
    prompts_per_group: int
    prefix_tokens: int
    said_by: str

    @property
    def prompts(self) -> int:
        return self.groups * self.prompts_per_group


class CountedBy(enum.StrEnum):
    """Who counted the tokens: the server while it made them, or the client's tokenizer afterwards."""

    SERVER = "server"
    CLIENT = "client"


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Totals over the requests that succeeded, and lengths where the file has them.

    `other_*` is a second count of the same tokens by the other side (the server where `counted_by` is the client, and
    the reverse). `nominal_*` is the setting of the tool, which is not always what was sent. `rule` is how the tool
    draws lengths, `shared_prefix` which prompts it repeats; `cached_fraction` is a stated share of prefix hits.
    """

    prompt_tokens: float | None = None
    output_tokens: float | None = None
    cached_prompt_tokens: float | None = None
    counted_by: CountedBy | None = None
    other_prompt_tokens: float | None = None
    other_output_tokens: float | None = None
    nominal_prompt_tokens: float | None = None
    nominal_output_tokens: float | None = None
    prompt_lengths: LengthSummary | None = None
    output_lengths: LengthSummary | None = None
    rule: LengthRule | None = None
    shared_prefix: SharedPrefix | None = None
    cached_fraction: float | None = None


@dataclass(frozen=True, kw_only=True)
class LoadTestSubject:
    """What was tested, as far as the file says. `replicas` are those behind one address.

    `max_sequences`, `step_tokens` and `poll_steps` are the scheduler's, where launch arguments lie beside the result or
    in it; `kv_tokens` is what the engine said its cache holds.
    `is_apart` says that prefill and decode ran on replicas of their own.
    """

    model: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    hardware: str | None = None
    devices: int | None = None
    tp: int | None = None
    pp: int | None = None
    ep: int | None = None
    replicas: int | None = None
    precision: str | None = None
    dataset: str | None = None
    max_sequences: int | None = None
    step_tokens: int | None = None
    poll_steps: int | None = None
    kv_tokens: int | None = None
    is_apart: bool | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class OfferedLoad:
    """What was asked of the server.

    `offered_rps` is None for a closed loop and for a burst: there is no rate to offer. `concurrency_cap_count` bounds
    the requests under way at once, whatever the loop. `burstiness_ratio` is the shape of gamma-distributed gaps (1 is
    Poisson), `even` says that gaps are all equal. `timeout_s` is when a client gives up.
    """

    loop: Loop
    offered_rps: float | None = None
    concurrency_cap_count: int | None = None
    burstiness_ratio: float | None = None
    even: bool | None = None
    timeout_s: float | None = None


class SingleToken(enum.StrEnum):
    """What a limit on TPOT makes of an answer of one token, which has no TPOT."""

    GOOD = "good"  # it counts as 0 and passes
    UNDETERMINED = "undetermined"  # the request is not judged at all
    BAD = "bad"  # a missing metric misses the limit


class Denominator(enum.StrEnum):
    """Of which requests the good ones are a share."""

    SENT = "sent"
    ENDED = "ended"  # well or not; those that the tool itself cancelled are left out
    SUCCEEDED = "succeeded"
    DETERMINED = "determined"


@dataclass(frozen=True, kw_only=True)
class GoodputLimits:
    """Per-request limits that a good request meets, all of them."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    itl_s: float | None = None
    ntpot_s: float | None = None
    e2e_s: float | None = None

    @property
    def given(self) -> dict[str, float]:
        """The limits that are set, by the name of their latency."""
        pairs = {
            "ttft": self.ttft_s,
            "tpot": self.tpot_s,
            "itl": self.itl_s,
            "ntpot": self.ntpot_s,
            "e2e": self.e2e_s,
        }
        return {name: limit_s for name, limit_s in pairs.items() if limit_s is not None}


@dataclass(frozen=True, kw_only=True)
class GoodputRule:
    """How good requests are counted: the limits, and what the tool does where they cannot be applied."""

    name: str
    limits: GoodputLimits
    single_token: SingleToken
    denominator: Denominator


@dataclass(frozen=True, kw_only=True)
class StatedGoodput:
    """The tool's own goodput. `limits` is None where the file does not store the SLOs."""

    rps: float | None
    attained_fraction: float | None
    limits: GoodputLimits | None
    single_token: SingleToken
    denominator: Denominator
    verdict: str | None = None


class Status(enum.StrEnum):
    """How a request ended."""

    OK = "ok"
    FAILED = "failed"
    UNFINISHED = "unfinished"  # still under way, or cancelled by the tool, when the point ended


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredRequest:
    """One request, its times counted from the first of the point.

    `due_s` is when the tool meant to send it, `sent_s` when it did; `itl_s` is the tool's own mean gap.
    """

    status: Status
    sent_s: float | None = None
    due_s: float | None = None
    ttft_s: float | None = None
    e2e_s: float | None = None
    itl_s: float | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None

    @property
    def tpot_s(self) -> float | None:
        """(end - first token) / (output tokens - 1); None for one token or fewer."""
        if self.e2e_s is None or self.ttft_s is None or self.output_tokens is None or self.output_tokens < 2:
            return None
        return (self.e2e_s - self.ttft_s) / (self.output_tokens - 1)

    @property
    def ntpot_s(self) -> float | None:
        if self.e2e_s is None or not self.output_tokens:
            return None
        return self.e2e_s / self.output_tokens


class Flag(enum.StrEnum):
    """What an anomaly is about. The value is stable: calibration and users' scripts look for it."""

    CLOSED_LOOP_SATURATION = "closed_loop_saturation"
    COORDINATED_OMISSION = "coordinated_omission"
    CLIENT_LIMITED = "client_limited"
    OVERLOAD = "overload"
    TOKEN_COUNT_MISMATCH = "token_count_mismatch"
    HISTOGRAM_FLOOR = "histogram_floor"
    UNIT_UNCERTAIN = "unit_uncertain"
    RATE_DISAGREES = "rate_disagrees"
    DECODE_TIME_DISAGREES = "decode_time_disagrees"
    LITTLES_LAW = "littles_law"
    PERCENTILES_CROSS = "percentiles_cross"
    FAILURES = "failures"
    UNFINISHED = "unfinished"
    FEW_REQUESTS = "few_requests"
    REQUESTS_SAMPLED = "requests_sampled"
    FIGURE_IGNORED = "figure_ignored"
    STATED_BY_TOOL = "stated_by_tool"
    INCOMPLETE_RUN = "incomplete_run"
    SERVER_SECTION_UNCERTAIN = "server_section_uncertain"
    ROWS_LEFT_OUT = "rows_left_out"


@dataclass(frozen=True, kw_only=True)
class PointAnomaly:
    """Something that is wrong or unusual about a point or a file, in a sentence that can be printed alone."""

    flag: Flag
    weight: Severity
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run at one load.

    `achieved_rps` is completed / duration, computed here; `stated_rps` is what the tool printed, where it differs in
    kind. `sent_rps` is how fast the client really sent. `mean_concurrency_count` is the tool's own time average.
    """

    name: str
    subject: LoadTestSubject
    load: OfferedLoad
    duration_s: float | None = None
    completed_count: int | None = None
    failed_count: int | None = None
    unfinished_count: int | None = None
    achieved_rps: float | None = None
    sent_rps: float | None = None
    stated_rps: float | None = None
    output_tokens_per_s: float | None = None
    mean_concurrency_count: float | None = None
    tokens: Tokens = Tokens()
    latencies: tuple[LatencySummary, ...] = ()
    client_delay: LatencySummary | None = None
    stated_goodput: StatedGoodput | None = None
    requests: tuple[MeasuredRequest, ...] = ()
    anomalies: tuple[PointAnomaly, ...] = ()

    def latency(self, *definitions: Definition) -> LatencySummary | None:
        """The first of these definitions that the point has."""
        known = {each.definition: each for each in self.latencies}
        return next((known[each] for each in definitions if each in known), None)

    @property
    def sent_count(self) -> int | None:
        """Requests that were sent, however they ended; None where a part of them is not known."""
        if self.completed_count is None or self.failed_count is None:
            return None
        return self.completed_count + self.failed_count + (self.unfinished_count or 0)

    @property
    def mean_output_tokens(self) -> float | None:
        """Output tokens of a request that succeeded, from the best the file has."""
        return _mean_tokens(self.tokens.output_lengths, self.tokens.output_tokens, self.completed_count) or _ratio(
            self.output_tokens_per_s, self.achieved_rps
        )

    @property
    def mean_prompt_tokens(self) -> float | None:
        return _mean_tokens(self.tokens.prompt_lengths, self.tokens.prompt_tokens, self.completed_count)

    @property
    def little_concurrency_count(self) -> float | None:
        """Requests in the system on average by Little's law: completed per second times mean E2E."""
        e2e = self.latency(Definition.E2E)
        if self.achieved_rps is None or e2e is None or e2e.mean_s is None:
            return None
        return self.achieved_rps * e2e.mean_s

    @property
    def request_count(self) -> int:
        """How many requests are kept one by one."""
        return len(self.requests)

    @property
    def has_every_request(self) -> bool:
        """Whether `requests` holds all that were sent, so that counts over it are counts over the point."""
        expected = self.sent_count if self.sent_count is not None else self.completed_count
        return bool(self.requests) and expected is not None and len(self.requests) >= expected


@dataclass(frozen=True, kw_only=True)
class LoadTest:
    """One file of one tool.

    `file` is the path as the user gave it. `format_version` is the schema's and `tool_version` the program's, each
    where the file states it or its keys give it away.
    """

    file: str
    reader: str
    tool: str
    points: tuple[Point, ...]
    tool_version: str | None = None
    format_version: str | None = None
    run_at: str | None = None
    sha256: str | None = None
    anomalies: tuple[PointAnomaly, ...] = ()


def _mean_tokens(lengths: LengthSummary | None, total_tokens: float | None, completed: int | None) -> float | None:
    if lengths is not None and lengths.mean_tokens is not None:
        return lengths.mean_tokens
    return _ratio(total_tokens, completed)


def _ratio(top: float | None, bottom: float | None) -> float | None:
    return top / bottom if top is not None and bottom else None
