"""Every line a bill can have: one pure function each, listed by hand.

To add one: write the function in `device_lines.py` or `service_lines.py`, give its name a row in `TAGS`
(`line_making.py`), list it here and in docs/explanation/cost.md. tests/cost/test_bill.py meets you with the laws.
"""

from __future__ import annotations

from collections.abc import Callable

from ullage.cost.lines import device_lines, service_lines
from ullage.cost.lines.line import BillLine
from ullage.cost.policy import CostPolicy
from ullage.cost.quotes import Quotes
from ullage.cost.service_use import ServiceUse

LineFunction = Callable[[ServiceUse, Quotes, CostPolicy], tuple[BillLine, ...]]

COST_LINES: dict[str, LineFunction] = {
    "compute_reservation": device_lines.compute_reservation,
    "compute_usage": device_lines.compute_usage,
    "idle_hours": device_lines.idle_hours,
    "idle_reserve": device_lines.idle_reserve,
    "stranded_devices": device_lines.stranded_devices,
    "failed_work": device_lines.failed_work,
    "storage": service_lines.storage,
    "network": service_lines.network,
    "provider_tokens": service_lines.provider_tokens,
    "tool_apis": service_lines.tool_apis,
    "observability": service_lines.observability,
    "evaluation": service_lines.evaluation,
    "engineering": service_lines.engineering,
}


def bill_lines(use: ServiceUse, quotes: Quotes, policy: CostPolicy) -> tuple[BillLine, ...]:
    """All lines in the order of the table."""
    return tuple(line for function in COST_LINES.values() for line in function(use, quotes, policy))
