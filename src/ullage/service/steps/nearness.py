"""The nearest published configurations of a replica, and what they say about its estimate.

    exact    this model, precision, device, engine and tensor parallelism: its factors correct the estimate
    sibling  this model on this device and engine, at another precision or parallelism
    family   this model on another device or engine
    none     this model was not published: it is new, or its device's generation or vendor is

The estimate of a sibling or of a family is left as it is: pulled towards its neighbours it came no nearer to what was
measured of others (bench/nearness.py). Its band is narrower than that of an unmeasured model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ullage.facts.model import Model, MoeFeedForward
from ullage.facts.published import PublishedFit, published_fits
from ullage.memory.sharding import Sharding
from ullage.service.steps.scaled import PARAMETERS, Factors

EXACT, SIBLING, FAMILY = "exact", "sibling", "family"
# How far the factors of a published configuration are taken over, as a share of their logarithm: by leaving its mixes
# of lengths out. What lies outside the engine differs from one server to the next.
PULLED_FRACTIONS: Mapping[str, float] = {"fixed": 0.9, "sequences": 0.9, "kv": 0.9, "prefill": 0.9, "request": 0.4}
_PRECISIONS = {"fp4": 4, "fp8": 8, "bf16": 16}


@dataclass(frozen=True, kw_only=True)
class Nearness:
    """How near the nearest published configuration is, and which ones they are; `kind` is None where there is none."""

    kind: str | None
    fits: tuple[PublishedFit, ...] = ()

    @property
    def factors(self) -> Factors:
        """The correction of the estimate by an exact neighbour; 1 for anything further away."""
        if self.kind != EXACT:
            return Factors()
        return Factors(**{f"{name}_ratio": self.fits[0].ratios[name] ** PULLED_FRACTIONS[name] for name in PARAMETERS})

    @property
    def notes(self) -> tuple[str, ...]:
        if self.kind is None:
            return ()
        shown = "; ".join(f"{each.name} ({each.points} points)" for each in self.fits[:3])
        more = f" and {len(self.fits) - 3} more" if len(self.fits) > 3 else ""
        how = {
            EXACT: "This exact configuration was published, and corrects the estimate",
            SIBLING: "This model was published on this device and engine, at another precision or parallelism",
            FAMILY: "This model was published on other devices or engines",
        }[self.kind]
        return (f"{how}: {shown}{more}. The band is that of such estimates.",)


def nearness(model: Model, *, device: str, engine: str, sharding: Sharding) -> Nearness:
    """The nearest class that has a published configuration, and all configurations of that class."""
    shape = (model.architecture, model.layer_count, model.hidden_channels)
    same = [each for each in published_fits() if (each.architecture, each.layers, each.hidden_channels) == shape]
    here = [each for each in same if (each.device, each.engine) == (device, engine)]
    bits = _routed_bits(model)
    own = [each for each in here if _PRECISIONS.get(each.precision) == bits and each.tp == sharding.tp]
    is_plain = sharding.pp == 1 and sharding.dp_attention == 1
    for kind, found in ((EXACT, own if is_plain else []), (SIBLING, here), (FAMILY, same)):
        if found:
            return Nearness(kind=kind, fits=tuple(sorted(found, key=lambda each: -each.points)))
    return Nearness(kind=None)


def _routed_bits(model: Model) -> int:
    """The width of the matrices that most weights are in."""
    group = max(model.layers, key=lambda each: each.layers)
    formats = group.layer.formats
    chosen = formats.routed if isinstance(group.layer.feed_forward, MoeFeedForward) else formats.dense
    return round(chosen.weight_bits)
