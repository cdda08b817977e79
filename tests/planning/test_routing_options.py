"""Routers that options try: what they are compared with."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ullage.load.plan import load_plan
from ullage.planning.options.caches import cache_changes
from ullage.planning.options.candidates import candidates_of

DAY = datetime.date(2026, 11, 15)
HOST = "host cache of 200 GB per replica"
POOL: dict[str, Any] = {"model": "llama-3.1-8b", "device": "h100-sxm"}


@pytest.mark.parametrize(
    ("stated", "tried"),
    [
        ({}, ["prefix-aware routing", HOST]),
        ({"prefix_cache": "simulated"}, ["prefix-aware routing", HOST]),
        ({"prefix_cache": "off"}, []),
        ({"router": "prefix_aware"}, [HOST]),
        ({"host_cache": {"bytes": "50GB", "bandwidth": "25GB/s"}}, ["prefix-aware routing"]),
    ],
)
def test_what_finds_more_prefixes_is_compared_with_caches_that_are_simulated_too(
    stated: dict[str, Any], tried: list[str]
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
    assert all(each.simulates_prefixes for each, _ in found.values())
    tiers = {each.host_cache.size_bytes for each, _ in found.values() if each.host_cache is not None}
    assert tiers == ({50 * 10**9} if "host_cache" in stated else {200 * 10**9} if tried else set())
    ranked = candidates_of(spec.pool, spec.options, book=None, buying=spec.buying)
    assert [each.is_own for each in ranked] == [True]
