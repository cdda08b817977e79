"""One reserve as one line: how many replicas, by which rule, and what they protect."""

from __future__ import annotations

from dataclasses import dataclass

from ullage.evidence import Evidence, Figure

NAMES = ("failure", "rollout", "maintenance", "warm", "region", "utilisation")
"""The reserves there are, in the order in which they are printed."""


@dataclass(frozen=True, kw_only=True)
class ReserveLine:
    """A named reserve on top of the steady fleet.

    `serving_replicas` of it stand behind the router all the time and take their share of the traffic; the rest are
    devices kept free, on which replicas start when they are needed.
    """

    name: str
    replicas: int
    devices: int
    serving_replicas: int
    rule: str
    protects: str
    figure: Figure

    @property
    def evidence(self) -> Evidence:
        return self.figure.evidence
