"""What is paid for: pools, requests, provider calls, tools and tasks of one period, as the plan found them.

A bill is a price times one of these numbers. Whoever fills them (the plan from its simulation, a verb from a log)
says in `basis` what they rest on, so that every line can be walked back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ullage.cost.attribution.causation import Causation
from ullage.cost.attribution.dimensions import dimensions_of, pair_name
from ullage.cost.attribution.usage import GroupUse
from ullage.errors import InputError, InternalError
from ullage.evidence import Assumption, Figure

Named = Figure | Assumption
SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, kw_only=True)
class PoolUse:
    """Replicas of one model on one kind of device, in one region.

    `reserves` are replicas kept beyond the steady ones, by the name of what they are kept for. `hourly_replicas` are
    the steady ones that are paid in each hour of a typical week where the fleet follows demand, `hourly_needed` those
    that the hour's load needs; both are empty where all run all the time. The hours weigh alike.
    `stranded_devices` are paid for with their machines and hold no replica; None where nobody counted them.
    `capacity_requests` is what the steady replicas were sized to serve in the period: what was not asked is idle.
    Without it idle is the time in which no request was in flight, which continuous batching makes rare.
    """

    name: str
    model: str
    device: str
    replica_devices: int
    steady_replicas: float
    region: str = ""
    minimum_replicas: float = 0
    reserves: Mapping[str, float] = field(default_factory=dict)
    stranded_devices: float | None = None
    hourly_replicas: tuple[float, ...] = ()
    hourly_needed: tuple[float, ...] = ()
    capacity_requests: float | None = None
    weights_bytes: float | None = None
    power: Assumption | None = None
    basis: tuple[Named, ...]

    def __post_init__(self) -> None:
        counts = {
            "steady_replicas": self.steady_replicas,
            "minimum_replicas": self.minimum_replicas,
            "stranded_devices": self.stranded_devices or 0,
            "hourly_replicas": min(self.hourly_replicas, default=0.0),
            "hourly_needed": min(self.hourly_needed, default=0.0),
            "capacity_requests": self.capacity_requests or 0.0,
            **{f"reserves.{name}": count for name, count in self.reserves.items()},
        }
        if self.hourly_needed and len(self.hourly_needed) != len(self.hourly_replicas):
            raise InternalError(
                law="every hour has what is paid and what is needed",
                left=len(self.hourly_replicas),
                right=len(self.hourly_needed),
            )
        for name, count in counts.items():
            if not count >= 0:
                raise InputError(
                    field=f"pool.{self.name}.{name}", value=count, problem="must be 0 or more", fix="Check the counts."
                )

    @property
    def replicas(self) -> float:
        """All that are paid for: steady and reserve."""
        return self.steady_replicas + sum(self.reserves.values())

    def hours_above(self, level: float, period_hours: float, *, is_idle: bool = False) -> float:
        """Replica-hours of the steady part beyond so many replicas; of them those that no load needs."""
        paid = self.hourly_replicas or (self.steady_replicas,)
        needed = self.hourly_needed if is_idle else (0.0,) * len(paid)
        beyond = [max(0.0, each - max(level, need)) for each, need in zip(paid, needed, strict=False)]
        return period_hours * sum(beyond) / len(paid)


@dataclass(frozen=True, kw_only=True)
class ClassUse:
    """The requests of one class in the period, on one pool.

    A success is a request that ended well and within the limits of its class. `gpu_s` is the busy time of replicas
    that went to the class, of which `failed_gpu_s` to requests that did not succeed; None where nothing was simulated.
    `caused_devices` are those of the steady fleet that the class makes necessary. Where `goes_on` its requests go on to
    another pool and are counted there: the prefill side of a pool that is apart.
    """

    name: str
    pool: str
    requests: float
    successes: float
    prompt_tokens: float
    output_tokens: float
    cached_tokens: float = 0.0
    gpu_s: float | None = None
    failed_gpu_s: float | None = None
    criterion: str = "ends well within its limits"
    caused_devices: float | None = None
    goes_on: bool = False
    basis: tuple[Named, ...]


@dataclass(frozen=True, kw_only=True)
class ProviderUse:
    """Requests that a provider serves for us, by the token. `failed_fraction` of the tokens brought no success.

    Of the prompt's tokens `cached_tokens` are read from the provider's cache, and `written_tokens` are written to it.
    """

    provider: str
    model: str
    class_name: str
    requests: float
    prompt_tokens: float
    output_tokens: float
    cached_tokens: float = 0.0
    written_tokens: float = 0.0
    failed_fraction: float = 0.0
    basis: tuple[Named, ...]


@dataclass(frozen=True, kw_only=True)
class ToolUse:
    """Calls of an outside tool in the period."""

    name: str
    calls: float
    basis: tuple[Named, ...]


@dataclass(frozen=True, kw_only=True)
class TaskUse:
    """What a user asked for: how many requests of each class, how many tool calls, how often it is tried again.

    `attempts_ratio` counts retries of the whole task. `escalated_fraction` of tasks are given up by their own classes
    and asked again of the classes in `escalated_requests`: then both attempts are paid. `success_fraction` is the
    share of tasks that end as the user wanted, which answers that are in time do not prove.
    """

    name: str
    requests: Mapping[str, float]
    calls: Mapping[str, float] = field(default_factory=dict)
    attempts_ratio: float = 1.0
    escalated_fraction: float = 0.0
    escalated_requests: Mapping[str, float] = field(default_factory=dict)
    success_fraction: float = 1.0
    basis: tuple[Named, ...]

    def __post_init__(self) -> None:
        if not (0.0 < self.success_fraction <= 1.0 and 0.0 <= self.escalated_fraction <= 1.0):
            raise InputError(
                field=f"task.{self.name}",
                value=(self.success_fraction, self.escalated_fraction),
                problem="the shares of success and escalation lie between 0 and 1, success above 0",
                fix="Give the share of tasks that succeed, for example 92%.",
            )
        if not self.attempts_ratio >= 1.0:
            raise InputError(
                field=f"task.{self.name}.attempts",
                value=self.attempts_ratio,
                problem="a task is tried at least once",
                fix="Give 1 for no retries.",
            )


@dataclass(frozen=True, kw_only=True)
class ServiceUse:
    """Everything of one period. `providers` and `tools` are None where it is not stated whether there are any.

    `groups` are who used each pool, by dimension and pool, where a simulation or a log says more than the classes do,
    and `causes` which class makes how much of a pool necessary.
    """

    service: str
    pools: tuple[PoolUse, ...]
    classes: tuple[ClassUse, ...]
    providers: tuple[ProviderUse, ...] | None = None
    tools: tuple[ToolUse, ...] | None = None
    tasks: tuple[TaskUse, ...] = ()
    groups: Mapping[str, Mapping[str, tuple[GroupUse, ...]]] = field(default_factory=dict)
    causes: Mapping[str, Causation] = field(default_factory=dict)

    def groups_of(self, by: str) -> Mapping[str, tuple[GroupUse, ...]] | None:
        """Who used each pool, by a dimension or by model and class together; None where that is not known."""
        dimensions = dimensions_of(by)
        if {*dimensions} != {"model", "class"} or "class" not in self.groups:
            return self.groups.get(by)
        # A pool has one model, so that its classes are all there is to tell apart in it.
        models = {each.name: each.model for each in self.pools}
        return {
            pool: tuple(
                replace(
                    each,
                    name=pair_name(*(models.get(pool, pool) if one == "model" else each.name for one in dimensions)),
                )
                for each in groups
            )
            for pool, groups in self.groups["class"].items()
        }

    def classes_of(self, pool: str) -> tuple[ClassUse, ...]:
        return tuple(each for each in self.classes if each.pool == pool)

    @property
    def ending(self) -> tuple[ClassUse, ...]:
        """The classes where their requests end, each request counted once."""
        return tuple(each for each in self.classes if not each.goes_on)

    @property
    def requests(self) -> float:
        return sum(each.requests for each in self.ending) + sum(each.requests for each in self.providers or ())

    @property
    def successes(self) -> float:
        bought = sum(each.requests * (1.0 - each.failed_fraction) for each in self.providers or ())
        return sum(each.successes for each in self.ending) + bought

    def total(self, what: str) -> float:
        """The sum of a token count over classes and providers."""
        return float(sum(getattr(each, what) for each in (*self.ending, *(self.providers or ()))))

    @property
    def basis(self) -> tuple[Named, ...]:
        """What the traffic rests on, each once."""
        rests = [one for each in self.classes for one in each.basis]
        rests += [one for each in self.providers or () for one in each.basis]
        return tuple({each.name: each for each in rests}.values())


def class_times(each: ClassUse, ratio: float) -> ClassUse:
    """So many times the requests of a class, and what they took."""
    return replace(
        each,
        requests=each.requests * ratio,
        successes=each.successes * ratio,
        prompt_tokens=each.prompt_tokens * ratio,
        output_tokens=each.output_tokens * ratio,
        cached_tokens=each.cached_tokens * ratio,
        gpu_s=None if each.gpu_s is None else each.gpu_s * ratio,
        failed_gpu_s=None if each.failed_gpu_s is None else each.failed_gpu_s * ratio,
    )
