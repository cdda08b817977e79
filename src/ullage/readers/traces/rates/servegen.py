"""ServeGen client tables: requests counted per client in windows of ten minutes, and mean lengths beside them.

Two tables go together: rates (`client`, `t_s`, `rate_rps`) and lengths (`client`, `window_s`, `field`, `mean`).
Either order, and rates alone, are read. The quantiles of the lengths table come without their levels, so
only the means are used; a guess at the levels would look like a measurement.
"""

from __future__ import annotations

from collections.abc import Sequence

from ullage.readers.traces.draft import Draft, TraceReader, rows_of
from ullage.readers.traces.files import Glimpse
from ullage.readers.traces.sql import number, words
from ullage.workload.trace import Clock

RATES = ("category", "model", "client", "t_s", "rate_rps", "cv")
LENGTHS = ("category", "model", "client", "window_s", "field", "mean")
WINDOW_S = 600.0
# Their names for our columns; `reason_ratio` is a share and not a length.
FIELDS = {"input_tokens": "prompt_tokens", "output_tokens": "output_tokens"}


def is_rates(file: Glimpse) -> bool:
    return file.has("client", "t_s", "rate_rps", "cv")


def is_lengths(file: Glimpse) -> bool:
    return file.has("client", "window_s", "field", "mean", "quantiles")


def _recognises(file: Glimpse) -> bool:
    return is_rates(file) or is_lengths(file)


def _draft(files: Sequence[Glimpse]) -> Draft:
    """Windows with a count, under names of their own: this format has no requests to list."""
    rates = [file for file in files if is_rates(file)]
    return Draft(rows=rows_of(rates, RATES), columns=RATE_COLUMNS, clock=Clock.RELATIVE)


RATE_COLUMNS = {
    "window_s": number("t_s"),
    "tenant": "CAST(model AS VARCHAR) || '/' || CAST(client AS VARCHAR)",
    "model": words("model"),
    "class": words("category"),
    "requests": f"({number('rate_rps')} * {WINDOW_S!r})",
    "gap_cv": number("cv"),
    "product": "NULL::VARCHAR",
    "prompt_tokens": "NULL::DOUBLE",
    "output_tokens": "NULL::DOUBLE",
    "cached_tokens": "NULL::DOUBLE",
}


def lengths_sql(files: Sequence[Glimpse]) -> str:
    """SQL for tenant, model, class, field and mean_tokens, one row a client, window and field."""
    ours = " ".join(f"WHEN '{theirs}' THEN '{column}'" for theirs, column in FIELDS.items())
    known = ", ".join(f"'{field}'" for field in FIELDS)
    return (
        f"SELECT {RATE_COLUMNS['tenant']} AS tenant, {words('model')} AS model, {words('category')} AS class, "
        f"{number('window_s')} AS window_s, CASE field {ours} END AS field, {number('mean')} AS mean_tokens "
        f"FROM ({rows_of([file for file in files if is_lengths(file)], LENGTHS)}) WHERE field IN ({known})"
    )


READER = TraceReader(name="servegen", title="ServeGen client tables", recognises=_recognises, draft=_draft)
