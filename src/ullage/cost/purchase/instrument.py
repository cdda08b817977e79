"""One way to buy a node, and what is already bought."""

from __future__ import annotations

from dataclasses import dataclass

from ullage.evidence import Figure
from ullage.prices.purchase import HOURS_PER_MONTH, Purchase


@dataclass(frozen=True, kw_only=True)
class Instrument:
    """A node bought like this. `node_hour` is what an hour of it comes to, with what is paid up front spread over it.

    `term_months` is how long it is paid whether it is used or not; 0 is by the hour. `upfront_fraction` of the term's
    price is paid on its first day. It can be there `after_months`. Of spot, `interruptions` are
    by node and hour, `warning_s` what is left to drain, `refill_s` until another node serves in its place.
    """

    name: str
    purchase: Purchase
    node_hour: Figure
    term_months: int = 0
    upfront_fraction: float = 0.0
    after_months: int = 0
    provider: str = ""
    region: str = ""
    interruptions: float = 0.0
    warning_s: float = 0.0
    refill_s: float = 0.0

    @property
    def usd_per_hour(self) -> float:
        return float(self.node_hour.value)

    @property
    def usd_per_month(self) -> float:
        return self.usd_per_hour * HOURS_PER_MONTH

    @property
    def is_term(self) -> bool:
        return self.term_months > 0

    @property
    def lost_s(self) -> float:
        """Node time that one interruption leaves unserved."""
        return max(0.0, self.refill_s - self.warning_s)


@dataclass(frozen=True, kw_only=True)
class Held:
    """Nodes that are bought already: so many, until the end of a month counted from the first; paid until then."""

    name: str
    nodes: int
    months: int
    usd_per_hour: float
