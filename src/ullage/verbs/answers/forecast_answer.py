"""What `forecast` hands back."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ullage.verbs.answer import Headline, VerbAnswer
from ullage.workload.forecast.part_forecast import ServiceForecast

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, kw_only=True, repr=False)
class ForecastAnswer(VerbAnswer, ServiceForecast):
    """The demand over the horizon, of all traffic and of its parts."""

    as_of: datetime.date

    def headlines(self) -> tuple[Headline, ...]:
        return tuple(
            Headline(name=f"{each.history.name} busiest", value=each.planning_rps, unit="req/s") for each in self.parts
        )

    def page(self) -> list[RenderableType]:
        from ullage.report.workload.forecast_page import forecast_page

        return forecast_page(self)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        return document("forecast", self, as_of=self.as_of, seed=self.seed)
