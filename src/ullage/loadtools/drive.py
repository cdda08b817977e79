"""One test run by a load tool in a process of its own: bounded in time, ended as a whole, its result read.

The tool gets the named address and files of one folder. Model hubs are switched off for it, so that a tokenizer that is
not here already is an error and no download: nothing but the named host is talked to.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ullage.emit.loadtests.tools import ReplayRun
from ullage.errors import InputError
from ullage.load.evidence import load_tests
from ullage.loadtools.installed import InstalledTool
from ullage.service.loadtests.loadtest import LoadTest

_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "DO_NOT_TRACK": "1"}
_MOST_FAILED_FRACTION = 0.1
_GRACE_S = 10.0
_SAID_LINES = 3


@dataclass(frozen=True, kw_only=True)
class DrivenTest:
    """How a run of a tool ended: with its result, or with what was wrong; and how long it took either way."""

    wall_s: float
    result: LoadTest | None
    problem: str = ""


def drive(
    tool: InstalledTool, run: ReplayRun, *, folder: Path, timeout_s: float, environment: Mapping[str, str] | None = None
) -> DrivenTest:
    """Run one test in a folder; what the tool says goes into a log beside its result."""
    log = folder / f"{Path(run.result).name}.log"
    began = time.monotonic()
    ended = _process(tool.command(run), folder, log, timeout_s, {**(environment or os.environ), **_OFFLINE})
    wall_s = time.monotonic() - began
    if ended is None:
        return DrivenTest(wall_s=wall_s, result=None, problem=f"took longer than {timeout_s:.0f} s and was ended")
    if ended != 0:
        return DrivenTest(wall_s=wall_s, result=None, problem=f"ended with code {ended}: {_last_lines(log)}")
    result = tool.tool.result(folder / run.result)
    try:
        test = load_tests([result])[0]
    except (InputError, OSError) as error:
        return DrivenTest(wall_s=wall_s, result=None, problem=f"left no result that can be read: {error}")
    return DrivenTest(wall_s=wall_s, result=test, problem=_problem(test, run.requests))


def _problem(test: LoadTest, asked: int) -> str:
    """What makes a result unfit to be measured by; nothing where all is well."""
    for point in test.points:
        done, failed = point.completed_count or 0, point.failed_count or 0
        if failed > _MOST_FAILED_FRACTION * max(asked, 1) or done < (1.0 - _MOST_FAILED_FRACTION) * asked:
            return f"answered {done} of {asked} requests"
    return "" if test.points else "holds no point"


def _process(command: list[str], folder: Path, log: Path, timeout_s: float, environment: dict[str, str]) -> int | None:
    """The exit code, or None where time ran out; whatever ends the wait ends the tool and all that it started."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            return process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    for each in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, each)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_GRACE_S)
            return


def _last_lines(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()[-_SAID_LINES:]
    return " / ".join(each.strip()[:200] for each in lines) or "it said nothing"
