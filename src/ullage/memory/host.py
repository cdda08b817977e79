"""The second budget: host memory that one replica takes on its machine.

Weights pass through the host's page cache while they are loaded; the system reclaims it when memory is short, at the
price of a slow start. Processes, offloaded weights and keys and the prefix cache's tier here cannot be reclaimed: the
host must hold them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ullage.errors import InputError
from ullage.evidence import Evidence, Figure
from ullage.facts.model import Model
from ullage.memory.assumed import HOST_PROCESS
from ullage.memory.parameters import weight_lines
from ullage.memory.settings import HostCache, RuntimeSettings, whole


@dataclass(frozen=True, kw_only=True)
class HostLine:
    """One use of host memory; `gives_way` marks memory that the system can reclaim."""

    label: str
    figure: Figure
    gives_way: bool

    @property
    def line_bytes(self) -> int:
        return whole(self.figure)


@dataclass(frozen=True, kw_only=True)
class HostBudget:
    """Host memory of one replica. `cached_kv_tokens` are what its tier of the prefix cache holds. `host_bytes` is what
    the machine has for it, None where it is not stated."""

    lines: tuple[HostLine, ...]
    offloaded_kv_tokens: int
    cached_kv_tokens: int
    host_bytes: int | None

    @property
    def needed_bytes(self) -> int:
        """What must be there."""
        return sum(line.line_bytes for line in self.lines if not line.gives_way)

    @property
    def wanted_bytes(self) -> int:
        """What makes loading quick as well."""
        return sum(line.line_bytes for line in self.lines)

    @property
    def headroom_bytes(self) -> int | None:
        return None if self.host_bytes is None else self.host_bytes - self.needed_bytes


def host_budget(
    model: Model, settings: RuntimeSettings, kv_bytes_per_token: float, host_bytes: int | None = None
) -> HostBudget:
    """What a replica takes of its host, and how many more tokens an offloaded cache keeps there."""
    if host_bytes is not None and host_bytes < 1:
        raise InputError(
            field="host memory", value=host_bytes, problem="is less than 1", fix="Give for example 256GiB."
        )
    devices = settings.sharding.devices
    staged = Figure(
        name="host.weights_staging_bytes",
        value=sum(line.stored_bytes for line in weight_lines(model)),
        unit="bytes",
        sources=model.sources,
        own_evidence=Evidence.ESTIMATED,
    )
    workers = Figure(
        name="host.workers_bytes",
        value=devices * whole(HOST_PROCESS),
        unit="bytes",
        formula="devices x memory of a worker",
        inputs=(settings.stated("replica devices", devices, "devices"), HOST_PROCESS),
    )
    lines = [
        HostLine(label="weights while loading", figure=staged, gives_way=True),
        HostLine(label="worker processes", figure=workers, gives_way=False),
    ]
    offloads = (("weights offloaded", settings.weight_offload_bytes), ("KV offloaded", settings.kv_offload_bytes))
    for label, each_bytes in offloads:
        if each_bytes:
            lines.append(_offload_line(label, each_bytes, devices, settings))
    cache = settings.host_cache
    if cache is not None:
        lines.append(HostLine(label="prefix cache", figure=_cache_figure(cache, settings), gives_way=False))
    tokens = int(settings.kv_offload_bytes / kv_bytes_per_token) if kv_bytes_per_token else 0
    replica_bytes = replica_token_bytes(settings, kv_bytes_per_token)
    return HostBudget(
        lines=tuple(lines),
        offloaded_kv_tokens=tokens * settings.sharding.dp_attention,
        cached_kv_tokens=int(cache.size_bytes / replica_bytes) if cache is not None and replica_bytes else 0,
        host_bytes=host_bytes,
    )


def replica_token_bytes(settings: RuntimeSettings, kv_bytes_per_token: float) -> float:
    """What a token takes over all devices that keep a part of it; each stores and loads its own part."""
    return kv_bytes_per_token * settings.sharding.devices / settings.sharding.dp_attention


def _cache_figure(cache: HostCache, settings: RuntimeSettings) -> Figure:
    return Figure(
        name="host.prefix_cache_bytes",
        value=cache.size_bytes,
        unit="bytes",
        formula="as stated for a replica",
        inputs=(settings.stated("host cache", cache.size_bytes, "bytes"),),
    )


def _offload_line(label: str, each_bytes: int, devices: int, settings: RuntimeSettings) -> HostLine:
    stated = settings.stated(f"{label} from one device", each_bytes, "bytes")
    figure = Figure(
        name=f"host.{label.replace(' ', '_').lower()}_bytes",
        value=each_bytes * devices,
        unit="bytes",
        formula="devices x bytes offloaded from one",
        inputs=(settings.stated("replica devices", devices, "devices"), stated),
    )
    return HostLine(label=label, figure=figure, gives_way=False)
