"""An environment for each peer, below a folder that git ignores, and commands whose CPU seconds are counted."""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.supply.build import find_python

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".venv-peers"
# What takes longer is listed as not run.
PATIENCE_S = 900


class PeerUnavailableError(Exception):
    """Why a peer was not asked, or gave no answer."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A pinned package and the Pythons that take it, the first one present is used."""

    name: str
    version: str
    pythons: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    def make(self) -> None:
        """Installed once; what failed half-way is installed anew."""
        done = self.folder / f".{self.version}"
        if done.exists():
            return
        python = next((found for each in self.pythons if (found := find_python(each))), None)
        if python is None:
            raise PeerUnavailableError(f"needs Python {' or '.join(self.pythons)}, which is not here")
        shutil.rmtree(self.folder, ignore_errors=True)
        run([python, "-m", "venv", str(self.folder)])
        pip = [self.program("python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, f"{self.name}=={self.version}"])
        done.touch()


@dataclass(frozen=True, kw_only=True)
class CommandOutput:
    stdout: str
    cpu_s: float


def run(command: Sequence[str], *, cwd: Path | None = None) -> CommandOutput:
    """CPU seconds of the command and of all that it started; wall time would measure the neighbours."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        raise PeerUnavailableError(f"no answer within {PATIENCE_S} s") from None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        lines = [each.strip() for each in f"{done.stdout}\n{done.stderr}".splitlines() if each.strip()]
        raise PeerUnavailableError(f"ended with {done.returncode}: {lines[-1][:200] if lines else 'without a message'}")
    return CommandOutput(
        stdout=done.stdout,
        cpu_s=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    )
