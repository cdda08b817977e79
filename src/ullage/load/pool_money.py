"""What one replica of a plan's pool costs, without planning: its devices at the plan's prices, for a whole period."""

from __future__ import annotations

import datetime

from ullage.load.changes import NO_CHANGES, Changes
from ullage.load.plan import PlanSource, load_plan


def replica_period_usd(
    source: PlanSource, *, as_of: datetime.date, seed: int, changes: Changes = NO_CHANGES
) -> tuple[float | None, float]:
    """USD of one replica of the first pool and the hours of the period they are for; None where it has no price."""
    from ullage.planning.device_hours import device_hours

    spec = load_plan(source, as_of=as_of, seed=seed, changes=changes)
    pool, hours = spec.pool, spec.cost.period_hours
    devices = pool.settings.sharding.devices
    quotes = device_hours(spec, pool, replica_devices=devices)
    if not isinstance(quotes, tuple):
        return None, hours
    return hours * devices * sum(each.share_fraction * each.usd_per_hour for each in quotes), hours
