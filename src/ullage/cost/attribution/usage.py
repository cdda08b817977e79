"""Who used what: requests one by one, from a simulation or from a real log, summed by product, tenant, model or class.

    UsageLog   arrays, one element a request: labels, tokens, when it began and ended, whether it succeeded
    GroupUse   the same, summed over one group of a dimension: what attribution rules divide by

A dimension is controlled where its names are listed: a request whose label is missing or not listed counts as
`unallocated`, in a row of its own, and is never given to somebody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ullage.cost.attribution.dimensions import DIMENSIONS, UNALLOCATED, dimensions_of, pair_name
from ullage.cost.attribution.moments import group_shares_s, request_shares_s
from ullage.cost.attribution.shapley import sampled_shapley
from ullage.errors import InputError
from ullage.workload.answers import literal
from ullage.workload.profile.summarise import UNCLASSIFIED, group_expression

if TYPE_CHECKING:
    from ullage.simulate.load import Requests
    from ullage.simulate.outcome import Outcome
    from ullage.workload.classes import RequestClass
    from ullage.workload.trace import Trace

# The KV held over time is looked at in this many slots when peaks are compared.
_SLOTS = 256
# Beyond this many groups a peak is divided over the largest and one of all the others: a permutation costs each a look.
_MOST_PLAYERS = 64

Floats = NDArray[np.float64]
Ints = NDArray[Any]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The names of one dimension, and for each request the place of its own among them; -1 where it has none."""

    names: tuple[str, ...]
    places: Ints


@dataclass(frozen=True, kw_only=True)
class UsageLog:
    """Requests, one element each. Times are seconds on one clock; None where the source has no times.

    `start_s` is when the engine took the request up, or its arrival where that is all that was logged beside its end;
    `arrival_s` is known of a log without ends too.
    `kv_token_s` is measured residency; without it a request holds its prompt from start to end and its answer as it
    grows. `dropped` counts rows that could not be used, by reason.
    """

    labels: Mapping[str, Labels]
    prompt_tokens: Floats
    output_tokens: Floats
    cached_tokens: Floats
    successes: Bools
    arrival_s: Floats | None = None
    start_s: Floats | None = None
    first_token_s: Floats | None = None
    end_s: Floats | None = None
    kv_token_s: Floats | None = None
    replica: Ints | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)

    @property
    def requests(self) -> int:
        return int(self.prompt_tokens.size)

    def where(self, chosen: Bools) -> UsageLog:
        """The requests that are chosen, and no others."""
        arrays: dict[str, Any] = {
            each.name: given[chosen]
            for each in fields(self)
            if isinstance(given := getattr(self, each.name), np.ndarray)
        }
        labels = {name: Labels(names=each.names, places=each.places[chosen]) for name, each in self.labels.items()}
        return replace(self, labels=labels, **arrays)

    def labels_of(self, by: str) -> Labels:
        """The names of this dimension, or of a pair of them; an InputError where the log does not say it."""
        found = [self._labels_of(each) for each in dimensions_of(by)]
        return found[0] if len(found) == 1 else _paired(found[0], found[1])

    def _labels_of(self, dimension: str) -> Labels:
        if dimension not in self.labels:
            raise self._unsaid(dimension)
        return self.labels[dimension]

    def check_says(self, by: str) -> None:
        """An InputError where no request at all says one of these dimensions: all of it would be nobody's."""
        for each in dimensions_of(by):
            if not (self._labels_of(each).places >= 0).any():
                raise self._unsaid(each)

    def _unsaid(self, dimension: str) -> InputError:
        said = sorted(name for name, each in self.labels.items() if (each.places >= 0).any())
        return InputError(
            field="--by",
            value=dimension,
            problem=f"the usage has no {dimension} of requests",
            fix=f"Give a log with that column; this one has {', '.join(said) or 'none of them'}.",
        )

    @property
    def held_kv_token_s(self) -> Floats | None:
        """KV-token-seconds of each request: as measured, or from its lengths and times."""
        if self.kv_token_s is not None or self.start_s is None or self.end_s is None:
            return self.kv_token_s
        whole = self.end_s - self.start_s
        first = self.start_s if self.first_token_s is None else np.fmax(self.first_token_s, self.start_s)
        growing = np.maximum(self.end_s - np.where(np.isfinite(first), first, self.start_s), 0.0)
        return self.prompt_tokens * whole + self.output_tokens * growing / 2.0


@dataclass(frozen=True, kw_only=True)
class GroupUse:
    """What one group did. None where the source does not say; a rule that needs it refuses.

    `gpu_s` is its part of the devices' busy time, of which `failed_gpu_s` went to requests that did not succeed.
    `moment_s` is its part where every moment is divided over the groups that are there (busy-time Shapley), and
    `peak_tokens` what it adds to the most KV held at once (sampled Shapley), with the sampling's standard error.
    `caused_devices` are those of the steady fleet that it makes necessary (causation.py).
    """

    name: str
    requests: float
    successes: float
    prompt_tokens: float
    output_tokens: float
    cached_tokens: float
    gpu_s: float | None = None
    failed_gpu_s: float | None = None
    kv_token_s: float | None = None
    moment_s: float | None = None
    peak_tokens: float | None = None
    caused_devices: float | None = None


def usage_of_trace(trace: Trace, *, classes: Sequence[RequestClass] = ()) -> UsageLog:
    """A request log as usage. A row that ends before it starts, or lacks lengths or its end, is counted as dropped.

    `classes` sort the requests where they have rules.
    """
    is_timed = trace.clock.orders_requests and trace.knows("arrival_s", "duration_s")
    columns = "prompt_tokens, output_tokens, cached_tokens, arrival_s, duration_s, ttft_s, status"
    known = {each: sql for each in DIMENSIONS if (sql := group_expression(trace, each, classes)) is not None}
    named = "".join(f", NULLIF({sql}, {literal(UNCLASSIFIED)}) AS {each}_" for each, sql in known.items())
    found = trace.query(f"SELECT {columns}{named} FROM trace").fetchnumpy()
    prompt, output = _floats(found["prompt_tokens"]), _floats(found["output_tokens"])
    arrival, duration = _floats(found["arrival_s"]), _floats(found["duration_s"])
    good = np.isfinite(prompt) & np.isfinite(output)
    dropped = {"without prompt or output length": int((~good).sum())}
    if is_timed:
        timed = np.isfinite(arrival) & (duration > 0.0)
        dropped["without an end time"] = int((good & ~timed).sum())
        good &= timed
    start = arrival[good] if is_timed else None
    return UsageLog(
        labels={each: _labels(found[f"{each}_"], good) for each in known},
        prompt_tokens=prompt[good],
        output_tokens=output[good],
        cached_tokens=np.nan_to_num(_floats(found["cached_tokens"])[good]),
        successes=np.array([each in (None, "ok") for each in _texts(found["status"])], dtype=bool)[good],
        arrival_s=arrival[good] if trace.clock.orders_requests and np.isfinite(arrival[good]).all() else None,
        start_s=start,
        first_token_s=start + _floats(found["ttft_s"])[good] if start is not None and trace.knows("ttft_s") else None,
        end_s=None if start is None else start + duration[good],
        dropped={reason: count for reason, count in dropped.items() if count},
    )


def usage_of_run(
    requests: Requests, outcome: Outcome, *, model: str = "", products: Mapping[str, str] | None = None
) -> UsageLog:
    """A simulation that kept its requests as usage; `products` says which product a tenant belongs to.

    A request that was never taken up has used nothing, and stays in the count of requests.
    """
    kept = outcome.requests
    if kept is None:
        raise InputError(
            field="outcome.requests",
            value=None,
            problem="the run did not keep its requests",
            fix="Simulate with keep_requests=True.",
        )
    seen = kept.outcome >= 0
    admitted = np.where(np.isfinite(kept.admitted_s), kept.admitted_s, kept.arrival_s)[seen]
    end = np.where(np.isfinite(kept.end_s), kept.end_s, outcome.duration_s)[seen]
    places = {
        "class": Labels(names=tuple(each.name for each in requests.classes), places=_places(requests.class_of, seen)),
        "tenant": Labels(names=requests.tenants, places=_places(requests.tenant_of, seen)),
    }
    if model:
        places["model"] = Labels(names=(model,), places=np.zeros(int(seen.sum()), np.int64))
    if products:
        names = tuple(sorted(set(products.values())))
        of_tenant = np.array([names.index(products[each]) if each in products else -1 for each in requests.tenants])
        places["product"] = Labels(names=names, places=of_tenant[places["tenant"].places])
    cached = np.zeros(requests.count) if requests.cached_tokens is None else requests.cached_tokens.astype(np.float64)
    return UsageLog(
        labels=places,
        prompt_tokens=requests.prompt_tokens[seen].astype(np.float64),
        output_tokens=kept.output_tokens[seen].astype(np.float64),
        cached_tokens=cached[seen],
        successes=kept.outcome[seen] == 0,
        start_s=admitted,
        first_token_s=kept.first_token_s[seen],
        end_s=np.maximum(end, admitted),
        replica=kept.replica[seen],
    )


def grouped(
    log: UsageLog, by: str, *, known: Sequence[str] | None = None, rng: Generator | None = None
) -> tuple[GroupUse, ...]:
    """The log summed by a dimension, in order of name, `unallocated` last where there is any.

    `known` are the names that are allowed; without it every name in the log is. `rng` draws the orders in which
    peaks are compared; without it no group's part of the peak is computed.
    """
    names, place = sorted_groups(log, by, known)
    count = len(names)

    def summed(values: Floats | Bools | None) -> Floats:
        return np.bincount(place, weights=None if values is None else values, minlength=count).astype(np.float64)

    gpu = failed = moment = kv = peak = None
    held = log.held_kv_token_s
    if log.start_s is not None and log.end_s is not None:
        shares = request_shares_s(log.start_s, log.end_s, log.replica)
        gpu, failed = summed(shares), summed(np.where(log.successes, 0.0, shares))
        moment = group_shares_s(log.start_s, log.end_s, place, count, log.replica)
        if rng is not None:
            peak = _peak_shares(log, place, count, rng)
    if held is not None:
        kv = summed(held)
    columns: dict[str, Any] = {
        "requests": summed(None),
        "successes": summed(log.successes),
        "prompt_tokens": summed(log.prompt_tokens),
        "output_tokens": summed(log.output_tokens),
        "cached_tokens": summed(log.cached_tokens),
        "gpu_s": gpu,
        "failed_gpu_s": failed,
        "kv_token_s": kv,
        "moment_s": moment,
        "peak_tokens": peak,
    }
    return tuple(
        GroupUse(name=name, **{key: _one(each, row) for key, each in columns.items()}) for row, name in enumerate(names)
    )


def _one(column: Floats | None, row: int) -> Any:
    return None if column is None else float(column[row])


def grouped_run(
    requests: Requests,
    outcome: Outcome,
    by: str,
    *,
    model: str = "",
    products: Mapping[str, str] | None = None,
    known: Sequence[str] | None = None,
    rng: Generator | None = None,
) -> tuple[GroupUse, ...]:
    """As `grouped`, with GPU time and KV residency as the simulated engine booked them, step by step.

    The engine divides a step over the tokens that each request had in it, so that a long prompt pays for its prefill;
    a log shows only who was there. The share that failed is that of the equal division of moments.
    """
    groups = grouped(usage_of_run(requests, outcome, model=model, products=products), by, known=known, rng=rng)
    if by not in ("tenant", "class"):
        return groups
    booked = dict.fromkeys((one.name for one in groups), (0.0, 0.0))
    for each in outcome.groups:
        name = each.tenant if by == "tenant" else each.class_name
        name = name if name in booked else UNALLOCATED
        booked[name] = (booked[name][0] + each.busy_s, booked[name][1] + each.kv_token_s)
    return tuple(_as_booked(each, *booked[each.name]) for each in groups)


def _as_booked(group: GroupUse, busy_s: float, kv_token_s: float) -> GroupUse:
    failed = (group.failed_gpu_s or 0.0) / group.gpu_s if group.gpu_s else 0.0
    return replace(group, gpu_s=busy_s, failed_gpu_s=busy_s * failed, kv_token_s=kv_token_s)


def merged_groups(pools: Iterable[Sequence[GroupUse]]) -> tuple[GroupUse, ...]:
    """Groups of several pools as one list: the same name is the same group, and what one pool does not know none does.

    Moments and peaks of different pools add up: each pool is paid for by itself.
    """
    found: dict[str, GroupUse] = {}
    for each in (group for groups in pools for group in groups):
        found[each.name] = summed_groups(found[each.name], each) if each.name in found else each
    rest = found.pop(UNALLOCATED, None)
    return tuple(found[name] for name in sorted(found)) + (() if rest is None else (rest,))


def summed_groups(left: GroupUse, right: GroupUse) -> GroupUse:
    """Two groups as one, under the name of the first."""
    numbers: dict[str, Any] = {}
    for each in fields(GroupUse):
        if each.name != "name":
            one, other = getattr(left, each.name), getattr(right, each.name)
            numbers[each.name] = None if one is None or other is None else one + other
    return replace(left, **numbers)


def _paired(first: Labels, second: Labels) -> Labels:
    """Two dimensions as one. Half a name is kept: a product's request of no tenant is `search / unallocated`."""
    names = [[*each.names, UNALLOCATED] for each in (first, second)]
    rows, columns = (np.where(each.places < 0, len(each.names), each.places) for each in (first, second))
    joint = rows * len(names[1]) + columns
    seen, places = np.unique(joint, return_inverse=True)
    nobody = len(names[0]) * len(names[1]) - 1
    found = [pair_name(names[0][each // len(names[1])], names[1][each % len(names[1])]) for each in seen.tolist()]
    if seen.size and seen[-1] == nobody:
        found.pop()
        places = np.where(places == len(found), -1, places)
    return Labels(names=tuple(found), places=places)


def sorted_groups(log: UsageLog, by: str, known: Sequence[str] | None) -> tuple[list[str], Ints]:
    """The groups in order of name, `unallocated` last, and the place of each request's among them."""
    labels = log.labels_of(by)
    allowed = sorted(set(labels.names) if known is None else set(known))
    if UNALLOCATED in allowed:
        allowed.remove(UNALLOCATED)
    of_name = {name: place for place, name in enumerate(allowed)}
    # The last place, which -1 falls into as well, is for those without a known name.
    moved = np.array([*(of_name.get(name, len(allowed)) for name in labels.names), len(allowed)], dtype=np.int64)
    place = moved[labels.places]
    has_rest = bool((place == len(allowed)).any())
    return [*allowed, *([UNALLOCATED] if has_rest else [])], place


def _peak_shares(log: UsageLog, place: Ints, groups: int, rng: Generator) -> Floats:
    """What each group adds to the most KV held at once, by sampled Shapley over slots of equal length."""
    assert log.start_s is not None
    assert log.end_s is not None
    if log.requests == 0:
        return np.zeros(groups)
    held = np.zeros((groups, _SLOTS + 1))
    begin = float(log.start_s.min())
    width = max(float(log.end_s.max()) - begin, 1e-12) / _SLOTS
    tokens = log.prompt_tokens + log.output_tokens / 2.0
    first = np.clip(((log.start_s - begin) / width).astype(np.int64), 0, _SLOTS - 1)
    last = np.clip(np.ceil((log.end_s - begin) / width).astype(np.int64), first + 1, _SLOTS)
    np.add.at(held, (place, first), tokens)
    np.add.at(held, (place, last), -tokens)
    held = np.maximum(np.cumsum(held, axis=1)[:, :_SLOTS], 0.0)
    largest = np.argsort(-held.sum(axis=1), kind="stable")
    players, rest = largest[: _MOST_PLAYERS - 1], largest[_MOST_PLAYERS - 1 :]
    rows = held[players] if rest.size == 0 else np.vstack([held[players], held[rest].sum(axis=0)])
    found = sampled_shapley(len(rows), lambda there: float(rows[there].sum(axis=0).max(initial=0.0)), rng=rng)
    values = np.zeros(groups)
    values[players] = found.values[: players.size]
    if rest.size:
        within = held[rest].sum(axis=1) / max(float(held[rest].sum()), 1e-300)
        values[rest] = found.values[-1] * within
    return np.maximum(values, 0.0)


def _places(given: Ints | None, seen: Bools) -> Ints:
    return np.zeros(int(seen.sum()), np.int64) if given is None else given[seen].astype(np.int64)


def _floats(column: Any) -> Floats:
    """A column of DuckDB as floats, nan where it is NULL."""
    return np.ma.filled(np.ma.asarray(column).astype(np.float64), np.nan)


def _texts(column: Any) -> list[str | None]:
    masked = np.ma.asarray(column)
    hidden = np.ma.getmaskarray(masked)
    return [None if away or each is None else str(each) for each, away in zip(masked.data, hidden, strict=True)]


def _labels(column: Any, good: Bools) -> Labels:
    texts = [each for each, keep in zip(_texts(column), good, strict=True) if keep]
    names = tuple(sorted({each for each in texts if each}))
    of_name = {name: place for place, name in enumerate(names)}
    return Labels(names=names, places=np.array([of_name.get(each or "", -1) for each in texts], dtype=np.int64))
