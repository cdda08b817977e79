"""The pictures of docs/gallery (`make gallery-pictures`): views of the built-in example's report in Debian's Chromium.

A picture is one view at the width of a page, in light colours. None is larger than MOST_BYTES, so that the repository
stays small; fonts are the machine's. A report that is there already may be named.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from ullage.cli.app import run

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "gallery"
MOST_BYTES = 100_000
AS_OF = "2026-11-15"
VIEWS = {
    "how-many": "answer",
    "node-loss": "losses",
    "next-quarter": "money",
    "autoscaling": "scaling",
    "apart-or-not": "service",
    "last-month": "demand",
}
# Of a view that goes on for pages its beginning, with the chart, is enough.
WIDTH, MOST_HEIGHT = 800, 620


def main() -> int:
    program = shutil.which("chromium")
    if program is None:
        print("Chromium is not installed (Debian: apt-get install chromium)", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        report = Path(sys.argv[1]).resolve() if sys.argv[1:] else Path(folder) / "report.html"
        code = 0 if sys.argv[1:] else run(["report", "--as-of", AS_OF, "-o", str(report), "--quiet"])
        if code:
            return int(code)
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": WIDTH, "height": MOST_HEIGHT}, color_scheme="light")
        page.goto(report.as_uri())
        page.wait_for_selector("#assumptions")
        # It stays at the top of the window, and would lie across a view that is taller.
        page.evaluate("document.querySelector('nav').remove()")
        for name, view in VIEWS.items():
            page.locator(f"#{view}").scroll_into_view_if_needed()
            box = page.locator(f"#{view}").bounding_box()
            assert box is not None, view
            top = page.evaluate("window.scrollY") + box["y"]
            height = min(box["height"], MOST_HEIGHT)
            picture = page.screenshot(
                clip={"x": box["x"], "y": top, "width": box["width"], "height": height}, full_page=True
            )
            assert len(picture) <= MOST_BYTES, f"{view}: {len(picture):,} bytes"
            (FOLDER / f"{name}.png").write_bytes(picture)
            print(f"{name}.png: view {view}, {len(picture):,} bytes")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
