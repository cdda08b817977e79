"""The shared limits of a portfolio's services, and the needs of each pool."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

ANYWHERE = "anywhere"
DAYS_PER_MONTH = 365.0 / 12.0
HOURS_PER_MONTH = 24.0 * DAYS_PER_MONTH
# Without a stated value all requests are worth the same: what serves fewest is dropped first.
ALIKE_USD = 1e-3


@dataclass(frozen=True, kw_only=True)
class RegionLimits:
    """A region: devices and nodes that all services together may have in it, by device; not limited where not named."""

    name: str
    quota_devices: Mapping[str, int] = field(default_factory=dict)
    most_nodes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SharedCommitment:
    """Devices in a region that are paid whether they are used or not."""

    device: str
    region: str
    devices: int
    usd_per_hour: float


@dataclass(frozen=True, kw_only=True)
class ServiceTerms:
    """What is known of a service beside its plan: what a lost request costs, where it may stand, what it must keep."""

    shortfall_usd: float | None = None
    regions: tuple[str, ...] = ()
    least_fraction: float = 0.0


@dataclass(frozen=True, kw_only=True)
class PortfolioLimits:
    """Everything that is shared. Without regions there is one, called anywhere, without limits."""

    name: str = "portfolio"
    regions: tuple[RegionLimits, ...] = ()
    budget_usd: float | None = None
    commitments: tuple[SharedCommitment, ...] = ()
    shortfall_usd: float | None = None
    services: Mapping[str, ServiceTerms] = field(default_factory=dict)

    @property
    def places(self) -> tuple[RegionLimits, ...]:
        return self.regions or (RegionLimits(name=ANYWHERE),)

    def terms(self, service: str) -> ServiceTerms:
        return self.services.get(service, ServiceTerms())

    def lost_usd(self, service: str) -> float:
        """What a request of this service costs that is not served."""
        stated = self.terms(service).shortfall_usd
        return stated if stated is not None else ALIKE_USD if self.shortfall_usd is None else self.shortfall_usd


class SizeBasis(enum.StrEnum):
    """How a pool's size is known."""

    FIRST_LOOK = "first look"
    DECIDED = "decided"


@dataclass(frozen=True, kw_only=True)
class PoolNeed:
    """The needs of one pool: replicas with reserves, their devices, and what they serve.

    A first look lies between `low_replicas` and `high_replicas`; a decided size is all three. `same_as` names the pool
    whose evaluation it shares, where it differs from it in names alone. `device_usd` is a device for a month, by the
    hour; None where it has no price.
    """

    service: str
    pool: str
    model: str
    device: str
    replicas: int
    low_replicas: int
    high_replicas: int
    replica_devices: int
    node_devices: int
    requests_per_day: float
    device_usd: float | None
    basis: SizeBasis
    same_as: str = ""

    @property
    def name(self) -> str:
        return f"{self.service}/{self.pool}"

    @property
    def lost_requests_per_replica(self) -> float:
        """Of a day, where a replica is missing: its part of the pool's requests, in the hours that need it or not."""
        return self.requests_per_day / self.replicas if self.replicas else 0.0
