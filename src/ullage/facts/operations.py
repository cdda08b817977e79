"""Operations: how often devices, nodes and zones fail, and how long until they serve again.

One sheet, `published.toml`; a user's own records lie over it value by value, from a folder `operations` of their facts.
"""

from __future__ import annotations

import datetime
import functools

from ullage.evidence import Assumption
from ullage.facts.catalogue import Catalogue, packaged
from ullage.facts.sheet import Field, SheetKind

# Failure rates follow generations of hardware, which last two years.
_MAX_AGE = datetime.timedelta(days=1095)
SHEET = "published"


def _rate(meaning: str) -> Field:
    return Field(unit="1/year", meaning=meaning, required=True, max_age=_MAX_AGE)


def _time(meaning: str) -> Field:
    return Field(unit="s", meaning=meaning, required=True, max_age=_MAX_AGE)


OPERATIONS = SheetKind(
    noun="operations sheet",
    folder="operations",
    howto="docs/explanation/reserves.md",
    texts={"title": True},
    listed={"title": ""},
    fields={
        "device_failures": _rate("failures of one device that take its replica down"),
        "node_failures": _rate("failures of one node that are laid to none of its devices"),
        "zone_failures": _rate("failures of a whole zone"),
        "device_repair": _time("mean time until a failed device serves again"),
        "node_repair": _time("mean time until a failed node serves again"),
        "zone_repair": _time("mean time until a failed zone serves again"),
    },
)


@functools.cache
def operations() -> Catalogue:
    """The operations sheets that come with ullage."""
    return packaged(OPERATIONS)


def operation_facts(catalogue: Catalogue | None = None) -> dict[str, Assumption]:
    """The published rates, with a user's over them."""
    return dict((operations() if catalogue is None else catalogue).find(SHEET).values)
