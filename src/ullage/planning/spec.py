"""The specification of a plan: traffic, SLOs, model, devices and policy, each input with its source.

Every number a user can give is an `Assumption`, whether the user stated it or a default stands in, so that
the plan can list it, print its age, and walk any result back to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ullage.admission.policy import AdmissionPolicy
from ullage.cost.policy import CostPolicy
from ullage.cost.provider.offer import ProviderOffer
from ullage.cost.quotes import PriceChoice
from ullage.cost.service_use import ProviderUse, TaskUse
from ullage.evidence import Assumption, Evidence, Source
from ullage.facts.catalogue import Catalogue
from ullage.facts.device import Device
from ullage.facts.model import Model
from ullage.fleet.reserves import ReserveSettings
from ullage.fleet.sites import Sites
from ullage.memory.case import Approved
from ullage.memory.engine_report import EngineMemory
from ullage.memory.settings import RuntimeSettings
from ullage.planning.checks.claims import Claims
from ullage.planning.manifests import EmitSettings
from ullage.planning.options.settings import OptionSettings
from ullage.planning.owners import Owners
from ullage.prices.book import PriceBook
from ullage.scaling.settings import ScalingSettings
from ullage.service.calibration.pool_step import NO_EVIDENCE, StepEvidence
from ullage.service.curve.margin import NO_POLICY
from ullage.service.phase import PoolSide
from ullage.startup.settings import StartSettings
from ullage.workload.classes import RequestClass
from ullage.workload.demand.demand import MeasuredClass
from ullage.workload.demand.events import DatedEvent
from ullage.workload.demand.routing import Routing
from ullage.workload.demand.stated import StatedShape
from ullage.workload.demand.tools import Tool
from ullage.workload.demand.traffic import Traffic


@dataclass(frozen=True, kw_only=True)
class ClassDemand:
    """A request class with its rate, the largest request it may send, and the pool that serves it.

    `mean_rate` is that of the day of planning; `dated_rate` is what was stated or seen before it grew as stated.
    `shape` is what is stated about its traffic beyond that; `success` is what counts as one, as its owner puts it.
    """

    request_class: RequestClass
    pool: str
    slo_limits: tuple[Assumption, ...]
    mean_rate: Assumption
    longest_context: Assumption
    shape: StatedShape | None = None
    success: str | None = None
    dated_rate: Assumption | None = None

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        shape = () if self.shape is None else self.shape.inputs
        return (*self.slo_limits, self.mean_rate, self.longest_context, *shape)


def slo_limits(request_class: RequestClass, *, evidence: Evidence, source: Source) -> tuple[Assumption, ...]:
    """The limits of a class's SLOs as inputs, so that they too can be explained."""
    return tuple(
        Assumption(
            name=f"{request_class.name}.{slo.name}", value=slo.limit_s, unit="s", evidence=evidence, source=source
        )
        for slo in request_class.slos
    )


@dataclass(frozen=True, kw_only=True)
class PoolSpec:
    """What the replicas of the pool called `name` are made of. `choices` are the names by which it was chosen.

    `reported` is what an engine of this pool states about itself, `tested` what load tests of it showed; `alternatives`
    are devices that a refusal may offer; `start` is how a replica comes up; `instance` names the machine it stands on.
    `phase` is set where its replicas are one side of a pool whose prefill and decode are apart.
    """

    name: str
    choices: tuple[Assumption, ...]
    model: Model
    device: Device
    settings: RuntimeSettings
    approved: Approved
    start: StartSettings
    least: Assumption | None = None
    most: Assumption | None = None
    reported: EngineMemory | None = None
    tested: StepEvidence = NO_EVIDENCE
    engines: Catalogue | None = None
    alternatives: tuple[Device, ...] = ()
    instance: str | None = None
    phase: PoolSide | None = None
    # In a scenario step times are known, as a multiple of the step model's.
    step_ratio: Assumption | None = None
    # What steps may have drifted by since their evidence was past its maximum age.
    step_drift: Assumption | None = None

    @property
    def whole(self) -> str:
        """The pool that classes and routes name: both sides of one that is apart have the same."""
        return self.name if self.phase is None else self.phase.pool


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Decisions: how far ahead to plan, at which risk, where to run, when to plan again."""

    horizon: Assumption
    shortfall: Assumption
    zones: Assumption
    reconcile_every: Assumption
    margin: Assumption = NO_POLICY

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        kept = () if self.margin == NO_POLICY else (self.margin,)
        return (self.horizon, self.shortfall, *kept, self.zones, self.reconcile_every)


@dataclass(frozen=True, kw_only=True)
class PlanSpec:
    """One service to plan for: its classes, and the pools that serve them.

    `prices` is the book that the bill is made from, `buying` where and how devices are bought from it, and `cost` what
    drives the lines around them; without a book there is no bill. `tasks` are users' units of work, made of requests;
    `bought` are classes that a provider serves.
    """

    name: str
    demands: tuple[ClassDemand, ...]
    # Every planned event, those after the horizon too: budgets reach further.
    events: tuple[DatedEvent, ...] = ()
    traffic: Traffic | None = None
    pools: tuple[PoolSpec, ...]
    policy: Policy
    # Classes that go to more than one pool, what their tasks wait for, and where replicas may stand, by device.
    routing: Routing = field(default_factory=Routing)
    tools: tuple[Tool, ...] = ()
    sites: Mapping[str, Sites] = field(default_factory=dict)
    reserves: ReserveSettings = field(default_factory=ReserveSettings)
    scaling: ScalingSettings = field(default_factory=ScalingSettings)
    admission: AdmissionPolicy = field(default_factory=AdmissionPolicy)
    prices: PriceBook | None = None
    buying: PriceChoice = field(default_factory=PriceChoice)
    cost: CostPolicy = field(default_factory=CostPolicy)
    tasks: tuple[TaskUse, ...] = ()
    bought: tuple[ProviderUse, ...] = ()
    # Providers that own devices are compared with; no figure of the plan is made of them.
    against: tuple[ProviderOffer, ...] = ()
    # Claims made elsewhere; they are compared with the plan, and are no inputs of it.
    claims: Claims = field(default_factory=Claims)
    options: OptionSettings = field(default_factory=OptionSettings)
    owners: Owners = field(default_factory=Owners)
    # Names of the cluster, which are written into manifests and move no figure.
    emit: EmitSettings = field(default_factory=EmitSettings)

    @property
    def pool(self) -> PoolSpec:
        """The first pool: the only one of most services."""
        return self.pools[0]

    @property
    def classes(self) -> tuple[RequestClass, ...]:
        return tuple(each.request_class for each in self.demands)

    @property
    def measured(self) -> Mapping[str, MeasuredClass]:
        """The measurements of a trace by class; nothing where there is none."""
        return {} if self.traffic is None else self.traffic.classes

    def served_by(self, pool: str) -> tuple[ClassDemand, ...]:
        """The classes that this pool serves, alone or on a route."""
        whole = next((each.whole for each in self.pools if each.name == pool), pool)
        return tuple(each for each in self.demands if self.routing.serves(whole, each.request_class.name, each.pool))

    @property
    def own_pools(self) -> Mapping[str, str]:
        """The pool of every class that has no route."""
        return {each.request_class.name: each.pool for each in self.demands}

    @property
    def slo_limits(self) -> tuple[Assumption, ...]:
        return tuple(slo_name for each in self.demands for slo_name in each.slo_limits)

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        """Every input, in the order in which the plan uses them."""
        return tuple(self._each_input())

    def _each_input(self) -> Iterator[Assumption]:
        for demand in self.demands:
            yield from demand.inputs
        for pool in self.pools:
            yield from pool.choices
        yield from self.policy.inputs
        yield from self.routing.inputs
        for tool in self.tools:
            yield from tool.inputs
        for sites in self.sites.values():
            yield from sites.inputs
        yield from self.reserves.stated
        yield from self.scaling.stated
        yield from self.admission.stated
        yield from self.cost.stated
