"""Numbers as spreadsheets and dashboards print them: `1,204`, `1.204,5`, `12 req/s`, `1.2 K`, `12.3s`, `450 ms`.

Which of comma and point is the decimal mark is decided for a column from its first values; `12,345` alone says neither.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ullage.readers.traces.sql import text

_PLAIN = re.compile(r"[-+]?\d*\.?\d+([eE][-+]?\d+)?")
# What stands where there is no number.
NOTHING = ("", "-", "null", "none", "nan", "n/a", "na", "undefined")
_MULTIPLES = {
    "k": 1e3,
    "thousand": 1e3,
    "m": 1e6,
    "mil": 1e6,
    "million": 1e6,
    "b": 1e9,
    "bil": 1e9,
    "g": 1e9,
    "t": 1e12,
}
_COUNTED = (
    r"(?:(?:reqs?|requests?|c|ops|calls?|hits|queries|invocations?|counts?|tokens?|tok)(?: ?(?:/|per) ?[a-z]+|ps|pm)?"
    r"|[rq]p[smh]|/ ?[a-z]+)"
)
_DURATIONS = {"s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e-3, "msec": 1e-3,
              "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "m": 60.0, "min": 60.0, "h": 3600.0}  # fmt: skip
_TIMED = re.compile(rf"[-+]?\d[\d.,]* ?(?:{'|'.join(_DURATIONS)})")


def are_plain(values: Sequence[str]) -> bool:
    """Whether all of these are numbers as a program writes them."""
    return all(_PLAIN.fullmatch(each) for each in values if each.lower() not in NOTHING)


def are_timed(values: Sequence[str]) -> bool:
    """Whether durations carry their unit themselves."""
    return any(_TIMED.fullmatch(each) for each in values)


def decimal_mark(values: Sequence[str], *, whole: bool, delimiter: str) -> str:
    """Comma or point; `whole` says that the column counts, so that a fraction in it is a group of thousands.

    >>> decimal_mark(["12,5"], whole=False, delimiter=";"), decimal_mark(["1,204"], whole=True, delimiter=",")
    (',', '.')
    >>> decimal_mark(["1.204", "980"], whole=True, delimiter=";"), decimal_mark(["1.204"], whole=False, delimiter=";")
    (',', '.')
    """
    numbers = [match.group() for each in values if (match := re.match(r"[-+]?\d[\d.,]*", each))]
    for each in numbers:
        # Where both stand, or one stands twice, thousands and decimals are told apart.
        marks = re.sub(r"[^.,]", "", each)
        if len(set(marks)) == 2:
            return marks[-1]
        if len(marks) > 1:
            return "," if marks[0] == "." else "."
    for mark in ",.":
        marked = [each for each in numbers if mark in each]
        if any(not re.fullmatch(r"[-+]?[1-9]\d{0,2}[.,]\d{3}", each) for each in marked):
            return mark
    if any("," in each for each in numbers):
        return "," if delimiter == ";" and not whole else "."
    is_grouped = whole and any("." in each and not each.endswith("000") for each in numbers)
    return "," if is_grouped else "."


def printed_number(value: str, mark: str = ".") -> str:
    """SQL for a printed number, with its multiple; NULL where anything but a count's unit stands behind it."""
    cases = " ".join(f"WHEN {text(spelt)} THEN {factor!r}" for spelt, factor in _MULTIPLES.items())
    rest = f"^ ?({'|'.join(sorted(_MULTIPLES, key=len, reverse=True))})? ?{_COUNTED}?$"
    return _parted(
        value,
        mark,
        f"CASE WHEN regexp_matches(parts.rest, {text(rest)}) THEN TRY_CAST(parts.digits AS DOUBLE) * "
        f"CASE regexp_extract(parts.rest, {text(rest)}, 1) {cases} ELSE 1.0 END END",
    )


def printed_duration(value: str, mark: str = ".") -> str:
    """SQL for seconds from a duration that carries its unit, or is written as a clock shows it."""
    cases = " ".join(f"WHEN {text(spelt)} THEN {factor!r}" for spelt, factor in _DURATIONS.items())
    timed = _parted(value, mark, f"TRY_CAST(parts.digits AS DOUBLE) * CASE trim(parts.rest) {cases} END")
    return f"COALESCE({timed}, epoch(TRY_CAST({value} AS TIME)))"


def _parted(value: str, mark: str, expression: str) -> str:
    """SQL over `parts`: digits as a program writes them, and what stands behind them, small."""
    group = "." if mark == "," else ","
    shown = f"lower(replace(replace(trim(CAST({value} AS VARCHAR)), {text(group)}, ''), {text(mark)}, '.'))"
    # Groups are also parted by spaces, of several kinds, and by apostrophes.
    joined = f"regexp_replace({shown}, '(\\d)[ \u00a0\u202f''\u2019](\\d{{3}})', '\\1\\2', 'g')"
    pattern = r"^([-+]?[0-9]*\.?[0-9]+(?:e[-+]?[0-9]+)?)(.*)$"
    parts = f"regexp_extract({joined}, {text(pattern)}, ['digits', 'rest'])"
    return f"list_transform([{parts}], lambda parts: {expression})[1]"
