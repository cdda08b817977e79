"""The steady fleet: replicas for the planned demand, verified by simulating the pool with its router.

No reserve is in it: failure, rollout, maintenance and warm capacity are lines of their own, on top.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ullage.errors import InputError, Rejection
from ullage.evidence import Assumption, Figure, number
from ullage.fleet.risk.need import PlannedNeed
from ullage.service.curve.margin import NO_POLICY
from ullage.service.curve.sizing import PoolSize, size_pool
from ullage.service.trial.bases import Bases
from ullage.service.trial.decide import FULL, Effort
from ullage.service.trial.trial import Trial

_HOW = (
    "The planning rate of all classes together is simulated, in the proportions of their busiest hours, in one pool "
    "behind a router that counts outstanding requests. A pool smooths bursts that a single replica must absorb "
    "alone, so "
    "its replicas carry more than the operating point of a single one."
)


@dataclass(frozen=True, kw_only=True)
class SteadyFleet:
    """So many replicas carry the planning rate, even where the evidence errs on the slow side.

    `nominal_replicas` would be enough if the step times were exactly nominal; what is beyond them is the margin for
    evidence, and a load test buys its part for steps back. It is applied here and nowhere else. `need` is how far the
    number of replicas that it takes may be off.
    """

    size: PoolSize
    replicas: int
    nominal_replicas: int
    devices: int
    figures: Mapping[str, Figure]
    need: PlannedNeed | None = None

    @property
    def trial(self) -> Trial:
        """The pool as planned, on the step basis it was sized with, to simulate more of it."""
        return replace(self.size.trial, replicas=self.replicas)

    @property
    def notes(self) -> tuple[str, ...]:
        return (_HOW, *self.size.notes)


@dataclass(frozen=True, kw_only=True)
class KeptFree:
    """What is decided of a pool's size beside its load: the share of its rate kept free, replicas that always run, and
    how far the need of them may be off."""

    policy: Assumption = NO_POLICY
    least: Assumption | None = None
    need: PlannedNeed | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= number(self.policy) < 1.0:
            raise InputError(
                field=self.policy.name,
                value=self.policy.value,
                problem="is not a share below 1",
                fix="Give for example 10%, or nothing.",
            )


def steady_fleet(
    bases: Bases,
    *,
    planning_rps: float,
    seed: int,
    inputs: tuple[Figure | Assumption, ...] = (),
    kept: KeptFree | None = None,
    effort: Effort = FULL,
    map: Any = map,  # noqa: A002
) -> SteadyFleet | Rejection:
    """The least pool that meets every SLO at the planning rate of demand, in replicas and devices.

    `kept` is what is kept free or running on principle.
    """
    kept = kept or KeptFree()
    policy, least = kept.policy, kept.least
    rate_rps = planning_rps / (1.0 - number(policy))
    found = size_pool(bases, rate_rps=rate_rps, seed=seed, effort=effort, inputs=inputs, map=map)
    if isinstance(found, Rejection):
        return found
    replicas = max(found.conservative_replicas, 0 if least is None else int(number(least)))
    return SteadyFleet(
        size=found,
        replicas=replicas,
        nominal_replicas=found.replicas,
        devices=replicas * found.devices,
        figures=_figures(found, replicas, kept) if inputs else {},
        need=kept.need,
    )


def _figures(found: PoolSize, planned: int, beside: KeptFree) -> dict[str, Figure]:
    policy, least, need, devices_each = beside.policy, beside.least, beside.need, found.devices
    bare, conservative = found.figures["size.replicas"], found.figures["size.conservative_replicas"]
    kept = [*([] if number(policy) == 0.0 else [policy]), *([] if least is None else [least])]
    freed = " with the share that policy keeps free" if policy in kept else ""
    replicas = Figure(
        name="fleet.replicas",
        value=planned,
        unit="replicas",
        formula="replicas that meet every SLO with conservative step times, as slow as they are taken to be"
        f"{freed}{'' if least is None else f', at least {least.value}'}",
        inputs=(conservative, *kept),
    )
    devices = Figure(
        name="fleet.devices",
        value=planned * devices_each,
        unit="devices",
        formula=f"replicas x {devices_each} devices each, without reserves",
        inputs=(replicas,),
    )
    added = found.conservative_replicas - found.replicas
    for_steps = added if need is None else round(added * need.step_fraction)
    margin = Figure(
        name="fleet.evidence_replicas",
        value=for_steps,
        unit="replicas",
        formula="(replicas - those needed with nominal step times) x the share that uncertain step times add, before "
        "uncertain lengths are added",
        inputs=(replicas, bare),
    )
    shape = Figure(
        name="fleet.length_replicas",
        value=added - for_steps,
        unit="replicas",
        formula="the rest: prompts and answers may be longer, or less often cached",
        inputs=(replicas, bare, margin),
    )
    return {**{each.name: each for each in (replicas, devices, margin, shape)}, **found.figures}
