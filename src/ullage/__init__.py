"""Ullage plans capacity and cost for language-model serving.

>>> import ullage
>>> ullage.memory_budget("llama-3.1-8b", device="h100")
<MemoryAnswer: replica llama-3.1-8b on h100-sxm, cache 456,048 tokens>

Everything a program needs is named here; the rest of the package is for reading, not for relying on.
Nothing heavy is imported until a name is used.

A verb of the command line is a function of the same name: `ullage.plan("plan.yaml")`, `ullage.size(...)`. Eight verbs
share their name with a package and go by what they hand back: `memory_budget`, `bill` (cost), `simulation`,
`fact_sheets`, `manifests` (emit), `kept_entries` (ledger), `reconciliation` and `html_report`. `ullage.verbs` has all
of them under the command line's names.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ullage import verbs
    from ullage.errors import InputError, InternalError, Rejection, UllageError
    from ullage.evidence import Assumption, Evidence, Figure, Source
    from ullage.load.pool import ReplicaChoice
    from ullage.planning.document import Plan
    from ullage.verbs.brownfield import brownfield
    from ullage.verbs.buy import buy
    from ullage.verbs.calibrate import calibrate
    from ullage.verbs.check import check
    from ullage.verbs.compare import compare
    from ullage.verbs.cost import cost as bill
    from ullage.verbs.curve import curve
    from ullage.verbs.drill import drill
    from ullage.verbs.emit import emit as manifests
    from ullage.verbs.facts import facts as fact_sheets
    from ullage.verbs.forecast import forecast
    from ullage.verbs.gate import gate
    from ullage.verbs.init import init
    from ullage.verbs.ledger import ledger as kept_entries
    from ullage.verbs.measure import measure
    from ullage.verbs.memory import memory as memory_budget
    from ullage.verbs.options import options
    from ullage.verbs.plan import plan
    from ullage.verbs.portfolio import portfolio
    from ullage.verbs.profile import profile
    from ullage.verbs.reconcile import reconcile as reconciliation
    from ullage.verbs.report import report as html_report
    from ullage.verbs.risk import risk
    from ullage.verbs.scale import scale
    from ullage.verbs.scenarios import scenarios
    from ullage.verbs.shadow import shadow
    from ullage.verbs.simulate import LoadChoice
    from ullage.verbs.simulate import simulate as simulation
    from ullage.verbs.size import size
    from ullage.verbs.validate import validate

__version__ = "0.1.0"

__all__ = [
    "Assumption",
    "Evidence",
    "Figure",
    "InputError",
    "InternalError",
    "LoadChoice",
    "Plan",
    "Rejection",
    "ReplicaChoice",
    "Source",
    "UllageError",
    "__version__",
    "bill",
    "brownfield",
    "buy",
    "calibrate",
    "check",
    "compare",
    "curve",
    "drill",
    "fact_sheets",
    "forecast",
    "gate",
    "html_report",
    "init",
    "kept_entries",
    "manifests",
    "measure",
    "memory_budget",
    "options",
    "plan",
    "portfolio",
    "profile",
    "reconciliation",
    "risk",
    "scale",
    "scenarios",
    "shadow",
    "simulation",
    "size",
    "validate",
    "verbs",
]

# Verbs whose name is a package's: importing the package would bind its name here, whatever was bound before.
RENAMED_VERBS = {
    "memory_budget": "memory",
    "bill": "cost",
    "simulation": "simulate",
    "fact_sheets": "facts",
    "manifests": "emit",
    "kept_entries": "ledger",
    "reconciliation": "reconcile",
    "html_report": "report",
}

_HOME = {
    **dict.fromkeys(("InputError", "InternalError", "Rejection", "UllageError"), "ullage.errors"),
    **dict.fromkeys(("Assumption", "Evidence", "Figure", "Source"), "ullage.evidence"),
    "LoadChoice": "ullage.verbs.simulate",
    "Plan": "ullage.planning.document",
    "ReplicaChoice": "ullage.load.pool",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'ullage' has no attribute {name!r}")
    if name == "verbs":
        return importlib.import_module("ullage.verbs")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    return getattr(importlib.import_module("ullage.verbs"), RENAMED_VERBS.get(name, name))


def __dir__() -> list[str]:
    return __all__
