"""HAProxy's HTTP log (`option httplog`, `option httpslog`), one request a line, mostly behind syslog's own prefix.

    haproxy[7]: 10.1.2.3:4321 [19/Nov/2026:10:00:00.123] in~ chat/gpu1 0/0/1/180/5230 200 4410 - - ---- 9/9/8/2/0 0/0
    "POST /v1/chat/completions HTTP/1.1"

The time is that of the request's first byte, without a zone. Of the five times in milliseconds the last counts from
there to the end of the answer; with `option logasap` a plus sign stands before it, and the answer was still under way.
The first letter of the termination state says who broke the connection off, the second in which phase. No line knows
tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

from ullage.readers.traces.draft import Draft, TraceReader
from ullage.readers.traces.files import FIVE_TIMES, Glimpse, Layout, raw_lines
from ullage.readers.traces.gateways.access_lines import is_a_call
from ullage.readers.traces.sql import number, status, text
from ullage.workload.trace import Clock

# Time, frontend, backend and server, five times, status, bytes, two cookies, how it ended, five counts of connections.
_PARTS = (
    r"\[([^\]]+)\] +\S+ +([^/\s]+)/\S+ +"
    r"-?\d+/-?\d+/-?\d+/-?\d+/(\+?-?\d+) +(-1|\d{3}) +\+?\d+ +\S+ +\S+ +([A-Za-z-])([A-Za-z-])\S\S +\d"
)
_NAMES = "['written', 'backend', 'total_ms', 'code', 'who', 'phase']"
# The request stands last, cut where the line became too long; HTTP/2 is written with its host.
_CALLED = r'" ?([A-Z]+) (?:https?://[^/\s]+)?(/[^\s"]*)'


def _recognises(file: Glimpse) -> bool:
    return file.layout is Layout.LINES and file.has(FIVE_TIMES)


def _draft(files: Sequence[Glimpse]) -> Draft:
    packings = dict.fromkeys(file.compression for file in files)
    lines = " UNION ALL ".join(
        f"SELECT line FROM {raw_lines([file.path for file in files if file.compression == packed], packed)}"
        for packed in packings
    )
    taken = (
        f"SELECT regexp_extract(line, {text(_PARTS)}, {_NAMES}) AS said, "
        f"regexp_extract(line, {text(_CALLED)}, ['method', 'path']) AS called FROM ({lines})"
    )
    begun = "CAST(TRY_STRPTIME(written, '%d/%b/%Y:%H:%M:%S.%g') AS TIMESTAMPTZ)"
    return Draft(
        rows=f"SELECT unnest(said), unnest(called), false AS unreadable_ FROM ({taken})",
        columns={
            "arrival_s": f"epoch({begun})",
            "duration_s": f"CASE WHEN regexp_matches(total_ms, '^\\d') THEN {number('total_ms', 0.001)} END",
            # A server or proxy that ends the connection while the answer flows leaves a code of 200 behind.
            "status": "CASE WHEN lower(who) = 'c' THEN 'cancelled' WHEN lower(who) IN ('s', 'k', 'p', 'r') "
            f"AND phase IN ('D', 'H') THEN 'failed' ELSE {status('code')} END",
            "product": "NULLIF(regexp_replace(backend, '~$', ''), '')",
            "path": "regexp_extract(path, '^[^?]*')",
        },
        clock=Clock.UTC,
        is_request=f"written <> '' AND method <> '' AND {is_a_call('method', 'path')}",
        otherwise="a probe, a scrape or no call at all",
        time="written",
    )


READER = TraceReader(name="haproxy", title="HAProxy HTTP log (text)", recognises=_recognises, draft=_draft)
