"""Locust's `*_stats.csv`: a row a request name, times in milliseconds, failures among the requests.

Locust counts whole responses. TTFT and TPOT are there where the test fires them as requests of their own, which is the
usual way (`events.request.fire(name="ttft", ...)`). Rows of other pages of the service are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ullage.errors import InputError
from ullage.readers.loadtests.content import Content, FileShape
from ullage.readers.loadtests.fields import MS, anomaly, present, rate
from ullage.readers.loadtests.general.clients import clients_by_little
from ullage.service.loadtests.loadtest import Definition, Flag, LatencySummary, LoadTest, LoadTestSubject, Point

_HEAD = ("Type", "Name", "Request Count", "Failure Count")
_GENERATES = re.compile(r"complet|generat|chat|infer|message|response", re.IGNORECASE)
_FIRED = {
    Definition.TTFT: re.compile(r"^(ttft|time[ _-]to[ _-]first[ _-]token|first[ _-]token)\b", re.IGNORECASE),
    Definition.TPOT: re.compile(r"^(tpot|time[ _-]per[ _-]output[ _-]token)\b", re.IGNORECASE),
    Definition.ITL_POOLED: re.compile(r"^(itl|inter[ _-]token[ _-]latency)\b", re.IGNORECASE),
}
_PERCENT = re.compile(r"^(\d{1,3}(?:\.\d+)?)%$")


def recognise(content: Content) -> bool:
    return content.shape is FileShape.CSV and tuple(content.rows[0][:4]) == _HEAD


def read(content: Content) -> LoadTest:
    header = content.rows[0]
    rows = [dict(zip(header, each, strict=False)) for each in content.rows[1:] if len(each) == len(header)]
    if len(rows) < len(content.rows) - 1:
        raise _wrong(content, f"row {len(rows) + 2}", "has another number of cells than the header")
    named = [each for each in rows if each["Name"] != "Aggregated"]
    fired = {
        definition: next((each for each in named if pattern.match(each["Name"])), None)
        for definition, pattern in _FIRED.items()
    }
    answers = [each for each in named if each not in fired.values() and _GENERATES.search(each["Name"])]
    if len(answers) != 1:
        problem = "has no row of a generating request" if not answers else "has several rows of generating requests"
        names = ", ".join(each["Name"] for each in named) or "none"
        raise _wrong(content, names, problem, "Give a run of one such request, or write the points into a CSV.")
    own = present(
        _latency(content, answers[0], Definition.E2E),
        *(_latency(content, each, definition) for definition, each in fired.items() if each is not None),
    )
    return LoadTest(
        file=content.file,
        reader="locust",
        tool="locust",
        format_version="stats.csv",
        points=(_point(content, answers[0], own),),
    )


def _point(content: Content, row: Mapping[str, str], latencies: tuple[LatencySummary, ...]) -> Point:
    sent, failed = _number(content, row, "Request Count"), _number(content, row, "Failure Count")
    rps = _number(content, row, "Requests/s")
    if sent is None or failed is None or failed > sent:
        raise _wrong(content, row["Request Count"], "is not a count of requests with its failures")
    duration_s = sent / rps if rps else None
    completed = int(sent - failed)
    load, said = clients_by_little(rps, latencies[0].mean_s if latencies else None)
    notes = [*said]
    if not any(each.definition is Definition.TTFT for each in latencies):
        notes.append(
            anomaly(Flag.STATED_BY_TOOL, "Locust keeps no time to first token: fire it as a request named ttft.")
        )
    return Point(
        name=row["Name"],
        subject=LoadTestSubject(),
        load=load,
        duration_s=duration_s,
        completed_count=completed,
        failed_count=int(failed),
        achieved_rps=rate(completed, duration_s),
        latencies=latencies,
        anomalies=tuple(notes),
    )


def _latency(content: Content, row: Mapping[str, str], definition: Definition) -> LatencySummary | None:
    pairs = sorted(
        (round(float(match.group(1)) / 100.0, 9), value * MS)
        for name in row
        if (match := _PERCENT.match(name)) and (value := _number(content, row, name))
    )
    mean, low, high = (_number(content, row, f"{which} Response Time") for which in ("Average", "Min", "Max"))
    found = LatencySummary(
        definition=definition,
        mean_s=None if not mean else mean * MS,
        min_s=None if low is None else low * MS,
        max_s=None if high is None else high * MS,
        percentiles=tuple(each for each in pairs if each[0] < 1.0),
    )
    return None if found.is_empty else found


def _number(content: Content, row: Mapping[str, str], name: str) -> float | None:
    text = row.get(name, "").strip()
    if text in ("", "N/A"):
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < 1e15:
        raise _wrong(content, text, f"is not a number of {name}")
    return value


def _wrong(content: Content, value: object, problem: str, fix: str = "Give the file as Locust wrote it.") -> InputError:
    return InputError(field=content.file, value=value, problem=problem, fix=fix)
