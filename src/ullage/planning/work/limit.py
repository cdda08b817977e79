"""The most work that one command may be; apart from the estimate, which needs the whole specification."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class WorkLimit:
    """The most that one command may take."""

    cpu_s: float = 600.0
    memory_bytes: float = 8.0 * 2**30


DEFAULT_LIMIT = WorkLimit()
"""Ten minutes of CPU and 8 GiB: a plan takes seconds, so an hour of work has to be requested."""
