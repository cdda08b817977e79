"""Plans and studies of risk that several tests ask for, made once in a session whichever process asks.

The documentation alone plans the built-in example some thirty times, each time to show another part of it. Inside
`kept_plans` the pipeline and the study look for their answer among those of this session, by all that they were given
(the specification, the date and the seed, not where it came from); else they work it out and leave it there. The
folder is the session's own, so that nothing is ever older than the source under test.

A law that compares two plans of one input does not belong inside: it would compare a plan with itself.
`python -m support.kept_plans ...` is `ullage ...` inside, for examples that are typed.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import pickle
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ullage

_FOLDER = "ULLAGE_TEST_PLANS"
# What an answer does not depend on.
_ASIDE = ("map", "report")


def name_folder(folder: Path) -> None:
    """Where this process, and those that it starts, keep plans."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ[_FOLDER] = str(folder)


def folder() -> Path:
    if _FOLDER not in os.environ:
        name_folder(Path(tempfile.mkdtemp(prefix="ullage-plans-")))
    return Path(os.environ[_FOLDER])


@contextmanager
def kept_plans() -> Iterator[None]:
    """Plans and studies that are asked for inside are made once."""
    from ullage.planning import pipeline
    from ullage.uncertainty import study

    before = pipeline.plan, study.study
    pipeline.plan, study.study = (_kept(each, folder()) for each in before)
    try:
        yield
    finally:
        pipeline.plan, study.study = before


def _kept(work: Callable[..., Any], place: Path) -> Callable[..., Any]:
    @functools.wraps(work)
    def found(*given: Any, **named: Any) -> Any:
        asked = {name: value for name, value in named.items() if name not in _ASIDE}
        key = hashlib.sha256(pickle.dumps((work.__module__, given, sorted(asked.items()))))
        file = place / key.hexdigest()
        # Whoever comes second waits for the first instead of doing the same.
        with (place / f"{file.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not file.exists():
                # Level 1: most of a plan are histograms, and most of those are zeros.
                made = zlib.compress(pickle.dumps(work(*given, **named)), 1)
                file.with_suffix(".new").write_bytes(made)
                file.with_suffix(".new").rename(file)
        return pickle.loads(zlib.decompress(file.read_bytes()))

    return found


def typed_environment() -> dict[str, str]:
    """An environment in which the command `ullage` is the one below, as a reader without a terminal sees it."""
    here, source = Path(__file__).resolve().parent, Path(ullage.__file__).resolve().parents[1]
    folder()
    paths = [str(here / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {
        **kept,
        "PATH": os.pathsep.join(paths),
        "NO_COLOR": "1",
        "ULLAGE_TEST_PATH": os.pathsep.join([str(here.parent), str(source)]),
        # A hundred runs of the program would compile its source a hundred times where that may not be written.
        "PYTHONPYCACHEPREFIX": str(folder() / "pycache"),
    }


def main() -> None:
    from ullage.cli import main as typed

    with kept_plans():
        typed()


if __name__ == "__main__":
    main()
