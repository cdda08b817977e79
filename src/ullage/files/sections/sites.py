"""`sites:` of a plan file: regions, zones and the devices that a provider allows in them, with source and date."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from ullage.errors import InputError
from ullage.evidence import Assumption, Source
from ullage.files.sections.provenance import Provenance
from ullage.files.sections.quantities import CountOrNone, Range, Share
from ullage.files.sections.section import Key, Name, Section
from ullage.fleet.sites import Region, Sites, Zone

QUOTA_AGE = datetime.timedelta(days=30)
"""A quota is asked for again after a month: providers change them without notice."""

_Quotas = Annotated[
    dict[str, CountOrNone],
    Field(default_factory=dict),
    Key(means="Devices allowed here, by the device's name.", default="not limited", moves="placement.*.replicas"),
]


class ZoneSection(Section):
    """A part of a region that fails by itself."""

    name: Annotated[Name, Key(means="As the provider calls it.", still="It is a label in the names of placements.")]
    quotas: _Quotas


class RegionSection(Section):
    """A region, its part of the traffic, and its zones."""

    name: Annotated[Name, Key(means="As the provider calls it.", still="It is a label in the list of quotas.")]
    share: Annotated[
        Share | None,
        Key(means="Its share of the traffic.", default="by its zones", moves="placement.*"),
    ] = None
    hours_later: Annotated[
        CountOrNone | None,
        Range(least=0, most=23),
        Key(
            means="How many hours later its users' day begins than in the first region, such as 9.",
            default="all regions are busy at once",
            still="It shows what following the sun would save; the fleet is sized for regions that peak at once.",
        ),
    ] = None
    quotas: _Quotas
    zones: Annotated[tuple[ZoneSection, ...], Field(min_length=1)]


class SitesSection(Section):
    """Where replicas may stand. A device that no quota names is not limited here, and the plan says so."""

    source: Annotated[
        str | None,
        Key(
            means="Where the quotas were read, such as a provider's console.",
            default="this file",
            still="It is printed as the source of the quotas.",
        ),
    ] = None
    dated: Annotated[
        datetime.date | None,
        Key(
            means="When they were read; their age counts from here.",
            default="the date of the file",
            still="It dates the quotas: the check of stale assumptions follows it, and no figure does.",
        ),
    ] = None
    regions: Annotated[tuple[RegionSection, ...], Field(min_length=1)]


def sites_of(section: SitesSection, device: str, provenance: Provenance) -> Sites:
    """The sites as they are for one device."""
    _check_shares(section)
    said = _QuotaProvenance(section, device, provenance)
    return Sites(
        regions=tuple(
            Region(
                name=region.name,
                zones=tuple(
                    Zone(name=zone.name, quota=said.quota(f"{region.name}.{zone.name}", zone.quotas))
                    for zone in region.zones
                ),
                quota=said.quota(region.name, region.quotas),
                share=provenance.may_say(f"sites.{region.name}.share", region.share, "fraction"),
                later=provenance.may_say(f"sites.{region.name}.hours_later", region.hours_later, "h"),
            )
            for region in section.regions
        )
    )


def _check_shares(section: SitesSection) -> None:
    """Parts of one whole are written as such: 60% and 60% is a slip, not a proportion."""
    shares = {region.name: region.share for region in section.regions if region.share is not None}
    total = sum(shares.values())
    if len(shares) == len(section.regions) and abs(total - 1.0) > 1e-3:
        raise InputError(
            field="sites.regions.share",
            value=shares,
            problem=f"the shares sum to {total:.4g}, not to 1",
            fix="Give parts of the traffic that sum to 100%, or leave them all out.",
        )


class _QuotaProvenance:
    """Quotas of one device, with the source that they were read from."""

    def __init__(self, section: SitesSection, device: str, provenance: Provenance) -> None:
        self._device, self._provenance = device, provenance
        self._source = Source(
            what=section.source or provenance.source.what,
            where=provenance.source.where,
            date=section.dated or provenance.source.date,
        )

    def quota(self, place: str, quotas: Mapping[str, int]) -> Assumption | None:
        devices = quotas.get(self._device)
        if devices is None:
            return None
        name, known = f"sites.{place}.{self._device}.quota", self._provenance
        said = Assumption(name=name, value=devices, unit="devices", evidence=known.evidence, source=self._source)
        return replace(said, max_age=QUOTA_AGE) if known.as_of is None else said.aged(QUOTA_AGE, known.as_of)
