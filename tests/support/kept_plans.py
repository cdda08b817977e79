"""Plans, studies of risk and windows of load that several tests ask for, made once in a session whoever asks.

Some two hundred tests and examples ask for a plan, most of them for one that another asked for. Inside `kept_plans`,
and that is every test but those marked `fresh`, the pipeline and the study look for their answer among those of this
session, by all that they were given (the specification, the date and the seed, not where it came from); else they work
it out and leave it there. The folder is the session's own, so that nothing is ever older than the source under test.

A law that compares two plans of one input is `fresh`: otherwise it would compare a plan with itself. So is one about
how a plan comes about, such as the stages that it reports. `python -m support.kept_plans ...` is `ullage ...` inside,
for examples that are typed.

Windows are kept for every test (`keep_windows`): the planner itself remembers those that it simulated, as long as its
process lives and three thousand of them; here the memory is the session's. Programs that tests start as a user does,
by `python -m ullage`, have no part in it, so that what one of them prints is worked out from nothing.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import pickle
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

import ullage

_FOLDER = "ULLAGE_TEST_PLANS"
# Set where every test is to run all that it depends on, as when coverage says which tests those are.
NOTHING_KEPT = "ULLAGE_TEST_NOTHING_KEPT"
# What an answer does not depend on.
_ASIDE = ("map", "jobs", "report")


def name_folder(folder: Path) -> None:
    """Where this process, and those that it starts, keep plans."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ[_FOLDER] = str(folder)


def is_folder_named() -> bool:
    return _FOLDER in os.environ


def forget_folder() -> None:
    del os.environ[_FOLDER]


def folder() -> Path:
    if not is_folder_named():
        name_folder(Path(tempfile.mkdtemp(prefix="ullage-plans-")))
    return Path(os.environ[_FOLDER])


@contextmanager
def kept_plans() -> Iterator[None]:
    """Plans and studies that are asked for inside are made once."""
    from ullage.planning import pipeline
    from ullage.uncertainty import study

    before = pipeline.plan, study.study
    if hasattr(pipeline.plan, "__wrapped__") or NOTHING_KEPT in os.environ:
        yield
        return
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
            else:
                # Whoever looks which cores a verb hands on sees them used, as by a plan that is made.
                list(named.get("map", map)(abs, range(8)))
        return pickle.loads(zlib.decompress(file.read_bytes()))

    return found


class KeptWindows(dict[Any, Any]):
    """The planner's memory of windows, with the folder of the session behind it."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self._place = place
        self._trials: dict[Any, str] = {}

    def get(self, key: Any, default: Any = None) -> Any:
        known = super().get(key)
        if known is not None:
            return known
        file = self._file(key)
        if file is None or not file.exists():
            return default
        known = pickle.loads(zlib.decompress(file.read_bytes()))
        super().__setitem__(key, known)
        return known

    def __setitem__(self, key: Any, known: Any) -> None:
        super().__setitem__(key, known)
        file = self._file(key)
        if file is None:
            return
        file.parent.mkdir(exist_ok=True)
        # Threads and processes may write the same window at once; each has a file of its own until it is whole.
        new = file.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        new.write_bytes(zlib.compress(pickle.dumps(known, pickle.HIGHEST_PROTOCOL), 1))
        new.rename(file)

    def _file(self, key: Any) -> Path | None:
        """A folder for each trial, a file for each rate and seed; the many values of a trial are looked at once.

        Nothing for a load that is more than values, such as a function of a test's: nobody else asks for the same.
        """
        trial, rate_rps, seed = key
        if trial not in self._trials:
            try:
                text = repr(plain(trial._values))
            except TypeError:
                text = ""
            self._trials[trial] = hashlib.sha256(text.encode()).hexdigest()[:32] if text else ""
        named = self._trials[trial]
        return self._place / named / f"{float(rate_rps).hex()}_{seed}" if named else None


def plain(value: Any) -> Any:
    """A value as nothing but its type's name and what it holds, so that equal ones read alike in every process.

    Fields alone: what an object has worked out beside them, such as its hash, is another in the next process. What can
    change, a list of calls say, is no value.
    """
    if isinstance(value, Enum):
        return [type(value).__qualname__, value.name]
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        return [[plain(name), plain(each)] for name, each in value.items()]
    if isinstance(value, np.ndarray):
        return [value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).hexdigest()]
    if is_dataclass(value):
        held = [plain(getattr(value, each.name)) for each in fields(value)]
        return [f"{type(value).__module__}.{type(value).__qualname__}", *held]
    raise TypeError(f"{type(value)} is not made of values")


def keep_windows() -> None:
    """From now on this process finds the windows that others of its session simulated."""
    from ullage.service.trial import window

    if NOTHING_KEPT in os.environ:
        return
    place = folder() / "windows"
    place.mkdir(exist_ok=True)
    window._KNOWN = KeptWindows(place)


def typed_environment() -> dict[str, str]:
    """An environment in which the command `ullage` is the one below, as a reader without a terminal sees it."""
    here, source = Path(__file__).resolve().parent, Path(ullage.__file__).resolve().parents[1]
    folder()
    paths = [str(here / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    return {
        **os.environ,
        "PATH": os.pathsep.join(paths),
        "NO_COLOR": "1",
        "ULLAGE_TEST_PATH": os.pathsep.join([str(here.parent), str(source)]),
    }


def main() -> None:
    from ullage.cli import main as typed

    keep_windows()
    with kept_plans():
        typed()


if __name__ == "__main__":
    main()
