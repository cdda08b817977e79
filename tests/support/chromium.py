"""Debian's Chromium on a page that lies on disk: no network, and everything it complains about is kept."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

ABSENT = "Chromium is not installed (Debian: chromium)"
AXE = Path(__file__).resolve().parents[2] / "page" / "node_modules" / "axe-core" / "axe.min.js"
TEAM_HOST = "plan.example"
_FLAGS = (
    "--no-sandbox",  # root has none
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # A name that is not this machine's own: over plain HTTP browsers keep clipboard and UUIDs from such pages.
    f"--host-resolver-rules=MAP {TEAM_HOST} 127.0.0.1",
)


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A page, what its console complained about, and every address it asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def serious_violations(self) -> list[str]:
        """What axe finds that keeps people from using the page."""
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.page.evaluate("async () => (await axe.run()).violations")
        return [
            f"{each['id']}: {each['nodes'][0]['html'][:200]}"
            for each in found
            if each["impact"] in ("serious", "critical")
        ]


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; the test is skipped where there is none."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip(ABSENT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*_FLAGS])
        yield browser
        browser.close()


@contextmanager
def opened(
    browser: Browser, file: Path, *, width: int = 1280, scheme: Literal["light", "dark"] = "light"
) -> Iterator[Opened]:
    """The file in a window of its own, without a network."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    page = context.new_page()
    found = Opened(page=page)

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            found.complaints.append(message.text)

    page.on("console", heard)
    page.on("pageerror", lambda error: found.complaints.append(str(error)))
    page.on("request", lambda request: found.asked.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector("#assumptions")
    yield found
    context.close()
