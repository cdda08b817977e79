"""Licences of everything a user runs, against a list of those we allow (`make licences`).

Python packages are asked for their installed metadata, packages inside the page for their lock. Packages that only the
tests need are not shipped and not judged. What has no licence, or one that nobody has decided about, fails.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata

from packaging.markers import Marker
from scripts.supply.locked import LockedPackage, page_packages, python_packages

ALLOWED = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "ISC",
        "MIT",
        "MIT-0",
        "MIT-CMU",
        "MPL-2.0",  # file by file: used unchanged, it asks nothing of our own files
        "PSF-2.0",
        "Unlicense",
        "Zlib",
    }
)
# Decided one by one, with the reason; another package under the same licence is not covered.
DECIDED = {
    ("psycopg", "LGPL-3.0-only"): "optional extra `postgres`, installed beside us and unchanged",
    ("psycopg-binary", "LGPL-3.0-only"): "optional extra `postgres`, installed beside us and unchanged",
}
# Names from before licence expressions, as the metadata of packages writes them.
LEGACY = {
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "gnu lesser general public license v3 (lgplv3)": "LGPL-3.0-only",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
    "the unlicense (unlicense)": "Unlicense",
}


@dataclass(frozen=True, kw_only=True)
class LicenceRow:
    name: str
    version: str
    licence: str
    verdict: str
    is_fine: bool


def stated_licence(found: PackageMetadata) -> str:
    """The expression where there is one, else the classifiers, else the old field if it is short enough for a name."""
    expression = (found.get_all("License-Expression") or [""])[0]
    if expression:
        return str(expression)
    prefix = "License :: "
    named = [each.rpartition(" :: ")[2] for each in found.get_all("Classifier") or () if each.startswith(prefix)]
    names = [each for each in named if each != "OSI Approved"] or [str((found.get_all("License") or [""])[0]).strip()]
    return " AND ".join(LEGACY.get(each.lower(), each) for each in names if "\n" not in each and len(each) < 80)


def is_allowed(expression: str, allowed: frozenset[str] = ALLOWED) -> bool:
    """Whether one of the choices that an SPDX expression gives has allowed licences alone.

    >>> is_allowed("MIT OR GPL-3.0-only"), is_allowed("MIT AND GPL-3.0-only"), is_allowed("(MIT OR X) AND Apache-2.0")
    (True, False, True)
    """
    words = re.findall(r"\(|\)|[^\s()]+", expression)
    if not words:
        return False
    verdict, rest = _any_of(words, allowed)
    return verdict and not rest


def _any_of(words: Sequence[str], allowed: frozenset[str]) -> tuple[bool, Sequence[str]]:
    verdict, rest = _all_of(words, allowed)
    while rest and rest[0] == "OR":
        right, rest = _all_of(rest[1:], allowed)
        verdict = verdict or right
    return verdict, rest


def _all_of(words: Sequence[str], allowed: frozenset[str]) -> tuple[bool, Sequence[str]]:
    verdict, rest = _one(words, allowed)
    while rest and rest[0] == "AND":
        right, rest = _one(rest[1:], allowed)
        verdict = verdict and right
    return verdict, rest


def _one(words: Sequence[str], allowed: frozenset[str]) -> tuple[bool, Sequence[str]]:
    if not words:
        return False, words
    if words[0] == "(":
        verdict, rest = _any_of(words[1:], allowed)
        return verdict and bool(rest), rest[1:]
    # An exception only ever permits more than the licence it is an exception to.
    skipped = 3 if len(words) > 2 and words[1] == "WITH" else 1
    return words[0] in allowed, words[skipped:]


def judged(name: str, version: str, licence: str) -> LicenceRow:
    reason = DECIDED.get((name, licence))
    if is_allowed(licence):
        verdict, is_fine = "allowed", True
    elif reason is not None:
        verdict, is_fine = f"decided: {reason}", True
    else:
        verdict, is_fine = "NOT DECIDED" if licence else "UNKNOWN", False
    return LicenceRow(name=name, version=version, licence=licence or "-", verdict=verdict, is_fine=is_fine)


def python_row(package: LockedPackage) -> LicenceRow | None:
    """None for what this Python or system does not install."""
    if package.marker and not Marker(package.marker).evaluate():
        return None
    try:
        found = metadata(package.name)
    except PackageNotFoundError:
        return LicenceRow(
            name=package.name, version=package.version, licence="-", verdict="NOT INSTALLED", is_fine=False
        )
    version = str(found["Version"])
    shown = version if version == package.version else f"{version} (lock: {package.version})"
    return judged(package.name, shown, stated_licence(found))


def rows() -> tuple[list[LicenceRow], list[str]]:
    """A row for each package that is shipped or asked for, and the names that are not installed on this machine."""
    shipped = [each for each in python_packages() if each.scope != "excluded"]
    judged_or_not = [(each, python_row(each)) for each in shipped]
    page = [judged(each.name, each.version, each.licence) for each in page_packages() if each.scope == "required"]
    left_out = [f"{each.name} {each.version} ({each.marker})" for each, row in judged_or_not if row is None]
    return [row for _, row in judged_or_not if row is not None] + page, left_out


def main() -> None:
    found, left_out = rows()
    widths = [max(len(each.name) for each in found), max(len(each.version) for each in found)]
    licence_width = max(len(each.licence) for each in found)
    for each in found:
        cells = f"{each.name:{widths[0]}}  {each.version:{widths[1]}}  {each.licence:{licence_width}}"
        print(f"{cells}  {each.verdict}")
    if left_out:
        print(f"not for this Python and system, not judged here: {', '.join(left_out)}")
    bad = [each.name for each in found if not each.is_fine]
    print(f"{len(found)} packages, {len(bad)} not allowed{': ' + ', '.join(bad) if bad else ''}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
