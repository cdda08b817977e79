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
from ullage.files.sections.quantities import Share
from ullage.files.sections.section import Name, Section
from ullage.fleet.sites import Region, Sites, Zone

QUOTA_AGE = datetime.timedelta(days=30)
"""A quota is asked for again after a month: providers change them without notice."""

_Devices = Annotated[int, Field(ge=0)]
_Quotas = Annotated[
    dict[str, _Devices], Field(default_factory=dict, description="Devices allowed here, by the device's name.")
]


class ZoneSection(Section):
    """A part of a region that fails by itself."""

    name: Name
    quotas: _Quotas


class RegionSection(Section):
    """A region, its part of the traffic, and its zones."""

    name: Name
    share: Annotated[Share | None, Field(description="Its part of the traffic; by its zones where none is given.")] = (
        None
    )
    quotas: _Quotas
    zones: Annotated[tuple[ZoneSection, ...], Field(min_length=1)]


class SitesSection(Section):
    """Where replicas may stand. A device that no quota names is not limited here, and the plan says so."""

    source: Annotated[str | None, Field(description="Where the quotas were read, such as a provider's console.")] = None
    dated: Annotated[datetime.date | None, Field(description="When they were read; their age counts from here.")] = None
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
                share=None
                if region.share is None
                else provenance.says(f"sites.{region.name}.share", region.share, "fraction", 1.0),
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
        said = self._provenance.says(f"sites.{place}.{self._device}.quota", devices, "devices", 0)
        return replace(said, source=self._source, max_age=QUOTA_AGE)
