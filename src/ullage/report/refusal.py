"""A refusal in the terminal: where, why, by which figure, and what would help."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from ullage.errors import Rejection
from ullage.report.quantity import show


def refusal_page(rejection: Rejection) -> list[RenderableType]:
    figure = rejection.figure
    return [
        Text(f"Refused at {rejection.stage}: {rejection.reason}", style="bold"),
        Text(f"{figure.name} = {show(figure.value, figure.unit)} {figure.evidence}: {figure.formula}"),
        *(Text(f"  {each.change}: {each.effect}") for each in rejection.remedies),
    ]
