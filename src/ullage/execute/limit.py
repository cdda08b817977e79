"""The ceiling of a run as it is typed: `cpu=10min,memory=8GiB`."""

from __future__ import annotations

from dataclasses import replace

from ullage.errors import InputError, check_name
from ullage.execute.machine import memory_limit_bytes
from ullage.planning.work.limit import DEFAULT_LIMIT, WorkLimit
from ullage.units import BYTES, DURATION, parse

_FIELD = "--limit"
_KINDS = {"cpu": ("cpu_s", DURATION), "memory": ("memory_bytes", BYTES)}


def parse_limit(text: str | None) -> WorkLimit:
    """What is stated, and the default for the rest: of memory no more than this process may have.

    >>> parse_limit("cpu=2min")
    WorkLimit(cpu_s=120.0, memory_bytes=8589934592.0)
    """
    allowed = memory_limit_bytes()
    memory_bytes = DEFAULT_LIMIT.memory_bytes if allowed is None else min(DEFAULT_LIMIT.memory_bytes, float(allowed))
    found = replace(DEFAULT_LIMIT, memory_bytes=memory_bytes)
    for part in (text or "").split(","):
        if not part.strip():
            continue
        name, _, value = (each.strip() for each in part.partition("="))
        check_name(name, _KINDS, field=_FIELD, fix="Give for example cpu=10min,memory=8GiB.")
        field, dimension = _KINDS[name]
        amount = float(parse(value, dimension, field=f"{_FIELD} {name}"))
        if amount <= 0.0:
            raise InputError(
                field=f"{_FIELD} {name}", value=value, problem="must be more than 0", fix="Give more than 0."
            )
        found = replace(found, **{field: amount})
    return found
