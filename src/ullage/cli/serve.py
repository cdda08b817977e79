"""`ullage serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import LedgerPlace, Quiet
from ullage.cli.terminal import talk
from ullage.errors import ExitCode, InputError


def command(
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Where to listen. Default: this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="The port.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="The users: lines of NAME ROLE TOKEN, role read or plan."),
    ] = None,
    proxy_header: Annotated[
        str | None,
        typer.Option("--proxy-header", metavar="NAME", help="The header in which a proxy names the user."),
    ] = None,
    proxy_network: Annotated[
        list[str] | None,
        typer.Option("--proxy-network", metavar="CIDR", help="The network of that proxy, such as 10.0.0.0/8. Repeat."),
    ] = None,
    proxy_role: Annotated[
        str, typer.Option("--proxy-role", metavar="ROLE", help="The role of those users: read or plan.")
    ] = "plan",
    public_host: Annotated[
        list[str] | None,
        typer.Option("--public-host", metavar="NAME", help="A host name that clients use. Repeat."),
    ] = None,
    ledger: LedgerPlace = None,
    prometheus: Annotated[
        str | None, typer.Option("--prometheus", metavar="URL", help="Prometheus, Thanos, Mimir or VictoriaMetrics.")
    ] = None,
    http_config: Annotated[
        Path | None,
        typer.Option("--http-config", metavar="FILE", help="Credentials and TLS, as promtool's --http.config.file."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Jobs at a time. Default: one for each core.")
    ] = None,
    requests_per_s: Annotated[
        float, typer.Option("--requests-per-s", min=0.1, help="Sustained requests per second allowed per name.")
    ] = 20.0,
    quiet: Quiet = False,
) -> int:
    """Serve the verbs over HTTP, with a live page, until Ctrl-C.

    Beyond this machine it requires tokens, or a proxy that authenticates users. /docs lists what it answers.
    Audit lines go to stderr. Prometheus and the ledger are those named here; a request cannot name others.
    """
    import importlib.util

    if importlib.util.find_spec("fastapi") is None or importlib.util.find_spec("uvicorn") is None:
        fix = "Install it: pip install 'ullage[serve]'."
        raise InputError(field="serve", value="not installed", problem="needs fastapi and uvicorn", fix=fix)
    import os
    from dataclasses import replace

    from ullage.serve.disk import own_folder
    from ullage.serve.settings import ServeLimits, ServeSettings
    from ullage.serve.tokens import TokenTable, parse_proxy, read_tokens

    settings = ServeSettings(
        folder=Path("/nonexistent"),
        host=host,
        port=port,
        tokens=TokenTable() if token_file is None else read_tokens(token_file),
        proxy=None if proxy_header is None else parse_proxy(proxy_header, proxy_network or [], proxy_role),
        hosts=tuple(public_host or ()),
        ledger=ledger or os.environ.get("ULLAGE_LEDGER") or None,
        prometheus=prometheus,
        http_config=http_config,
        workers=jobs or len(os.sched_getaffinity(0)),
        limits=ServeLimits(requests_per_s=requests_per_s, burst_requests=max(1, round(3 * requests_per_s))),
    )
    from ullage.serve.server import serve

    whom = "for whoever is on this machine" if settings.is_open else "for those who say who they are"
    talk(f"Listening on http://{host}:{port}, {whom}. Ctrl-C stops it.", quiet=quiet)
    with own_folder("ullage-serve-") as folder:
        serve(replace(settings, folder=folder))
    return ExitCode.OK
