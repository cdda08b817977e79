"""Lead times: how long a device takes from its order, and the order dates of the months to come.

    on demand, spot   a quota, which the provider grants or not
    committed         the quota, then a reservation
    owned             a delivery

A device that a month needs is ordered its lead time before the month begins; a date in the past is shown as late.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Figure, Source, number
from ullage.prices.purchase import Purchase
from ullage.workload.demand.demand import Demand
from ullage.workload.synthetic.model import WEEK_S

_DAY_S = 86_400.0
_WRITTEN = datetime.date(2026, 11, 15)
MOST_MONTHS = 36


def _default(
    name: str, days: float, low_days: float, high_days: float, source: Source, *, decision: bool = False
) -> Assumption:
    return Assumption(
        name=f"lead.{name}",
        value=days * _DAY_S,
        unit="s",
        evidence=Evidence.ASSUMED,
        source=source,
        low=low_days * _DAY_S,
        high=high_days * _DAY_S,
        max_age=datetime.timedelta(days=90),
        decision=decision,
    )


_OURS = Source(
    what="estimate of Ullage: no provider guarantees a time; ask yours",
    where="docs/howto/choose-a-device.md",
    date=_WRITTEN,
)
# A request for tens of accelerators is reviewed by a person, and may be granted in parts.
QUOTA = _default("quota_request", 14.0, 1.0, 60.0, _OURS)
# Reservations of whole machines begin on a date that the provider has free.
RESERVATION = _default("reservation", 30.0, 1.0, 120.0, _OURS)
# Quoted by server makers: 8 to 12 weeks and 20 weeks in spring 2024, 39 to 52 weeks half a year before.
DELIVERY = _default(
    "delivery",
    140.0,
    56.0,
    364.0,
    Source(
        what="lead times of servers with H100, as Dell, HPE and Omdia stated in 2023 and 2024",
        where="https://klse.i3investor.com/web/blog/detail/future_tech/2024-04-12-story-h-183863938-"
        "Dell_shaves_months_off_lead_times_for_GPU_powered_AI_servers",
        date=datetime.date(2024, 4, 12),
    ),
)
MONTHS = Assumption(
    name="lead.months",
    value=6,
    unit="months",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="default of Ullage: growth measured over weeks says little beyond half a year",
        where="docs/howto/choose-a-device.md",
        date=_WRITTEN,
    ),
    decision=True,
)


@dataclass(frozen=True, kw_only=True)
class LeadTimes:
    """How long each step of getting a device takes, and how many months to look ahead."""

    quota: Assumption = QUOTA
    reservation: Assumption = RESERVATION
    delivery: Assumption = DELIVERY
    months: Assumption = MONTHS

    def __post_init__(self) -> None:
        if not 1 <= number(self.months) <= MOST_MONTHS:
            raise InputError(
                field=self.months.name,
                value=self.months.value,
                problem=f"must be 1 to {MOST_MONTHS} months",
                fix="Give for example 6.",
            )

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        return (self.quota, self.reservation, self.delivery, self.months)

    @property
    def stated(self) -> tuple[Assumption, ...]:
        """Stated values that replace our defaults."""
        return tuple(each for each in self.inputs if each not in LeadTimes().inputs)

    def steps(self, purchase: Purchase) -> tuple[Assumption, ...]:
        """What has to happen, one after the other, before a device bought like this can be used."""
        if purchase is Purchase.OWNED:
            return (self.delivery,)
        return (self.quota, self.reservation) if purchase.is_committed else (self.quota,)


@dataclass(frozen=True, kw_only=True)
class Order:
    """One month: what it needs, what is new in it, and the last day to order that.

    `late_days` is how long ago that day was; 0 where it is to come. `order_by` is None where nothing new is needed.
    """

    month: datetime.date
    rate_rps: float
    replicas: int
    devices: int
    more_devices: int
    order_by: datetime.date | None
    late_days: int
    waits_for: str


@dataclass(frozen=True, kw_only=True)
class Orders:
    """The months in order, and what the dates rest on."""

    rows: tuple[Order, ...]
    figures: Mapping[str, Figure]

    @property
    def notes(self) -> tuple[str, ...]:
        late = [each for each in self.rows if each.late_days > 0]
        if not late:
            return ()
        first = late[0]
        asked = f"its {first.more_devices} devices had to be ordered {first.late_days} days ago"
        return (f"Too late for {first.month:%B %Y}: {asked}.",)


@dataclass(frozen=True, kw_only=True)
class OrderNeed:
    """What a rate needs: replicas, and devices with all reserves."""

    replicas: int
    devices: int


def order_dates(
    demand: Demand,
    need_at: Callable[[float], OrderNeed],
    lead: LeadTimes,
    *,
    purchases: Sequence[Purchase],
    as_of: datetime.date,
    inputs: tuple[Figure | Assumption, ...],
) -> Orders:
    """Month by month from the one after `as_of` on: rates by the growth of demand, devices by `need_at`, dates by lead.

    The first row is today: what it needs counts as bought. A fleet is not ordered smaller, so where demand shrinks
    nothing is.
    """
    slowest = max(
        (lead.steps(each) for each in purchases), key=lambda steps: sum(number(one) for one in steps), default=()
    )
    lead_days = round(sum(number(each) for each in slowest) / _DAY_S)
    waits_for = " + ".join(each.name.removeprefix("lead.").replace("_", " ") for each in slowest)
    rows: list[Order] = []
    have = 0
    for month in range(int(number(lead.months)) + 1):
        first = as_of if month == 0 else _month_after(as_of, month)
        rate_rps = rate_at(demand, (_month_after(as_of, month + 1) - as_of).days * _DAY_S)
        need = need_at(rate_rps)
        more = 0 if month == 0 else max(0, need.devices - have)
        have = max(have, need.devices)
        by = first - datetime.timedelta(days=lead_days) if more else None
        late_days = 0 if by is None else max(0, (as_of - by).days)
        rows.append(
            Order(
                month=first,
                rate_rps=rate_rps,
                replicas=need.replicas,
                devices=need.devices,
                more_devices=more,
                order_by=by,
                late_days=late_days,
                waits_for=waits_for if more else "",
            )
        )
    return Orders(rows=tuple(rows), figures=_figures(rows, slowest, lead_days, inputs))


def rate_at(demand: Demand, after_s: float) -> float:
    """The planning rate that long from today: what is planned for the end of the horizon, by each class's growth."""
    weeks = (after_s - demand.horizon_s) / WEEK_S
    planned = sum(each.planning_rps for each in demand.classes)
    grown = sum(
        each.planning_rps * (1.0 + each.model.weekly_growth_fraction) ** weeks for each in demand.classes
    )  # fmt: skip
    return float(demand.planning_rps * grown / planned)


def _month_after(day: datetime.date, number: int) -> datetime.date:
    """The first day of the month `number` months after this day's.

    >>> _month_after(datetime.date(2026, 11, 15), 2)
    datetime.date(2027, 1, 1)
    """
    months = day.year * 12 + day.month - 1 + number
    return datetime.date(months // 12, months % 12 + 1, 1)


def _figures(
    rows: Sequence[Order], slowest: Sequence[Assumption], lead_days: int, inputs: tuple[Figure | Assumption, ...]
) -> dict[str, Figure]:
    found: dict[str, Figure] = {}
    rests = (*inputs, *slowest)
    if slowest:
        found["lead.days"] = Figure(
            name="lead.days", value=lead_days, unit="d", formula="the steps one after the other", inputs=tuple(slowest)
        )
    for each in rows:
        name = f"order.{each.month:%Y-%m}.devices"
        found.setdefault(
            name,
            Figure(
                name=name,
                value=each.devices,
                unit="devices",
                formula=f"replicas that meet every SLO at {each.rate_rps:.4g} req/s, with reserves",
                inputs=rests,
            ),
        )
    return found
