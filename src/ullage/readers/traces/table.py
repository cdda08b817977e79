"""The formats, listed by hand: to add one, write its file and list it here (docs/howto/add-a-trace-format.md)."""

from __future__ import annotations

from ullage.readers.traces import agent_sessions, aiperf, azure, burstgpt, columns, guidellm, mooncake, sglang
from ullage.readers.traces.draft import TraceReader
from ullage.readers.traces.gateways import (
    access_lines,
    azure_openai,
    bedrock,
    envoy,
    helicone,
    langfuse,
    litellm,
    openinference,
    otel,
    vertex,
)
from ullage.readers.traces.rates import servegen

# `columns` is asked only where no other format knows the files: our names may stand in anybody's table.
FALLBACK = columns.READER

TRACE_READERS: dict[str, TraceReader] = {
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
        access_lines.READER,
        bedrock.READER,
        azure_openai.READER,
        vertex.READER,
        helicone.READER,
    )
}
