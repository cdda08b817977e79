"""The wheel and the source distribution, the same bytes from the same files (`make wheel`, `make wheel-twice`).

Both are built from a copy of what git tracks, so that nothing that happens to lie about gets in. Dates inside them are
that of the last commit. `--twice` builds in two folders under two umasks and compares; `--install` puts the files that
are in dist into a fresh environment of every Python from 3.11 to 3.13 on this machine and asks for version and page.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from scripts.supply.locked import ROOT

DIST = ROOT / "dist"
PYTHONS = ("3.11", "3.12", "3.13")
ASKED = """
import importlib.resources, ullage
page = importlib.resources.files("ullage.report") / "page/report.html"
assert page.is_file(), "the page is not in it"
assert (importlib.resources.files("ullage.serve") / "schemas/plan.schema.json").is_file(), "the schemas are not in it"
print(f"ullage {ullage.__version__}, page of {len(page.read_bytes())} bytes")
"""


def copy_of_tracked(to: Path) -> None:
    """What git tracks, as it stands in the working tree."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name)


def build_environment() -> dict[str, str]:
    """The date of the last commit for every file inside, and the Node that the development lock brings."""
    date = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, check=True, capture_output=True, text=True)
    path = f"{ROOT / '.venv' / 'bin'}:{os.environ.get('PATH', '')}"
    return {**os.environ, "PATH": path, "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", date.stdout.strip())}


def built(folder: Path, *, umask: int = 0o022) -> list[Path]:
    """Source distribution and wheel of a fresh copy below `folder`."""
    source, out = folder / "source", folder / "out"
    source.mkdir(parents=True)
    copy_of_tracked(source)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, cwd=source, env=build_environment(), check=True, umask=umask, stdout=subprocess.DEVNULL)
    return sorted(out.iterdir())


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def differing(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """Names of files that are not the same in both.

    >>> differing({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"})
    ['b', 'c']
    """
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


def build_twice() -> int:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory(prefix="another place ") as two:
        first = {each.name: digest(each) for each in built(Path(one) / "a", umask=0o022)}
        second = {each.name: digest(each) for each in built(Path(two) / "a longer name", umask=0o077)}
    for name, each in first.items():
        print(f"{each}  {name}")
    bad = differing(first, second)
    print(f"differ: {', '.join(bad)}" if bad else "the same bytes twice")
    return 1 if bad else 0


def build_into_dist() -> int:
    DIST.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for each in built(Path(folder) / "a"):
            shutil.copy(each, DIST / each.name)
            print(f"{digest(each)}  dist/{each.name}")
    return 0


def find_python(version: str) -> str | None:
    candidates = [f"python{version}", *map(str, Path.home().glob(f".pyenv/versions/{version}*/bin/python"))]
    for each in filter(shutil.which, candidates):
        asked = [each, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        if subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == version:
            return each
    return None


def install(python: str, files: list[Path]) -> None:
    """Locked dependencies once, then each file by itself; a failure ends the run with pip's own message."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        own = f"{folder}/bin/python"
        pip = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", "--require-hashes", "-r", ROOT / "requirements" / "run.txt"], check=True)
        for each in files:
            # The build backend is part of the lock; what it asks for beyond itself a finished page makes needless.
            subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--force-reinstall", each], check=True)
            said = subprocess.run([own, "-c", ASKED], cwd=folder, check=True, capture_output=True, text=True).stdout
            subprocess.run([f"{folder}/bin/ullage", "--version"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            subprocess.run(
                [f"{folder}/bin/ullage", "memory", "llama-3.1-8b", "--device", "h100"],
                cwd=folder,
                check=True,
                stdout=subprocess.DEVNULL,
            )
            print(f"{each.name}: {said.strip()}", flush=True)


def install_everywhere() -> int:
    files = sorted([*DIST.glob("ullage-*.whl"), *DIST.glob("ullage-*.tar.gz")])
    if not files:
        print("nothing in dist: make wheel first")
        return 2
    for version in PYTHONS:
        python = find_python(version)
        print(f"Python {version}: {python or 'not on this machine, skipped'}", flush=True)
        if python is not None:
            install(python, files)
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--twice", action="store_true")
    chosen.add_argument("--install", action="store_true")
    arguments = parser.parse_args()
    if arguments.twice:
        sys.exit(build_twice())
    sys.exit(install_everywhere() if arguments.install else build_into_dist())


if __name__ == "__main__":
    main()
