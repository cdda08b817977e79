"""Traefik's access log in JSON, one request a line; Kubernetes clusters of the smaller kind have it at their edge.

`Duration` is in nanoseconds. `RequestCount` is a running number of the request, not a count of requests in a window.
No line knows tokens. A status of 0 or 499 is a client that went away.
"""

from __future__ import annotations

from collections.abc import Sequence

from ullage.readers.traces.draft import Draft, TraceReader, rows_of
from ullage.readers.traces.files import Glimpse
from ullage.readers.traces.gateways.access_lines import is_a_call
from ullage.readers.traces.sql import first_of, number, stamp, status, whole, words
from ullage.workload.trace import Clock

FIELDS = (
    "StartUTC",
    "StartLocal",
    "Duration",
    "DownstreamStatus",
    "RequestMethod",
    "RequestPath",
    "ClientUsername",
    "ServiceName",
    "request_X-Request-Id",
)


def _recognises(file: Glimpse) -> bool:
    return file.has("DownstreamStatus", "Duration") and file.has_any("StartUTC", "StartLocal")


def _draft(files: Sequence[Glimpse]) -> Draft:
    code = whole('"DownstreamStatus"')
    return Draft(
        rows=rows_of(files, FIELDS),
        columns={
            "arrival_s": first_of(stamp('"StartUTC"'), stamp('"StartLocal"')),
            "duration_s": number('"Duration"', 1e-9),
            "status": f"CASE WHEN {code} = 0 THEN 'cancelled' ELSE {status(code)} END",
            "tenant": words('"ClientUsername"'),
            "product": words('"ServiceName"'),
            "path": "regexp_extract(\"RequestPath\", '^[^?]*')",
            "request": words('"request_X-Request-Id"'),
        },
        clock=Clock.UTC,
        is_request=is_a_call('"RequestMethod"', '"RequestPath"'),
        otherwise="a probe, a scrape or no call at all",
        time='"StartUTC"',
    )


READER = TraceReader(name="traefik", title="Traefik access log (JSON)", recognises=_recognises, draft=_draft)
