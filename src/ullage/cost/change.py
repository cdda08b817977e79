"""Why two bills differ: the difference by cause, in cents that sum to the whole.

One bill is turned into the other step by step, and every step is billed; what a step adds is what its cause did.

    volume       as many requests as the other, all else alike: replicas grow with them
    mix          the other's share of each class, each request still as dear as before
    efficiency   the other's own replicas, lengths, successes: what a request needs
    reserves     the other's reserves and stranded devices
    policy       what is logged, kept, sent and judged
    price        the other's prices, on lines that both bills price
    coverage     lines that only one of the two bills could price

The order is a convention: a cause that comes later is counted at what the earlier ones left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ullage.cost.bill import Bill
from ullage.cost.lines.line import BillLine
from ullage.cost.lines.lines import bill_lines
from ullage.cost.money import usd_of
from ullage.cost.quotes import Quotes
from ullage.cost.service_use import PoolUse, ServiceUse, class_times
from ullage.errors import InternalError
from ullage.prices.book import MissingPrice

CAUSES = ("volume", "mix", "efficiency", "reserves", "policy", "price", "coverage")


@dataclass(frozen=True, kw_only=True)
class CauseOfChange:
    """What one cause added, and on which lines."""

    name: str
    cents: int
    by_line: Mapping[str, int]

    @property
    def usd(self) -> float:
        return usd_of(self.cents)


@dataclass(frozen=True, kw_only=True)
class BillChange:
    """The step from one bill to another."""

    before_cents: int
    after_cents: int
    causes: tuple[CauseOfChange, ...]

    @property
    def cents(self) -> int:
        return self.after_cents - self.before_cents

    def of(self, name: str) -> int:
        return sum(each.cents for each in self.causes if each.name == name)


def explain_change(before: Bill, after: Bill) -> BillChange:
    """The difference by cause; the causes sum to it exactly."""
    common = _common(before, after)
    first, last = _kept(before.lines, common), _kept(after.lines, common)
    quotes = _either(before.quotes, after.quotes)
    louder = _with_volume(before.use, after.use)
    mixed = _with_mix(louder, after.use)
    needed = _with_reserves_of(after.use, before.use)
    steps = [
        first,
        _kept(bill_lines(louder, quotes, before.policy), common),
        _kept(bill_lines(mixed, quotes, before.policy), common),
        _kept(bill_lines(needed, quotes, before.policy), common),
        _kept(bill_lines(after.use, quotes, before.policy), common),
        _kept(bill_lines(after.use, quotes, after.policy), common),
        last,
    ]
    causes = [_cause(name, one, other) for name, one, other in zip(CAUSES[:-1], steps[:-1], steps[1:], strict=True)]
    causes.append(_cause("coverage", _others(before.lines, common), _others(after.lines, common)))
    found = BillChange(before_cents=before.total_cents, after_cents=after.total_cents, causes=tuple(causes))
    if sum(each.cents for each in causes) != found.cents:
        raise InternalError(law="causes sum to the change", left=sum(each.cents for each in causes), right=found.cents)
    return found


def _common(before: Bill, after: Bill) -> frozenset[str]:
    """Labels of lines that neither bill leaves without a price; only these can be compared by price."""
    missing = {each.label for bill in (before, after) for each in bill.unpriced}
    labels = {each.label for bill in (before, after) for each in bill.lines}
    return frozenset(labels - missing)


def _kept(lines: Sequence[BillLine], common: frozenset[str]) -> dict[str, int]:
    return _by_name([each for each in lines if each.label in common])


def _others(lines: Sequence[BillLine], common: frozenset[str]) -> dict[str, int]:
    return _by_name([each for each in lines if each.label not in common])


def _by_name(lines: Sequence[BillLine]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in lines:
        found[each.name] = found.get(each.name, 0) + (each.cents or 0)
    return found


def _cause(name: str, one: Mapping[str, int], other: Mapping[str, int]) -> CauseOfChange:
    moved = {line: other.get(line, 0) - one.get(line, 0) for line in sorted({*one, *other})}
    return CauseOfChange(
        name=name, cents=sum(moved.values()), by_line={line: cents for line, cents in moved.items() if cents}
    )


def _either(first: Quotes, second: Quotes) -> Quotes:
    """The first's prices, and the second's where the first has none: a pool that is new has no old price."""
    tokens = {name: {**second.tokens.get(name, {}), **first.tokens.get(name, {})} for name in second.tokens}
    return replace(
        first,
        devices={**second.devices, **{k: v for k, v in first.devices.items() if not isinstance(v, MissingPrice)}},
        items={**second.items, **{k: v for k, v in first.items.items() if not isinstance(v, MissingPrice)}},
        tokens={**first.tokens, **tokens},
    )


def _with_volume(before: ServiceUse, after: ServiceUse) -> ServiceUse:
    """The first service with as many requests as the second, in its own proportions."""
    ratio = after.requests / before.requests if before.requests and after.requests else 1.0
    return replace(
        before,
        pools=tuple(_steady_times(each, ratio) for each in before.pools),
        classes=tuple(class_times(each, ratio) for each in before.classes),
        providers=None
        if before.providers is None
        else tuple(
            replace(
                each,
                requests=each.requests * ratio,
                prompt_tokens=each.prompt_tokens * ratio,
                output_tokens=each.output_tokens * ratio,
                cached_tokens=each.cached_tokens * ratio,
                written_tokens=each.written_tokens * ratio,
            )
            for each in before.providers
        ),
        tools=None if before.tools is None else tuple(replace(each, calls=each.calls * ratio) for each in before.tools),
    )


def _with_mix(louder: ServiceUse, after: ServiceUse) -> ServiceUse:
    """The second's requests by class, each as it was in the first; a pool's replicas follow the time they take."""
    wanted = {(each.pool, each.name): each.requests for each in after.classes}
    classes = [
        class_times(each, wanted.get((each.pool, each.name), 0.0) / each.requests) if each.requests else each
        for each in louder.classes
    ]
    mixed = replace(louder, classes=tuple(classes))
    pools = []
    for pool in louder.pools:
        old, new = _busy_s(louder, pool.name), _busy_s(mixed, pool.name)
        pools.append(_steady_times(pool, new / old) if old and new else pool)
    return replace(mixed, pools=tuple(pools))


def _with_reserves_of(after: ServiceUse, before: ServiceUse) -> ServiceUse:
    """The second service as it is, with the first's reserves and stranded devices."""
    old = {each.name: each for each in before.pools}
    return replace(
        after,
        pools=tuple(
            replace(each, reserves=old[each.name].reserves, stranded_devices=old[each.name].stranded_devices)
            if each.name in old
            else each
            for each in after.pools
        ),
    )


def _busy_s(use: ServiceUse, pool: str) -> float:
    return sum(each.gpu_s or 0.0 for each in use.classes_of(pool))


def _steady_times(pool: PoolUse, ratio: float) -> PoolUse:
    return replace(
        pool,
        steady_replicas=pool.steady_replicas * ratio,
        hourly_replicas=tuple(each * ratio for each in pool.hourly_replicas),
        hourly_needed=tuple(each * ratio for each in pool.hourly_needed),
        capacity_requests=None if pool.capacity_requests is None else pool.capacity_requests * ratio,
    )
