"""The bridge of an answer: requests a second up to the planning rate, replicas up to the fleet, with their cost.

Steps of replicas sum to the fleet, and their money, with the devices that whole machines leave over, to the lines of
the bill for devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ullage.cost.bill import Bill
from ullage.cost.lines.line import BillLine
from ullage.evidence import Figure, number
from ullage.fleet.lines import ReserveLine
from ullage.planning.answer.parts import BridgeStep, PoolAnswer, summed
from ullage.planning.document import Plan
from ullage.planning.pool_plan import PoolPlan
from ullage.planning.spec import ClassDemand
from ullage.service.phase import Side

NOMINAL, DEMAND, UNTESTED = "nominal", "demand uncertainty", "untested step times"
LENGTHS, MINIMUM = "length uncertainty", "minimum"
_USD_NAMES = {NOMINAL: "nominal", DEMAND: "demand", UNTESTED: "evidence", LENGTHS: "length", MINIMUM: "least"}
_STEADY_LINES = ("compute_reservation", "compute_usage", "idle_hours", "failed_work")
_DEVICE_LINES = (*_STEADY_LINES, "idle_reserve", "stranded_devices")


def traffic_steps(plan: Plan, pools: Sequence[PoolAnswer]) -> tuple[BridgeStep, ...]:
    """Requests a second: as stated, over the horizon, in the busiest hour, and at the percentile that is planned for.

    All but the first are sums over pools, each in its own busiest hour and with the attempts that a route sends it:
    that is what machines are bought for. A request that is decoded apart from its prefill is counted where it begins.
    """
    rates = tuple(each.mean_rate for each in plan.spec.demands)
    later = {each.spec.name for each in plan.pools if each.spec.phase and each.spec.phase.side is Side.DECODE}
    pools = [each for each in pools if each.name not in later]
    used = [plan.figures_of("utilisation", each.name) for each in pools]
    means = tuple(each["utilisation.mean_rps"] for each in used)
    hours = tuple(each["utilisation.busiest_hour_rps"] for each in used)
    by_class = ", ".join(f"{each.request_class.name} {_rate_today(each)}" for each in plan.spec.demands)
    days = number(plan.spec.policy.horizon) / 86_400.0
    share = f"p{100 * number(plan.point.percentile):g}"
    asks_again = any(each.attempts_per_task > 1.0 for each in plan.spec.routing.routes)
    today = "today, escalations included" if asks_again else "today"
    return (
        BridgeStep(name="mean today", amount=summed("answer.mean_today_rps", rates), remark=by_class),
        BridgeStep(name=f"mean over {days:g} days", amount=summed("answer.horizon_mean_rps", means), remark=today),
        BridgeStep(name="busiest hour", amount=summed("answer.busiest_hour_rps", hours), remark="the mean"),
        BridgeStep(
            name=f"busiest hour, {share}",
            amount=summed("answer.planning_rps", tuple(each.load for each in pools)),
            remark="its median",
        ),
    )


def _rate_today(demand: ClassDemand) -> str:
    """A class's rate, and what it has grown from where the plan grew it since the day it was stated."""
    today, dated = f"{number(demand.mean_rate):.3g}", demand.dated_rate
    return today if dated is None else f"{today} ({number(dated):.3g} on {dated.source.date.isoformat()})"


def replica_steps(
    plan: Plan, pool: PoolPlan, bill: Bill | None
) -> tuple[tuple[BridgeStep, ...], BridgeStep, Figure | None]:
    """Nominal replicas, what evidence and policy add, and every reserve, each with its part of the device cost."""
    steady, margins = (plan.figures_of(stage, pool.spec.name) for stage in ("steady_fleet", "margins"))
    money = _DeviceMoney(plan, pool, bill)
    each = pool.demand.planning_rps / pool.steady_fleet.nominal_replicas
    parts = steady_parts(pool, steady, margins, prefix=money.prefix)
    remarks = {
        NOMINAL: f"{each:.3g} req/s each",
        DEMAND: f"for {100 * number(plan.spec.policy.shortfall):g} % shortfall risk",
        UNTESTED: "a load test can save this" if number(parts[UNTESTED]) else "",
        LENGTHS: "and cache hit rate" if number(parts[LENGTHS]) else "",
        MINIMUM: "by policy",
    }
    steps = [
        BridgeStep(name=name, amount=part, usd=money.steady(_USD_NAMES[name], part), remark=remarks[name])
        for name, part in parts.items()
    ]
    steps += [
        BridgeStep(
            name=line.name,
            amount=margins[f"margin.{line.name}_reserve_replicas"],
            usd=money.reserve(line.name),
            remark=_reserve_remark(pool, line),
        )
        for line in pool.reserves.lines
    ]
    return tuple(steps), money.rounding(), money.total()


def steady_parts(
    pool: PoolPlan, steady: Mapping[str, Figure], margins: Mapping[str, Figure], *, prefix: str = ""
) -> dict[str, Figure]:
    """The steady replicas by cause, each added to those before it: the one place that reads how they are made up.

    `steady` and `margins` are the figures of these stages, named as a plan of several pools names them.
    """
    found = {
        NOMINAL: margins["margin.nominal_replicas"],
        DEMAND: margins["margin.demand_replicas"],
        UNTESTED: steady["fleet.evidence_replicas"],
        LENGTHS: steady["fleet.length_replicas"],
    }
    kept = pool.steady_fleet.replicas - int(number(steady["size.conservative_replicas"]))
    if kept:
        found[MINIMUM] = Figure(
            name=f"{prefix}answer.least_replicas",
            value=kept,
            unit="replicas",
            formula="replicas planned - replicas that the load needs: the minimum that always runs",
            inputs=(steady["fleet.replicas"], steady["size.conservative_replicas"]),
        )
    return found


def _reserve_remark(pool: PoolPlan, line: ReserveLine) -> str:
    """What a reserve is for, in a few words; one covered by another says so."""
    if not pool.reserves.bought[line.name]:
        return "covered by another" if line.replicas else ""
    if line.name == "failure":
        return f"survives loss of a {pool.reserves.settings.reliability.survives.value}"
    if line.name == "warm":
        return f"{pool.reserves.warm.rise_rps:.3g} req/s per start-up"
    return line.rule.partition(",")[0].partition(":")[0]


class _DeviceMoney:
    """What a pool's devices cost, divided over the steps of its bridge; nothing where they are not priced."""

    def __init__(self, plan: Plan, pool: PoolPlan, bill: Bill | None) -> None:
        self._pool, name = pool, pool.spec.name
        self.prefix = f"{name}." if len(plan.pools) > 1 else ""
        self._packing = plan.figures_of("packing", name)
        self._replicas = plan.figures_of("steady_fleet", name)["fleet.replicas"]
        known = bill is not None and bill.is_of_devices
        lines = [each for each in bill.lines if each.pool == name and each.figure] if bill is not None and known else []
        self._lines = [each for each in lines if each.name in _DEVICE_LINES]

    def steady(self, what: str, part: Figure) -> Figure | None:
        """The part of the steady fleet's cost that so many of its replicas have."""
        lines = tuple(each for each in self._lines if each.name in _STEADY_LINES)
        if not lines:
            return None
        return Figure(
            name=f"{self.prefix}answer.{what}_usd",
            value=sum(each.usd for each in lines) * number(part) / number(self._replicas),
            unit="USD",
            formula="cost of the steady devices x these replicas / steady replicas",
            inputs=(*line_figures(lines), part, self._replicas),
        )

    def reserve(self, name: str) -> Figure | None:
        return next((each.figure for each in self._lines if (each.name, each.item) == ("idle_reserve", name)), None)

    def rounding(self) -> BridgeStep:
        devices = Figure(
            name=f"{self.prefix}answer.rounding_devices",
            value=number(self._packing["packing.spare_devices"]) + number(self._packing["packing.stranded_devices"]),
            unit="devices",
            formula="spare + stranded devices of the machines",
            inputs=(self._packing["packing.spare_devices"], self._packing["packing.stranded_devices"]),
        )
        usd = next((each.figure for each in self._lines if each.name == "stranded_devices"), None)
        return BridgeStep(name="rounding to machines", amount=devices, usd=usd, remark="devices without a replica")

    def total(self) -> Figure | None:
        if not self._lines:
            return None
        return Figure(
            name=f"{self.prefix}answer.devices_usd",
            value=sum(each.usd for each in self._lines),
            unit="USD",
            formula="sum of the pool's lines of the bill for devices",
            inputs=line_figures(self._lines),
        )


def line_figures(lines: Sequence[BillLine]) -> tuple[Figure, ...]:
    """The figures behind lines of the bill; a line that is not priced has none."""
    return tuple(each.figure for each in lines if each.figure is not None)
