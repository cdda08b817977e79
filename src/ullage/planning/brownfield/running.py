"""What runs today, as far as a plan has to know it: pools of replicas, how they scale and change, nodes below them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ullage.scaling.rules import ScalingRule


@dataclass(frozen=True, kw_only=True)
class RunningPool:
    """Replicas of one engine, as a cluster's objects describe them; None and empty mean not stated.

    `settings` are the engine's arguments under our names (`max_sequences`); `engine_version` is that of its image.
    `signals` are what its autoscaler follows, as the autoscaler names them (`cpu`, `vllm:num_requests_waiting`).
    """

    name: str
    kind: str
    where: str
    replicas: int
    devices_per_replica: int
    engine: str = ""
    engine_version: str = ""
    model: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    device: str = ""
    least_replicas: int | None = None
    most_replicas: int | None = None
    scaled_by: str = ""
    signals: tuple[str, ...] = ()
    rule: ScalingRule | None = field(default=None, repr=False)
    surge: str = ""
    unavailable: str = ""

    @property
    def devices(self) -> int:
        return self.replicas * self.devices_per_replica


@dataclass(frozen=True, kw_only=True)
class RunningNode:
    """A machine with devices."""

    name: str
    devices: int
    device: str = ""
    instance: str = ""
    region: str = ""
    zone: str = ""


@dataclass(frozen=True, kw_only=True)
class Running:
    """All that was read. `unread` says which objects were passed over, by kind and reason."""

    pools: tuple[RunningPool, ...]
    nodes: tuple[RunningNode, ...]
    unread: tuple[str, ...] = ()

    @property
    def free_devices(self) -> int | None:
        """Devices that no pool that was read holds; None where no node was read."""
        if not self.nodes:
            return None
        return sum(each.devices for each in self.nodes) - sum(each.devices for each in self.pools)
