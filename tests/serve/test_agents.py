"""The verbs that only look, as an agent meets them: a client of the public package against `ullage mcp`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from ullage import verbs
from ullage.serve.agents import agent_server
from ullage.serve.requests import AGENT_VERBS
from ullage.serve.runner import Ending, Runner, ServedWork
from ullage.serve.settings import ServeSettings

WRITING = {"init", "ledger", "reconcile", "profile", "forecast", "calibrate", "brownfield"}


def asked(*calls: tuple[str, dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """The tools, and the results of these calls, of one server."""

    async def go() -> tuple[list[Any], list[Any]]:
        started = StdioServerParameters(command=sys.executable, args=["-m", "ullage", "mcp"], env=dict(os.environ))
        async with Client(started) as client:
            tools = (await client.list_tools()).tools
            return tools, [await client.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(go())


@pytest.mark.slow
def test_an_agent_looks_and_neither_writes_nor_reads_files() -> None:
    memory = {"model": "llama-3.1-8b", "device": "h100-sxm", "as_of": "2026-11-15"}
    tools, found = asked(
        ("memory", memory),
        ("memory", {"model": "/etc/passwd", "device": "h100-sxm"}),
        ("plan", {"set": {"workload.trace": ["/etc/passwd"]}}),
        ("plan", {"keep": True}),
        ("init", {"model": "llama-3.1-8b"}),
        ("facts", {"kind": "nonsense"}),
    )
    assert [each.name for each in tools] == list(AGENT_VERBS)
    assert not WRITING & {each.name for each in tools}
    assert not {"keep", "rules", "usage"} & {name for each in tools for name in each.input_schema["properties"]}
    said = json.loads(found[0].content[0].text)
    assert not found[0].is_error
    assert said["schema"] == "ullage.memory/2"
    assert said["kv_tokens"] == verbs.memory("llama-3.1-8b", device="h100-sxm").to_dict()["kv_tokens"]
    for each in found[1:]:
        assert each.is_error
        assert json.loads(each.content[0].text)["status"] in (400, 422)
        assert "root:" not in each.content[0].text


class CountingRunner(Runner):
    """A runner that starts no process, and remembers how many calls it had at once."""

    now = most = 0

    async def run(self, work: ServedWork, *, seconds: float, **_: Any) -> Ending:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.01)
        self.now -= 1
        return Ending(kind="answer", body=b"{}")


def test_an_agent_that_asks_for_everything_at_once_gets_it_by_turns(tmp_path: Path) -> None:
    settings = ServeSettings(folder=tmp_path, workers=2)
    runner = CountingRunner(settings)

    async def go() -> list[Any]:
        async with Client(agent_server(runner, settings)) as client:
            long = {"plan": "x" * settings.limits.body_bytes}
            calls = [("facts", {"kind": "devices"})] * 12 + [("plan", long)]
            return await asyncio.gather(*(client.call_tool(name, given) for name, given in calls))

    *found, refused = asyncio.run(go())
    assert [each.content[0].text for each in found] == ["{}"] * 12
    assert runner.most == settings.workers
    assert json.loads(refused.content[0].text)["status"] == 413
