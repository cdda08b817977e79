"""The locks as values: every pinned package of requirements/*.txt and page/package-lock.json."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# From what every user installs to what only the tests need.
LOCKS = ("run", "serve", "dev")
PIN = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(?P<version>[^\s;\\]+)\s*(?:;\s*(?P<marker>[^\\\n]+?))?\s*\\?$"
)


@dataclass(frozen=True, kw_only=True)
class LockedPackage:
    """One pinned package. A Python package has a hash for each of its published files, a page's package has one."""

    ecosystem: str
    name: str
    version: str
    marker: str
    hashes: tuple[tuple[str, str], ...]
    licence: str
    scope: str
    where: tuple[str, ...]

    @property
    def purl(self) -> str:
        """The package URL, as https://github.com/package-url/purl-spec writes names.

        >>> page_package("node_modules/@types/node", {"version": "22.1.0"}).purl
        'pkg:npm/%40types/node@22.1.0'
        """
        return f"pkg:{self.ecosystem}/{self.name.replace('@', '%40')}@{self.version}"


def python_pins(text: str) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Name, version, marker and sha256 sums of each entry of a lock.

    >>> list(python_pins("Some.Thing==1.0 ; sys_platform == 'win32' \\\\\\n    --hash=sha256:ab\\n"))
    [('some-thing', '1.0', "sys_platform == 'win32'", ('ab',))]
    """
    for entry in re.split(r"\n(?=\S)", text.strip()):
        head, *_ = entry.splitlines()
        found = PIN.match(head)
        if found is None:
            raise ValueError(f"not a pin: {head}")
        name = re.sub(r"[-_.]+", "-", found["name"]).lower()
        yield name, found["version"], found["marker"] or "", tuple(sorted(re.findall(r"--hash=sha256:(\w+)", entry)))


def python_packages(root: Path = ROOT) -> list[LockedPackage]:
    """Every pin of every lock once; its scope is that of the first lock that holds it."""
    found: dict[tuple[str, str], LockedPackage] = {}
    for lock, scope in zip(LOCKS, ("required", "optional", "excluded"), strict=True):
        file = f"requirements/{lock}.txt"
        for name, version, marker, sums in python_pins((root / file).read_text(encoding="utf-8")):
            known = found.get((name, version))
            found[name, version] = LockedPackage(
                ecosystem="pypi",
                name=name,
                version=version,
                marker=known.marker if known else marker,
                hashes=tuple(("SHA-256", each) for each in sums),
                licence="",
                scope=known.scope if known else scope,
                where=(*(known.where if known else ()), file),
            )
    return [found[key] for key in sorted(found)]


def page_package(path: str, entry: dict[str, Any]) -> LockedPackage:
    """A package of the page. What is not for development stands inside the built page, and so inside the wheel."""
    algorithm, _, sum64 = entry.get("integrity", "").partition("-")
    digest = base64.b64decode(sum64).hex()
    return LockedPackage(
        ecosystem="npm",
        name=path.rpartition("node_modules/")[2],
        version=entry["version"],
        marker="",
        hashes=((algorithm.upper().replace("SHA", "SHA-"), digest),) if digest else (),
        licence=entry.get("license", ""),
        scope="excluded" if entry.get("dev") or entry.get("devOptional") else "required",
        where=("page/package-lock.json",),
    )


def page_packages(root: Path = ROOT) -> list[LockedPackage]:
    lock = json.loads((root / "page/package-lock.json").read_text(encoding="utf-8"))
    packages = {each.purl: each for each in (page_package(*item) for item in lock["packages"].items() if item[0])}
    return [packages[purl] for purl in sorted(packages)]
