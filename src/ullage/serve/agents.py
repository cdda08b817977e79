"""The verbs that only look, for an agent: tools over MCP on stdin and stdout, with the requests of the REST service.

Every call is done in a process of its own, like a request over HTTP and within the same limits. There are no uploads,
so that members that name files are left out, and a plan that names one is refused.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server
from pydantic import ValidationError

from ullage import __version__
from ullage.serve.disk import own_folder
from ullage.serve.problems import ServedProblem
from ullage.serve.requests import AGENT_VERBS, REQUESTS, request_document
from ullage.serve.runner import Runner, ServedWork
from ullage.serve.settings import ServeSettings
from ullage.serve.tasks import PROBLEM
from ullage.serve.uploads import too_large

_SAYS = {
    "plan": "Plan a fleet: replicas, reserves, machines, limits and cost, each number with its evidence.",
    "options": "Compare devices, parallelism and settings by cost per success.",
    "risk": "How often a plan's fleet falls short, which inputs move it, what to measure first.",
    "scenarios": "The best, base, worst and your own future, planned and compared.",
    "check": "Look for mistakes in a plan and in what is claimed of the service.",
    "drill": "Play on a plan what goes wrong in practice.",
    "emit": "A plan as manifests, flags, rules and limits for a cluster.",
    "scale": "Try scaling rules on a plan's traffic.",
    "compare": "Which inputs changed between two plans, which figures moved, and why.",
    "facts": "What is known about devices, models and engines, with sources and ages.",
    "memory": "Budget the memory of a device: does a model fit, and how much fits beside it.",
    "curve": "Latency and goodput of one replica by load, the knee, and the load to run at.",
    "simulate": "Serve a plan's traffic or a plain load on replicas, and say what became of it.",
    "size": "The least replicas that meet every SLO at a rate, by simulation.",
    "cost": "Every line of a month's bill, what a success costs, and who caused it.",
    "buy": "Which nodes to buy for a term, which by the hour, and what that may lose.",
}
# Members that name uploads, or that would keep something.
_LEFT_OUT = frozenset(
    {"keep", "rules", "usage", "measured", "calibration", "traces", "load_tests", "engine_logs", "old_saved",
     "new_saved", "files"}
)  # fmt: skip


def serve_agents() -> None:
    """Answer until stdin ends."""
    asyncio.run(_serve())


async def _serve() -> None:
    with own_folder("ullage-mcp-") as folder:
        settings = ServeSettings(folder=folder)
        runner = Runner(settings)
        try:
            await runner.start()
            server = agent_server(runner, settings)
            async with stdio_server() as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())
        finally:
            await runner.stop()


def agent_server(runner: Runner, settings: ServeSettings) -> Server[Any]:
    """The tools, asked of this runner: as many calls at once as there are cores, whatever an agent sends together."""
    seats, limits = asyncio.Semaphore(settings.workers), settings.limits

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(each) for each in AGENT_VERBS])

    async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        verb, given = params.name, dict(params.arguments or {})
        unknown = sorted(set(given) & _LEFT_OUT)
        if verb not in AGENT_VERBS or unknown:
            said = f"{verb} is not a tool here." if verb not in AGENT_VERBS else f"{unknown[0]} is not taken over MCP."
            return _said(ServedProblem(name="not-understood", detail=said).body(), is_error=True)
        if len(json.dumps(given)) > limits.body_bytes:
            return _said(too_large(limits.body_bytes).problem.body(), is_error=True)
        try:
            request = request_document(REQUESTS[verb].model_validate(given))
        except ValidationError as error:
            first = error.errors()[0]
            detail = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            return _said(ServedProblem(name="wrong-input", detail=detail).body(), is_error=True)
        async with seats:
            ending = await runner.run(ServedWork(verb=verb, request=request), seconds=limits.job_s)
        return _said(ending.body, is_error=ending.kind == PROBLEM)

    return Server("ullage", version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)


def _tool(verb: str) -> types.Tool:
    schema = REQUESTS[verb].model_json_schema()
    schema["properties"] = {name: each for name, each in schema["properties"].items() if name not in _LEFT_OUT}
    return types.Tool(name=verb, description=_SAYS[verb], input_schema=schema)


def _said(body: bytes, *, is_error: bool) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=body.decode())], is_error=is_error)
