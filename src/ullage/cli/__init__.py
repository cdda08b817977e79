"""The command line: arguments in, printing out. No arithmetic, no loading.

`main` answers `--help` and `--version` from a table before anything else is imported, so that they cost
little more than the interpreter. Every other call goes to the Typer application in app.py, which
imports only the verb that was asked for.
"""

from __future__ import annotations

import gc
import os
import sys

# Modules and plans are many objects that stay: looking through them for cycles as often as Python does by itself is
# one CPU second in twenty.
_COLLECTED_AFTER = (50_000, 20, 100)


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
        gc.set_threshold(*_COLLECTED_AFTER)
        from ullage.cli.app import run

        sys.exit(run(arguments))
