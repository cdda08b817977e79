"""Routers that options try: what they are compared with."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ullage.load.plan import load_plan
from ullage.planning.options.caches import cache_changes
from ullage.planning.options.candidates import candidates_of

DAY = datetime.date(2026, 11, 15)
POOL: dict[str, Any] = {"model": "llama-3.1-8b", "device": "h100-sxm"}


@pytest.mark.parametrize(
    ("stated", "tried"),
    [
        ({}, ["prefix-aware routing"]),
        ({"prefix_cache": "simulated"}, ["prefix-aware routing"]),
        ({"prefix_cache": "off"}, []),
        ({"router": "prefix_aware"}, []),
    ],
)
def test_a_router_by_prefixes_is_compared_with_caches_that_are_simulated_too(
    stated: dict[str, str], tried: list[str]
) -> None:
    """Hits as stated cost nothing to find, whatever the router; beside them no router could ever pay."""
    spec = load_plan(
        {
            "version": 1,
            "service": "routed",
            "workload": {
                "classes": [{"name": "chat", "rate": "4 req/s", "longest_context": 8192, "slo": {"ttft_p95": "1s"}}]
            },
            "pool": {**POOL, **stated},
            "options": {"devices": ["h100-sxm"], "tensor_parallel": [1]},
        },
        as_of=DAY,
    )
    found = cache_changes(spec.pool.settings)
    assert list(found) == tried
    assert {(each.router, each.prefix_cache) for each in found.values()} <= {("prefix_aware", "simulated")}
    ranked = candidates_of(spec.pool, spec.options, book=None, buying=spec.buying)
    assert [each.is_own for each in ranked] == [True]
