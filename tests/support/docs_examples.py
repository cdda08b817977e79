"""The examples in the documentation, found, run, compared and recorded.

- A ```` ```console ```` block holds lines that start with `$ ` and, below each, what it prints. Each command runs in
  bash in a folder of its page's own; stdout is compared, a non-zero ending adds a line `[exit N]`, and a line `...`
  stands for any number of lines. Where `ullage` comes first it runs in this process, and what it prints goes on to the
  rest of the line: an interpreter for each of two hundred examples is minutes, and the programs that tests/cli starts
  show that a process prints the same.
- A ```` ```python ```` block is executed; the blocks of one page share their names.
- A ```` ```pycon ```` block is a doctest.
- ```` ```sh ```` blocks are for reading and are not run.

`python -m support.docs_examples` (see `make docs-record`) writes the real output into the console blocks.
"""

from __future__ import annotations

import doctest
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from support import json_schemas, plan_keys
from support.kept_plans import kept_plans, typed_environment
from ullage.cli import main as ullage_main

ROOT = Path(__file__).resolve().parents[2]
# What no reader of the documentation should see: an example that fails is mended, not recorded.
TRACEBACK = "Traceback (most recent call last)"
_BLOCK = re.compile(r"^```(console|python|pycon)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Command:
    """One line to type, and what the page says it prints."""

    typed: str
    printed: str


def pages() -> list[Path]:
    """Every page that may hold examples."""
    return sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def blocks(text: str) -> Iterator[tuple[str, str]]:
    for found in _BLOCK.finditer(text):
        yield found.group(1), found.group(2)


def commands(block: str) -> list[Command]:
    """A console block as commands; a command goes on over lines that start with `> `."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
    assert parts[0].strip() == "", f"a console block starts with '$ ': {parts[0]!r}"
    found = []
    for part in parts[1:]:
        lines = part.splitlines()
        typed = [lines[0]]
        rest = lines[1:]
        while rest and rest[0].startswith("> "):
            typed.append(rest.pop(0)[2:])
        found.append(Command(typed="\n".join(typed), printed="\n".join(rest).rstrip()))
    return found


# `ullage` with arguments that no shell would change, and the pipe or file that its answer goes to.
_ULLAGE = re.compile(r"(ullage(?: (?:[^|<>;&$`\n\\]|\\\n)*)?)((?:[|>][^|&].*)?)", re.DOTALL)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def run(typed: str, folder: Path) -> str:
    """What the command prints in this folder, as a reader without a terminal sees it."""
    ended = _run_here(typed, folder) or _run_in_bash(typed, folder)
    lines = [line.rstrip() for line in ended.stdout.splitlines()]
    if ended.returncode != 0:
        lines += [line.rstrip() for line in ended.stderr.splitlines()] + [f"[exit {ended.returncode}]"]
    return "\n".join(lines).rstrip()


def _run_in_bash(typed: str, folder: Path, given: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", typed],
        cwd=folder,
        env=typed_environment(),
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )


def _run_here(typed: str, folder: Path) -> subprocess.CompletedProcess[str] | None:
    """The same for a line that `ullage` begins, without a process for it; nothing for any other line."""
    found = _ULLAGE.fullmatch(typed)
    if found is None or "ullage " in found.group(2) or re.search(r"[*?~{}\[\]#!()]", _QUOTED.sub("", found.group(1))):
        return None
    ended = _ended(shlex.split(found.group(1))[1:], folder)
    if not found.group(2):
        return ended
    rest = _run_in_bash(f"cat {found.group(2)}", folder, given=ended.stdout)
    # A pipe ends as its last command does, a line that writes a file as its first.
    code = ended.returncode if found.group(2).startswith(">") else rest.returncode
    return subprocess.CompletedProcess(typed, code, rest.stdout, ended.stderr + rest.stderr)


def _ended(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    shown, said = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    before, code = (sys.argv, dict(os.environ)), 0
    sys.argv, os.environ["NO_COLOR"] = ["ullage", *arguments], "1"
    try:
        with chdir(folder), kept_plans(), redirect_stdout(shown), redirect_stderr(said):
            ullage_main()
    except SystemExit as ending:
        code = int(ending.code or 0)
    finally:
        sys.argv = before[0]
        os.environ.clear()
        os.environ.update(before[1])
    texts = (each.buffer.getvalue().decode() for each in (shown, said))
    return subprocess.CompletedProcess(arguments, code, *texts)


def matches(expected: str, printed: str) -> bool:
    """Whether the output is the recorded one, where `...` alone on a line stands for any lines."""
    pieces = [re.escape(piece) for piece in re.split(r"^\.\.\.$", expected, flags=re.MULTILINE)]
    return re.fullmatch("(?:.*\n)?.*".join(pieces), printed, flags=re.DOTALL) is not None


def run_python(kind: str, block: str, names: dict[str, object], page: str) -> None:
    if kind == "python":
        with kept_plans():
            exec(compile(block, page, "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(block, names, page, page, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    report: list[str] = []
    with kept_plans():
        runner.run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    assert runner.failures == 0, "".join(report)


def record(page: Path) -> bool:
    """Write what the commands print today into the page; blocks with `...` are left to their author."""
    text = page.read_text()
    with tempfile.TemporaryDirectory() as folder:

        def renewed(found: re.Match[str]) -> str:
            if found.group(1) != "console":
                return found.group(0)
            lines = []
            for each in commands(found.group(2)):
                printed = run(each.typed, Path(folder))
                if TRACEBACK in printed:
                    sys.exit(f"{page}: an example fails and is not recorded\n$ {each.typed}\n{printed}")
                typed = each.typed.replace("\n", "\n> ")
                keep = "..." in each.printed.splitlines() and matches(each.printed, printed)
                shown = each.printed if keep else printed
                lines.append(f"$ {typed}\n" + (f"{shown}\n" if shown else ""))
            return "```console\n" + "".join(lines) + "```"

        new = _BLOCK.sub(renewed, text)
    if new != text:
        page.write_text(new)
    return new != text


def write_schema() -> None:
    """The JSON Schemas and the list of keys, from the code that reads and prints them."""
    from ullage.files.plan_file import plan_file_schema

    text = json.dumps(plan_file_schema(), indent=2, ensure_ascii=False) + "\n"
    (ROOT / "docs" / "reference" / "plan.schema.json").write_text(text)
    json_schemas.write()
    (ROOT / "docs" / "reference" / "plan-file-keys.md").write_text(plan_keys.page())


def main() -> None:
    write_schema()
    named = [Path(each).resolve() for each in sys.argv[1:]]
    for page in named or pages():
        if record(page):
            sys.stdout.write(f"recorded {page.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
