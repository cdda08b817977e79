"""Mutants of the packages outside the kernel, drawn uniformly over statements, and which of them the tests see.

    make mutation ARGS="--seed 7 --count 200"

Each mutant breaks one statement (bench/mutants/operators.py) and is put to the tests that run its line, fastest first,
until one fails or the tests' time is spent; recorded pages are not asked. The working tree is never edited: a mutant
is read in place of its module. Answers are kept in .mutation, so that a run that was cut short goes on where it
stopped, and survivors alone are asked again after a test was added.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import random
import signal
import sys
import textwrap
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.mutants.covering import ROOT, SOURCE, Covering, environment, gathered
from bench.mutants.operators import statements
from bench.mutants.trial import BROKEN, Trial, import_libraries

STATE = ROOT / ".mutation"
EQUIVALENT = ROOT / "bench" / "mutants" / "equivalent.toml"
# Compiled code and its literal twin have planted bugs of their own: `make mutants`.
COMPILED = ("simulate/kernel", "simulate/reference.py", "workload/synthetic/stream.py")
WANTED_FRACTION, MOST_EXCLUDED_FRACTION = 0.80, 0.05
WALL_S = 900.0


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One statement broken in one way."""

    path: str
    lines: range
    kind: str
    before: str
    after: str
    source: str

    @property
    def package(self) -> str:
        return Path(self.path).parts[0].removesuffix(".py")

    @property
    def module(self) -> str:
        return ".".join(("ullage", *Path(self.path).with_suffix("").parts)).removesuffix(".__init__")

    @property
    def key(self) -> str:
        """The same as long as the module is: an answer about another text of it is no answer."""
        return hashlib.sha256(f"{self.path}\n{self.source}".encode()).hexdigest()[:16]

    def shown(self) -> str:
        """Where it is and what it changes, without the lines that both have."""
        old, new = (textwrap.wrap(each, 110) or [""] for each in _around(self.before, self.after))
        lines = [*(f"  - {each}" for each in old), *(f"  + {each}" for each in new)]
        return "\n".join([f"{self.path}:{self.lines.start} {self.kind}", *lines])


def _around(before: str, after: str, context: int = 50) -> tuple[str, str]:
    """The two texts, shortened to where they differ."""
    start = next((at for at, (one, two) in enumerate(zip(before, after, strict=False)) if one != two), 0)
    end = next((at for at, (one, two) in enumerate(zip(before[::-1], after[::-1], strict=False)) if one != two), 0)
    return tuple(  # type: ignore[return-value]
        " ".join(each[max(0, start - context) : max(start, len(each) - end) + context].split())
        for each in (before, after)
    )


def drawn(seed: int, count: int, packages: Sequence[str]) -> list[Mutant]:
    """So many statements, each equally likely, each broken in one of the ways it can be: a kind, then a place."""
    chance = random.Random(seed)
    trees = {path: ast.parse(path.read_text()) for path in _modules(packages)}
    population = [(path, each) for path, tree in trees.items() for each in statements(tree)]
    print(f"seed {seed}: {count} of {len(population)} statements in {len(trees)} modules", flush=True)
    return [
        _broken(path, trees[path], each, chance)
        for path, each in chance.sample(population, min(count, len(population)))
    ]


def _modules(packages: Sequence[str]) -> Iterator[Path]:
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(COMPILED) and (not packages or name.startswith(tuple(packages))):
            yield path


def _broken(path: Path, tree: ast.Module, statement, chance: random.Random) -> Mutant:  # type: ignore[no-untyped-def]
    edits = statement.edits()
    kind = chance.choice(sorted({each.kind for each in edits}))
    edit = chance.choice([each for each in edits if each.kind == kind])
    before = statement.shown()
    undo = edit.put()
    try:
        after = "pass" if kind == "dropped statement" else statement.shown()
        source = ast.unparse(ast.fix_missing_locations(tree))
    finally:
        undo.put()
    return Mutant(
        path=path.relative_to(SOURCE).as_posix(),
        lines=statement.lines,
        kind=kind,
        before=before,
        after=after,
        source=source,
    )


def asked(
    mutants: Sequence[Mutant], covering: Covering, *, workers: int, limit_s: float, again: bool
) -> dict[str, str]:
    """Who saw each mutant, by its key; empty where no test did. Known answers are not asked for again."""
    kept = STATE / "answers.jsonl"
    answers = dict(json.loads(line) for line in kept.read_text().splitlines()) if kept.exists() else {}
    left = [each for each in mutants if each.key not in answers or (again and not answers[each.key])]
    running: dict[int, tuple[Mutant, Path, float]] = {}
    shown = -1
    while left or running:
        while left and len(running) < workers:
            mutant = left.pop(0)
            trial = _trial(mutant, covering, limit_s)
            told = STATE / f"{mutant.key}.told"
            if not trial.tests:
                _keep(kept, answers, mutant, "")
                continue
            running[trial.start(told)] = (mutant, told, time.monotonic())
        if running:
            _reap(running, kept, answers)
            if shown != len(left) + len(running):
                shown = len(left) + len(running)
                print(f"\r{shown} to go ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return answers


def control(covering: Covering, mutants: Sequence[Mutant], limit_s: float) -> None:
    """The first module as it stands must survive its tests: otherwise every mutant would seem to be seen."""
    if not mutants:
        return
    whole = replace(mutants[0], source=(SOURCE / mutants[0].path).read_text())
    told = STATE / "control.told"
    _, status = os.waitpid(_trial(whole, covering, limit_s).start(told), 0)
    if status:
        raise SystemExit(f"{whole.path} without a mutant fails: {told.read_text() if told.exists() else status}")


def _trial(mutant: Mutant, covering: Covering, limit_s: float) -> Trial:
    """The mutant and as many of its tests, fastest first, as the limit allows."""
    chosen: list[str] = []
    total_s = 0.0
    for test in covering.tests(SOURCE / mutant.path, mutant.lines):
        total_s += covering.took_s[test]
        if chosen and total_s > limit_s:
            break
        chosen.append(test)
    return Trial(module=mutant.module, source=mutant.source, tests=chosen, tests_s=total_s)


def _reap(running: dict[int, tuple[Mutant, Path, float]], kept: Path, answers: dict[str, str]) -> None:
    """Wait for one child; one that outlives every limit has hung, which a person would have seen."""
    child, status = os.waitpid(-1, os.WNOHANG)
    if not child:
        time.sleep(0.05)
        for late, (_, _, began) in running.items():
            if time.monotonic() - began > WALL_S:
                os.kill(late, signal.SIGKILL)
        return
    mutant, told, _ = running.pop(child)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == BROKEN:
        raise SystemExit(f"{mutant.path}: the trial failed: {told.read_text()}")
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGTERM, signal.SIGINT):
        raise SystemExit(f"{mutant.path}: the trial was ended from outside, which says nothing about the mutant")
    by = "its time limit" if os.WIFSIGNALED(status) else told.read_text() if told.exists() else ""
    told.unlink(missing_ok=True)
    _keep(kept, answers, mutant, by)


def _keep(kept: Path, answers: dict[str, str], mutant: Mutant, by: str) -> None:
    answers[mutant.key] = by
    with kept.open("a") as file:
        file.write(json.dumps([mutant.key, by]) + "\n")


def _equivalent(mutant: Mutant, listed: Sequence[dict[str, str]]) -> str | None:
    """Why no test can see this mutant, where someone has looked; pieces of the statement tell which it is."""
    for each in listed:
        pieces = ((each["before"], mutant.before), (each["after"], mutant.after))
        if each["path"] == mutant.path and all(_plain(piece) in _plain(text) for piece, text in pieces):
            return each["reason"]
    return None


def _plain(text: str) -> str:
    return " ".join(text.split())


def summary(mutants: Sequence[Mutant], answers: dict[str, str], *, seed: int) -> tuple[str, bool]:
    """The block for bench/RESULTS.md, and whether enough was seen."""
    listed = tomllib.loads(EQUIVALENT.read_text()).get("equivalent", []) if EQUIVALENT.exists() else []
    survived = [each for each in mutants if not answers[each.key]]
    excluded = {each.key: reason for each in survived if (reason := _equivalent(each, listed)) is not None}
    survivors = [each for each in survived if each.key not in excluded]
    asked_for = len(mutants) - len(excluded)
    killed = asked_for - len(survivors)
    found = (
        f"{len(mutants)} mutants, seed {seed}: {killed} killed, {len(survivors)} survived, {len(excluded)} equivalent "
        f"and excluded; {100 * killed / max(1, asked_for):.1f} % killed."
    )
    lines = [
        f'## Mutants outside the kernel (`make mutation ARGS="--seed {seed} --count {len(mutants)}"`)',
        "",
        found,
        "",
        *_table(mutants, answers, excluded, "package"),
        "",
        *_table(mutants, answers, excluded, "kind"),
        "",
    ]
    for title, rows in (
        ("Survivors", survivors),
        ("Excluded as equivalent", [m for m in mutants if m.key in excluded]),
    ):
        lines += [f"{title}:" if rows else f"{title}: none.", ""]
        for each in sorted(rows, key=lambda one: (one.path, one.lines.start)):
            why = f"  ({excluded[each.key]})" if each.key in excluded else ""
            lines += ["```diff", each.shown() + why, "```"]
    enough = killed >= WANTED_FRACTION * asked_for and len(excluded) <= MOST_EXCLUDED_FRACTION * len(mutants)
    return "\n".join(lines), enough


def _table(mutants: Sequence[Mutant], answers: dict[str, str], excluded: dict[str, str], by: str) -> list[str]:
    asked_for = [each for each in mutants if each.key not in excluded]
    drawn_by = Counter(getattr(each, by) for each in asked_for)
    killed_by = Counter(getattr(each, by) for each in asked_for if answers[each.key])
    rows = [
        f"| {name} | {all_} | {killed_by[name]} | {100 * killed_by[name] / all_:.0f} % |"
        for name, all_ in sorted(drawn_by.items())
    ]
    return [f"| {by} | mutants | killed | share |", "|---|---|---|---|", *rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--package", action="append", default=[], help="a package or a module, for example memory")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=float, default=30.0, help="seconds of tests a mutant")
    parser.add_argument("--again", action="store_true", help="ask once more about known survivors")
    parser.add_argument("--quick", action="store_true", help="without the slow tests")
    parser.add_argument("--keep-coverage", action="store_true", help="though the source changed since it was gathered")
    given = parser.parse_args()
    if os.environ.get("ULLAGE_MUTATION") != "ready":
        os.execve(
            sys.executable,
            [sys.executable, "-m", "bench.mutation", *sys.argv[1:]],
            {**environment(), "ULLAGE_MUTATION": "ready"},
        )
    mutants = drawn(given.seed, given.count, given.package)
    covering = gathered(STATE, workers=given.workers, quick=given.quick, keep=given.keep_coverage)
    import_libraries()
    control(covering, mutants, given.limit)
    answers = asked(mutants, covering, workers=given.workers, limit_s=given.limit, again=given.again)
    text, enough = summary(mutants, answers, seed=given.seed)
    (STATE / "summary.md").write_text(text + "\n")
    print(text)
    sys.exit(0 if enough else 1)


if __name__ == "__main__":
    main()
