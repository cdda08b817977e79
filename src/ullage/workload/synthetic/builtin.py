"""The built-in profile: a fictitious chat and coding service.

It is what a plan falls back on where the user has stated a rate and nothing else, and what examples draw from. The two
classes are those of the built-in example plan. The shapes follow what published traces have in common, not any one of
them: chat prompts of about a thousand tokens with answers of a few hundred; coding prompts several times longer, with
shorter answers; a working-day hump that coding follows more than chat; bursts of tens of per cent over minutes.
"""

from __future__ import annotations

import datetime
import functools
import math

from ullage.evidence import Source
from ullage.workload.synthetic.model import (
    HOURS_PER_WEEK,
    ClassModel,
    LengthModel,
    ReuseModel,
    SessionModel,
    SyntheticModel,
    Tenants,
)
from ullage.workload.synthetic.modulation import Modulation

SOURCE = Source(
    what="built-in synthetic profile, made up",
    where="docs/reference/synthetic-model.md",
    date=datetime.date(2026, 11, 15),
    licence="Apache-2.0",
)


@functools.cache
def builtin() -> SyntheticModel:
    """Chat at 20 and coding at 4 requests a second, means over a week."""
    return SyntheticModel(classes=(_chat(), _coding()))


def _chat() -> ClassModel:
    return ClassModel(
        name="chat",
        mean_rate_rps=20.0,
        # Evenings count nearly as much as office hours, weekends four fifths of a working day.
        season=_season(night=0.45, peak_hour=15.0, width_hours=5.5, weekend=0.80),
        weekly_growth_fraction=0.010,
        # Bursts of about 20 % over seconds and 25 % over minutes: a link that is shared, a class that begins.
        bursts=Modulation(variances=(0.02, 0.01, 0.01, 0.015, 0.015, 0.01)),
        # The longest prompt and the longest answer together are the class's longest context.
        lengths=LengthModel(
            prompt_tokens=(8, 30, 90, 180, 500, 1_100, 2_100, 3_600, 4_800, 8_000, 11_500, 12_288),
            output_tokens=(1, 8, 25, 50, 120, 250, 420, 650, 850, 1_400, 2_600, 4_096),
            rank_correlation_ratio=0.15,
        ),
        sessions=SessionModel(mean_turns=4.0, mean_think_s=75.0),
        reuse=ReuseModel(
            first_turn_fractions=(0.0, 0.05, 0.2, 0.4),
            later_turn_fractions=(0.3, 0.6, 0.75, 0.9),
            distance_blocks=(100, 2_000, 8_000, 25_000, 90_000, 400_000),
        ),
        tenants=Tenants(tenants=200, skew_ratio=1.1),
    )


def _coding() -> ClassModel:
    return ClassModel(
        name="coding",
        mean_rate_rps=4.0,
        season=_season(night=0.15, peak_hour=14.0, width_hours=4.0, weekend=0.25),
        weekly_growth_fraction=0.015,
        # Agents and continuous integration start together and stop together.
        bursts=Modulation(variances=(0.10, 0.05, 0.05, 0.06, 0.06, 0.05)),
        lengths=LengthModel(
            prompt_tokens=(40, 200, 600, 1_200, 3_000, 6_500, 12_000, 18_000, 22_000, 28_000, 31_000, 31_744),
            output_tokens=(1, 5, 10, 16, 45, 140, 350, 800, 1_000, 1_024, 1_024, 1_024),
            rank_correlation_ratio=0.10,
        ),
        sessions=SessionModel(mean_turns=12.0, mean_think_s=20.0),
        reuse=ReuseModel(
            first_turn_fractions=(0.05, 0.2, 0.4, 0.6),
            later_turn_fractions=(0.5, 0.85, 0.93, 0.98),
            distance_blocks=(200, 3_000, 10_000, 30_000, 80_000, 300_000),
        ),
        tenants=Tenants(tenants=40, skew_ratio=1.0),
    )


def _season(*, night: float, peak_hour: float, width_hours: float, weekend: float) -> tuple[float, ...]:
    """A bell around the peak hour on a floor, the weekend's two days lower, all divided by their mean."""
    factors = []
    for hour in range(HOURS_PER_WEEK):
        day, of_day = divmod(hour, 24)
        away = min(abs(of_day + 0.5 - peak_hour), 24.0 - abs(of_day + 0.5 - peak_hour))
        bell = night + (1.0 - night) * math.exp(-0.5 * (away / width_hours) ** 2)
        factors.append(bell * (weekend if day >= 5 else 1.0))
    mean = sum(factors) / len(factors)
    return tuple(round(each / mean, 4) for each in factors)
