"""One file per verb: load, call the core, hand back a value. The CLI, the web and `import ullage` all use these.

The functions are bound here under the verbs' own names, and each imports what it needs when it is called.
"""

from __future__ import annotations

from ullage.verbs.brownfield import brownfield
from ullage.verbs.buy import buy
from ullage.verbs.calibrate import calibrate
from ullage.verbs.check import check
from ullage.verbs.compare import compare
from ullage.verbs.cost import cost
from ullage.verbs.curve import curve
from ullage.verbs.drill import drill
from ullage.verbs.emit import emit
from ullage.verbs.facts import facts
from ullage.verbs.forecast import forecast
from ullage.verbs.gate import gate
from ullage.verbs.init import init
from ullage.verbs.ledger import ledger
from ullage.verbs.measure import measure
from ullage.verbs.memory import memory
from ullage.verbs.options import options
from ullage.verbs.plan import plan
from ullage.verbs.portfolio import portfolio
from ullage.verbs.profile import profile
from ullage.verbs.reconcile import reconcile
from ullage.verbs.report import report
from ullage.verbs.risk import risk
from ullage.verbs.scale import scale
from ullage.verbs.scenarios import scenarios
from ullage.verbs.shadow import shadow
from ullage.verbs.simulate import simulate
from ullage.verbs.size import size
from ullage.verbs.validate import validate

__all__ = [
    "brownfield",
    "buy",
    "calibrate",
    "check",
    "compare",
    "cost",
    "curve",
    "drill",
    "emit",
    "facts",
    "forecast",
    "gate",
    "init",
    "ledger",
    "measure",
    "memory",
    "options",
    "plan",
    "portfolio",
    "profile",
    "reconcile",
    "report",
    "risk",
    "scale",
    "scenarios",
    "shadow",
    "simulate",
    "size",
    "validate",
]
