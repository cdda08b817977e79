"""How each class of evidence looks in a terminal: the stronger, the calmer."""

from __future__ import annotations

from rich.text import Text

from ullage.evidence import Evidence

_STYLE = {
    Evidence.STATED: "cyan",
    Evidence.MEASURED: "green",
    Evidence.CALIBRATED: "green",
    Evidence.PROFILED: "yellow",
    Evidence.ESTIMATED: "yellow",
    Evidence.ASSUMED: "magenta",
}


def evidence_text(evidence: Evidence) -> Text:
    return Text(str(evidence), style=_STYLE[evidence])
