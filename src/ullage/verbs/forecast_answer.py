"""What `forecast` hands back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ullage.verbs.answer import Answer, Headline
from ullage.workload.forecast.part_forecast import ServiceForecast

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, kw_only=True, repr=False)
class ForecastAnswer(Answer, ServiceForecast):
    """The demand over the horizon, of all traffic and of its parts."""

    def headlines(self) -> tuple[Headline, ...]:
        return tuple(
            Headline(name=f"{each.history.name} busiest", value=each.planning_rps, unit="req/s") for each in self.parts
        )

    def page(self) -> list[RenderableType]:
        from ullage.report.workload.forecast_page import forecast_page

        return forecast_page(self)

    def to_dict(self) -> dict[str, Any]:
        import json

        from ullage.report.workload.forecast_page import forecast_json

        found: dict[str, Any] = json.loads(forecast_json(self))
        return found
