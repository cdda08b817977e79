"""The terminal as it may be: ASCII, full, closed, twenty columns wide, interrupted. Each ending is a documented one."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import textwrap
from pathlib import Path

import pytest
from rich.console import Console

from support.planned import planned
from ullage.errors import ExitCode
from ullage.planning.answer.answer import answer
from ullage.report.plan.screen import Screen

ULLAGE = [sys.executable, "-m", "ullage"]
FACTS = ["facts", "devices", "h100-sxm", "--as-of", "2026-11-15"]
ASCII = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}


def ended(*arguments: str, shell: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """A run of the program, in a shell where something is to be done to its files."""
    command = ["bash", "-c", f'"$@" {shell}', "bash", *ULLAGE, *arguments]
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False, timeout=120)


@pytest.mark.slow
def test_an_ascii_terminal_gets_ascii(tmp_path: Path) -> None:
    plain = ended("facts", "models", **ASCII)
    assert plain.returncode == ExitCode.OK, plain.stderr
    assert plain.stdout.isascii()
    file = tmp_path / "plän.yaml"
    file.write_text("version: 1\nservice: größer\nworkload: {classes: [{name: Ä}]}\n")
    refused = ended("plan", str(file), **ASCII)
    assert refused.returncode == ExitCode.WRONG_INPUT
    assert refused.stderr.isascii()


@pytest.mark.slow
def test_json_for_an_ascii_terminal_is_escaped_and_the_same(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("arrival_s,prompt_tokens,output_tokens,class\n" + "".join(f"{at},10,5,größe\n" for at in range(50)))
    asked = ["profile", str(log), "--json", "--as-of", "2026-11-15"]
    plain, full = ended(*asked, **ASCII), ended(*asked, PYTHONIOENCODING="utf-8")
    assert plain.returncode == full.returncode == ExitCode.OK, plain.stderr
    assert plain.stdout.isascii()
    assert "größe" in full.stdout
    assert json.loads(plain.stdout) == json.loads(full.stdout)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_full_disk_is_named() -> None:
    full = ended(*FACTS, shell="> /dev/full")
    assert full.returncode == ExitCode.WRONG_INPUT
    assert full.stderr == (
        "error: stdout = 'cannot be written': no space left on device, so the answer is incomplete. "
        "Free some space, or send it elsewhere.\n"
    )


@pytest.mark.slow
def test_a_closed_stdout_is_named() -> None:
    closed = ended(*FACTS, shell=">&-")
    assert closed.returncode == ExitCode.WRONG_INPUT
    assert "stdout = 'closed': there is nowhere to print the answer" in closed.stderr


@pytest.mark.slow
def test_a_closed_pipe_is_named_and_keeps_the_exit_code() -> None:
    # The pipe holds less than the answer, and its reader goes at once.
    command = f"set -o pipefail; {sys.executable} -m ullage facts models --json | true"
    gone = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert gone.returncode == ExitCode.OK
    assert gone.stderr in ("", "note: stdout was closed by its reader before the whole answer was printed\n")


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["2>&-", "2> /dev/full", "2>&- >&-", "<&- 2>&-"])
def test_a_closed_stderr_keeps_the_exit_code(shell: str, tmp_path: Path) -> None:
    assert ended("plan", str(tmp_path / "none.yaml"), shell=shell).returncode == ExitCode.WRONG_INPUT
    if ">&- >&-" not in shell.replace("2>&-", "", 1):
        assert ended(*FACTS, shell=shell).returncode in (ExitCode.OK, ExitCode.WRONG_INPUT)


@pytest.mark.slow
def test_a_file_that_is_written_with_stderr_closed_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "plan.yaml"
    asked = ["init", "--model", "llama-3.1-8b", "--device", "h100-sxm", "--as-of", "2026-11-15", "--out"]
    assert ended(*asked, str(out), shell="2>&- <&-").returncode == ExitCode.OK
    assert out.read_text() == ended(*asked, "-").stdout


def test_twenty_columns(tmp_path: Path) -> None:
    """A terminal of twenty columns: nothing fails, and no line is wider."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 20, 0, 0))
    env = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    with (tmp_path / "err").open("w") as err:
        run = subprocess.Popen([*ULLAGE, *FACTS, "--no-color"], stdout=follower, stderr=err, env=env)
        os.close(follower)
        shown = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
    os.close(leader)
    assert run.wait(60) == ExitCode.OK, (tmp_path / "err").read_text()
    lines = shown.decode().splitlines()
    assert lines
    assert max(map(len, lines)) <= 20


@pytest.mark.slow
@pytest.mark.parametrize("width", [1, 8, 20, 40])
def test_a_plan_on_a_narrow_screen(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, markup=False)
    console.print(Screen(answer=answer(planned())))
    assert console.file.getvalue()  # type: ignore[attr-defined]


SWALLOWED = """
    import os, signal, sys, time
    from ullage import verbs
    from ullage.cli.app import run

    class Swallows:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)

    def caught():
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
        except BaseException:
            pass

    def plan(*_, **__):
        {how}
        for _ in range(200):
            time.sleep(0.05)
        raise SystemExit("Ctrl-C was not heard")

    verbs.plan = plan
    sys.exit(run(["plan", "--quiet"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        "Swallows()",
        "os.kill(os.getpid(), signal.SIGINT)",
        "caught()",
    ],
    ids=["in a destructor", "in plain code", "caught by a library"],
)
def test_control_c_always_ends(how: str) -> None:
    """A KeyboardInterrupt that is lost inside a destructor or a library is raised again until it is heard."""
    program = textwrap.dedent(SWALLOWED).replace("{how}", how)
    stopped = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert stopped.returncode == ExitCode.INTERRUPTED, stopped.stderr
    assert stopped.stderr.endswith("error: interrupted; nothing was written\n")
    # A destructor's own complaint, which is Python's, may stand before it; otherwise there is one line.
    assert stopped.stderr.count("\n") == 1 or how == "Swallows()"
