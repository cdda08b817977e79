"""Printing: the answer goes to stdout, talk goes to stderr, and a bar appears when work takes over a second."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ullage.errors import ExitCode

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.execute.run import Progress
    from ullage.verbs.answer import VerbAnswer

# A file or a pipe has no width; output to one must not depend on the window it was made in.
PLAIN_WIDTH = 110
# Work that ends sooner needs no bar.
SHOWN_AFTER_S = 1.0


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


def answered(found: VerbAnswer, *, json: bool, markdown: bool = False, no_color: bool = False) -> int:
    """Print an answer as it was asked for; the exit code, which is that of a refusal where it is one."""
    from ullage.verbs.answer import Refusal
    from ullage.verbs.what_if import last

    if json:
        from ullage.report.encode import to_text

        answer_text(to_text(found.to_dict()))
    elif markdown:
        from ullage.report.markdown import to_markdown

        answer_text(to_markdown(found.page()))
    else:
        answer(*found.page(), no_color=no_color)
    return ExitCode.REFUSED if isinstance(last(found), Refusal) else ExitCode.OK


def talk(text: str, *, quiet: bool) -> None:
    """Say something beside the answer."""
    if not quiet:
        sys.stderr.write(f"{text}\n")


@contextmanager
def progress(what: str, *, quiet: bool) -> Iterator[Progress]:
    """The stage and a bar on stderr from the first second on; nothing at all where stderr is not a terminal.

    Work that does not say how far it is has a bar that only shows that it goes on.
    """
    if quiet or not sys.stderr.isatty():
        yield _unheard
        return
    from threading import Timer

    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(what, total=None)

    def report(fraction: float, stage: str = "", /) -> None:
        bar.update(task, total=1.0, completed=fraction, description=f"{what}: {stage}" if stage else what)

    timer = Timer(SHOWN_AFTER_S, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield report
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


def _unheard(fraction: float, stage: str = "", /) -> None:
    """Nobody looks."""
