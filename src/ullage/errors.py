"""What can go wrong, and what each ending means to the shell.

    UllageError                     every error this program raises on purpose
    ├── InputError      exit 2      a wrong input: field, value, problem, fix
    └── InternalError   exit 4      our own result violates a law; never shown as a plan

Two outcomes are values, not errors, because a plan can contain them:

    Rejection           exit 3      an option or a plan that does not hold: stage, reason, figure, remedies
    NotGiven            exit 0      a stage whose input was not given; printed with what stands in for it

Exit 0 is an answer, exit 1 is left to the interpreter, exit 130 is Ctrl-C. Exit 5 is an answer that leaves a yes or no
open, for verbs whose answer is one.
"""

from __future__ import annotations

import difflib
import enum
import functools
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from ullage.evidence import Figure


class ExitCode(enum.IntEnum):
    """What the process tells the shell; documented in docs/reference/exit-codes.md."""

    OK = 0
    WRONG_INPUT = 2
    REFUSED = 3
    INTERNAL = 4
    UNDECIDED = 5
    INTERRUPTED = 130


class UllageError(Exception):
    """The root of the tree drawn above."""

    exit_code = ExitCode.INTERNAL


class InputError(UllageError):
    """A wrong input, with what it takes to mend it: `field = value: problem. fix`."""

    exit_code = ExitCode.WRONG_INPUT

    def __init__(self, *, field: str, value: object, problem: str, fix: str) -> None:
        self.field = field
        self.value = value
        self.problem = problem
        self.fix = fix
        super().__init__(f"{field} = {_brief(value)}: {problem}. {fix}")

    def __reduce__(self) -> tuple[Callable[[], InputError], tuple[()]]:
        """As it was made: an error of a worker elsewhere is raised here as what it is."""
        make = functools.partial(type(self), field=self.field, value=self.value, problem=self.problem, fix=self.fix)
        return make, ()


class InternalError(UllageError):
    """Our own result violates a law of physics or bookkeeping: a bug here, not a fault of the input."""

    exit_code = ExitCode.INTERNAL

    def __init__(self, *, law: str, left: object, right: object) -> None:
        self.law = law
        self.left = left
        self.right = right
        super().__init__(f"{law}: {left!r} against {right!r}")


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """One change that would make a refused option hold, with what it brings."""

    change: str
    effect: str


@dataclass(frozen=True, kw_only=True)
class Rejection:
    """An option that was considered and refused: where, why, by which figure, and what would help."""

    stage: str
    reason: str
    figure: Figure
    remedies: tuple[Remedy, ...]


@dataclass(frozen=True, kw_only=True)
class NotGiven:
    """A stage that had nothing to work from, what takes its place, and how to give it something."""

    stage: str
    instead: str
    fix: str


def unknown_name(*, field: str, name: str, known: Iterable[str], fix: str = "") -> InputError:
    """The error for a name that is not in a list, with the nearest names that are."""
    names = sorted(known)
    nearest = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(nearest)}?" if nearest else f"Known: {_listing(names)}."
    return InputError(field=field, value=name, problem="is not known", fix=f"{hint} {fix}".rstrip())


def check_name(name: str, known: Collection[str], *, field: str, fix: str = "") -> str:
    """The name, where it is in a list; otherwise the error of `unknown_name`."""
    if name not in known:
        raise unknown_name(field=field, name=name, known=known, fix=fix)
    return name


def _listing(names: list[str], most: int = 12) -> str:
    shown = ", ".join(names[:most])
    return f"{shown}, ... ({len(names)} in total)" if len(names) > most else shown


def _brief(value: object, most: int = 80) -> str:
    text = repr(value)
    if len(text) <= most:
        return text
    # The end of a path is its name.
    return f"{text[: most // 2]}...{text[-most // 2 :]} ({len(text)} characters)"
