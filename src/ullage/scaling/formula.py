"""KEDA's scaling modifiers: one formula over the triggers' values, as a small expression that is read and computed.

Numbers, trigger names, + - * / % **, comparisons, && || !, `a ? b : c`, lists, and the functions of the documentation's
examples: max, min, sum, avg (mean), median, count, abs, ceil, floor, round.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence

from ullage.errors import InputError

_TOKEN = re.compile(
    r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)|([A-Za-z_]\w*)|(\*\*|<=|>=|==|!=|&&|\|\||[-+*/%<>!?:(),\[\]]))"
)
_FUNCTIONS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "max": max,
    "min": min,
    "sum": math.fsum,
    "avg": statistics.fmean,
    "mean": statistics.fmean,
    "median": statistics.median,
    "count": len,
    "abs": lambda values: abs(values[0]),
    "ceil": lambda values: math.ceil(values[0]),
    "floor": lambda values: math.floor(values[0]),
    # Half away from zero, as the expression language rounds.
    "round": lambda values: math.copysign(math.floor(abs(values[0]) + 0.5), values[0]),
}
# Binary operators by how tightly they bind, the loosest first.
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("==", "!=", "<", "<=", ">", ">="),
    ("+", "-"),
    ("*", "/", "%"),
)
_BINARY: Mapping[str, Callable[[float, float], float]] = {
    "||": lambda a, b: float(bool(a) or bool(b)),
    "&&": lambda a, b: float(bool(a) and bool(b)),
    "==": lambda a, b: float(a == b),
    "!=": lambda a, b: float(a != b),
    "<": lambda a, b: float(a < b),
    "<=": lambda a, b: float(a <= b),
    ">": lambda a, b: float(a > b),
    ">=": lambda a, b: float(a >= b),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b if b else math.copysign(math.inf, a) if a else math.nan,
    "%": lambda a, b: math.fmod(a, b) if b and math.isfinite(a) else math.nan,
}
_DEEPEST = 50


class _FormulaReader:
    """A formula under way: its tokens, the place that is read, and the values that names stand for."""

    def __init__(self, text: str, values: Mapping[str, float]) -> None:
        self.text = text
        self.values = values
        self.tokens = _tokens(text)
        self.place = 0
        self.depth = 0

    def peek(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        found = self.peek()
        if not found or (wanted and found != wanted):
            raise self.wrong(f"has {found or 'its end'!r} where {wanted or 'a value'!r} is expected")
        self.place += 1
        return found

    def wrong(self, problem: str) -> InputError:
        return InputError(
            field="scalingModifiers.formula", value=self.text, problem=problem, fix="Give for example max(a, b)."
        )

    def choice(self) -> float:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.wrong("is nested too deeply")
        found = self.binary(0)
        if self.peek() == "?":
            self.take("?")
            yes = self.choice()
            self.take(":")
            no = self.choice()
            found = yes if found else no
        self.depth -= 1
        return found

    def binary(self, level: int) -> float:
        if level == len(_LEVELS):
            return self.power()
        found = self.binary(level + 1)
        while self.peek() in _LEVELS[level]:
            found = _BINARY[self.take()](found, self.binary(level + 1))
        return found

    def power(self) -> float:
        if self.peek() in ("-", "+", "!"):
            sign = self.take()
            found = self.power()
            return -found if sign == "-" else found if sign == "+" else float(not found)
        base = self.atom()
        if self.peek() == "**":
            self.take("**")
            try:
                return float(base ** self.power())
            except (OverflowError, ZeroDivisionError):
                return math.inf
            except TypeError:
                # The root of a negative number is none.
                return math.nan
        return base

    def atom(self) -> float:
        token = self.take()
        if token == "(":
            found = self.choice()
            self.take(")")
            return found
        if token[0].isdigit() or token[0] == ".":
            return float(token)
        if token in _FUNCTIONS and self.peek() == "(":
            return self.call(token)
        if token not in self.values:
            raise self.wrong(f"names {token!r}, which is not a trigger of {', '.join(self.values) or 'none'}")
        return float(self.values[token])

    def call(self, name: str) -> float:
        self.take("(")
        listed = self.peek() == "["
        if listed:
            self.take("[")
        given = [self.choice()]
        while self.peek() == ",":
            self.take(",")
            given.append(self.choice())
        if listed:
            self.take("]")
        self.take(")")
        try:
            return float(_FUNCTIONS[name](given))
        except (OverflowError, ValueError):
            # What is infinite or no number cannot be rounded.
            return math.nan


def evaluate(text: str, values: Mapping[str, float]) -> float:
    """The formula's value for these triggers.

    >>> evaluate("max(queue, kv * 100) / 2", {"queue": 30.0, "kv": 0.8})
    40.0
    >>> evaluate("queue > 10 ? queue : sum([queue, 5])", {"queue": 4.0})
    9.0
    """
    reader = _FormulaReader(text, values)
    found = reader.choice()
    if reader.peek():
        raise reader.wrong(f"goes on with {reader.peek()!r} where it should end")
    return found


def _tokens(text: str) -> list[str]:
    found, place = [], 0
    stripped = text.rstrip()
    while place < len(stripped):
        match = _TOKEN.match(stripped, place)
        if match is None:
            raise InputError(
                field="scalingModifiers.formula",
                value=text,
                problem=f"has {stripped[place : place + 8]!r}, which is not supported",
                fix="Give for example max(a, b).",
            )
        found.append(match.group(1) or match.group(2) or match.group(3))
        place = match.end()
    return found
