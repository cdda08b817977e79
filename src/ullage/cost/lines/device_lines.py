"""Lines for devices: what is reserved, what is used, what stands ready, what is stranded, and what failed.

A pool's steady device-hours are bought as a mix. The committed part is paid whether it is used or not; the rest
follows the hours that replicas run. Out of both is taken what requests without success used: it is the same money,
shown where it went.

    committed hours = steady replicas x committed share x hours of the period
    idle hours      = what a fleet that follows demand pays beyond them and beyond the hour's need
    usage hours     = the rest of what ran beyond them
    failed          = (both) x share of capacity that was used x failed share of busy time
"""

from __future__ import annotations

from dataclasses import dataclass

from ullage.cost.lines.line import Amount, Behaviour, BillLine, Origin
from ullage.cost.lines.line_making import not_priced, priced_line
from ullage.cost.lines.provider import provider_usd
from ullage.cost.policy import CostPolicy
from ullage.cost.quotes import DeviceQuote, Quotes
from ullage.cost.service_use import SECONDS_PER_HOUR, Named, PoolUse, ServiceUse
from ullage.prices.book import MissingPrice
from ullage.prices.purchase import Purchase


def is_reserved(quote: DeviceQuote) -> bool:
    """Whether the hour is paid for used or not: a commitment, and what is one's own."""
    return quote.purchase.is_committed or quote.purchase is Purchase.OWNED


_SIMULATE = "The failed work is unknown. Simulate the pool, or give a log with status."


@dataclass(frozen=True, kw_only=True)
class _PoolMoney:
    """One pool's device money: committed, by use, per device-hour of the mix, and how its time was spent."""

    pool: PoolUse
    quotes: tuple[DeviceQuote, ...]
    committed_hours: float
    committed_usd: float
    usage_hours: float
    usage_usd: float
    idle_hours: float
    idle_usd: float
    device_usd_per_hour: float
    failed_fraction: float | None
    used_fraction: float

    def prices(self, *, committed: bool | None = None) -> tuple[Named, ...]:
        chosen = [each for each in self.quotes if committed is None or is_reserved(each) is committed]
        return tuple(one for each in chosen for one in (each.hour, each.share))


def _money(use: ServiceUse, pool: PoolUse, quotes: Quotes, policy: CostPolicy) -> _PoolMoney | MissingPrice:
    found = quotes.devices.get(pool.name)
    if found is None or isinstance(found, MissingPrice):
        return found or MissingPrice(what=pool.device, why="no price was looked up", fix="Give prices.own.")
    committed = [each for each in found if is_reserved(each)]
    by_use = [each for each in found if not is_reserved(each)]
    committed_share = sum(each.share_fraction for each in committed)
    use_share = sum(each.share_fraction for each in by_use)
    level = committed_share * pool.steady_replicas
    paid_hours = pool.steady_replicas * policy.period_hours
    idle_hours = pool.hours_above(level, policy.period_hours, is_idle=True)
    beyond_hours = pool.hours_above(level, policy.period_hours) - idle_hours
    usage_price = sum(each.share_fraction * each.usd_per_hour for each in by_use) / use_share if use_share else 0.0
    if not use_share:
        # All is committed: what runs beyond the commitment is not for sale in this mix, and is paid at its price.
        usage_price = sum(each.share_fraction * each.usd_per_hour for each in committed) / committed_share
    failed, used = _spent(use, pool, beyond_hours + committed_share * paid_hours, policy.period_hours)
    return _PoolMoney(
        pool=pool,
        quotes=found,
        committed_hours=committed_share * paid_hours * pool.replica_devices,
        committed_usd=sum(each.share_fraction * each.usd_per_hour for each in committed)
        * paid_hours
        * pool.replica_devices,
        usage_hours=beyond_hours * pool.replica_devices,
        usage_usd=beyond_hours * usage_price * pool.replica_devices,
        idle_hours=idle_hours * pool.replica_devices,
        idle_usd=idle_hours * usage_price * pool.replica_devices,
        device_usd_per_hour=sum(each.share_fraction * each.usd_per_hour for each in found),
        failed_fraction=failed,
        used_fraction=used,
    )


def _spent(use: ServiceUse, pool: PoolUse, paid_hours: float, period_hours: float) -> tuple[float | None, float]:
    """The share of paid time that failed work took, and of the rest the share that served successes."""
    classes = use.classes_of(pool.name)
    if any(each.gpu_s is None for each in classes):
        return None, 1.0
    busy_s = sum(each.gpu_s or 0.0 for each in classes)
    if not busy_s or not paid_hours:
        return 0.0, 0.0
    used = busy_s / (paid_hours * SECONDS_PER_HOUR)
    if pool.capacity_requests and pool.steady_replicas:
        # The capacity is that of the steady replicas all the time.
        paid = paid_hours / (pool.steady_replicas * period_hours)
        served = pool.capacity_requests * paid
        used = sum(each.requests for each in classes) / served if served else 1.0
    used = min(1.0, used)
    failed = used * min(1.0, sum(each.failed_gpu_s or 0.0 for each in classes) / busy_s)
    return failed, (used - failed) / (1.0 - failed) if failed < 1.0 else 0.0


def compute_reservation(use: ServiceUse, quotes: Quotes, policy: CostPolicy) -> tuple[BillLine, ...]:
    """The committed part of every pool's steady devices; no line where nothing is committed."""
    lines = []
    for pool in use.pools:
        money = _money(use, pool, quotes, policy)
        if isinstance(money, MissingPrice):
            continue  # reported once, by compute_usage
        if any(is_reserved(each) for each in money.quotes):
            lines.append(
                priced_line(
                    "compute_reservation",
                    money.committed_usd * (1.0 - (money.failed_fraction or 0.0)),
                    amount=_device_hours(money.committed_hours * (1.0 - (money.failed_fraction or 0.0))),
                    pool=pool.name,
                    formula="steady replicas x devices x hours x committed share x price, less failed work",
                    inputs=(*money.prices(committed=True), policy.period, *pool.basis),
                    used_fraction=money.used_fraction,
                )
            )
    return tuple(lines)


def compute_usage(use: ServiceUse, quotes: Quotes, policy: CostPolicy) -> tuple[BillLine, ...]:
    """The part of every pool's steady devices that is paid by the hour it runs."""
    lines = []
    for pool in use.pools:
        money = _money(use, pool, quotes, policy)
        if isinstance(money, MissingPrice):
            lines.append(not_priced("compute_usage", money, pool=pool.name))
            continue
        is_all_committed = all(is_reserved(each) for each in money.quotes)
        if is_all_committed and not money.usage_usd:
            continue
        lines.append(
            priced_line(
                "compute_usage",
                money.usage_usd * (1.0 - (money.failed_fraction or 0.0)),
                amount=_device_hours(money.usage_hours * (1.0 - (money.failed_fraction or 0.0))),
                pool=pool.name,
                formula="replica-hours beyond the committed x devices x price, less idle hours and failed work",
                inputs=(*money.prices(committed=is_all_committed), policy.period, *pool.basis),
                used_fraction=money.used_fraction,
                # Without a scaler the steady replicas are on all the time, however few requests come.
                behaviour=None if pool.hourly_replicas else Behaviour.FIXED,
            )
        )
    return tuple(lines)


def idle_hours(use: ServiceUse, quotes: Quotes, policy: CostPolicy) -> tuple[BillLine, ...]:
    """Of a fleet that releases machines: device-hours by use that no load needed."""
    lines = []
    for pool in use.pools:
        money = _money(use, pool, quotes, policy)
        if isinstance(money, MissingPrice) or not money.idle_hours:
            continue  # a missing price is reported once, by compute_usage
        lines.append(
            priced_line(
                "idle_hours",
                money.idle_usd,
                amount=_device_hours(money.idle_hours),
                pool=pool.name,
                formula="replica-hours beyond the committed and beyond the hour's need x devices x price",
                inputs=(*money.prices(), policy.period, *pool.basis),
                used_fraction=0.0,
            )
        )
    return tuple(lines)


def idle_reserve(use: ServiceUse, quotes: Quotes, policy: CostPolicy) -> tuple[BillLine, ...]:
    """Every reserve under its own name; one without replicas costs nothing and has no line."""
    lines = []
    for pool in use.pools:
        money = _money(use, pool, quotes, policy)
        for name, replicas in pool.reserves.items():
            if not replicas:
                continue
            if isinstance(money, MissingPrice):
                lines.append(not_priced("idle_reserve", money, pool=pool.name, item=name))
                continue
            lines.append(
                priced_line(
                    "idle_reserve",
                    replicas * pool.replica_devices * policy.period_hours * money.device_usd_per_hour,
                    amount=_device_hours(replicas * pool.replica_devices * policy.period_hours),
                    pool=pool.name,
                    item=name,
                    formula=f"{replicas:g} replicas x {pool.replica_devices} devices x hours x price of the mix",
                    inputs=(*money.prices(), policy.period, *pool.basis),
                )
            )
    return tuple(lines)


def stranded_devices(use: ServiceUse, quotes: Quotes, policy: CostPolicy) -> tuple[BillLine, ...]:
    """Devices that come with their machines and hold no replica."""
    lines = []
    for pool in use.pools:
        money = _money(use, pool, quotes, policy)
        if pool.stranded_devices is None:
            missing = "The count is unknown. State how many devices a machine has (pool.instance)."
            lines.append(not_priced("stranded_devices", missing, pool=pool.name))
        elif isinstance(money, MissingPrice):
            lines.append(not_priced("stranded_devices", money, pool=pool.name))
        else:
            lines.append(
                priced_line(
                    "stranded_devices",
                    pool.stranded_devices * policy.period_hours * money.device_usd_per_hour,
                    amount=_device_hours(pool.stranded_devices * policy.period_hours),
                    pool=pool.name,
                    formula=f"{pool.stranded_devices:g} devices without a replica x hours x price of the mix",
                    inputs=(*money.prices(), policy.period, *pool.basis),
                )
            )
    return tuple(lines)


def failed_work(use: ServiceUse, quotes: Quotes, policy: CostPolicy) -> tuple[BillLine, ...]:
    """Device time and provider tokens that went to requests without success."""
    lines = []
    for pool in use.pools:
        money = _money(use, pool, quotes, policy)
        if isinstance(money, MissingPrice):
            lines.append(not_priced("failed_work", money, pool=pool.name))
        elif money.failed_fraction is None:
            lines.append(not_priced("failed_work", _SIMULATE, pool=pool.name))
        else:
            lines.append(
                priced_line(
                    "failed_work",
                    (money.committed_usd + money.usage_usd) * money.failed_fraction,
                    amount=_device_hours((money.committed_hours + money.usage_hours) * money.failed_fraction),
                    pool=pool.name,
                    formula="device cost x share of capacity used x share of busy time without success",
                    inputs=(*money.prices(), policy.period, *pool.basis, *_traffic(use, pool)),
                )
            )
    for each in use.providers or ():
        if each.failed_fraction:
            usd = provider_usd(each, quotes)
            if isinstance(usd, MissingPrice):
                lines.append(not_priced("failed_work", usd, item=f"{each.class_name} {each.provider}"))
            else:
                lines.append(
                    priced_line(
                        "failed_work",
                        usd[0] * each.failed_fraction,
                        amount=Amount(
                            value=(each.prompt_tokens + each.output_tokens) * each.failed_fraction, unit="tokens"
                        ),
                        item=f"{each.class_name} {each.provider}",
                        formula="provider tokens x share without success",
                        inputs=(*usd[1], *each.basis),
                        origin=Origin.EXTERNAL,
                        owners={"class": each.class_name, "model": each.model},
                    )
                )
    return tuple(lines)


def _device_hours(value: float) -> Amount:
    return Amount(value=value, unit="device-hours")


def _traffic(use: ServiceUse, pool: PoolUse) -> tuple[Named, ...]:
    return tuple(one for each in use.classes_of(pool.name) for one in each.basis)
