"""Compiled code that is kept on disk: a cache that cannot be read or written costs time, and is no reason to fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


def forgive_cache(compiled: Any) -> None:
    """Let a damaged cache of this compiled function be begun anew.

    numba has one place for faults of its cache, and forgives there what Windows does to files alone.
    """
    cache = getattr(compiled, "_cache", None)
    if cache is None:
        return

    @contextmanager
    def forgiven() -> Iterator[None]:
        try:
            yield
        except Exception:  # noqa: BLE001 - a damaged file may raise anything as it is unpickled
            with suppress(Exception):
                cache.flush()

    cache._guard_against_spurious_io_errors = forgiven  # noqa: SLF001
