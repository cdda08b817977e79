"""Ullage plans capacity and cost for language-model serving.

>>> import ullage
>>> document = ullage.verbs.plan()
>>> document.verdict.value
'TEST FIRST'

Everything a program needs is named here; the rest of the package is for reading, not for relying on.
Nothing heavy is imported until a name is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ullage import verbs
    from ullage.errors import InputError, InternalError, NotBuilt, Rejection, UllageError
    from ullage.evidence import Assumption, Evidence, Figure, Source
    from ullage.planning.document import Plan

__version__ = "0.1.0"

__all__ = [
    "Assumption",
    "Evidence",
    "Figure",
    "InputError",
    "InternalError",
    "NotBuilt",
    "Plan",
    "Rejection",
    "Source",
    "UllageError",
    "__version__",
    "verbs",
]

_HOME = {
    **dict.fromkeys(("InputError", "InternalError", "NotBuilt", "Rejection", "UllageError"), "ullage.errors"),
    **dict.fromkeys(("Assumption", "Evidence", "Figure", "Source"), "ullage.evidence"),
    "Plan": "ullage.planning.document",
}


def __getattr__(name: str) -> object:
    if name == "verbs":
        return importlib.import_module("ullage.verbs")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'ullage' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
