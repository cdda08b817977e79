"""Endings that are not answers, as RFC 9457 tells them: one shape, whoever refuses.

A wrong input has the members that the command line prints (field, value, problem, fix), and its field taken apart into
file, line and key. A refused plan has the document that the command line prints with --json.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from ullage.errors import InputError, UllageError
from ullage.foreign import visible

MEDIA_TYPE = "application/problem+json"
_PLACE = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+)(?:: (?P<key>.+))?$", re.DOTALL)
_MOST_TEXT = 2000

TITLES = {
    "wrong-input": (422, "The input is wrong"),
    "refused": (409, "The plan does not hold"),
    "too-much": (422, "It takes more than this service gives a request"),
    "internal": (500, "A fault in ullage, not in the input"),
    "not-understood": (400, "The request cannot be understood"),
    "no-token": (401, "A token is needed"),
    "not-allowed": (403, "This may not be done"),
    "not-found": (404, "Not found"),
    "wrong-method": (405, "This cannot be done here"),
    "too-slow": (408, "The request did not arrive in time"),
    "gone": (410, "The job was cancelled"),
    "too-large": (413, "The request is too large"),
    "wrong-type": (415, "The request is of another type"),
    "too-many": (429, "Too many requests"),
    "not-ready": (503, "The service is not ready"),
}


@dataclass(frozen=True, kw_only=True)
class ServedProblem:
    """One problem as it is sent; `name` is one of TITLES."""

    name: str
    detail: str
    members: dict[str, Any] = field(default_factory=dict)
    retry_after_s: int | None = None

    @property
    def status(self) -> int:
        return TITLES[self.name][0]

    @property
    def headers(self) -> dict[str, str]:
        found = {"cache-control": "no-store"}
        if self.retry_after_s is not None:
            found["retry-after"] = str(self.retry_after_s)
        if self.status == 401:
            found["www-authenticate"] = "Bearer"
        return found

    def document(self) -> dict[str, Any]:
        return {
            "type": f"urn:ullage:problem:{self.name}",
            "title": TITLES[self.name][1],
            "status": self.status,
            "detail": self.detail,
            **self.members,
        }

    def body(self) -> bytes:
        return json.dumps(self.document(), ensure_ascii=True, allow_nan=False).encode()


class ProblemError(Exception):
    """A problem on its way to whoever sends it."""

    def __init__(self, name: str, detail: str, *, retry_after_s: int | None = None) -> None:
        self.problem = ServedProblem(name=name, detail=detail, retry_after_s=retry_after_s)
        super().__init__(detail)


def wrong_input(error: InputError) -> ServedProblem:
    """A wrong input with its place: what the command line says, taken apart."""
    where = str(error.field)
    found = _PLACE.match(where)
    place: dict[str, Any] = {"key": where}
    if found is not None:
        place = {"file": found["file"], "line": int(found["line"]), "key": found["key"] or ""}
    elif ": " in where:
        file, _, key = where.partition(": ")
        place = {"file": file, "key": key}
    said = {"field": where, "value": _text(error.value), "problem": error.problem, "fix": error.fix}
    members = {name: _shown(each) for name, each in {**said, **place}.items()}
    return ServedProblem(name="wrong-input", detail=_shown(str(error)), members=members)


def internal(error: BaseException) -> ServedProblem:
    """A fault of ours: its kind and no more, since what it says may be anybody's."""
    kind = error.law if isinstance(error, UllageError) and hasattr(error, "law") else type(error).__name__
    return ServedProblem(name="internal", detail=f"{_shown(str(kind))}. This is a fault in ullage, not in your input.")


def _text(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


def _shown(value: Any) -> Any:
    """On one line and of bounded length: a value of a request goes out where others may see it."""
    return visible(value)[:_MOST_TEXT] if isinstance(value, str) else value
