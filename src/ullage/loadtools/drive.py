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
from ullage.files.whole import write_whole
from ullage.load.evidence import load_tests
from ullage.loadtools.installed import InstalledTool
from ullage.service.loadtests.loadtest import LoadTest

_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "DO_NOT_TRACK": "1"}
_MOST_FAILED_FRACTION = 0.1
_GRACE_S = 10.0
_SAID_LINES = 3
# Of what a tool says, the end: progress bars run to megabytes.
_KEPT_BYTES = 200_000


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
    ended, said = _process(tool.command(run), folder, timeout_s, {**(environment or os.environ), **_OFFLINE})
    wall_s = time.monotonic() - began
    write_whole(log, said, field="--folder", force=True)
    if ended is None:
        return DrivenTest(wall_s=wall_s, result=None, problem=f"took longer than {timeout_s:.0f} s and was stopped")
    if ended != 0:
        return DrivenTest(wall_s=wall_s, result=None, problem=f"ended with code {ended}: {_last_lines(said)}")
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


def _process(command: list[str], folder: Path, timeout_s: float, environment: dict[str, str]) -> tuple[int | None, str]:
    """The exit code, None where time ran out, and what was said; whatever ends the wait ends all that was started."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
    )
    code: int | None = None
    said = b""
    try:
        said, _ = process.communicate(timeout=timeout_s)
        code = process.returncode
    except subprocess.TimeoutExpired as late:
        said = late.stdout or b""
    finally:
        _end(process)
    return code, said[-_KEPT_BYTES:].decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    for each in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, each)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_GRACE_S)
            return


def _last_lines(said: str) -> str:
    lines = said.strip().splitlines()[-_SAID_LINES:]
    return " / ".join(each.strip()[:200] for each in lines) or "it said nothing"
