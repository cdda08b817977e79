"""Printing: the answer goes to stdout, talk goes to stderr, and a bar appears when work takes over a second."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.errors import Rejection

# A file or a pipe has no width; output to one must not depend on the window it was made in.
PLAIN_WIDTH = 110


class Report(Protocol):
    """How a verb says how far it is: the share done, from 0 to 1."""

    def __call__(self, fraction: float, /) -> None: ...


def answer(*parts: RenderableType, no_color: bool = False) -> None:
    """Print the answer to stdout: coloured and as wide as the window there, plain and of one width elsewhere."""
    from rich.console import Console

    is_terminal = sys.stdout.isatty()
    plain = no_color or not is_terminal or "NO_COLOR" in os.environ
    console = Console(
        file=sys.stdout,
        width=None if is_terminal else PLAIN_WIDTH,
        color_system=None if plain else "auto",
        highlight=False,
    )
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    # Tables pad their last column; nobody wants the blanks in a file.
    answer_text("\n".join(line.rstrip() for line in captured.get().splitlines()))


def answer_text(text: str) -> None:
    """Print text that is already final, such as JSON."""
    try:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has gone: what it did not read, nobody misses.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def answer_refusal(verb: str, refused: Rejection, *, json: bool, no_color: bool = False) -> int:
    """Print why there is no plan and what would help; the exit code of a refusal."""
    from ullage.errors import ExitCode
    from ullage.report.encode import refusal_json, to_text
    from ullage.report.refusal import refusal_page

    if json:
        answer_text(to_text(refusal_json(verb, refused)))
    else:
        answer(*refusal_page(refused), no_color=no_color)
    return ExitCode.REFUSED


def talk(text: str, *, quiet: bool) -> None:
    """Say something beside the answer."""
    if not quiet:
        sys.stderr.write(f"{text}\n")


@contextmanager
def progress(what: str, *, quiet: bool) -> Iterator[Report]:
    """A bar on stderr from the first second on; nothing at all where stderr is not a terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda _fraction: None
        return
    from rich.console import Console
    from rich.progress import Progress

    started_s = time.monotonic()
    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=1.0)
    shown = False

    def report(fraction: float, /) -> None:
        nonlocal shown
        if not shown and time.monotonic() - started_s > 1.0:
            bar.start()
            shown = True
        bar.update(task, completed=fraction)

    try:
        yield report
    finally:
        if shown:
            bar.stop()


@contextmanager
def waiting(what: str, *, quiet: bool) -> Iterator[None]:
    """A spinner on stderr from the first second on, for work that cannot say how far it is."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from threading import Timer

    from rich.console import Console

    spinner = Console(stderr=True).status(what)
    timer = Timer(1.0, spinner.start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        spinner.stop()
