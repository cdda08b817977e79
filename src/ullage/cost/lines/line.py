"""A line of the bill: so many cents for one thing, tagged, explained, or `not priced` with what to give."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from ullage.cost.money import usd_of
from ullage.evidence import Figure


class Behaviour(enum.Enum):
    """Whether the line is paid regardless of use, or grows with use."""

    FIXED = "fixed"
    VARIABLE = "variable"


class Sharing(enum.Enum):
    """Whether several groups of requests share what is paid for, or each request has its own."""

    SHARED = "shared"
    DIRECT = "direct"


class Origin(enum.Enum):
    """Whether the service itself makes it, or somebody else sells it by the piece."""

    INTERNAL = "internal"
    EXTERNAL = "external"


class Driver(enum.Enum):
    """What the line grows with, and with that what it is divided by when it is attributed."""

    DEVICE_TIME = "device time"
    RESERVE = "reserve"
    FAILED = "failed work"
    TOKENS = "tokens"
    REQUESTS = "requests"
    FIXED = "fixed"


@dataclass(frozen=True, kw_only=True)
class Amount:
    """How much of what was bought: 52,560 device-hours."""

    value: float
    unit: str


@dataclass(frozen=True, kw_only=True)
class BillLine:
    """`cents` is None where the line is not priced; `missing` then says what to give. `amount` is what was bought.

    `pool` names the pool it is paid for, empty for the whole service. `used_fraction` is the part of paid device time
    in which requests were served; the rest of it is idle, and attribution keeps it apart. `owners` names, by dimension,
    whose line it is alone, such as the class that a provider serves.
    """

    name: str
    item: str = ""
    pool: str = ""
    cents: int | None
    behaviour: Behaviour
    sharing: Sharing
    origin: Origin
    driver: Driver
    figure: Figure | None = None
    missing: str = ""
    used_fraction: float = 1.0
    owners: Mapping[str, str] = field(default_factory=dict)
    amount: Amount = Amount(value=1.0, unit="month")

    @property
    def label(self) -> str:
        """How the line is told from others of its name: `idle_reserve chat failure`."""
        return " ".join(each for each in (self.name, self.pool, self.item) if each)

    @property
    def usd(self) -> float:
        """What is paid; 0 for a line that is not priced, which the bill lists by name."""
        return usd_of(self.cents or 0)

    @property
    def is_priced(self) -> bool:
        return self.cents is not None
