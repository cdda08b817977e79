"""What moved fleet and bill between two plans, cause by cause, each with the inputs behind it; the causes sum.

A plan's bridge is taken apart on both sides, and each of its steps moves by so many replicas at the old price; what the
same replicas cost more or less is the price's. The first step, nominal replicas, moves with the load and with what a
replica carries:

    replicas = load x replicas per load        usd = replicas x usd per replica
    demand   = (new load - old load) x old replicas per load
    replica  = new replicas - new load x old replicas per load

The order is a convention: a later cause is counted at what the earlier ones left. Chance is a cause like any other: a
plan of the new input at the old seed (`same_seed`) tells its part from that of the inputs; without one, steps that are
simulated name the seed beside their inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ullage.errors import InternalError
from ullage.planning.differences.record import Entry, PlanRecord, RecordedPool

SEED = "seed"
PROGRAM = "another version of Ullage or its facts"
_TOTAL_USD = "bill.total_usd"
# Less than this is the rounding of lines to cents and of figures to nine digits.
_ROUNDING_USD = 1.0
_NOTHING_USD = 0.005


@dataclass(frozen=True, kw_only=True)
class CausedChange:
    """One cause: by how many replicas and how much money it moved the plan. `usd` is None where a plan has no bill."""

    name: str
    pool: str
    replicas: float
    usd: float | None
    because: tuple[str, ...]


def causes_of(old: PlanRecord, new: PlanRecord, *, same_seed: PlanRecord | None = None) -> tuple[CausedChange, ...]:
    """Every cause that moved something, in the order of the bridge; they sum to the change of fleet and bill."""
    inputs = new if same_seed is None else same_seed
    found = [*_between(old, inputs, is_seed_apart=same_seed is not None)]
    if same_seed is not None:
        found.append(
            CausedChange(
                name=SEED,
                pool="",
                replicas=_replicas(new) - _replicas(same_seed),
                usd=_difference(_usd(same_seed), _usd(new)),
                because=(SEED,),
            )
        )
    _check(old, new, found)
    return tuple(each for each in found if each.replicas or abs(each.usd or 0.0) >= _NOTHING_USD)


def _between(old: PlanRecord, new: PlanRecord, *, is_seed_apart: bool) -> Iterator[CausedChange]:
    reasons = _Reasons(old, new, names_seed=old.seed != new.seed and not is_seed_apart)
    priced = _usd(old) is not None and _usd(new) is not None
    before, after = ({each.name: each for each in one.pools} for one in (old, new))
    given: list[CausedChange] = []
    for name in dict.fromkeys((*before, *after)):
        if name in before and name in after:
            given += _pool(_Side(old, before[name]), _Side(new, after[name]), reasons)
        else:
            side, sign = (_Side(new, after[name]), 1.0) if name in after else (_Side(old, before[name]), -1.0)
            given.append(_whole(side, sign, reasons))
    given += _other_lines(old, new, reasons)
    if priced:
        rest = (_usd(new) or 0.0) - (_usd(old) or 0.0) - sum(each.usd or 0.0 for each in given)
        name = "rounding" if abs(rest) < _ROUNDING_USD else "other lines of the bill"
        given.append(CausedChange(name=name, pool="", replicas=0.0, usd=rest, because=reasons.of(_TOTAL_USD)))
    yield from (given if priced else (replace(each, usd=None) for each in given))


class _Side:
    """A pool of one plan: its load, and the replicas and money of its steps by name."""

    def __init__(self, record: PlanRecord, pool: RecordedPool) -> None:
        self.pool, self._record = pool, record
        self.load = self._value(pool.load)
        self.steps = {each.name: (self._amount(each.amount), self._value(each.usd)) for each in pool.steps}
        self.figures = {each.name: (each.amount, each.usd) for each in pool.steps}

    def _value(self, name: str) -> float:
        each = self._record.figures.get(name) or self._record.inputs.get(name)
        return float(each.value) if each is not None else 0.0

    def _amount(self, name: str) -> float:
        """Replicas; whole machines are counted in devices, and are no replicas."""
        each: Entry | None = self._record.figures.get(name)
        return 0.0 if each is None else float(each.value)

    def is_of_replicas(self, step: str) -> bool:
        each = self._record.figures.get(self.figures[step][0])
        return each is not None and each.unit == "replicas"


class _Reasons:
    """The changed inputs behind a number; where there are none, chance or another program."""

    def __init__(self, old: PlanRecord, new: PlanRecord, *, names_seed: bool) -> None:
        self._records, self._names_seed = (old, new), names_seed
        self._changed = {
            name for name in {*old.inputs, *new.inputs} if _said(old.inputs.get(name)) != _said(new.inputs.get(name))
        }

    @property
    def is_released(self) -> bool:
        """Whether one of the plans releases machines, so that a device is not paid in every hour."""
        found = (each.inputs.get("scaling.machines") for each in self._records)
        return any(each is not None and each.value == "released" for each in found)

    def behind(self, *figures: str) -> frozenset[str]:
        return frozenset().union(*(one.grounds(each) & self._changed for one in self._records for each in figures))

    def of(self, *figures: str, beyond: tuple[str, ...] = (), is_simulated: bool = False) -> tuple[str, ...]:
        """Those of the figures, without those that an earlier cause has already answered for, if any are left."""
        every = self.behind(*figures)
        own = every - self.behind(*beyond) if beyond else every
        named = sorted(own or every)
        if is_simulated and self._names_seed:
            named.append(SEED)
        return tuple(named) or ((SEED,) if self._names_seed else (PROGRAM,))


def _pool(old: _Side, new: _Side, reasons: _Reasons) -> Iterator[CausedChange]:
    """The steps of one pool, then what its devices cost more or less apiece."""
    name = new.pool.name
    price_usd = 0.0
    priced: list[str] = []
    amounts: list[str] = []
    for step in dict.fromkeys((*old.steps, *new.steps)):
        (q0, u0), (q1, u1) = (side.steps.get(step, (0.0, 0.0)) for side in (old, new))
        each_0 = u0 / q0 if q0 else (u1 / q1 if q1 else 0.0)
        each_1 = u1 / q1 if q1 else each_0
        sides = [side for side in (old, new) if step in side.steps]
        counts = 1.0 if all(side.is_of_replicas(step) for side in sides) else 0.0
        amount, usd = zip(*(side.figures[step] for side in sides), strict=True)
        price_usd += q1 * (each_1 - each_0)
        priced, amounts = [*priced, *usd], [*amounts, *amount]
        for what, moved, because in _moves(step, old, new, (q0, q1), amount, reasons):
            yield CausedChange(name=what, pool=name, replicas=counts * moved, usd=moved * each_0, because=because)
    behind = reasons.of(*filter(None, priced), beyond=tuple(amounts))
    what = "price and paid hours of a device" if reasons.is_released else "price of a device"
    yield CausedChange(name=what, pool=name, replicas=0.0, usd=price_usd, because=behind)


def _moves(
    step: str,
    old: _Side,
    new: _Side,
    counted: tuple[float, float],
    amount: tuple[str, ...],
    reasons: _Reasons,
) -> Iterator[tuple[str, float, tuple[str, ...]]]:
    """What moved the count of a step: for the first one the load and what a replica carries, else its own rule."""
    q0, q1 = counted
    loads = (old.pool.load, new.pool.load)
    first = next(iter(new.steps))
    if step == first and old.load and new.load:
        by_load = (new.load - old.load) * q0 / old.load
        yield "demand", by_load, reasons.of(*loads)
        yield "capacity per replica", q1 - q0 - by_load, reasons.of(*amount, beyond=loads, is_simulated=True)
        return
    nominal = new.figures[first][0]
    yield step, q1 - q0, reasons.of(*amount, beyond=(nominal,), is_simulated=True)


def _whole(side: _Side, sign: float, reasons: _Reasons) -> CausedChange:
    """A pool that only one of the plans has."""
    replicas = sum(q for step, (q, _) in side.steps.items() if side.is_of_replicas(step))
    figures = [each for pair in side.figures.values() for each in pair if each]
    return CausedChange(
        name="pool added" if sign > 0 else "pool removed",
        pool=side.pool.name,
        replicas=sign * replicas,
        usd=sign * sum(usd for _, usd in side.steps.values()),
        because=reasons.of(*figures),
    )


def _other_lines(old: PlanRecord, new: PlanRecord, reasons: _Reasons) -> Iterator[CausedChange]:
    """Lines of the bill that are no devices, each by itself."""
    for line in dict.fromkeys((*old.lines, *new.lines)):
        names = [each.lines[line] for each in (old, new) if line in each.lines]
        values = [_figure(each, each.lines.get(line, "")) for each in (old, new)]
        yield CausedChange(name=line, pool="", replicas=0.0, usd=values[1] - values[0], because=reasons.of(*names))


def _figure(record: PlanRecord, name: str) -> float:
    each = record.figures.get(name)
    return 0.0 if each is None else float(each.value)


def _usd(record: PlanRecord) -> float | None:
    each = record.figures.get(_TOTAL_USD)
    return None if each is None or not record.is_of_devices else float(each.value)


def _replicas(record: PlanRecord) -> float:
    sides = [_Side(record, each) for each in record.pools]
    return sum(q for one in sides for step, (q, _) in one.steps.items() if one.is_of_replicas(step))


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _said(entry: Entry | None) -> tuple[object, ...] | None:
    return None if entry is None else (entry.value, entry.unit, entry.evidence)


def _check(old: PlanRecord, new: PlanRecord, found: list[CausedChange]) -> None:
    moved, causes = _replicas(new) - _replicas(old), sum(each.replicas for each in found)
    if abs(moved - causes) > 1e-6 * max(1.0, _replicas(old), _replicas(new)):
        raise InternalError(law="causes sum to the change of the fleet", left=causes, right=moved)
