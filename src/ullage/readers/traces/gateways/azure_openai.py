"""Azure OpenAI: diagnostic logs of the service and of API Management in front of it.

`properties` is an object or a string that holds one, even within one file. Request-and-response logs know no tokens;
API Management's gateway logs have them inside the answer's body, which is a string again; its logs of model calls have
them by name. `requestTime` counts steps of 100 ns since the year 1 and is when the call came; `time` is when the record
was written.
"""

from __future__ import annotations

from collections.abc import Sequence

from ullage.readers.traces.draft import Draft, TraceReader, extracted, json_path, records_of, rows_of
from ullage.readers.traces.files import Glimpse
from ullage.readers.traces.sql import first_of, number, stamp, status, whole, words
from ullage.workload.trace import Clock

FIELDS = ("time", "TimeGenerated", "category", "operationName", "OperationName", "durationMs", "DurationMs",
          "resultSignature", "ResultSignature", "resultType", "isRequestSuccess", "correlationId", "CorrelationId",
          "properties", "properties_s")  # fmt: skip
# Ticks of 100 ns from the year 1 to 1970.
_EPOCH_TICKS = 621_355_968_000_000_000


def _recognises(file: Glimpse) -> bool:
    inner = "records[]." if file.has("records[].category") else ""
    if file.has("TimeGenerated", "OperationName") and file.has_any("properties_s", "DurationMs"):
        return True
    return file.has(f"{inner}category", f"{inner}properties", f"{inner}time") and file.has_any(
        f"{inner}operationName", f"{inner}durationMs"
    )


def _property(*keys: str) -> str:
    return f"json_extract_string(inner_, '{json_path(*keys)}')"


def _body(*keys: str) -> str:
    found = [
        f"json_extract_string(TRY_CAST({_property(body)} AS JSON), '{json_path(*keys)}')"
        for body in ("responseBody", "backendResponseBody")
    ]
    return first_of(*found)


def _draft(files: Sequence[Glimpse]) -> Draft:
    if files[0].has("records[].category"):
        records = f"(SELECT unnest(json_extract(json, '$.records[*]')) AS record FROM {records_of(files)})"
        rows = extracted(records, "record", {field: json_path(field) for field in FIELDS})
    else:
        rows = rows_of(files, FIELDS)
    rows = f"SELECT *, TRY_CAST(COALESCE(properties, properties_s) AS JSON) AS inner_ FROM ({rows})"
    ticks = f"({whole(_property('requestTime'))} - {_EPOCH_TICKS}) / 1e7"
    operation = first_of(_property("operationId"), '"operationName"', '"OperationName"')
    code = first_of(_property("responseCode"), '"resultSignature"', '"ResultSignature"')
    return Draft(
        rows=rows,
        columns={
            "arrival_s": first_of(ticks, stamp(first_of('"time"', '"TimeGenerated"'))),
            "prompt_tokens": whole(first_of(_property("promptTokens"), _body("usage", "prompt_tokens"))),
            "output_tokens": whole(first_of(_property("completionTokens"), _body("usage", "completion_tokens"))),
            "cached_tokens": whole(_body("usage", "prompt_tokens_details", "cached_tokens")),
            "reasoning_tokens": whole(_body("usage", "completion_tokens_details", "reasoning_tokens")),
            "duration_s": number(first_of('"durationMs"', '"DurationMs"'), 0.001),
            "status": first_of(status(code), status('"resultType"')),
            "product": words(_property("productId")),
            "tenant": first_of(words(_property("apimSubscriptionId")), words(_property("objectId"))),
            "model": first_of(
                words(_property("modelDeploymentName")),
                words(_property("deploymentName")),
                words(
                    f"regexp_extract({first_of(_property('url'), _property('backendUrl'))}, 'deployments/([^/]+)', 1)"
                ),
                words(_body("model")),
                words(_property("modelName")),
            ),
            "path": words(operation),
            "request": words(first_of('"correlationId"', '"CorrelationId"')),
        },
        clock=Clock.UTC,
        is_request=f"regexp_matches(COALESCE({operation}, ''), "
        "'(?i)completion|embedding|response|generat|transcri|translat|speech|llm')",
        otherwise="an operation that calls no model",
        time=first_of('"time"', '"TimeGenerated"'),
    )


READER = TraceReader(
    name="azure-openai", title="Azure OpenAI and API Management diagnostic logs", recognises=_recognises, draft=_draft
)
