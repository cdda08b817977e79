"""Printing: the answer goes to stdout, talk goes to stderr, and a bar appears when work takes over a second."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ullage.errors import ExitCode, InputError
from ullage.foreign import visible

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.execute.run import Progress
    from ullage.verbs.answer import VerbAnswer

# A file or a pipe has no width; output to one must not depend on the window it was made in.
PLAIN_WIDTH = 110
# Work that ends sooner needs no bar.
SHOWN_AFTER_S = 1.0


class _Sheet(io.StringIO):
    """Text in memory, for a terminal of stdout's encoding."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return (sys.stdout.encoding if sys.stdout is not None else None) or "utf-8"


def answer(*parts: RenderableType, no_color: bool = False) -> None:
    """Print the answer to stdout: coloured and as wide as the window there, plain and of one width elsewhere."""
    from rich.console import Console

    from ullage.report.foreign_parts import seen_parts

    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    plain = no_color or not is_terminal or "NO_COLOR" in os.environ
    # Drawn on a sheet of its own: stdout is written once, by the one function that knows how that can fail.
    sheet = _Sheet()
    console = Console(
        file=sheet,
        force_terminal=is_terminal,
        width=None if is_terminal else PLAIN_WIDTH,
        color_system=None if plain else "auto",
        highlight=False,
        # Names with brackets or colons in them are names, not markup and not emoji.
        markup=False,
        emoji=False,
    )
    for part in seen_parts(parts):
        console.print(part)
    # Tables pad their last column; nobody wants the blanks in a file.
    answer_text("\n".join(line.rstrip() for line in sheet.getvalue().splitlines()))


def answer_json(document: Mapping[str, Any]) -> None:
    """Print a document: in full where stdout takes every character, escaped where it does not."""
    from ullage.foreign import json_text
    from ullage.report.encode import to_text

    text = to_text(document)
    answer_text(text if _takes(text) else json_text(text, ascii_only=True))


def answer_text(text: str) -> None:
    """Print text that is already final; a sign that stdout cannot show becomes a question mark."""
    if sys.stdout is None:
        raise _unprinted("closed", "there is nowhere to print the answer", "Open stdout, or send it to a file.")
    whole = text if text.endswith("\n") else f"{text}\n"
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(whole if _takes(whole) else whole.encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has gone, and wants no more: that is an ending, not an error.
        _forget_stdout()
        talk("note: stdout was closed by its reader before the whole answer was printed", quiet="--quiet" in sys.argv)
    except OSError as error:
        _forget_stdout()
        reason = (error.strerror or "no reason given").lower()
        fix = "Free some space, or send it elsewhere." if "space" in reason else "Send it elsewhere."
        raise _unprinted("cannot be written", f"{reason}, so the answer is incomplete", fix) from None


def _takes(text: str) -> bool:
    """Whether stdout can show every character of this text."""
    try:
        text.encode((sys.stdout.encoding if sys.stdout is not None else None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _unprinted(value: str, problem: str, fix: str) -> InputError:
    return InputError(field="stdout", value=value, problem=problem, fix=fix)


def _forget_stdout() -> None:
    """What stdout still holds goes nowhere; otherwise the interpreter would stumble over it once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def ask_verb(
    doing: str,
    verb: Callable[..., VerbAnswer],
    changed: list[str] | None,
    traffic: str | None,
    *,
    quiet: bool,
    example: bool = False,
) -> VerbAnswer:
    """A verb's answer, with progress on stderr; with changes, beside the answer without them.

    `example` says that no plan file was given, so that the built-in example is planned.
    """
    from ullage.verbs.what_if import what_if

    if example:
        talk(f"No plan file given: {doing} the built-in example.", quiet=quiet)
    with progress(doing, quiet=quiet) as report:
        return what_if(partial(verb, progress=report), changed, traffic)


def answered(
    found: VerbAnswer,
    *,
    json: bool,
    markdown: bool = False,
    no_color: bool = False,
    explain: str | None = None,
    verb: str = "",
) -> int:
    """Print an answer as it was asked for; the exit code, which is that of a refusal where it is one.

    `explain` names the one number of the `verb`'s answer to print with its sources, where there is an answer.
    """
    from ullage.verbs.answer import Refusal
    from ullage.verbs.what_if import last

    if explain is not None and not isinstance(last(found), Refusal):
        return explained(found, explain, verb=verb, json=json, no_color=no_color)
    if json:
        answer_json(found.to_dict())
    elif markdown:
        from ullage.report.markdown import to_markdown

        answer_text(to_markdown(found.page()))
    else:
        answer(*found.page(), no_color=no_color)
    return ExitCode.REFUSED if isinstance(last(found), Refusal) else ExitCode.OK


def explained(found: VerbAnswer, name: str, *, verb: str, json: bool, no_color: bool = False) -> int:
    """Print one number of an answer, walked back to its sources; of a what-if, the one with the changes."""
    from ullage.report.encode import explained_json
    from ullage.report.explanation import explanation
    from ullage.verbs.what_if import last

    whole = last(found)
    figure = whole.explained(name)
    if json:
        answer_json(explained_json(verb, figure, as_of=whole.dated()))
    else:
        answer(explanation(figure, whole.dated()), no_color=no_color)
    return ExitCode.OK


def talk(text: str, *, quiet: bool) -> None:
    """Say something beside the answer, on one line; nobody to hear it is no reason to fail."""
    if quiet or sys.stderr is None:
        return
    encoding = sys.stderr.encoding or "utf-8"
    with suppress(OSError):
        sys.stderr.write(f"{visible(text).encode(encoding, 'backslashreplace').decode(encoding)}\n")
        sys.stderr.flush()


@contextmanager
def progress(what: str, *, quiet: bool) -> Iterator[Progress]:
    """The stage and a bar on stderr from the first second on; nothing at all where stderr is not a terminal.

    Work that does not say how far it is has a bar that only shows that it goes on.
    """
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield _unheard
        return
    from threading import Timer

    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(what, total=None)

    def report(fraction: float, stage: str = "", /) -> None:
        bar.update(task, total=1.0, completed=fraction, description=visible(f"{what}: {stage}" if stage else what))

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
