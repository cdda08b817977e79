"""Programs that tests need from Debian: found, installed, or the test fails with the line to type.

A missing program never skips a test: a suite that passes by not running says nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def require_program(program: str, *, package: str) -> str:
    """The path of a program; its Debian package is installed where it is missing and we are root."""
    found = shutil.which(program)
    if found is None and can_install():
        subprocess.run(["apt-get", "update", "-qq"], check=False, capture_output=True)
        subprocess.run(
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            check=False,
            capture_output=True,
        )
        found = shutil.which(program)
    if found is None:
        pytest.fail(
            f"{program} is missing and could not be installed. Run: sudo apt-get install {package}", pytrace=False
        )
    return found


def can_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None
