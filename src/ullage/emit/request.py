"""What a target makes its files from: the plan's numbers, pool by pool, and the names that the cluster has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ullage.emit.missing import MissingNameError
from ullage.emit.numbers import EmitClass, PlanNumber, PlanNumbers
from ullage.emit.room import Room, room
from ullage.emit.tree import Reasoned
from ullage.errors import InputError
from ullage.evidence import Assumption
from ullage.fleet.packing import parts_of
from ullage.memory.sharding import Sharding
from ullage.planning.manifests import CPUS_PER_PROCESS, EmitSettings, WorkloadNames
from ullage.service.trial.mix import LoadAt


@dataclass(frozen=True, kw_only=True)
class EngineChoice:
    """How the plan file starts the engine of a pool; None is what it leaves to the engine."""

    engine: str
    sharding: Sharding
    version: str | None = None
    budget_tokens: int | None = None
    drafting: tuple[str, int] | None = None  # the method of speculation, and the tokens it drafts
    adapters: tuple[int, int] | None = None  # slots for adapters, and their largest rank


@dataclass(frozen=True, kw_only=True)
class EmitPool:
    """One pool: its numbers by the names that a plan of one pool has for them.

    `mix` is its traffic, where a target writes requests and not only numbers.
    """

    pool: str
    plan: PlanNumbers
    choice: EngineChoice
    settings: EmitSettings
    target: str
    is_autoscaled: bool
    mix: LoadAt | None = None

    # ---- numbers

    def find(self, name: str) -> PlanNumber | None:
        """The pool's number of this name; among several pools its own before one that all share."""
        numbers = self.plan.numbers
        return numbers.get(f"{self.pool}.{name}") or numbers.get(name)

    def number(self, name: str) -> PlanNumber:
        found = self.find(name)
        if found is None:
            raise InputError(
                field=f"plan: {name}",
                value=None,
                problem=f"is missing, and target {self.target} is made from it",
                fix="Plan again with this version of Ullage.",
            )
        return found

    def real(self, name: str) -> float:
        found = self.number(name)
        if isinstance(found.value, str):
            raise InputError(field=f"plan: {name}", value=found.value, problem="is not a number", fix="Plan again.")
        return float(found.value)

    def whole(self, name: str) -> int:
        return int(self.real(name))

    def noted(self, name: str, value: Any = None, *, because: str = "") -> Reasoned:
        """A figure in a file, as it is or as the file writes it, with the figure and the reason behind it."""
        found = self.number(name)
        said = self.whole(name) if value is None else value
        return Reasoned(value=said, why=f"{because}: {found.why}" if because else found.why)

    # ---- names

    def need(self, key: str) -> Any:
        """A name that the cluster has and the plan has not; the refusal says where it goes."""
        shared = key in EmitSettings.__dataclass_fields__
        holder: EmitSettings | WorkloadNames | None = (
            self.settings if shared else self.settings.workloads.get(self.pool)
        )
        found = None if holder is None else getattr(holder, key)
        if not found:
            raise MissingNameError(key=key, pool="" if shared else self.pool, target=self.target)
        return found

    def need_workload(self, key: str) -> Any:
        """A setting of the workload that has a default: what is missing is the whole workload."""
        self.need("name")
        return self.may(key)

    @property
    def served_model(self) -> str:
        """The model's name in requests: what the engine loads, where no other is given, as the engines have it."""
        return str(self.may("served_model") or self.need("model"))

    def may(self, key: str) -> Any:
        """As `need`, where a file can do without."""
        holder = self.settings.workloads.get(self.pool)
        return None if holder is None else getattr(holder, key)

    @property
    def name(self) -> str:
        return str(self.need("name"))

    def metadata(self, name: str = "", **more: Any) -> dict[str, Any]:
        labels = {**self.settings.labels, "app.kubernetes.io/managed-by": "ullage"}
        return {"name": name or self.name, "namespace": self.need("namespace"), "labels": labels, **more}

    # ---- what follows from several of them

    @property
    def classes(self) -> tuple[EmitClass, ...]:
        """The classes that come to this pool: those that it has limits for."""
        return tuple(each for each in self.plan.classes if self.find(f"limit.{each.name}.rate_rps") is not None)

    @property
    def tenants(self) -> tuple[str, ...]:
        """Tenants that the plan gives shares to."""
        lead, end = "limit.tenant.", ".rate_rps"
        names = [each.removeprefix(f"{self.pool}.") for each in self.plan.numbers]
        found = [each[len(lead) : -len(end)] for each in names if each.startswith(lead) and each.endswith(end)]
        return tuple(sorted(dict.fromkeys(found)))

    @property
    def zones(self) -> Mapping[str, int]:
        """Replicas by zone."""
        lead, end = "placement.", ".replicas"
        found = {
            each.name.removeprefix(f"{self.pool}."): each.value
            for each in self.plan.numbers.values()
            if each.name.removeprefix(f"{self.pool}.").startswith(lead) and each.name.endswith(end)
        }
        return {name[len(lead) : -len(end)]: int(value) for name, value in found.items() if not isinstance(value, str)}

    @property
    def devices(self) -> int:
        return self.choice.sharding.devices

    @property
    def node_devices(self) -> int:
        return self.whole("packing.devices") // max(1, self.whole("packing.nodes"))

    @property
    def parts(self) -> tuple[int, ...]:
        """The devices of one replica, node by node."""
        return parts_of(self.choice.sharding, self.node_devices)

    @property
    def room(self) -> Room:
        """The most replicas at once, a rollout's surge among them."""
        shared = f"{self.pool}.fleet.total_devices" not in self.plan.numbers
        return room(self.plan.numbers, "" if shared else f"{self.pool}.")

    @property
    def has_priorities(self) -> bool:
        return len({each.priority for each in self.classes}) > 1

    @property
    def cpus(self) -> Reasoned:
        """CPUs of a whole replica."""
        stated: Assumption | None = self.may("cpus")
        if stated is not None:
            return Reasoned(value=int(stated.value), why=f"{stated.name}, stated")
        each = int(CPUS_PER_PROCESS.value)
        return Reasoned(
            value=each * (2 + self.devices),
            why=f"{each} for each of an API server, an engine core and {self.devices} workers; "
            f"assumed: {CPUS_PER_PROCESS.source.what}",
        )

    @property
    def host_bytes(self) -> int:
        """Host memory of a whole replica: processes and offload, and the weights while they are loaded."""
        found = [each for each in self.plan.numbers if each.removeprefix(f"{self.pool}.").startswith("host.")]
        mine = {each.removeprefix(f"{self.pool}.") for each in found}
        # Named by the stage, so that a plan without them is refused and not taken for one that needs nothing.
        self.number("host.workers_bytes")
        return sum(self.whole(each) for each in sorted(mine) if self.number(each).unit == "bytes")

    @property
    def running_replicas(self) -> int:
        """What stands behind the router before a rollout begins."""
        return self.whole("reserve.serving_replicas")


@dataclass(frozen=True, kw_only=True)
class EmitPlan:
    """A whole plan to emit from, for one target."""

    plan: PlanNumbers
    settings: EmitSettings
    target: str
    pools: tuple[EmitPool, ...]

    def head(self, *lines: str) -> list[str]:
        """The first lines of a file: what it is, where it comes from, what it cannot do."""
        return [
            f"Written by ullage emit, target {self.target}, from {self.plan.origin}.",
            (
                "Where a number comes from: ullage plan --explain NAME. Do not edit it here: change the plan, and emit "
                "again."
            ),
            *lines,
        ]


def up(value: float) -> int:
    """Rounded up, as a limit that must hold at least so much is written.

    >>> up(2710.126), up(3.0)
    (2711, 3)
    """
    return math.ceil(value - 1e-9)
