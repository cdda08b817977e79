"""What else a bill holds: the items that are priced by the unit, and the unit each is priced in.

Inside a price is per byte, per span, per call; `0.023 USD/GB-month` and `2.55 USD/Mspan` live at the rim. Prices
that fall with volume are kept at one step: give the one your volume reaches.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Item:
    """One kind of thing that is bought by the unit."""

    per: str
    meaning: str


ITEMS = {
    "object-storage": Item(per="byte-month", meaning="weights and logs kept in an object store"),
    "block-storage": Item(per="byte-month", meaning="disks attached to machines"),
    "file-storage": Item(per="byte-month", meaning="a shared file system that replicas read weights from"),
    "zone-network": Item(per="byte", meaning="traffic between zones of one region, both directions together"),
    "region-network": Item(per="byte", meaning="traffic between regions of one provider"),
    "egress": Item(per="byte", meaning="traffic out to the internet"),
    "load-balancer": Item(per="h", meaning="one load balancer or gateway"),
    "log-ingest": Item(per="byte", meaning="logs taken in by the observability service"),
    "log-storage": Item(per="byte-month", meaning="logs kept searchable"),
    "span": Item(per="span", meaning="trace spans taken in"),
    "metric-series": Item(per="series-month", meaning="one active time series"),
    "tool-call": Item(per="call", meaning="one call of an outside tool, by the tool's name"),
    "evaluation": Item(per="item", meaning="one answer evaluated by a person or a service"),
    "engineering": Item(per="h", meaning="an engineer's hour, all costs of employment included"),
    "electricity": Item(per="kWh", meaning="one kilowatt-hour at the site of own hardware"),
    "host": Item(per="h", meaning="the machine around devices that are priced alone, per instance"),
}
