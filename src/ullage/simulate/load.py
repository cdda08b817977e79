"""Requests, their classes, and the loop (open or closed) that issues them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ullage.errors import InputError, InternalError, check_name
from ullage.simulate.fleet import BETWEEN_TURNS
from ullage.workload.parents import kept_parents

PS_PER_S = 10**12
_LONGEST_S = 9_000_000.0  # 104 days: what int64 picoseconds hold, with room for sums

GOES_ON_FRACTION = 0.8
"""Of an earlier prompt: what contains this much of it is the next turn. The rest is what block sizes round off."""

Numbers = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class LoadClass:
    """Requests that share an SLO and deadlines. The SLO decides between success and late; a timeout ends the attempt.

    Under priority scheduling a lower `priority` is served first.
    """

    name: str = "all"
    priority: int = 0
    ttft_slo_s: float | None = None
    tpot_slo_s: float | None = None
    e2e_slo_s: float | None = None
    ttft_timeout_s: float | None = None
    total_timeout_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Retry:
    """How clients repeat what was shed, timed out or failed.

    The k-th repetition waits `backoff_s * growth ** (k - 1)`, plus up to `jitter_fraction` of that. The budget
    is a bucket of `budget_retries`: every first attempt adds `budget_fraction`, every retry takes one.
    """

    most_attempts: int = 3
    backoff_s: float = 0.5
    growth_ratio: float = 2.0
    jitter_fraction: float = 0.0
    budget_fraction: float = 1.0
    budget_retries: int = 10**6
    on_shed: bool = True
    on_timeout: bool = True
    on_failure: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.most_attempts <= 255:
            raise InputError(
                field="retry.most_attempts", value=self.most_attempts, problem="must be 1 to 255", fix="Give 2 or 3."
            )
        if self.backoff_s <= 0 or self.growth_ratio <= 0 or self.jitter_fraction < 0:
            raise InputError(
                field="retry.backoff_s",
                value=self.backoff_s,
                problem="back-off and growth must be above 0 and jitter at least 0",
                fix="Give, for example, backoff_s=0.5, growth_ratio=2, jitter_fraction=0.5.",
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class Prefixes:
    """Which tokens a prompt begins with: the first `shared_tokens` of it are those of its `parent`.

    A parent is an earlier request, of which prompt and answer can be shared (the prompt alone where answers are not
    kept), or a text of the time before: `history_tokens` are the lengths of those, the one used longest ago first,
    spread over the replicas' caches at the start. Parents are numbered history first, then requests; -1 is none.
    """

    parent: Numbers
    shared_tokens: Numbers
    history_tokens: Numbers | None = None
    keeps_answers: bool = True

    def __post_init__(self) -> None:
        if self.parent.shape != self.shared_tokens.shape:
            raise InputError(
                field="requests.prefixes.shared_tokens",
                value=self.shared_tokens.shape,
                problem=f"does not match the {self.parent.size} parents",
                fix="Give one number of tokens for each request.",
            )
        first = 0 if self.history_tokens is None else self.history_tokens.size
        own = np.arange(self.parent.size) + first
        if bool(((self.parent < -1) | (self.parent >= own)).any()):
            where = int(np.argmax((self.parent < -1) | (self.parent >= own)))
            raise InputError(
                field=f"requests.prefixes.parent[{where}]",
                value=int(self.parent[where]),
                problem="is not a text that came before",
                fix="Give the number of an earlier request, counted after the history, or -1.",
            )

    def beside(self, other: Prefixes) -> Prefixes:
        """These and others after them, the histories of both first."""
        history = [
            np.zeros(0, np.int64) if each.history_tokens is None else each.history_tokens for each in (self, other)
        ]
        mine, theirs = (each.size for each in history)
        first = np.where(self.parent >= mine, self.parent + theirs, self.parent)
        second = np.where(other.parent >= theirs, other.parent + mine + self.parent.size, other.parent + mine)
        return replace(
            self,
            parent=np.concatenate([first, np.where(other.parent < 0, -1, second)]),
            shared_tokens=np.concatenate([self.shared_tokens, other.shared_tokens]),
            history_tokens=np.concatenate(history),
        )

    def part(self, rows: Numbers) -> Prefixes:
        """Those of some requests, by a mask or by their numbers in a new order."""
        first = 0 if self.history_tokens is None else self.history_tokens.size
        kept = np.flatnonzero(rows) if rows.dtype == np.bool_ else np.asarray(rows)
        before = np.arange(first)
        parent, shared = kept_parents(
            np.concatenate([np.full(first, -1), self.parent]),
            np.concatenate([np.zeros(first, np.int64), self.shared_tokens]),
            np.concatenate([before, first + kept]),
        )
        return replace(self, parent=parent[first:], shared_tokens=shared[first:])


@dataclass(frozen=True, kw_only=True, eq=False)
class Turns:
    """Requests that follow others: `follows` is the number of the one before in its session (-1: none), and a request
    comes `think_s` of its own after that one has ended, whatever became of it. `between` is one of BETWEEN_TURNS.
    """

    follows: Numbers
    think_s: Numbers
    between: str = "cached"

    def __post_init__(self) -> None:
        check_name(self.between, BETWEEN_TURNS, field="turns.between")
        later = self.follows[self.follows >= 0]
        own = np.flatnonzero(self.follows >= 0)
        wrong = bool((self.follows >= np.arange(self.follows.size)).any()) or np.unique(later).size < later.size
        if self.think_s.shape != self.follows.shape or wrong or bool((self.think_s[own] < 0).any()):
            raise InputError(
                field="requests.turns",
                value=self.follows.shape,
                problem="is not an earlier request for each turn, none named twice, and a think time of 0 or more",
                fix="Give the number of the turn before, or -1, and the seconds between.",
            )

    def beside(self, other: Turns) -> Turns:
        later = np.where(other.follows >= 0, other.follows + self.follows.size, -1)
        return replace(
            self,
            follows=np.concatenate([self.follows, later]),
            think_s=np.concatenate([self.think_s, other.think_s]),
        )

    def part(self, rows: Numbers) -> Turns:
        """Those of some requests; a turn whose session loses the one before comes when it came."""
        kept = np.flatnonzero(rows) if rows.dtype == np.bool_ else np.asarray(rows)
        place = np.full(self.follows.size + 1, -1)
        place[kept] = np.arange(kept.size)
        follows = place[self.follows[kept]]
        return replace(self, follows=np.where(follows < np.arange(kept.size), follows, -1), think_s=self.think_s[kept])


REQUEST_COLUMNS = (
    "prompt_tokens", "output_tokens", "cached_tokens", "cancel_after_s", "class_of", "tenant_of", "session_of",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Requests:
    """The requests as arrays, one element per request, in the order in which they are issued.

    `cached_tokens` are prompt tokens whose KV is already there (a prefix hit); `cancel_after_s` is how long the
    client stays (inf: until it is done). `class_of` and `tenant_of` are indices into `classes` and `tenants`. With
    `prefixes` every replica has a prefix cache that finds its own hits; `session_of` is what a sticky router goes by.
    With `turns` some come after the end of others, and not when the load says.
    """

    prompt_tokens: Numbers
    output_tokens: Numbers
    cached_tokens: Numbers | None = None
    cancel_after_s: Numbers | None = None
    classes: tuple[LoadClass, ...] = (LoadClass(),)
    class_of: Numbers | None = None
    tenants: tuple[str, ...] = ("all",)
    tenant_of: Numbers | None = None
    prefixes: Prefixes | None = None
    session_of: Numbers | None = None
    turns: Turns | None = None

    def __post_init__(self) -> None:
        count = self.prompt_tokens.size
        if count == 0:
            raise InputError(field="requests", value=0, problem="is empty", fix="Give at least one request.")
        for name in REQUEST_COLUMNS[1:]:
            given = getattr(self, name)
            if given is not None and given.shape != (count,):
                raise InputError(
                    field=f"requests.{name}",
                    value=given.shape,
                    problem=f"does not have one element for each of the {count} requests",
                    fix="Give an array as long as prompt_tokens.",
                )
        _require_range("prompt_tokens", self.prompt_tokens, 1, 2**30)
        _require_range("output_tokens", self.output_tokens, 1, 2**22)
        if self.cached_tokens is not None:
            _require_range("cached_tokens", self.cached_tokens, 0, 2**30)
            if bool((self.cached_tokens >= self.prompt_tokens).any()):
                where = int(np.argmax(self.cached_tokens >= self.prompt_tokens))
                raise InputError(
                    field=f"requests.cached_tokens[{where}]",
                    value=int(self.cached_tokens[where]),
                    problem=f"covers the whole prompt of {int(self.prompt_tokens[where])} tokens",
                    fix="At least the prompt's last token is computed; give one less.",
                )
        if self.prefixes is not None and (self.cached_tokens is not None or self.prefixes.parent.shape != (count,)):
            raise InputError(
                field="requests.prefixes",
                value=self.prefixes.parent.shape,
                problem=f"is not one parent for each of the {count} requests, or cached_tokens are given too",
                fix="Give prefixes, from which hits follow, or cached_tokens.",
            )
        if self.turns is not None and self.turns.follows.shape != (count,):
            raise InputError(
                field="requests.turns",
                value=self.turns.follows.shape,
                problem=f"does not have one element for each of the {count} requests",
                fix="Give -1 for a request that follows no other.",
            )
        _require_index("class_of", self.class_of, len(self.classes))
        _require_index("tenant_of", self.tenant_of, len(self.tenants))

    @property
    def count(self) -> int:
        return int(self.prompt_tokens.size)

    def beside(self, other: Requests) -> Requests:
        """These requests and others of the same kind after them."""
        columns: dict[str, Any] = {
            name: np.concatenate([own, getattr(other, name)])
            for name in REQUEST_COLUMNS
            if (own := getattr(self, name)) is not None
        }
        if self.session_of is not None and other.session_of is not None:
            # Sessions of two loads have nothing to do with each other.
            columns["session_of"][self.count :] += int(self.session_of.max()) + 1
        mine, theirs = self.prefixes, other.prefixes
        turns = None if self.turns is None or other.turns is None else self.turns.beside(other.turns)
        prefixes = None if mine is None or theirs is None else mine.beside(theirs)
        return replace(self, **columns, prefixes=prefixes, turns=turns)

    def without_hits(self, which: Numbers) -> Requests:
        """The same requests, those of a mask finding nothing in any cache."""
        cached, prefixes = self.cached_tokens, self.prefixes
        if prefixes is not None:
            prefixes = replace(prefixes, parent=np.where(which, -1, prefixes.parent))
        return replace(self, cached_tokens=None if cached is None else np.where(which, 0, cached), prefixes=prefixes)

    def part(self, rows: Numbers) -> Requests:
        """Some of the requests, by a mask or by their numbers in a new order."""
        columns: dict[str, Any] = {
            name: None if (own := getattr(self, name)) is None else own[rows] for name in REQUEST_COLUMNS
        }
        return replace(
            self,
            **columns,
            prefixes=None if self.prefixes is None else self.prefixes.part(rows),
            turns=None if self.turns is None else self.turns.part(rows),
        )


def _unchecked(value: Any, **changed: Any) -> Any:
    """A copy of a checked value with other fields that cannot make it wrong; arrays are not looked through again."""
    made = object.__new__(type(value))
    made.__dict__.update(vars(value) | changed)
    return made


@dataclass(frozen=True, kw_only=True)
class OpenLoop:
    """Requests come when they come, whatever the system does: production traffic."""

    requests: Requests
    arrival_s: Numbers | None = None
    arrival_ps: Numbers | None = None
    retry: Retry | None = None

    def __post_init__(self) -> None:
        given = self.arrival_s if self.arrival_s is not None else self.arrival_ps
        if given is None or given.shape != (self.requests.count,):
            raise InputError(
                field="load.arrival_s",
                value=None if given is None else given.shape,
                problem="does not have one time for each request",
                fix="Give arrival_s (seconds) or arrival_ps (int64 picoseconds), as long as the requests.",
            )
        scale = 1.0 if self.arrival_s is not None else 1.0 / PS_PER_S
        if not (float(given[0]) >= 0 and float(given[-1]) * scale < _LONGEST_S):
            raise InputError(
                field="load.arrival_s",
                value=(float(given[0]) * scale, float(given[-1]) * scale),
                problem="leaves the range of the clock, 0 to 104 days",
                fix="Subtract the first arrival from all.",
            )
        if bool((given[1:] < given[:-1]).any()):
            where = int(np.argmax(given[1:] < given[:-1])) + 1
            raise InputError(
                field=f"load.arrival_s[{where}]",
                value=float(given[where]) * scale,
                problem=f"is before the arrival in front of it, {float(given[where - 1]) * scale}",
                fix="Sort the requests by arrival.",
            )

    def with_classes(self, classes: tuple[LoadClass, ...]) -> OpenLoop:
        """The same requests at the same times, their classes on other terms; as many classes as before."""
        if len(classes) != len(self.requests.classes):
            raise InternalError(
                law="classes on other terms are as many", left=len(classes), right=len(self.requests.classes)
            )
        made: OpenLoop = _unchecked(self, requests=_unchecked(self.requests, classes=classes))
        return made


@dataclass(frozen=True, kw_only=True)
class ClosedLoop:
    """A fixed number of clients, each with one request under way: a load test, or users who wait for the answer.

    Client c starts at `ramp_s * c / clients` (ramp_s = 0: all start at once) and takes the next request of the
    list `think_s` after its last one has ended.
    """

    requests: Requests
    clients: int
    think_s: float | Numbers = 0.0
    ramp_s: float = 0.0
    retry: Retry | None = None

    def __post_init__(self) -> None:
        if self.clients < 1:
            raise InputError(
                field="load.clients", value=self.clients, problem="must be at least 1", fix="Give the concurrency."
            )
        if bool(np.any(np.asarray(self.think_s) < 0)) or self.ramp_s < 0:
            raise InputError(
                field="load.think_s",
                value=self.think_s,
                problem="think time and ramp are not negative",
                fix="Give 0 or more.",
            )


Load = OpenLoop | ClosedLoop


def poisson(
    *,
    rate_rps: float,
    requests: int,
    prompt_tokens: int,
    output_tokens: int,
    rng: np.random.Generator,
    spread: float = 0.0,
    classes: tuple[LoadClass, ...] = (LoadClass(),),
    retry: Retry | None = None,
) -> OpenLoop:
    """A synthetic stream: exponential gaps, lengths constant or, with `spread`, log-normal around their mean.

    Log-normal lengths are cut at 20 times their mean. Classes are drawn with equal chance.
    """
    gaps = rng.exponential(PS_PER_S / rate_rps, requests)
    np.cumsum(gaps, out=gaps)
    class_of = rng.integers(0, len(classes), requests).astype(np.int16) if len(classes) > 1 else None
    return OpenLoop(
        requests=Requests(
            prompt_tokens=_lengths(prompt_tokens, spread, requests, rng),
            output_tokens=_lengths(output_tokens, spread, requests, rng),
            classes=classes,
            class_of=class_of,
        ),
        arrival_ps=gaps.astype(np.int64),
        retry=retry,
    )


def _lengths(mean: int, spread: float, count: int, rng: np.random.Generator) -> NDArray[np.int32]:
    if spread == 0:
        return np.full(count, mean, np.int32)
    drawn = rng.lognormal(np.log(mean) - spread**2 / 2, spread, count)
    return np.clip(np.rint(drawn), 1, 20 * mean).astype(np.int32)


def _require_range(name: str, given: Numbers, least: int, most: int) -> None:
    low, high = int(given.min()), int(given.max())
    if low < least or high > most:
        raise InputError(
            field=f"requests.{name}",
            value=low if low < least else high,
            problem=f"must lie between {least} and {most}",
            fix="Drop or mend the request.",
        )


def _require_index(name: str, given: Numbers | None, count: int) -> None:
    if given is None:
        if count > 1:
            raise InputError(
                field=f"requests.{name}",
                value=None,
                problem=f"is missing, though there are {count} to choose from",
                fix="Give the index of each request's own.",
            )
    elif int(given.min()) < 0 or int(given.max()) >= count:
        raise InputError(
            field=f"requests.{name}",
            value=int(given.max()),
            problem=f"points outside the {count} given",
            fix="Give indices from 0.",
        )
