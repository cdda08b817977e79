"""What this process may use of its machine: the memory that a cgroup, a container or ulimit leaves it.

Below a floor the libraries that simulate and read logs do not fail but die: a compiler aborts, a database segfaults.
So the floor is looked at before they are loaded, and said.
"""

from __future__ import annotations

import resource
from pathlib import Path

from ullage.errors import InputError

CGROUP = Path("/sys/fs/cgroup")
# As version 2 and version 1 of control groups have it.
_LIMIT_FILES = ("memory.max", "memory/memory.limit_in_bytes")
# Tried: a simulation needs 600 MiB of addresses on one core and less than half of it in use; more cores, more of it.
LEAST_ADDRESS_BYTES = 1 * 2**30
LEAST_RESIDENT_BYTES = 512 * 2**20
# Without a limit version 1 says the largest number of pages.
_NO_LIMIT_BYTES = 2**60


def address_limit_bytes() -> int | None:
    """The address space that ulimit -v leaves; None where it leaves all."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def resident_limit_bytes(cgroup: Path = CGROUP) -> int | None:
    """The memory that the control group allows; None where it allows all, or there is none."""
    for name in _LIMIT_FILES:
        try:
            said = (cgroup / name).read_text().strip()
        except OSError:
            continue
        if said.isdigit() and int(said) < _NO_LIMIT_BYTES:
            return int(said)
    return None


def memory_limit_bytes(cgroup: Path = CGROUP) -> int | None:
    """The smaller of the two limits; None where there is neither."""
    return min(
        (each for each in (address_limit_bytes(), resident_limit_bytes(cgroup)) if each is not None), default=None
    )


def check_memory(cgroup: Path = CGROUP) -> None:
    """Refuses to begin where the libraries would die."""
    for limit, least, where in (
        (address_limit_bytes(), LEAST_ADDRESS_BYTES, "ulimit -v"),
        (resident_limit_bytes(cgroup), LEAST_RESIDENT_BYTES, "the control group of this process"),
    ):
        if limit is not None and limit < least:
            raise InputError(
                field="memory",
                value=f"{limit / 2**20:.0f} MiB",
                problem=f"is all that {where} allows, but this needs {least / 2**20:.0f} MiB to begin",
                fix="Raise the limit, or run it where there is more memory.",
            )
