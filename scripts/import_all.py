"""Compile every file and import every module under this interpreter; what needs a package that it lacks is counted."""

from __future__ import annotations

import importlib
import platform
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    files = [each for folder in ("src", "tests", "bench", "scripts") for each in sorted((ROOT / folder).rglob("*.py"))]
    for each in files:
        compile(each.read_text(encoding="utf-8"), str(each), "exec", dont_inherit=True)
    modules = [each.relative_to(ROOT / "src").with_suffix("").parts for each in sorted((ROOT / "src").rglob("*.py"))]
    names = [".".join(parts).removesuffix(".__init__") for parts in modules if parts[-1] != "__main__"]
    lacking: set[str] = set()
    imported = 0
    for name in names:
        try:
            importlib.import_module(name)
            imported += 1
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] == "ullage":
                raise
            lacking.add(error.name)
    without = f"; the others need {', '.join(sorted(lacking))}" if lacking else ""
    share = f"{imported} of {len(names)} modules import{without}"
    print(f"Python {platform.python_version()}: {len(files)} files compile, {share}")


if __name__ == "__main__":
    main()
