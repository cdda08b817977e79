"""Prefill and decode apart, in the terminal: every split of the devices beside colocated replicas."""

from __future__ import annotations

from typing import Protocol

from rich.console import RenderableType
from rich.text import Text

from ullage.report.service.curve_page import size_page
from ullage.report.tables import plain_table
from ullage.service.comparison import Arrangement
from ullage.service.curve.sizing import PoolSize
from ullage.units import brief_number


class SplitSimulation(Protocol):
    """What was simulated on what, and every arrangement that was tried."""

    @property
    def replica(self) -> str: ...
    @property
    def prefill_replica(self) -> str: ...
    @property
    def traffic(self) -> str: ...
    @property
    def devices(self) -> int: ...
    @property
    def transfer_bytes_per_token(self) -> float: ...
    @property
    def transfer_bytes_per_s(self) -> float: ...
    @property
    def asked(self) -> Arrangement: ...
    @property
    def others(self) -> tuple[Arrangement, ...]: ...
    @property
    def together(self) -> Arrangement | None: ...
    @property
    def best(self) -> Arrangement: ...
    @property
    def notes(self) -> tuple[str, ...]: ...


def split_page(found: SplitSimulation) -> list[RenderableType]:
    table = plain_table(
        f"Arrangements of {found.devices} devices",
        "",
        "ttft p50",
        "ttft p95",
        "tpot p50",
        "tpot p95",
        "e2e p95",
        "good",
        "prefill busy",
        "decode busy",
        "is",
    )
    rows = [found.asked, *found.others, *(() if found.together is None else (found.together,))]
    for each in rows:
        table.add_row(*_row(each), _remark(each, found))
    sent = (
        f"A prompt token's KV is {brief_number(found.transfer_bytes_per_token / 1e3)} kB, sent at "
        f"{brief_number(found.transfer_bytes_per_s / 1e9)} GB/s between two replicas."
    )
    return [
        Text(f"decode: {found.replica}; prefill: {found.prefill_replica}", style="bold"),
        Text(found.traffic),
        Text(sent),
        "",
        table,
        *(Text(note) for note in found.notes),
    ]


def _row(each: Arrangement) -> tuple[str, ...]:
    times = (each.ttft_p50_s, each.ttft_p95_s, each.tpot_p50_s, each.tpot_p95_s)
    return (
        each.name,
        *(f"{brief_number(value * 1e3)} ms" for value in times),
        f"{brief_number(each.e2e_p95_s)} s",
        f"{each.good_fraction:.1%}" if each.has_limits else "",
        f"{each.prefill_busy_fraction:.0%}",
        f"{each.decode_busy_fraction:.0%}",
    )


def _remark(each: Arrangement, found: SplitSimulation) -> str:
    words = ["requested"] if each is found.asked else []
    words += ["the best split"] if each == found.best and each.has_limits else []
    return ", ".join(words)


class SizedSides(Protocol):
    """The sizes of both sides of a pool, and what they do together."""

    @property
    def prefill_replica(self) -> str: ...
    @property
    def decode_replica(self) -> str: ...
    @property
    def prefill(self) -> PoolSize: ...
    @property
    def decode(self) -> PoolSize: ...
    @property
    def transfer_p95_s(self) -> float: ...
    @property
    def is_rate_stated(self) -> bool: ...
    @property
    def verdict(self) -> str: ...


def sized_page(found: SizedSides) -> list[RenderableType]:
    """Both sizes, each as that of any pool, under what they do together."""
    rate_from = "as stated" if found.is_rate_stated else "the plan's planning rate"
    sent = f"KV transfer takes {brief_number(1000.0 * found.transfer_p95_s)} ms (p95)."
    return [
        Text(f"{found.verdict} {sent}", style="bold"),
        "",
        *size_page(found.prefill, title=found.prefill_replica, rate_from=rate_from),
        "",
        *size_page(found.decode, title=found.decode_replica, rate_from=rate_from),
    ]
