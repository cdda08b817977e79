"""What a plan is asked for: traffic, promises, model, devices and policy, each input with its source.

Every number a user can give is an `Assumption`, whether the user stated it or a default stands in, so that
the plan can list it, print its age, and walk any result back to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ullage.evidence import Assumption, Evidence, Source
from ullage.workload.classes import RequestClass


@dataclass(frozen=True, kw_only=True)
class ClassDemand:
    """A request class, how often it is asked for, and the largest request it may send."""

    request_class: RequestClass
    promises: tuple[Assumption, ...]
    mean_rate: Assumption
    longest_context: Assumption

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        return (*self.promises, self.mean_rate, self.longest_context)


def promises(request_class: RequestClass, *, evidence: Evidence, source: Source) -> tuple[Assumption, ...]:
    """The limits of a class's SLOs as inputs, so that they too can be explained."""
    return tuple(
        Assumption(
            name=f"{request_class.name}.{slo.name}", value=slo.limit_s, unit="s", evidence=evidence, source=source
        )
        for slo in request_class.slos
    )


@dataclass(frozen=True, kw_only=True)
class PoolSpec:
    """The model, the engine and the device that a pool's replicas are made of."""

    model: Assumption
    engine: Assumption
    engine_version: Assumption
    device: Assumption
    tensor_parallel: Assumption
    approved_concurrency: Assumption

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        return (
            self.model,
            self.engine,
            self.engine_version,
            self.device,
            self.tensor_parallel,
            self.approved_concurrency,
        )


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What is decided, not known: how far ahead to plan, how sure to be, where to run, when to look again."""

    horizon: Assumption
    planning_percentile: Assumption
    zones: Assumption
    reconcile_every: Assumption

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        return (self.horizon, self.planning_percentile, self.zones, self.reconcile_every)


@dataclass(frozen=True, kw_only=True)
class PlanSpec:
    """One service to plan for."""

    name: str
    demands: tuple[ClassDemand, ...]
    pool: PoolSpec
    policy: Policy

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        """Every input, in the order in which the plan uses them."""
        return tuple(self._each_input())

    def _each_input(self) -> Iterator[Assumption]:
        for demand in self.demands:
            yield from demand.inputs
        yield from self.pool.inputs
        yield from self.policy.inputs
