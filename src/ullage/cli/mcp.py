"""`ullage mcp`."""

from __future__ import annotations

from ullage.errors import ExitCode, InputError


def command() -> int:
    """Serve the read-only verbs to an agent over MCP: requests on stdin, answers on stdout, until stdin ends.

    The tools are the read-only verbs, with the requests and the limits of the REST service. No path or address in
    a request is ever followed.
    """
    import importlib.util

    if importlib.util.find_spec("mcp") is None:
        fix = "Install it: pip install 'ullage[mcp]'."
        raise InputError(field="mcp", value="not installed", problem="needs the package mcp", fix=fix)
    from ullage.serve.agents import serve_agents

    serve_agents()
    return ExitCode.OK
