"""The formats, listed by hand: to add one, write its file and list it here (docs/howto/add-a-trace-format.md)."""

from __future__ import annotations

from ullage.readers.traces import agent_sessions, aiperf, azure, burstgpt, columns, guidellm, mooncake, sglang
from ullage.readers.traces.draft import TraceReader
from ullage.readers.traces.gateways import (
    access_lines,
    azure_openai,
    bedrock,
    envoy,
    haproxy,
    helicone,
    langfuse,
    litellm,
    openinference,
    otel,
    traefik,
    vertex,
)
from ullage.readers.traces.rates import long, monitors, servegen, tables
from ullage.readers.traces.rates.points import RateReader

# Asked in this order, and only where no other format knows the files: such names may stand in anybody's table.
FALLBACKS: tuple[TraceReader | RateReader, ...] = (long.LONG, tables.TABLE, columns.READER)

TRACE_READERS: dict[str, TraceReader | RateReader] = {
    reader.name: reader
    for reader in (
        columns.READER,
        azure.READER,
        mooncake.READER,
        agent_sessions.READER,
        otel.READER,
        litellm.READER,
        sglang.READER,
        guidellm.READER,
        aiperf.READER,
        servegen.READER,
        burstgpt.READER,
        openinference.READER,
        langfuse.READER,
        envoy.READER,
        traefik.READER,
        access_lines.READER,
        haproxy.READER,
        bedrock.READER,
        azure_openai.READER,
        vertex.READER,
        helicone.READER,
        tables.TABLE,
        long.LONG,
        tables.OPENAI_USAGE,
        monitors.PROMETHEUS,
        monitors.VICTORIA_METRICS,
        long.VICTORIA_CSV,
        monitors.CLOUDWATCH,
        monitors.AZURE_MONITOR,
    )
}
