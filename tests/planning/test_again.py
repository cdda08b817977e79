"""A plan asked for again with one thing changed: nothing that goes by what a cache holds is left without one."""

from __future__ import annotations

import datetime

from support.planned import SMALL
from ullage.load.plan import load_plan
from ullage.memory.settings import OFF
from ullage.planning.again import with_no_prefix_cache


def test_without_prefix_caches_nothing_goes_by_what_they_hold() -> None:
    pool = {**SMALL["pool"], "router": "prefix_aware", "between_turns": "kept"}
    spec = load_plan({**SMALL, "pool": pool}, as_of=datetime.date(2026, 11, 15), seed=0)
    (before,), (after,) = ([each.settings for each in one.pools] for one in (spec, with_no_prefix_cache(spec)))
    assert before.simulates_prefixes
    assert (after.prefix_cache, after.router, after.host_cache, after.between_turns) == (OFF, None, None, "cached")
    other = {**SMALL["pool"], "router": "round_robin"}
    spec = load_plan({**SMALL, "pool": other}, as_of=datetime.date(2026, 11, 15), seed=0)
    (after,) = (each.settings for each in with_no_prefix_cache(spec).pools)
    assert (after.prefix_cache, after.router, after.between_turns) == (OFF, "round_robin", None)
    assert not after.simulates_prefixes
