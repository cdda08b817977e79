"""Builds the page of reports before a wheel is packed. An editable install, as `make plan` makes it, needs no Node."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface[Any]):
    """Asked by hatchling, as pyproject.toml tells it to."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        if version != "editable":
            subprocess.run([Path(self.root) / "scripts" / "page.sh"], check=True)
