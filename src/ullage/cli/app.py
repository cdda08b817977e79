"""The Typer application: finds the verb, runs it, and turns every ending into a documented exit code."""

from __future__ import annotations

import errno
import importlib
import os
import re
import signal
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from threading import Event, current_thread, main_thread
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from ullage.cli.help import COMMANDS, MODULES, top_level_help
from ullage.cli.terminal import talk
from ullage.errors import ExitCode, UllageError, unknown_name
from ullage.execute.machine import check_memory

# stdin, stdout and stderr are numbered 0, 1 and 2.
_STANDARD_FILES = 2
# What loads neither a compiler nor a database, and is of use in the smallest container.
_LIGHT = frozenset({"--help", "-h", "--version", "facts", "init", "ledger"})
# What the loader of libraries says where there is no memory for one.
_NO_ROOM = ("failed to map segment", "cannot allocate memory", "could not load shared object")
# How long a first Ctrl-C has to end the work before it is raised again.
_ASK_AGAIN_S = 0.5


class _Verbs(TyperGroup):
    """A group whose commands are imported when they are asked for, not before."""

    def list_commands(self, ctx: object) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: object, cmd_name: str) -> TyperCommand | None:
        if cmd_name not in COMMANDS:
            return None
        return _command(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if not args[0].startswith("-") and args[0] not in COMMANDS:
            raise unknown_name(field="verb", name=args[0], known=COMMANDS)
        return super().resolve_command(ctx, args)

    def get_help(self, ctx: object) -> str:
        return top_level_help()


def _command(verb: str) -> TyperCommand:
    single = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    module = importlib.import_module(f"ullage.cli.{MODULES.get(verb, verb)}")
    single.command(name=verb)(module.command)
    found = get_command(single)
    assert isinstance(found, TyperCommand)
    found.short_help = COMMANDS[verb]
    return found


def _application() -> TyperGroup:
    app = typer.Typer(cls=_Verbs, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.callback()(_no_options)
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    return group


def _no_options() -> None:
    """Options belong to the verbs."""


def run(arguments: Sequence[str]) -> int:
    """The exit code of this command line; what went wrong is on stderr, in one line."""
    _open_standard_files()
    with _interrupts() as asked_to_stop:
        ending = _ending(arguments)
    return ExitCode.INTERRUPTED if asked_to_stop.is_set() else ending


def _ending(arguments: Sequence[str]) -> int:
    try:
        if not _LIGHT & {*arguments}:
            check_memory()
        ending = _application().main(args=list(arguments), prog_name="ullage", standalone_mode=False)
        # A verb returns its own exit code; Typer returns 130 for Ctrl-C.
        return _interrupted() if ending == ExitCode.INTERRUPTED else int(ending or ExitCode.OK)
    except UllageError as error:
        return _fail(str(error), error.exit_code)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        command = "ullage" if context is None else context.command_path
        return _fail(f"{_in_our_words(error, arguments)}. See {command} --help.", ExitCode.WRONG_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except (OSError, ImportError) as error:
        if _is_for_memory(error):
            return _fail_for_memory()
        if isinstance(error, ImportError):
            return _fail_inside(error)
        named = "" if error.filename is None else f" {str(error.filename)!r}"
        reason = (error.strerror or str(error)).lower()
        return _fail(f"file{named}: {reason}. Check the path and its rights.", ExitCode.WRONG_INPUT)
    except MemoryError:
        return _fail_for_memory()
    except Exception as error:  # noqa: BLE001 - the last resort, so that no user sees a traceback unasked
        return _fail_inside(error)


_WRONG_OPTION = re.compile(r"Invalid value for '(?P<names>[^']*)'[^:]*: Input should be (?P<expected>[^,]*)")
_EXPECTED = {
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
}


def _in_our_words(error: typer.TyperException, arguments: Sequence[str]) -> str:
    """What is wrong with an option, with its value; the rest as Typer says it."""
    said = error.format_message().rstrip(". ")
    wrong = _WRONG_OPTION.match(said)
    if wrong is None:
        return said
    names = [each.strip() for each in wrong["names"].split("/")]
    pairs = [(each.partition("=")[0], each.partition("=")[2] or then) for each, then in pairwise([*arguments, ""])]
    value = next((value for name, value in pairs if name in names), "")
    expected = wrong["expected"]
    for theirs, ours in _EXPECTED.items():
        expected = expected.replace(theirs, ours)
    return f"{names[0]} = {value!r}: is not {expected}"


def _open_standard_files() -> None:
    """A closed stdin, stdout or stderr is given the null device, lest the next file that is opened takes its place."""
    while (opened := os.open(os.devnull, os.O_WRONLY)) <= _STANDARD_FILES:
        pass
    os.close(opened)


@contextmanager
def _interrupts() -> Iterator[Event]:
    """Ctrl-C asks until it is heard: raised inside a destructor or a library's callback it would be lost there.

    Somebody else's handler, or an interrupt that is ignored, is left alone.
    """
    asked = Event()
    if current_thread() is not main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield asked
        return

    def ask(_number: int, _frame: object) -> None:
        asked.set()
        signal.setitimer(signal.ITIMER_REAL, _ASK_AGAIN_S)
        raise KeyboardInterrupt

    alarm = signal.signal(signal.SIGALRM, ask)
    signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGALRM, alarm)


def _fail(message: str, code: ExitCode) -> int:
    talk(f"error: {message}", quiet=False)
    return code


def _interrupted() -> int:
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    return _fail("interrupted; nothing was written", ExitCode.INTERRUPTED)


def _is_for_memory(error: Exception) -> bool:
    """Whether a library could not be loaded, or something else be had, for want of memory."""
    said = str(error).lower()
    return getattr(error, "errno", None) == errno.ENOMEM or any(each in said for each in _NO_ROOM)


def _fail_for_memory() -> int:
    fix = "Give less of it, or a machine with more memory."
    return _fail(f"memory: not enough of it for what this input asks for. {fix}", ExitCode.WRONG_INPUT)


def _fail_inside(error: Exception) -> int:
    if os.environ.get("ULLAGE_TRACEBACK"):
        traceback.print_exception(error)
    hint = "This is a fault in ullage, not in your input. Run again with ULLAGE_TRACEBACK=1 for the details."
    return _fail(f"{type(error).__name__}: {error}. {hint}", ExitCode.INTERNAL)
