"""The question as integers: what both the kernel and the literal reference simulate.

`simulate()` turns engines, a fleet and a load into a `Problem`; nothing below this type knows seconds,
names or floats. Times are picoseconds in int64 (range 106 days), because with floating-point times two
events that ought to coincide do not, and runs take different discrete paths.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ullage.simulate.kernel import codes

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Int16s = NDArray[np.int16]
Int8s = NDArray[np.int8]

NEVER_PS = codes.NEVER
PS_PER_S = 10**12


class EngineField(enum.IntEnum):
    """Columns of `Problem.engines`: one row per replica type."""

    MAX_SEQUENCES = 0
    TOKEN_BUDGET = 1
    BLOCKS = 2
    BLOCK_SHIFT = 3  # log2 of the tokens in a block
    QUEUE_BOUND = 4
    LONG_PREFILL = 5  # most prefill tokens of one request in one step
    PRIORITY = 6  # 1: priority scheduling, 0: first come first served
    KV_SHIFT = 7  # log2 of the KV tokens in a segment of the decode table
    KV_SEGMENTS = 8
    TOKEN_SHIFT = 9  # log2 of the tokens in a segment of the prefill table
    TOKEN_SEGMENTS = 10
    PAIR_PS_1024 = 11  # time per query-key pair of prefill attention, in ps / 1024
    IS_SUM = 12  # 1: prefill adds to decode time, 0: the longer of the two
    OUTSIDE_PS = 13  # what a request spends outside the steps before its first token comes out
    CROWD_PS = 14  # and what each sequence that decodes beside it adds to that
    RATE_1024 = 15  # tokens that a decoding sequence gains in a step, in 1/1024
    WIDTH = 16  # positions that it computes to gain them: what is drafted, and one
    HOST_ROOM = 22  # blocks of the prefix cache's tier in host memory
    HOST_BLOCK_PS = 23  # what loading one of them takes
    POLICY = 17  # what must fit before a request is admitted: a code of CapacityKind
    RATIO_FIRST = 18  # SGLang's new-token ratio, in 2**-20: as it begins,
    RATIO_LEAST = 19  # the least it falls to,
    RATIO_DECAY = 20  # and by how much in a step
    CLIP_TOKENS = 21  # no more of an answer that may come is counted


class ClassField(enum.IntEnum):
    """Columns of `Problem.classes`: one row per request class; NEVER_PS where there is no limit."""

    TTFT_TIMEOUT_PS = 0
    TOTAL_TIMEOUT_PS = 1
    TTFT_SLO_PS = 2
    TPOT_SLO_PS = 3
    E2E_SLO_PS = 4
    LEVEL = 5  # rank of the class's priority, 0 is served first
    LIMIT_TOKENS = 6  # output tokens that its requests allow at most; a longer answer allows itself


class CapacityKind(enum.IntEnum):
    PRESENT_NEED = codes.PRESENT_NEED
    NEW_TOKEN_RATIO = codes.NEW_TOKEN_RATIO
    GUARANTEED_NO_EVICT = codes.NO_EVICT
    MAX_UTILIZATION = codes.MAX_UTILIZATION


class RouterArrays(enum.IntEnum):
    ROUND_ROBIN = codes.ROUND_ROBIN
    RANDOM = codes.RANDOM
    POWER_OF_TWO = codes.POWER_OF_TWO
    LEAST_OUTSTANDING = codes.LEAST_OUTSTANDING
    LEAST_TOKENS = codes.LEAST_TOKENS
    LEAST_KV = codes.LEAST_KV
    STICKY = codes.STICKY
    PREFIX_AWARE = codes.PREFIX_AWARE


class EventKind(enum.IntEnum):
    READY = codes.EVENT_READY
    DRAIN = codes.EVENT_DRAIN
    FAIL = codes.EVENT_FAIL
    REPAIR = codes.EVENT_REPAIR


class ControlKind(enum.IntEnum):
    NONE = codes.CONTROL_NONE
    RULE = codes.CONTROL_RULE
    CALLBACK = codes.CONTROL_CALLBACK


class BetweenKind(enum.IntEnum):
    """What becomes of a session's KV between its turns."""

    CACHED = codes.CACHED
    KEPT = codes.KEPT
    OFFLOADED = codes.OFFLOADED
    DROPPED = codes.DROPPED


class SignalKind(enum.IntEnum):
    OUTSTANDING = codes.SIGNAL_OUTSTANDING
    TOKENS = codes.SIGNAL_TOKENS


@dataclass(frozen=True, kw_only=True)
class ControlTerms:
    """The control tick: every `period_ps` signals are read and a number of replicas is requested."""

    kind: ControlKind = ControlKind.NONE
    period_ps: int = NEVER_PS
    ready_delay_ps: int = 0
    signal: SignalKind = SignalKind.OUTSTANDING
    target_milli: int = 1000
    window_ticks: int = 1
    least_replicas: int = 1
    most_replicas: int = 1


@dataclass(frozen=True, kw_only=True)
class RetryTerms:
    """When an attempt is repeated. The budget is a bucket: first attempts pay in, retries take 1000 out."""

    most_attempts: int = 1
    backoff_ps: int = 1
    growth_milli: int = 2000
    jitter_milli: int = 0
    deposit_milli: int = 1000
    bucket_milli: int = 10**12
    on_shed: bool = True
    on_timeout: bool = True
    on_failure: bool = True


@dataclass(frozen=True, kw_only=True)
class GuardTerms:
    """When a router leaves the replica that has the prefix or the session for the least loaded one.

    It has `requests` more outstanding than that and `milli` / 1000 times as many; or, where the router looks for
    prefixes, less than `match_milli` / 1000 of the prompt's blocks.
    """

    requests: int = NEVER_PS
    milli: int = 0
    match_milli: int = 0


def _none() -> Int32s:
    return np.zeros(0, np.int32)


@dataclass(frozen=True, kw_only=True)
class PrefixTerms:
    """Prompts as paths in a tree; length 0 where there is no prefix cache.

    A node is a run of `size` blocks that every prompt contains as a whole or not at all, after `begin` blocks of its
    `parent` (-1: none) and those before. A request's prompt ends, in whole blocks, with `prompt` (-1: it has none), and
    its answer, where that is kept, with `answer`. `warm` are nodes that caches have at the start, the one used longest
    ago first, each on the replica that `warm_chance` of 2**32 falls on.
    """

    parent: Int32s = field(default_factory=_none)
    begin: Int32s = field(default_factory=_none)
    size: Int32s = field(default_factory=_none)
    prompt: Int32s = field(default_factory=_none)
    answer: Int32s = field(default_factory=_none)
    warm: Int32s = field(default_factory=_none)
    warm_chance: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def is_used(self) -> bool:
        return self.prompt.size > 0


@dataclass(frozen=True, kw_only=True)
class TurnTerms:
    """Requests that follow others; length 0 where none does.

    `following` is the next turn of a request's session (-1: none), which comes `think_ps` of the request after its end.
    Requests that follow none come first, `listed_requests` of them. `between` says what becomes of a session's blocks
    until then; `session_nodes` are those of each session's nodes that no other has, the last of a prompt first, and
    begin at `session_nodes_at`.
    """

    following: Int32s = field(default_factory=_none)
    listed_requests: int = 0
    between: BetweenKind = BetweenKind.CACHED
    session: Int32s = field(default_factory=_none)
    session_nodes: Int32s = field(default_factory=_none)
    session_nodes_at: Int32s = field(default_factory=_none)

    @property
    def is_used(self) -> bool:
        return self.following.size > 0


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Everything a run depends on. Optional per-request arrays have length 0 when the feature is unused."""

    engines: Int64s
    decode_base_ps: Int64s  # [type, decode sequences, KV segment]
    decode_slope_ps: Int64s
    token_base_ps: Int64s  # [type, token segment]
    token_slope_ps: Int64s

    replica_type: Int16s
    ready_at_start: Int8s
    event_ps: Int64s
    event_replica: Int32s
    event_kind: Int8s
    routing: RouterArrays = RouterArrays.LEAST_OUTSTANDING
    refresh_ps: int = 0  # 0: the router sees the present; otherwise its view is renewed this often
    guard: GuardTerms = GuardTerms()
    control: ControlTerms = ControlTerms()

    classes: Int64s
    group_class: Int16s
    arrival_ps: Int64s  # open loop: sorted, of those that follow no other; closed loop: written by the run
    prompt_tokens: Int32s
    output_tokens: Int32s
    cached_tokens: Int32s  # given; none with a prefix cache, which finds its own
    prefixes: PrefixTerms = field(default_factory=PrefixTerms)
    turns: TurnTerms = field(default_factory=TurnTerms)
    home: Int32s = field(default_factory=_none)  # a sticky router sends equal ones to one replica
    group: Int16s
    cancel_after_ps: Int64s
    client_start_ps: Int64s  # length 0: open loop
    think_ps: Int64s
    retry: RetryTerms = RetryTerms()

    seed: int = 0
    until_ps: int = NEVER_PS
    measure_from_ps: int = 0
    measure_until_ps: int = NEVER_PS
    sample_ps: int = NEVER_PS
    samples: bool = True  # at a sample, a row for every replica
    gauges: bool = False  # and one for the fleet as a whole
    start_delays_ps: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))  # in turn; empty: all alike
    keep_requests: bool = True
    attribute: bool = True
    histograms: bool = True
    most_events: int = 2**62

    @property
    def requests(self) -> int:
        return int(self.prompt_tokens.size)

    @property
    def listed(self) -> int:
        """Requests that follow no other."""
        return self.turns.listed_requests if self.turns.is_used else self.requests

    @property
    def replicas(self) -> int:
        return int(self.replica_type.size)

    @property
    def closed(self) -> bool:
        return self.client_start_ps.size > 0
