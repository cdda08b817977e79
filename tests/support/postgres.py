"""A PostgreSQL of one's own for tests: made in a folder, started without a network, restarted and taken away."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ABSENT = "PostgreSQL is not installed (Debian: postgresql)"
_DEBIAN = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


def programs() -> Path | None:
    """The folder of initdb and pg_ctl; None where there is none."""
    found = shutil.which("initdb")
    return Path(found).parent if found else next((each for each in _DEBIAN if (each / "initdb").exists()), None)


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server on a socket in its own folder; it refuses to run as root, so that root becomes somebody else."""

    folder: Path
    bin: Path
    user: str | None

    @property
    def address(self) -> str:
        return f"postgresql://ullage@/postgres?host={self.folder}"

    def run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self.bin / program), *arguments],
            user=self.user,
            cwd=self.folder,
            # A server keeps the pipes it inherits open, and a pipe would be waited for.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
            check=False,
        )
        log = self.folder / "log"
        assert done.returncode == 0, f"{program}: {log.read_text()[-2000:] if log.exists() else done.returncode}"

    def start(self) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories='{self.folder}' -c fsync=off"
        data, log = str(self.folder / "data"), str(self.folder / "log")
        self.run("pg_ctl", "start", "-w", "-D", data, "-l", log, "-o", options)

    def stop(self, how: str = "fast") -> None:
        self.run("pg_ctl", "stop", "-w", "-m", how, "-D", str(self.folder / "data"))


@contextmanager
def server(folder: Path | None = None) -> Iterator[Server]:
    """A running server, in a folder of its own or in this one; the test is skipped where there is no PostgreSQL."""
    found = programs()
    if found is None:
        pytest.skip(ABSENT)
    user = _somebody_else()
    place = Path(tempfile.mkdtemp(prefix="ullage-pg-", dir=folder))
    if user is not None:
        shutil.chown(place, user)
    made = Server(folder=place, bin=found, user=user)
    try:
        made.run("initdb", "-A", "trust", "-E", "UTF8", "-U", "ullage", "-D", str(place / "data"), "--no-sync")
        made.start()
        yield made
    finally:
        if (place / "data" / "postmaster.pid").exists():
            made.stop("immediate")
        shutil.rmtree(place, ignore_errors=True)


def _somebody_else() -> str | None:
    if os.geteuid() != 0:
        return None
    names = {each.pw_name for each in pwd.getpwall()}
    return next(each for each in ("postgres", "nobody") if each in names)
