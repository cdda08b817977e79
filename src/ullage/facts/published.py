"""What published configurations measured, as factors on the estimate of the same configuration.

    published/<source>.toml   [source], and one [[fits]] for each model, precision, device, engine and parallelism

Written by one command (`python -m bench.nearness`) from published measurements.
"""

from __future__ import annotations

import datetime
import functools
import importlib.resources
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

from ullage.evidence import Source


@dataclass(frozen=True, kw_only=True)
class PublishedFit:
    """One configuration: what it is known by, how many points were published, and its factors by name."""

    family: str
    architecture: str
    layers: int
    hidden_channels: int
    precision: str
    device: str
    engine: str
    tp: int
    points: int
    ratios: Mapping[str, float]
    source: Source

    @property
    def name(self) -> str:
        return f"{self.family} {self.precision} on {self.tp} x {self.device}, {self.engine}"


@functools.cache
def published_fits() -> tuple[PublishedFit, ...]:
    """The fits that come with ullage."""
    folder = importlib.resources.files("ullage.facts") / "published"
    found: list[PublishedFit] = []
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        if file.name.endswith(".toml"):
            content = tomllib.loads(file.read_text(encoding="utf-8"))
            source = content["source"]
            day: datetime.date = source["date"]
            said = Source(what=source["what"], where=source["where"], date=day)
            for row in content["fits"]:
                ratios = {name.removesuffix("_ratio"): float(row[name]) for name in row if name.endswith("_ratio")}
                rest = {name: value for name, value in row.items() if not name.endswith("_ratio")}
                found.append(PublishedFit(**rest, ratios=ratios, source=said))
    return tuple(found)
