"""Which load tool drives the tests: one that is on the PATH, or the one that was named."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ullage.emit.loadtests.tools import ReplayRun, aiperf_words, guidellm_words, vllm_words
from ullage.errors import InputError


@dataclass(frozen=True, kw_only=True)
class LoadTool:
    """A load tool: its program, its command, and where its result is, below the name it was given."""

    name: str
    words: Callable[[ReplayRun], list[str]]
    result: Callable[[Path], Path]


def _json(result: Path) -> Path:
    return result.with_name(f"{result.name}.json")


# In the order in which they are looked for: those that wait least between two requests first.
LOAD_TOOLS = (
    LoadTool(name="guidellm", words=guidellm_words, result=_json),
    LoadTool(name="vllm", words=vllm_words, result=_json),
    LoadTool(name="aiperf", words=aiperf_words, result=lambda result: result),
)


@dataclass(frozen=True, kw_only=True)
class InstalledTool:
    """A load tool and the program that it is here."""

    tool: LoadTool
    program: str

    def command(self, run: ReplayRun) -> list[str]:
        return [self.program, *self.tool.words(run)[1:]]


def find_tool(named: str | None = None) -> InstalledTool:
    """The tool that was named, by its name or the path of its program; else the first that is installed."""
    names = [each.name for each in LOAD_TOOLS]
    if named is None:
        for each in LOAD_TOOLS:
            program = shutil.which(each.name)
            if program is not None:
                return InstalledTool(tool=each, program=program)
        raise InputError(
            field="--tool",
            value=None,
            problem=f"no load tool is on the PATH; known are {', '.join(names)}",
            fix="Install one in an environment of its own, and give --tool with the path of its program.",
        )
    tool = next((each for each in LOAD_TOOLS if each.name == Path(named).name), None)
    if tool is None:
        raise InputError(
            field="--tool",
            value=named,
            problem=f"is not one of {', '.join(names)}",
            fix="Give one of these names, or the path of a program that is called so.",
        )
    program = shutil.which(named) if os.sep not in named else named if os.access(named, os.X_OK) else None
    if program is None:
        raise InputError(field="--tool", value=named, problem="is not installed", fix="Give the path of its program.")
    return InstalledTool(tool=tool, program=program)
