"""Instruments, markets and drawn needs for tests and benches of how to buy."""

from __future__ import annotations

import datetime

import numpy as np
from numpy.random import Generator

from ullage.cost.purchase.instrument import Held, Instrument
from ullage.cost.purchase.mix import Market
from ullage.cost.purchase.need import NodeNeeds
from ullage.evidence import Assumption, Evidence, Figure, Source
from ullage.prices.purchase import Purchase

SOURCE = Source(what="made up for a test", where="tests", date=datetime.date(2026, 11, 16))


def instrument(purchase: Purchase, usd_per_hour: float, **more: object) -> Instrument:
    hour = Figure(
        name=f"price.{purchase}",
        value=usd_per_hour,
        unit="USD/node-hour",
        sources=(SOURCE,),
        own_evidence=Evidence.STATED,
    )
    known: dict[str, object] = {"term_months": purchase.term_months, **more}
    return Instrument(name=str(purchase), purchase=purchase, node_hour=hour, **known)  # type: ignore[arg-type]


def market(
    *terms: Instrument,
    months: int,
    hour_usd: float = 10.0,
    spot: Instrument | None = None,
    held: tuple[Held, ...] = (),
) -> Market:
    return Market(
        by_hour=instrument(Purchase.ON_DEMAND, hour_usd),
        spot=spot,
        terms=terms,
        held=held,
        list_ratios=(1.0,) * months,
    )


def stated(name: str, value: float) -> Assumption:
    return Assumption(name=name, value=value, unit="fraction", evidence=Evidence.STATED, source=SOURCE)


def drawn_needs(
    rng: Generator,
    *,
    futures: int,
    months: int,
    base: float,
    swing: float,
    deviation: float = 0.2,
    drift: float = 0.05,
    growth: float = 0.0,
    losable: float = 0.0,
) -> NodeNeeds:
    """Futures with a day's swing, a level that is not known, and one that wanders from month to month."""
    level = deviation * rng.standard_normal((futures, 1))
    level = level + np.cumsum(drift * rng.standard_normal((futures, months)), axis=1) + growth * np.arange(months)
    season = 1.0 + swing * np.sin(np.arange(168) / 24.0 * 2.0 * np.pi)
    load = base * np.exp(level)[:, :, None] * season
    nodes = np.ceil(load).astype(np.int64)
    firm = np.minimum(np.ceil(load * (1.0 - losable)).astype(np.int64), nodes)
    return NodeNeeds(nodes=nodes, losable=nodes - firm)
