"""A pool's caches beyond the device: host memory, and the time between two turns; keys that contradict are refused."""

from __future__ import annotations

from ullage.errors import InputError, check_name
from ullage.files.sections.pool import PoolSection
from ullage.memory.settings import OFF, STATED, HostCache
from ullage.simulate.fleet import BETWEEN_TURNS


def host_cache(pool: PoolSection) -> HostCache | None:
    """The second tier of the prefix cache, which needs a first one that is simulated."""
    given = pool.host_cache
    if given is None:
        return None
    if pool.prefix_cache in (STATED, OFF):
        raise InputError(
            field="pool.prefix_cache",
            value=pool.prefix_cache,
            problem="leaves no cache to simulate, but pool.host_cache is a tier of one",
            fix="Give simulated, or leave pool.prefix_cache or pool.host_cache out.",
        )
    return HostCache(size_bytes=given.bytes, bandwidth_bytes_per_s=given.bandwidth)


def between_turns(pool: PoolSection) -> str | None:
    """What becomes of the KV of a session between two turns, where the pool's caches allow it."""
    given = pool.between_turns
    if given is None:
        return None
    check_name(given, BETWEEN_TURNS, field="pool.between_turns")
    if pool.disaggregated is not None:
        raise InputError(
            field="pool.between_turns",
            value=given,
            problem="is not simulated where prefill and decode are disaggregated",
            fix="Leave pool.between_turns or pool.disaggregated out.",
        )
    if pool.prefix_cache in (STATED, OFF) and given != "cached":
        raise InputError(
            field="pool.between_turns",
            value=given,
            problem=f"applies to simulated caches, but pool.prefix_cache is {pool.prefix_cache}",
            fix="Leave pool.prefix_cache out, or give simulated.",
        )
    if given == "offloaded" and pool.host_cache is None:
        raise InputError(
            field="pool.between_turns",
            value=given,
            problem="sends KV to host memory, but pool.host_cache is not given",
            fix="Give pool.host_cache: {bytes: 200GB, bandwidth: 25GB/s}, or dropped.",
        )
    return given
