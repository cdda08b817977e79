"""The page of the limits: all that must be set somewhere stands on it, and bars are as long as what they show."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from support.admission_pools import limits, limits_under, policy, stated
from ullage.admission.bursts import LENGTHS_S
from ullage.admission.limits import AdmissionLimits
from ullage.admission.policy import Tenant
from ullage.report.plan.admission import admission_parts


def printed(answer: AdmissionLimits) -> str:
    console = Console(file=io.StringIO(), width=160, color_system=None)
    for part in admission_parts(answer):
        console.print(part)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_every_limit_class_step_and_note_is_printed() -> None:
    found, page = limits(), printed(limits())
    for line in found.lines:
        assert line.name in page
        assert line.why in page
    for step in found.shed:
        assert step.what in page
    for note in found.notes:
        assert note.split(",")[0] in page.replace("\n", " ")
    assert found.backpressure.metric in page
    assert f"Retry-After {found.backpressure.retry_after_s} s" in page
    assert "tenant" not in page.partition("Shed in this order")[0]


@pytest.mark.slow
def test_tenants_have_a_table_where_there_are_some() -> None:
    both = tuple(
        Tenant(name=name, share=stated("s", share), weight=stated("w", 1.0), most=stated("m", 1.0))
        for name, share in (("acme", 0.6), ("beta", 0.4))
    )
    found = limits_under(policy(tenants=both))
    assert isinstance(found, AdmissionLimits)
    page = printed(found)
    assert "Rates by tenant" in page
    assert "acme" in page
    assert "a tenant above its share" in page


@pytest.mark.parametrize("replicas", [1, 8])
def test_bars_are_as_long_as_the_highest_burst(replicas: int) -> None:
    """Without room for a burst there is no bar, and the table says none."""
    found = limits(replicas)
    lines = printed(found).partition("Burst budget")[2].partition("\nlength")[2].splitlines()
    rows = lines[1 : 1 + len(LENGTHS_S)]
    lengths = [sum(row.count(mark) for mark in "█▓▒░") for row in rows]
    heights = [max(p.height_ratio for p in found.bursts if p.length_s == length_s) for length_s in LENGTHS_S]
    assert lengths == sorted(lengths, reverse=True)
    assert [bar == 0 for bar in lengths] == [height <= 1.1 for height in heights]
    assert ("none" in rows[0]) == (replicas == 1)


def test_an_slo_that_is_missed_in_spite_of_limits_is_named() -> None:
    found = limits()
    broken = replace(found.checks[0], is_kept=False)
    assert broken.is_missed_with_limits
    assert not replace(found.checks[-1], is_kept=False).is_missed_with_limits
