"""The `scaling` section of a plan file: what the platform lets a rule do, and how signals reach it."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

from ullage.evidence import Assumption, Evidence, Source, number
from ullage.scaling.signals import SignalTerms
from ullage.scaling.supply import CapacityLimits

_WRITTEN = datetime.date(2026, 11, 16)


def _default(name: str, value: int | float, unit: str, reason: str) -> Assumption:
    return Assumption(
        name=f"scaling.{name}",
        value=value,
        unit=unit,
        evidence=Evidence.ASSUMED,
        source=Source(what=f"default of Ullage: {reason}", where="docs/explanation/scaling.md", date=_WRITTEN),
        decision=True,
    )


COOLDOWN = _default("cooldown", 0.0, "s", "HPA and KEDA stabilise by windows, not after every change")
REFUSED = _default("refused", 0.0, "fraction", "capacity is available when requested, unless stated otherwise")
REFUSED_WAIT = _default("refused_wait", 300.0, "s", "node autoscalers back off for about five minutes")
NODE_HELD = _default("node_held", 600.0, "s", "node autoscalers release an empty node after ten minutes")
SCRAPE = _default("scrape", 15.0, "s", "the scrape interval of Prometheus Operator's examples and of KEDA's")
MACHINES = Assumption(
    name="scaling.machines",
    value="held",
    unit="",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="default of Ullage: released accelerators may not be available tomorrow",
        where="docs/explanation/scaling.md",
        date=_WRITTEN,
    ),
    decision=True,
)
SLEEPER_COST = _default(
    "sleeper_cost", 1.0, "fraction", "a device that holds a sleeping engine serves nothing else unless stated"
)
DELAY = _default("delay", 5.0, "s", "an adapter's query and its cache")


@dataclass(frozen=True, kw_only=True)
class ScalingSettings:
    """Limits and delays; those without a default are None where nobody states them."""

    cooldown: Assumption = COOLDOWN
    refused: Assumption = REFUSED
    refused_wait: Assumption = REFUSED_WAIT
    node_held: Assumption = NODE_HELD
    scrape: Assumption = SCRAPE
    delay: Assumption = DELAY
    sleeper_cost: Assumption = SLEEPER_COST
    machines: Assumption = MACHINES
    least: Assumption | None = None
    most: Assumption | None = None
    step: Assumption | None = None
    nodes_per_minute: Assumption | None = None
    sleepers: Assumption | None = None
    threshold: Assumption | None = None
    down_window: Assumption | None = None
    window: Assumption | None = None
    floor: Assumption | None = None

    @property
    def stated(self) -> tuple[Assumption, ...]:
        """Stated values, beside our defaults."""
        defaults = {each.name: each.default for each in fields(self)}
        return tuple(each for name, each in self._named() if each is not None and each != defaults[name])

    def _named(self) -> Iterator[tuple[str, Assumption | None]]:
        for each in fields(self):
            yield each.name, getattr(self, each.name)

    def limits(self, *, node_replicas: int) -> CapacityLimits:
        """As the loop reads them; `node_replicas` fit on one machine."""

        def whole(given: Assumption | None) -> int:
            return 0 if given is None else int(number(given))

        return CapacityLimits(
            least_replicas=max(1, whole(self.least)),
            most_replicas=whole(self.most),
            step_replicas=whole(self.step),
            cooldown_s=number(self.cooldown),
            nodes_per_minute=math.inf if self.nodes_per_minute is None else number(self.nodes_per_minute),
            refused_fraction=number(self.refused),
            refused_s=number(self.refused_wait),
            sleepers=whole(self.sleepers),
            sleeper_fraction=number(self.sleeper_cost),
            node_replicas=node_replicas,
            node_held_s=number(self.node_held),
        )

    @property
    def stated_names(self) -> frozenset[str]:
        """Bounds and warm levels that are stated, and so not searched."""
        return frozenset(each.name.removeprefix("scaling.") for each in self.stated)

    @property
    def releases_machines(self) -> bool:
        """Whether machines that a rule empties are released, so that the bill follows it."""
        return self.machines.value == "released"

    @property
    def signals(self) -> SignalTerms:
        return SignalTerms(scrape_s=number(self.scrape), delay_s=number(self.delay))
