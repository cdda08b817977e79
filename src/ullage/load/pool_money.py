"""What one replica of a plan's pool costs, without planning: its devices at the plan's prices, for a whole period."""

from __future__ import annotations

import datetime

from ullage.load.changes import NO_CHANGES, Changes
from ullage.load.plan import PlanSource, load_plan


def replica_period_usd(
    source: PlanSource, *, as_of: datetime.date, seed: int, changes: Changes = NO_CHANGES
) -> tuple[float | None, float]:
    """USD of one replica of the first pool and the hours of the period they are for; None where it has no price."""
    from ullage.cost.quotes import device_quotes
    from ullage.cost.service_use import PoolUse

    spec = load_plan(source, as_of=as_of, seed=seed, changes=changes)
    pool, hours = spec.pool, spec.cost.period_hours
    devices = pool.settings.sharding.devices
    if spec.prices is None:
        return None, hours
    use = PoolUse(
        name=pool.name,
        model=pool.model.name,
        device=pool.device.name,
        replica_devices=devices,
        steady_replicas=0,
        basis=(),
    )
    quotes = device_quotes(spec.prices, use, spec.buying)
    if not isinstance(quotes, tuple):
        return None, hours
    return hours * devices * sum(each.share_fraction * each.usd_per_hour for each in quotes), hours
