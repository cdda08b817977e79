"""A refusal in the terminal: where, why, by which figure, and what would help."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from ullage.errors import Rejection
from ullage.report.quantity import show

MOST_REMEDIES = 12


def refusal_page(rejection: Rejection) -> list[RenderableType]:
    figure, more = rejection.figure, len(rejection.remedies) - MOST_REMEDIES
    held = [Text(f"  {each.change}: {each.effect}") for each in rejection.remedies[:MOST_REMEDIES]]
    return [
        Text(f"REFUSED at {rejection.stage}: {rejection.reason}", style="bold"),
        Text(f"{figure.name} = {show(figure.value, figure.unit)} {figure.evidence}: {figure.formula}"),
        *([Text("What would make it fit:"), *held] if held else []),
        *([Text(f"  and {more} more: --json")] if more > 0 else []),
    ]
