"""Power and energy where a device's power is known: what its data sheet allows at most, labelled as such.

With the site's factors energy becomes what a meter would show, and what the grid emits for it: kWh and kg of CO2e for
each success. Neither has a default: a factor of somebody else's grid says nothing.
"""

from __future__ import annotations

from ullage.cost.policy import CostPolicy
from ullage.cost.service_use import SECONDS_PER_HOUR, PoolUse, ServiceUse
from ullage.evidence import Figure, number

_JOULES_PER_KWH = 3.6e6


def pool_power(pool: PoolUse) -> Figure | None:
    """The most that a pool's devices may draw, reserves included; hosts, network and cooling are not in it."""
    if pool.power is None:
        return None
    return Figure(
        name=f"power.{pool.name}_watts",
        value=pool.replicas * pool.replica_devices * float(pool.power.value),
        unit="W",
        formula="replicas, reserves included, x devices x power on the data sheet: an upper bound, devices alone",
        inputs=(pool.power, *pool.basis),
    )


def power_figures(use: ServiceUse, policy: CostPolicy) -> tuple[Figure, ...]:
    """Power by pool and, where it is known of all pools, energy a success."""
    pools = [pool_power(each) for each in use.pools]
    known = [each for each in pools if each is not None]
    if not known or len(known) < len(pools) or not use.successes:
        return tuple(known)
    watts = sum(float(each.value) for each in known)
    energy = Figure(
        name="power.joules_per_success",
        value=watts * policy.period_hours * SECONDS_PER_HOUR / use.successes,
        unit="J",
        formula="power of all pools x period / successes: an upper bound, devices alone",
        inputs=(*known, policy.period, *use.basis),
    )
    return (*known, energy, *_emitted(energy, policy))


def _emitted(energy: Figure, policy: CostPolicy) -> tuple[Figure, ...]:
    """Energy of the whole site and what it emits, for each success, as far as the site's factors are given."""
    if policy.facility is None and policy.grid is None:
        return ()
    sites = () if policy.facility is None else (policy.facility,)
    around = 1.0 if policy.facility is None else number(policy.facility)
    kwh = Figure(
        name="power.kwh_per_success",
        value=number(energy) * around / _JOULES_PER_KWH,
        unit="kWh",
        formula="energy of the devices" + (" x PUE of the site" if sites else ", devices alone"),
        inputs=(energy, *sites),
    )
    if policy.grid is None:
        return (kwh,)
    emitted = Figure(
        name="power.co2e_kg_per_success",
        value=number(kwh) * number(policy.grid),
        unit="kg",
        formula="kWh per success x kg of CO2e per kWh of the grid",
        inputs=(kwh, policy.grid),
    )
    return (kwh, emitted)
