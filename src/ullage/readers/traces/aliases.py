"""The usual names of our columns in other people's tables, and which columns of a file were left unread.

A name is compared without case, blanks and punctuation, so that `Completion Tokens`, `completionTokens` and
`completion_tokens` are one. A unit at its end counts (`latency_ms`, `timestamp_ns`). Where it carries none, calendar
times show their unit by their size, and durations by what a token would take (clean.py); the profile notes which.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ullage.readers.traces.files import Glimpse

# In order of preference: where two stand in one table, the first is taken and the second is listed as unread.
USUAL_NAMES: dict[str, tuple[str, ...]] = {
    "arrival": (
        "arrival", "arrivaltime", "arrivedat", "arrivaltimestamp", "requesttimestamp", "requestcreatedat",
        "requeststarttime", "launchtime", "launchedat", "starttime", "startedat", "starttimestamp", "starttimestr",
        "receivedat", "receivedtime", "submittime", "submittedat", "sendtime", "senttime", "sentat", "createdat",
        "created", "createdtime", "timestamp", "timestamputc", "timeiso8601", "ts", "time", "datetime", "eventtime",
        "logtime", "date", "requesttime",
    ),
    "end": ("endtime", "endedat", "finishtime", "finishedat", "completedat", "completiontime", "endtimestamp",
            "responsecreatedat", "responsetimestamp", "stoptime"),
    "first_token": ("firsttokentime", "firsttokenat", "firsttokentimestamp", "completionstarttime"),
    "prompt_tokens": (
        "prompttokens", "inputtokens", "contexttokens", "requesttokens", "promptlen", "promptlength", "inputlen",
        "inputlength", "numprompttokens", "numinputtokens", "numprefilltokens", "nprompttokens", "ninputtokens",
        "prompttokencount", "inputtokencount", "tokensin", "tokensprompt", "tokensinput", "inputsequencelength", "isl",
        "contextlength",
    ),
    "output_tokens": (
        "outputtokens", "completiontokens", "generatedtokens", "generationtokens", "responsetokens", "outputlen",
        "outputlength", "numoutputtokens", "numcompletiontokens", "numgeneratedtokens", "numdecodetokens",
        "noutputtokens", "ncompletiontokens", "outputtokencount", "completiontokencount", "candidatestokencount",
        "tokensout", "tokenscompletion", "tokensoutput", "outputsequencelength", "osl", "generatedlength",
        "genlen",
    ),
    "cached_tokens": (
        "cachedtokens", "cachedprompttokens", "cachedinputtokens", "cachereadtokens", "cachereadinputtokens",
        "numcachedtokens", "cachehittokens", "promptcachehittokens", "cachedcontenttokencount", "inputcachedtokens",
        "promptcachereadtokens",
    ),
    "reasoning_tokens": ("reasoningtokens", "thinkingtokens", "reasoningoutputtokens", "thoughtstokencount",
                         "outputreasoningtokens"),
    "duration": (
        "duration", "e2e", "e2elatency", "endtoendlatency", "latency", "totallatency", "requestlatency", "elapsed",
        "elapsedtime", "requestduration", "responsetime", "totaltime", "totalduration", "processingtime", "apitime",
        "responselatency", "took", "walltime",
        # What nginx calls so is a duration; where there is no other time, it is taken for the arrival above.
        "requesttime",
    ),
    "ttft": ("ttft", "timetofirsttoken", "firsttokenlatency", "timetofirstchunk", "firsttokendelay"),
    "status": ("status", "statuscode", "outcome", "httpstatus", "httpstatuscode", "responsestatus", "responsecode",
               "responsestatuscode", "finishreason", "result", "state", "completionstatus"),
    "class": ("class", "requestclass", "trafficclass", "workloadclass"),
    "tenant": ("tenant", "tenantid", "team", "teamid", "teamalias", "customer", "customerid", "organization",
               "organizationid", "orgid", "apikey", "apikeyhash", "apikeyid", "keyalias", "client", "clientid",
               "account", "accountid", "user", "userid", "enduser", "requestuserid"),
    "product": ("product", "productid", "productname", "app", "appid", "appname", "application", "feature", "usecase",
                "project", "projectid", "service", "servicename"),
    "model": ("model", "modelname", "modelid", "modelgroup", "requestmodel", "responsemodel", "deployment",
              "deploymentid", "deploymentname"),
    "path": ("path", "route", "endpoint", "uri", "url", "requestpath", "calltype", "operation", "logtype"),
    "session": ("session", "sessionid", "conversation", "conversationid", "chatid", "threadid", "dialogid"),
    "request": ("request", "requestid", "xrequestid", "callid", "correlationid", "responseid", "uuid", "id"),
    "block_hashes": ("blockhashes", "hashids", "blockids", "prefixhashes", "prefixblocks"),
}  # fmt: skip
_TIMES = {"arrival": "arrival_time", "end": "end_time", "first_token": "first_token_time"}
_LENGTHS = ("prompt_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "duration", "ttft")
_UNITS = {
    "s": "_s", "sec": "_s", "secs": "_s", "seconds": "_s", "ms": "_ms", "msec": "_ms", "millis": "_ms",
    "milliseconds": "_ms", "us": "_us", "micros": "_us", "microseconds": "_us", "ns": "_ns", "nanos": "_ns",
    "nanoseconds": "_ns",
}  # fmt: skip
_WITH_UNITS = ("arrival", "duration", "ttft")
# Columns that count requests: their rows are windows, and no row is a request.
COUNTS = (
    "requests", "nrequests", "numrequests", "numberofrequests", "requestcount", "requestscount", "totalrequests",
    "nummodelrequests", "rps", "qps", "reqs", "requestspersecond", "requestrate", "rpm", "requestsperminute", "calls",
    "invocations", "invocationcount", "callcount",
)  # fmt: skip
_SHOWN_UNREAD = 8


def plain_name(field: str) -> str:
    """A name as it is compared: letters and digits, small; of a JSON path the last key.

    >>> plain_name("Completion Tokens"), plain_name("usage.promptTokens")
    ('completiontokens', 'prompttokens')
    """
    return re.sub(r"[^a-z0-9]", "", field.rsplit(".", 1)[-1].lower())


def split_unit(field: str) -> tuple[str, str]:
    """A name without the unit at its end, as it is compared, and the unit; both whole where there is none.

    >>> split_unit("latency_ms"), split_unit("elapsed (seconds)"), split_unit("status")
    (('latency', '_ms'), ('elapsed', '_s'), ('status', ''))
    """
    leaf = field.rsplit(".", 1)[-1]
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", leaf).lower()
    words = [word for word in re.split(r"[^a-z0-9]+", spaced) if word]
    if len(words) > 1 and words[-1] in _UNITS:
        return "".join(words[:-1]), _UNITS[words[-1]]
    return "".join(words), ""


def counts_requests(file: Glimpse) -> bool:
    """Whether a column counts requests, so that a row stands for many."""
    return any(plain_name(field) in COUNTS for field in file.fields)


def usual_columns(file: Glimpse, filled: Collection[str] = ()) -> dict[str, str]:
    """Our names -> the file's, by usual names, for columns that are not filled yet; each of both at most once.

    The left side is what a mapping would state: `duration_ms` where the name has a unit, `duration` where it does not.
    """
    found: dict[str, str] = {}
    for column, names in USUAL_NAMES.items():
        if column in filled:
            continue
        place = min((each for each in _candidates(file, column, names) if each[2] not in found.values()), default=None)
        if place is not None:
            _, _, field, unit = place
            found[_stated(column, unit)] = field
    return found


def _candidates(file: Glimpse, column: str, names: Sequence[str]) -> Iterator[tuple[int, int, str, str]]:
    """The fields that may hold a column, nearest first: outer keys before inner ones, usual names in their order."""
    for field in file.fields:
        depth = field.count(".") if file.is_nested else 0
        # An inner `id`, `time` or `status` may be anybody's; inner lengths are what they are called.
        if "[]" in field or (depth and column not in _LENGTHS):
            continue
        bare, unit = split_unit(field)
        if column not in _WITH_UNITS and unit:
            bare, unit = plain_name(field), ""
        if bare in names:
            yield depth, names.index(bare), field, unit


def _stated(column: str, unit: str) -> str:
    if unit:
        return f"{column}{unit}"
    return _TIMES.get(column, column)


@dataclass(frozen=True, kw_only=True)
class Unread:
    """A column that nothing was read from, and the mapping that would read it; empty where its name says nothing."""

    field: str
    mapping: str = ""


def unread_columns(file: Glimpse, read: Collection[str] | None, known: Collection[str]) -> tuple[Unread, ...]:
    """Columns that were left: those that look like one of ours that is still unknown, and, where it is known which
    were read, all others."""
    wanted = [
        Unread(field=theirs, mapping=_writable(ours))
        for ours, theirs in usual_columns(file, filled=_filled(known)).items()
        if read is None or theirs not in read
    ]
    if read is None:
        return tuple(wanted)
    named = {each.field for each in wanted}
    rest = [
        field
        for field in file.fields
        if field not in read
        and field not in named
        and not _is_inner(file, field)
        and not any(each.startswith(f"{field}.") for each in read)
    ]
    return (*wanted, *(Unread(field=field, mapping=_instead(field)) for field in rest))


def _filled(known: Collection[str]) -> set[str]:
    filled = {column.removesuffix("_s") if column.endswith("_s") else column for column in known}
    return filled | ({"end"} if "duration_s" in known else set()) | ({"first_token"} if "ttft_s" in known else set())


def _instead(field: str) -> str:
    """What a column beside one that was taken could be mapped to."""
    bare = plain_name(field)
    return next((_writable(_stated(column, "")) for column, names in USUAL_NAMES.items() if bare in names), "")


def _writable(ours: str) -> str:
    """A name that a mapping accepts: where the unit is not in the name, milliseconds are the example."""
    return f"{ours}_ms" if ours in ("duration", "ttft") else ours


def _is_inner(file: Glimpse, field: str) -> bool:
    return file.is_nested and ("." in field or "[]" in field)


def unread_sentence(unread: Sequence[Unread]) -> str:
    """What was left unread, and how to have it read."""
    shown = [each.field for each in unread[:_SHOWN_UNREAD]]
    more = f" and {len(unread) - len(shown)} more" if len(unread) > len(shown) else ""
    options = [f"--column {each.mapping}={each.field}" for each in unread if each.mapping]
    number = f"{len(unread)} column{'s were' if len(unread) != 1 else ' was'} not read"
    how = f"To use them: {' '.join(options[:4])}" if options else f"If one matters, name it: --column tenant={shown[0]}"
    return f"{number}: {', '.join(shown)}{more}. {how}."


def borrowed_sentence(borrowed: Mapping[str, str]) -> str:
    """Which columns were read by their usual names."""
    listed = ", ".join(f"{ours} from {theirs}" for ours, theirs in borrowed.items())
    return f"Read by their usual names: {listed}."
