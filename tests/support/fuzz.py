"""Damaged files of seven families and random plans put through every verb, for as long as one likes: `make fuzz`.

    PYTHONPATH=tests python -m support.fuzz --seconds 600 --family traces

A case ends in an answer, in a refusal that says where (file and line, row, byte, key or option), in one that does not,
in a fault of ours, or beyond its limits of time and memory. The last three are anomalies: each is written to
tests/rim/cases/<family>/, where the tests read it from then on. Cases that reach new lines of a reader are kept as
seeds of further ones, so that the search goes where it has not been.
"""

from __future__ import annotations

import argparse
import ast
import collections
import dis
import hashlib
import re
import resource
import signal
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from support.fuzz_families import FAMILIES, Family
from support.fuzz_mutations import Stock, mutated
from ullage.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "ullage"
CASES = ROOT / "tests" / "rim" / "cases"
ANSWER, PLACED, UNPLACED, FAULT, OVER = "answer", "refusal with its place", "refusal without", "exit 4", "over limits"
ANOMALIES = (UNPLACED, FAULT, OVER)
MOST_GROWTH_BYTES = 1 << 30
# Beyond these a case is stopped, before the machine is out of memory or the search waits for ever.
STOPPED_CPU_S, STOPPED_BYTES = 120.0, 6 << 30
# Line, row, byte or column of a file; a key of it; an option.
_PLACE = re.compile(
    r":\d+|\b(line|row|byte|column|point|value|request|sheet) \d+|--[a-z]|: [\w.{}\[\]' -]+ = |[a-z_][a-z_\d]*\.[a-z_]+"
)


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How one case ended, and in what words."""

    outcome: str
    words: str


@dataclass(kw_only=True, frozen=True)
class Coverage:
    """Lines of functions below some folders, and those that were run."""

    files: frozenset[str]
    lines: frozenset[tuple[str, int]]
    hit: set[tuple[str, int]] = field(default_factory=set)

    def trace(self, frame: types.FrameType, event: str, _argument: object) -> object:
        if frame.f_code.co_filename not in self.files:
            return None
        if event == "line":
            self.hit.add((frame.f_code.co_filename, frame.f_lineno))
        return self.trace

    @property
    def reached(self) -> set[tuple[str, int]]:
        return self.hit & self.lines


def coverage_of(packages: tuple[str, ...]) -> Coverage:
    """The lines inside functions: what stands outside of them runs at import, whatever is read."""
    roots = [SOURCE / each for each in packages]
    paths = [path for root in roots for path in (sorted(root.rglob("*.py")) if root.is_dir() else [root])]
    lines = {
        (str(path), line)
        for path in paths
        for code in _functions(compile(path.read_text(), str(path), "exec"))
        for _, line in dis.findlinestarts(code)
        if line != code.co_firstlineno
    }
    return Coverage(files=frozenset(map(str, paths)), lines=frozenset(lines))


def words_of(files: frozenset[str]) -> set[str]:
    """The words that readers look for: texts in their source that could be a key or a value of a file."""
    constants = (
        node.value
        for path in sorted(files)
        for node in ast.walk(ast.parse(Path(path).read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return {each for each in constants if re.fullmatch(r"[\w.*:/-]{2,40}", each)}


def _functions(code: types.CodeType) -> Iterator[types.CodeType]:
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            is_function = bool(each.co_flags & 0x2)  # CO_NEWLOCALS: a function's, not a class's, body
            if is_function and each.co_name != "<lambda>":
                yield each
            yield from _functions(each)


def ending(family: Family, data: bytes, folder: Path, coverage: Coverage | None = None) -> Ending:
    """Read these bytes as the family does, and say how it ended."""
    file = folder / family.file_name(data)
    file.write_bytes(data)
    begun, before = time.process_time(), _memory_bytes()
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, STOPPED_CPU_S)
    if coverage is not None:
        sys.settrace(coverage.trace)  # type: ignore[arg-type]
    try:
        family.read(file)
        found = Ending(outcome=ANSWER, words="")
    except InputError as error:
        words = str(error).replace(str(folder), "")
        found = Ending(outcome=PLACED if _is_placed(error, file) else UNPLACED, words=words)
    except MemoryError:
        found = Ending(outcome=OVER, words="memory")
    except _Endless:
        found = Ending(outcome=OVER, words="no end")
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        found = Ending(outcome=FAULT, words=f"{type(error).__name__}: {error}")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        sys.settrace(None)
        file.unlink()
    spent, grown = time.process_time() - begun, _memory_bytes() - before
    if spent > family.most_cpu_s or grown > MOST_GROWTH_BYTES:
        return Ending(outcome=OVER, words=f"{spent:.0f} s, {grown >> 20} MiB: {found.words}")
    return found


class _Endless(BaseException):
    """Raised inside a case that does not end by itself."""


def stop_what_never_ends() -> None:
    """From here on a case that takes all memory or all time is stopped; without it, only what ends is judged."""
    _, most_bytes = resource.getrlimit(resource.RLIMIT_AS)
    held_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held_bytes + STOPPED_BYTES, most_bytes))


def _stop(_signal: int, _frame: types.FrameType | None) -> None:
    raise _Endless


def _is_placed(error: InputError, file: Path) -> bool:
    """Whether a reader of the message knows where to look: the file as a whole is a place where all of it is wrong."""
    return file.name in str(error) or _PLACE.search(str(error)) is not None


def _memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@dataclass(frozen=True, kw_only=True)
class Round:
    """What a search of one family came to."""

    family: str
    outcomes: collections.Counter[str]
    anomalies: dict[str, tuple[bytes, Ending]]
    coverage: Coverage


def search(family: Family, *, cases: int, seconds: float = float("inf"), seed: int = 0) -> Round:
    """So many cases, or as many as there is time for."""
    chance, coverage = Random(f"{family.name} {seed}"), coverage_of(family.packages)
    seeds, outcomes = list(family.seeds()), collections.Counter[str]()
    anomalies: dict[str, tuple[bytes, Ending]] = {}
    stock = Stock(files=seeds, words=sorted(words_of(coverage.files)))
    end_s = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for number in range(cases):
            if time.monotonic() > end_s:
                break
            # First every seed as it is, then drawn or damaged ones.
            if number < len(family.seeds()):
                data = seeds[number]
            else:
                data = family.draw(chance) if family.draw else mutated(chance.choice(seeds), stock, chance)
            known = len(coverage.hit)
            found = ending(family, data, folder, coverage)
            outcomes[found.outcome] += 1
            if len(coverage.hit) > known and number >= len(family.seeds()):
                seeds.append(data)
            if found.outcome in ANOMALIES:
                # One example of each kind: the words without their numbers.
                anomalies.setdefault(re.sub(r"\d+|'[^']*'", "#", found.words)[:80], (data, found))
    return Round(family=family.name, outcomes=outcomes, anomalies=anomalies, coverage=coverage)


def keep(found: Round) -> None:
    """Write each anomaly where the tests read it from then on."""
    for data, _ in found.anomalies.values():
        path = CASES / found.family / hashlib.sha256(data).hexdigest()[:16]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def report(found: Round) -> str:
    counted = ", ".join(f"{found.outcomes[each]} {each}" for each in (ANSWER, PLACED, UNPLACED, FAULT, OVER))
    by_file = collections.Counter(path for path, _ in found.coverage.lines)
    reached = collections.Counter(path for path, _ in found.coverage.reached)
    share = len(found.coverage.reached) / max(1, len(found.coverage.lines))
    lines = [
        f"{found.family}: {sum(found.outcomes.values())} cases: {counted}; {share:.0%} of the lines of its readers"
    ]
    lines += [
        f"  {reached[path] / count:4.0%} {Path(path).relative_to(SOURCE)}"
        for path, count in sorted(by_file.items())
        if reached[path] / count < 0.8
    ]
    lines += [f"  {each.outcome}: {each.words[:300]}" for _, each in found.anomalies.values()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="for each family")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the damage; printed")
    parser.add_argument("--family", choices=sorted(FAMILIES), action="append")
    asked = parser.parse_args()
    sys.stdout.write(f"seed {asked.seed}\n")
    stop_what_never_ends()
    rounds = []
    for name in asked.family or FAMILIES:
        rounds.append(search(FAMILIES[name], cases=sys.maxsize, seconds=asked.seconds, seed=asked.seed))
        keep(rounds[-1])
        sys.stdout.write(f"{report(rounds[-1])}\n")
        sys.stdout.flush()
    sys.exit(1 if any(each.anomalies for each in rounds) else 0)


if __name__ == "__main__":
    main()
