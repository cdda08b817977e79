"""The command line: arguments in, printing out. No arithmetic, no loading.

`main` answers `--help` and `--version` from a table before anything else is imported, so that they cost
little more than the interpreter. Every other call goes to the Typer application in app.py, which
imports only the verb that was asked for.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line and end the process with a documented exit code."""
    arguments = sys.argv[1:]
    # The shell asks for completions with an empty command line and this variable.
    is_completing = "_ULLAGE_COMPLETE" in os.environ
    if arguments in ([], ["--help"], ["-h"]) and not is_completing:
        from ullage.cli.help import top_level_help

        sys.stdout.write(top_level_help())
    elif arguments == ["--version"]:
        from ullage import __version__

        sys.stdout.write(f"ullage {__version__}\n")
    else:
        from ullage.cli.app import run

        sys.exit(run(arguments))
