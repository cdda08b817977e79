"""Claims made about a service elsewhere: on a slide, in a spreadsheet, in an autoscaler's settings.

A plan is not made from claims, so they are not among its inputs. `ullage check` compares each with the plan.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from ullage.evidence import Assumption


@dataclass(frozen=True, kw_only=True)
class CostClaim:
    """The claimed cost of a success, and what was stated beside it; a part that was not stated is empty."""

    per_success: Assumption
    dated: datetime.date | None = None
    region: str = ""
    model: str = ""
    success: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """Without these a cost is meaningless: whether it still applies, and to what, is unknown."""
        stated = {
            "date": self.dated is not None,
            "region": bool(self.region),
            "model": bool(self.model),
            "success": bool(self.success),
        }
        return tuple(name for name, is_stated in stated.items() if not is_stated)


@dataclass(frozen=True, kw_only=True)
class Claims:
    """Claims about the pool called `pool` (the first where it is empty); what is not claimed is None.

    `replicas` is the number to buy; `capacity` the requests a second that a replica is claimed to take;
    `concurrency` the longest requests it is claimed to hold at once; `scale_up` how fast a replica is claimed to be
    there; `least_replicas` an autoscaler's minimum; `attribution` the rule by which shared devices are divided.
    """

    pool: str = ""
    replicas: Assumption | None = None
    capacity: Assumption | None = None
    concurrency: Assumption | None = None
    scale_up: Assumption | None = None
    least_replicas: Assumption | None = None
    attribution: Assumption | None = None
    cost: CostClaim | None = None


def claimed(given: Assumption | None) -> float | None:
    """The number that is claimed, where one is."""
    return None if given is None or isinstance(given.value, str) else float(given.value)
