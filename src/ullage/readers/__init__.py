"""Outside formats in: traces, load tests, engine logs and metrics, model configs, price lists, Prometheus."""

from __future__ import annotations

import re
from pathlib import Path

from ullage.errors import InputError

# Signs of an engine stand in the first lines of a log; a result of a load test is looked at whole, up to a size.
_HEAD_BYTES = 1 << 20
_MOST_BYTES = 64 << 20

# What a clone without its large files holds in their place.
_POINTERS = {
    b"version https://git-lfs.github.com/spec/": ("a pointer of Git LFS", "git lfs pull"),
    b"/annex/objects/": ("a pointer of git-annex", "git annex get"),
}


def misplaced(path: Path, *, asked: str) -> InputError | None:
    """What to say of a file that no reader of the kind asked for knows, and that one of another kind does.

    An engine's log given as a trace is no table of unknown columns. None where nobody here knows the file either.
    """
    from ullage.readers.engines import ENGINE_READERS

    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES)
    except OSError:
        return None
    if (pointer := next((each for sign, each in _POINTERS.items() if sign in data[:200]), None)) is not None:
        fix = f"Fetch the file itself with {pointer[1]}, and give that."
        problem = f"is {pointer[0]}, which stands in for the file"
        return InputError(field=asked, value=str(path), problem=problem, fix=fix)
    if asked != "engine log":
        head = data[:_HEAD_BYTES].decode(errors="replace")
        name = next((name for name, reader in ENGINE_READERS.items() if reader.recognises(head)), None)
        if name is not None:
            fix = "Give it as --engine-log of ullage memory or init, or under evidence.engine_logs of a plan file."
            return _not_what_was_asked(path, f"a log, metrics page or monitor's file ({name})", asked, fix)
    if asked == "trace" and re.match(rb"# (HELP|TYPE) ", data):
        return InputError(
            field=asked,
            value=str(path),
            problem="is a page of metrics of one moment, and of no engine that is known here",
            fix="For traffic over time ask Prometheus' query_range, and give its answer.",
        )
    if asked != "load test" and (what := _load_test(data, path)) is not None:
        fix = "Give it to ullage calibrate, or name it under evidence.load_tests of a plan file."
        return _not_what_was_asked(path, f"a result of a load test ({what})", asked, fix)
    return None


def _not_what_was_asked(path: Path, what: str, asked: str, fix: str) -> InputError:
    return InputError(field=asked, value=str(path), problem=f"is {what}, no {asked}", fix=fix)


def _load_test(data: bytes, path: Path) -> str | None:
    from ullage.readers.loadtests import LOADTEST_READERS
    from ullage.readers.loadtests.content import parse

    try:
        content = parse(data, file=str(path))
        return next((reader.what for reader in LOADTEST_READERS.values() if reader.recognise(content)), None)
    except (InputError, ArithmeticError, LookupError, TypeError, ValueError):
        return None
