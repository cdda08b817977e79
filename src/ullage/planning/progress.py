"""Progress of a plan: the share done and the next stage."""

from __future__ import annotations

from collections.abc import Callable

Report = Callable[[float, str], None]


def unheard(fraction: float, stage: str) -> None:
    """No progress is reported."""


def part_of(report: Report, index: int, count: int, name: str) -> Report:
    """The report of one pool among several, as a part of the whole."""

    def part(fraction: float, stage: str) -> None:
        report((index + fraction) / count, f"{name}: {stage}" if count > 1 else stage)

    return part
