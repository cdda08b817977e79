"""The file of a portfolio: what services share (quotas, nodes, a budget, commitments), what a shortfall costs."""

from __future__ import annotations

import datetime
from typing import Annotated, Literal

from pydantic import Field

from ullage.errors import InputError, check_name
from ullage.facts.device import find_device
from ullage.files.faults import read_sections
from ullage.files.sections.quantities import Count, CountOrNone, MoneyText, Names, PriceText, Share
from ullage.files.sections.section import Key, Name, Section
from ullage.files.strict_yaml import read_yaml
from ullage.planning.portfolio.limits import PortfolioLimits, RegionLimits, ServiceTerms, SharedCommitment
from ullage.units import Money, amount_per

_USD = "USD"


class SharedRegionSection(Section):
    """A region, and what all services together may have in it."""

    name: Annotated[Name, Key(means="As the provider calls it.")]
    quotas: Annotated[
        dict[str, CountOrNone], Field(default_factory=dict), Key(means="Devices by name.", default="not limited")
    ]
    nodes: Annotated[
        dict[str, CountOrNone], Field(default_factory=dict), Key(means="Nodes by device.", default="not limited")
    ]


class CommittedSection(Section):
    """Devices that are paid whether they are used or not."""

    device: Annotated[str, Key(means="A name in the catalogue.")]
    region: Annotated[Name, Key(means="The region they are in.")]
    devices: Annotated[Count, Key(means="How many devices.")]
    price: Annotated[PriceText, Key(means="Of one device, by the hour.")]


class ServiceTermsSection(Section):
    """What is known of one service beside its plan."""

    name: Annotated[Name, Key(means="The service of a plan file.")]
    shortfall: Annotated[MoneyText | None, Key(means="Cost of a request that is not served.", default="as below")] = (
        None
    )
    regions: Annotated[Names, Key(means="Regions it may run in.", default="all")] = ()
    least: Annotated[Share | None, Key(means="The share of its replicas that is never dropped.", default="none")] = None


class PortfolioFile(Section):
    """All of it; every key may be left out but the version."""

    version: Literal["1"]
    portfolio: Annotated[str, Key(means="Its name.")] = "portfolio"
    dated: Annotated[datetime.date | None, Key(means="When it was written.", default="not dated")] = None
    regions: tuple[SharedRegionSection, ...] = ()
    budget: Annotated[MoneyText | None, Key(means="Monthly budget for devices.", default="not limited")] = None
    commitments: tuple[CommittedSection, ...] = ()
    shortfall: Annotated[
        MoneyText | None, Key(means="Cost of a request that is not served.", default="the same for all services")
    ] = None
    services: tuple[ServiceTermsSection, ...] = ()


def read_portfolio_file(text: str, *, file: str) -> PortfolioLimits:
    """The limits; the first fault is an InputError with its line."""
    document = read_yaml(text, file=file)
    read = read_sections(document, PortfolioFile)
    regions = [each.name for each in read.regions]
    for name in regions:
        if regions.count(name) > 1:
            raise InputError(field=f"{file}: regions", value=name, problem="appears twice", fix="Use each name once.")
    named: list[tuple[str, tuple[str, ...]]] = [
        (f"commitments.{at}.region", (each.region,)) for at, each in enumerate(read.commitments)
    ]
    named += [(f"services.{each.name}.regions", each.regions) for each in read.services]
    for field, names in named:
        for name in names:
            check_name(name, regions, field=f"{file}: {field}")
    return PortfolioLimits(
        name=read.portfolio,
        regions=tuple(
            RegionLimits(
                name=each.name,
                quota_devices={_device(name, file): count for name, count in each.quotas.items()},
                most_nodes={_device(name, file): count for name, count in each.nodes.items()},
            )
            for each in read.regions
        ),
        budget_usd=_usd(read.budget, f"{file}: budget"),
        commitments=tuple(
            SharedCommitment(
                device=_device(each.device, file),
                region=each.region,
                devices=each.devices,
                usd_per_hour=_per_hour(each.price, f"{file}: commitments.{at}.price"),
            )
            for at, each in enumerate(read.commitments)
        ),
        shortfall_usd=_usd(read.shortfall, f"{file}: shortfall"),
        services={
            each.name: ServiceTerms(
                shortfall_usd=_usd(each.shortfall, f"{file}: services.{each.name}.shortfall"),
                regions=each.regions,
                least_fraction=each.least or 0.0,
            )
            for each in read.services
        },
    )


def _device(name: str, file: str) -> str:
    return find_device(name, field=f"{file}: device").name


def _usd(money: Money | None, field: str) -> float | None:
    if money is not None and money.currency != _USD:
        raise InputError(field=field, value=str(money), problem="is not in USD", fix="Give what it comes to in USD.")
    return None if money is None else float(money.amount)


def _per_hour(price: PriceText, field: str) -> float:
    _usd(price.money, field)
    return amount_per(price, "h", field=field)
