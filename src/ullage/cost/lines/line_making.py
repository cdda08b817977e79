"""How a line comes about: its tags from one table, its cents from USD, its figure from price and driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ullage.cost.lines.line import Amount, Behaviour, BillLine, Driver, Origin, Sharing
from ullage.cost.money import cents_of
from ullage.cost.service_use import Named
from ullage.evidence import Figure
from ullage.prices.book import MissingPrice

_FIXED, _VARIABLE = Behaviour.FIXED, Behaviour.VARIABLE
_SHARED, _DIRECT = Sharing.SHARED, Sharing.DIRECT
_INTERNAL, _EXTERNAL = Origin.INTERNAL, Origin.EXTERNAL

TAGS: dict[str, tuple[Behaviour, Sharing, Origin, Driver]] = {
    "compute_reservation": (_FIXED, _SHARED, _INTERNAL, Driver.DEVICE_TIME),
    "compute_usage": (_VARIABLE, _SHARED, _INTERNAL, Driver.DEVICE_TIME),
    "idle_hours": (_VARIABLE, _SHARED, _INTERNAL, Driver.DEVICE_TIME),
    "idle_reserve": (_FIXED, _SHARED, _INTERNAL, Driver.RESERVE),
    "stranded_devices": (_FIXED, _SHARED, _INTERNAL, Driver.RESERVE),
    "failed_work": (_VARIABLE, _DIRECT, _INTERNAL, Driver.FAILED),
    "storage": (_FIXED, _SHARED, _INTERNAL, Driver.FIXED),
    "network": (_VARIABLE, _DIRECT, _INTERNAL, Driver.TOKENS),
    "provider_tokens": (_VARIABLE, _DIRECT, _EXTERNAL, Driver.TOKENS),
    "tool_apis": (_VARIABLE, _DIRECT, _EXTERNAL, Driver.REQUESTS),
    "observability": (_VARIABLE, _DIRECT, _INTERNAL, Driver.REQUESTS),
    "evaluation": (_VARIABLE, _SHARED, _INTERNAL, Driver.REQUESTS),
    "engineering": (_FIXED, _SHARED, _INTERNAL, Driver.FIXED),
}


def figure_name(name: str, pool: str, item: str) -> str:
    """`bill.idle_reserve.main.failure_usd`."""
    return "bill." + ".".join(each.replace(" ", "-") for each in (name, pool, item) if each) + "_usd"


def priced_line(
    name: str,
    usd: float,
    *,
    amount: Amount,
    formula: str,
    inputs: Iterable[Named],
    pool: str = "",
    item: str = "",
    used_fraction: float = 1.0,
    behaviour: Behaviour | None = None,
    origin: Origin | None = None,
    driver: Driver | None = None,
    owners: Mapping[str, str] | None = None,
) -> BillLine:
    """A line with its amount, explained; tags are those of its name unless this one line is otherwise."""
    of_name = TAGS[name]
    return BillLine(
        name=name,
        pool=pool,
        item=item,
        cents=cents_of(usd),
        behaviour=behaviour or of_name[0],
        sharing=of_name[1],
        origin=origin or of_name[2],
        driver=driver or of_name[3],
        figure=Figure(
            name=figure_name(name, pool, item),
            value=usd,
            unit="USD",
            formula=formula,
            inputs=tuple({each.name: each for each in inputs}.values()),
        ),
        used_fraction=used_fraction,
        owners=owners or {},
        amount=amount,
    )


def not_priced(name: str, missing: MissingPrice | str, *, pool: str = "", item: str = "") -> BillLine:
    """A line without an amount, and what to give so that it has one."""
    behaviour, sharing, origin, driver = TAGS[name]
    text = missing if isinstance(missing, str) else f"{missing.what}: {missing.why}. {missing.fix}"
    return BillLine(
        name=name,
        pool=pool,
        item=item,
        cents=None,
        behaviour=behaviour,
        sharing=sharing,
        origin=origin,
        driver=driver,
        missing=text,
    )
