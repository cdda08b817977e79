"""Access logs as lines of text: nginx and Apache, Envoy and Istio in their default text layout, uvicorn.

All of them write the request in quotes and its status code behind it. What surrounds that differs:

    nginx     10.0.0.1 - - [07/Dec/2016:11:05:07 +0100] "POST /v1/chat HTTP/1.1" 200 571 "-" "curl" 0.532
    Envoy     [2024-04-25T17:51:55.294Z] "POST /v1/chat HTTP/1.1" 200 - 0 141 532 530 "-" "curl" "id" "host" "upstream"
    Istio     ... "POST /v1/chat HTTP/1.1" 200 - via_upstream - "-" 0 141 532 530 "-" "curl" "id" "host" "upstream"
    uvicorn   2026-11-01 10:00:00,123 INFO:     10.1.2.3:43210 - "POST /v1/chat/completions HTTP/1.1" 200 OK

A line may stand inside a JSON record of a container's log, its quotes escaped. No such line knows tokens. uvicorn's own
layout has no time either; without one there is nothing to plan from, and the file is refused with that reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from ullage.errors import InputError
from ullage.readers.traces.draft import Draft, TraceReader
from ullage.readers.traces.files import FIVE_TIMES, Glimpse, Layout, raw_lines
from ullage.readers.traces.sql import first_of, number, status, text, words
from ullage.workload.trace import Clock

_QUOTE = r'\\?"'
_CALLED = rf"{_QUOTE}([A-Z]+) (\S+) HTTP/[\d.]+{_QUOTE} \d{{1,3}}\b"
_ANY_CODE = rf"{_QUOTE}[^\"]*{_QUOTE} (\d{{1,3}})\b"
_COMMON_TIME = r"\[(\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4})\]"
_ISO_TIME = r"(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?)"
# Envoy: code, flags, perhaps Istio's details, then bytes in, bytes out, duration, upstream's time.
_ENVOY = rf"{_QUOTE} \d{{1,3}} ([A-Z][A-Z,]*|-) (?:\S+ \S+ {_QUOTE}[^\"]*{_QUOTE} )?\d+ \d+ (\d+) (?:\d+|-) {_QUOTE}"
_ENVOY_ID = rf"(?:\d+|-) {_QUOTE}[^\"]*{_QUOTE} {_QUOTE}[^\"]*{_QUOTE} {_QUOTE}([0-9a-fA-F-]{{16,}}){_QUOTE}"
# nginx writes its request time in seconds with milliseconds, by name, behind the bytes, or as the last number.
_NAMED_TIME = rf"(?:request_time|rt|urt|duration)[=:] ?{_QUOTE}?(\d+\.\d+)"
_BARE_TIME = rf"(?:{_QUOTE} \d{{3}} \d+ |{_QUOTE} )(\d+\.\d{{3}})(?: |$)"
# Not what a fleet is sized for: probes, scrapes, lists of models, pages of documentation.
_NO_CALL = (
    r"^/(?:health\w*|livez|readyz|ready|live|ping|metrics|version|favicon\.ico|docs|openapi\.json|robots\.txt|"
    r"v\d+/models)"
)


def is_a_call(method: str, path: str) -> str:
    """SQL: whether a request by this method of this path may be a call of a model."""
    return (
        f"(COALESCE({method}, '') NOT IN ('OPTIONS', 'HEAD') "
        f"AND NOT regexp_matches(COALESCE({path}, ''), {text(_NO_CALL)}))"
    )


def _recognises(file: Glimpse) -> bool:
    return file.layout is Layout.LINES and not file.has(FIVE_TIMES)


def _part(pattern: str, group: int = 1) -> str:
    return f"NULLIF(regexp_extract(line, {text(pattern)}, {group}), '')"


def _draft(files: Sequence[Glimpse]) -> Draft:
    _refuse_without_times(files)
    groups: dict[str, list[str]] = {}
    for file in files:
        groups.setdefault(file.compression, []).append(file.path)
    lines = " UNION ALL ".join(f"SELECT line FROM {raw_lines(paths, packed)}" for packed, paths in groups.items())
    # One time a line, the request's own before the container's: it stands first.
    taken = (
        f"SELECT line, {_part(_COMMON_TIME)} AS common, replace({_part(_ISO_TIME)}, ',', '.') AS iso, "
        f"{_part(_CALLED, 1)} AS method, {_part(_CALLED, 2)} AS called, {_part(_ANY_CODE)} AS code, "
        f"{_part(_ENVOY, 1)} AS flags, {_part(_ENVOY, 2)} AS envoy_ms, {_part(_ENVOY_ID)} AS id, "
        f"{first_of(_part(_NAMED_TIME), _part(_BARE_TIME))} AS nginx_s FROM ({lines})"
    )
    common = "epoch(TRY_STRPTIME(common, '%d/%b/%Y:%H:%M:%S %z'))"
    gone = "flags LIKE '%DC%' OR code = '0'"
    return Draft(
        rows=f"SELECT *, false AS unreadable_ FROM ({taken})",
        columns={
            "arrival_s": f"COALESCE({common}, epoch(TRY_CAST(iso AS TIMESTAMPTZ)))",
            "duration_s": first_of(number("envoy_ms", 0.001), number("nginx_s")),
            "status": f"CASE WHEN {gone} THEN 'cancelled' ELSE {status('code')} END",
            "path": "regexp_extract(called, '^[^?]*')",
            "request": words("id"),
        },
        clock=Clock.UTC,
        is_request=f"code IS NOT NULL AND {is_a_call('method', 'called')}",
        otherwise="a probe, a scrape or no call at all",
        time=first_of("common", "iso"),
    )


def _refuse_without_times(files: Sequence[Glimpse]) -> None:
    for file in files:
        if not file.has("time"):
            raise InputError(
                field="trace",
                value=file.name,
                problem="has lines of an access log without times (uvicorn's own layout has none), and no tokens: "
                "nothing of it can be planned from",
                fix="Log with a time (uvicorn --log-config with %(asctime)s), or give the proxy's log or the engine's "
                "metrics over time.",
            )


READER = TraceReader(
    name="access-log", title="nginx, Envoy, Istio or uvicorn access log (text)", recognises=_recognises, draft=_draft
)
