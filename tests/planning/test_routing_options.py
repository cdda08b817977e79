"""Routers that options try: what they are compared with."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ullage.load.plan import load_plan
from ullage.planning.options.candidates import candidates_of

DAY = datetime.date(2026, 11, 15)
HOST = "host cache of 200 GB"
POOL: dict[str, Any] = {"model": "llama-3.1-8b", "device": "h100-sxm"}


@pytest.mark.parametrize(
    ("stated", "tried"),
    [
        ({}, ["simulated caches", "prefix-aware routing", HOST]),
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
    found = candidates_of(spec.pool, spec.options, book=None, buying=spec.buying, reuses=True)
    assert [each.name.split(", ")[-1] for each in found[1:]] == tried
    caches = {each.pool.settings.prefix_cache for each in found[1:] if "caches" in each.name}
    assert caches <= {"simulated"}
    tiers = {each.pool.settings.host_cache.size_bytes for each in found if each.pool.settings.host_cache is not None}
    assert tiers == ({50 * 10**9} if "host_cache" in stated else {200 * 10**9} if tried else set())
    assert all(each.pool.settings.simulates_prefixes for each in found[1:])
    routers = {each.pool.settings.router for each in found[1:] if "routing" in each.name}
    assert routers <= {"prefix_aware"}
