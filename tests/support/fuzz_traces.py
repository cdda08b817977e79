"""Traces to damage: every format of the table, the same requests as people's tools print them, and what is asked of
a trace besides reading it: columns by name, a format, a zone."""

from __future__ import annotations

import datetime
import json
import re
import tempfile
import zlib
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from support import trace_samples
from ullage.readers.traces.dates import ORDERS
from ullage.readers.traces.rates.tables import MEASURED
from ullage.readers.traces.table import TRACE_READERS
from ullage.report.encode import to_text
from ullage.report.markdown import to_markdown
from ullage.verbs.profile import profile

DAY = datetime.date(2026, 11, 15)
LENGTHS = b"category,model,client,window_s,field,mean"
OURS = (
    *("arrival_s", "arrival_ms", "arrival_time", "arrival_excel", "prompt_tokens", "output_tokens", "cached_tokens"),
    *("duration", "duration_ms", "end_time", "first_token_time", "ttft_s", "status", "class", "tenant", "session"),
    *("block_hashes", "nothing_of_ours", *ORDERS, *MEASURED),
)
ZONES = ("Europe/Berlin", "America/New_York", "UTC", "+02:00", "Mars/Olympus", "'")


@cache
def seeds() -> tuple[bytes, ...]:
    rows = b"arrival_time,prompt_tokens,output_tokens,model,tenant,class,status\n" + b"".join(
        b"2026-11-%02dT10:%02d:00Z,%d,%d,m,acme,chat,ok\n" % (1 + at // 60, at % 60, 100 + at, 20 + at % 9)
        for at in range(120)
    )
    samples = (each.render(trace_samples.REQUESTS, 1.0, "text") for each in trace_samples.SAMPLES.values())
    servegen = trace_samples.SAMPLES["servegen"].render(trace_samples.REQUESTS, 1.0, "")
    lengths = b"".join(
        b"language,m,%d,0,%s,%d,[]\n" % (client, field, mean)
        for client in range(3)
        for field, mean in ((b"input_tokens", 900), (b"output_tokens", 90))
    )
    both = servegen + LENGTHS + b",quantiles\n" + lengths
    return (rows, _parquet(rows), both, *samples, *(each.encode() for each in (*_printed(), *_series(), *_wrapped())))


def read(file: Path) -> None:
    """As `ullage profile` does: every fourth file, which its bytes settle, with something asked of it."""
    data = file.read_bytes()
    rates, mark, lengths = data.partition(LENGTHS)
    files = [file]
    if mark:
        # ServeGen's two tables go together: one file is cut into both.
        files.append(file.with_name("lengths.csv"))
        files[0].write_bytes(rates)
        files[1].write_bytes(mark + lengths)
    try:
        _profiled(files, {} if sum(data) % 4 else _asked(data))
    finally:
        for each in files[1:]:
            each.unlink()


def _profiled(files: list[Path], asked: dict[str, Any]) -> None:
    found = profile(files, as_of=DAY, **asked)
    to_text(found.to_dict())
    to_markdown(found.page())


def _asked(data: bytes) -> dict[str, Any]:
    """Options as somebody would give them for this file: mostly words that it holds, as columns."""
    chance = Random(zlib.crc32(data))
    kind = chance.randrange(6)
    if kind == 0:
        return {"zone": chance.choice(ZONES)}
    if kind == 1:
        return {"format_name": chance.choice(tuple(TRACE_READERS))}
    words = re.findall(r"[\w/]{2,30}", data[:600].decode("utf-8", "replace")) or ["x"]
    names = [*words[:16], "value", "not a column"]
    columns = {ours: chance.choice(names) for ours in chance.sample(OURS, chance.choice((1, 2, 3)))}
    return {"columns": columns, "zone": chance.choice(("", *ZONES))}


def _parquet(rows: bytes) -> bytes:
    """The same rows as Parquet."""
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        table, packed = Path(folder) / "rows.csv", Path(folder) / "rows.parquet"
        table.write_bytes(rows)
        duckdb.connect().execute(f"COPY (SELECT * FROM '{table}') TO '{packed}' (FORMAT parquet)")
        return packed.read_bytes()


def _table(header: str, rows: list[str]) -> str:
    return "\n".join([header, *rows, ""])


def _printed() -> tuple[str, ...]:
    """Tables that a spreadsheet or a dashboard printed: its dates, its decimal marks, its units."""
    lengths = "prompt_tokens,output_tokens,latency"
    days = range(10, 22)
    return (
        _table(f"date,{lengths}", [f'{day}/11/2026 13:05,"1,554",20,12.3s' for day in days]),
        _table(f"date,{lengths}", [f"11/{day}/26 1:05 PM,1554,20,450 ms" for day in days]),
        _table(f"date,{lengths}", [f"{day}/{day}/2026 13:05,1554,20,00:00:12.5" for day in (1, 2, 3)]),
        _table(
            f"date,time,{lengths},end_time", [f"18.11.2026,13:{day}:00,900,20,2,18.11.2026 13:{day}:09" for day in days]
        ),
        _table(
            "timestamp;prompt_tokens;output_tokens;latency (s)", [f"{day} Nov 2026 13:05;1.554;20;12,3" for day in days]
        ),
        _table(f"started_at,{lengths}", [f"459{day}.5,1554,20,1500" for day in days]),
        _table('Time,"chat req/s",code', [f"2026-11-02 {day}:00:00,12.3 req/s,1.2 K" for day in days]),
        _table("Time;requests;input tokens", [f"{day}.11.2026 10:00;1.200,5;9.000" for day in days]),
        _table("window_start,window_end,requests,model", [f"2026-11-{day},2026-11-{day + 1},1e3,m" for day in days]),
    )


def _series() -> tuple[str, ...]:
    """Answers of Prometheus: counters of an engine that restarted, an error, one moment, nothing."""
    values = [[1_760_000_000 + 60 * at, str(100 * (at % 5))] for at in range(12)]
    names = ("vllm:request_success_total", "vllm:prompt_tokens_total", "vllm:generation_tokens_total")
    result = [{"metric": {"__name__": each, "model_name": "m"}, "values": values} for each in names]
    answers = (
        {"status": "success", "data": {"resultType": "matrix", "result": result}},
        {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": values[0]}]}},
        {"status": "success", "data": {"resultType": "matrix", "result": []}},
        {"status": "error", "errorType": "bad_data", "error": "parse error"},
    )
    return tuple(map(json.dumps, answers))


def _wrapped() -> tuple[str, ...]:
    """Records as an API hands them out, inside objects."""
    records = [
        {"timestamp": f"2026-11-02T10:00:{at}Z", "prompt_tokens": at, "output_tokens": 20} for at in range(10, 20)
    ]
    return (
        json.dumps({"data": records, "next": None}),
        json.dumps({"hits": {"total": {"value": 10}, "hits": [{"_id": "1", "_source": each} for each in records]}}),
        "".join(json.dumps({"jsonPayload": each, "severity": "INFO"}) + "\n" for each in records),
        json.dumps({"data": records, "more": records}),
        *_langfuse(),
    )


def _langfuse() -> tuple[str, ...]:
    """Langfuse's other forms: an ingestion batch, a trace with its observations, a table of observations."""
    bodies = [
        {
            "id": f"g{at}",
            "type": "GENERATION",
            "startTime": f"2026-11-02T10:00:{at}Z",
            "endTime": f"2026-11-02T10:01:{at}Z",
            "model": "m",
            "usageDetails": {"input": 100 + at, "output": at, "cache_read_input_tokens": 64},
            "level": "DEFAULT",
            "traceId": "t",
            "userId": "u",
        }
        for at in range(10, 20)
    ]
    columns = [each for each in bodies[0] if each != "usageDetails"]
    return (
        json.dumps({"batch": [{"type": "generation-create", "body": each} for each in bodies]}),
        json.dumps({"trace": {"id": "t", "tags": ["search"], "userId": "u"}, "observations": bodies}),
        json.dumps({"id": "t", "tags": ["search"], "observations": bodies}),
        _table(
            f"{','.join(columns)},usageDetails",
            [f'{",".join(str(each[name]) for name in columns)},"{{""input"": 9, ""output"": 5}}"' for each in bodies],
        ),
    )
