"""The highest rate of a service that is planned: every request of it is simulated."""

from __future__ import annotations

from ullage.errors import InputError

# Every request is simulated. A service beyond this rate is many, and a slip in a rate or in growth is likelier.
MOST_RPS = 20_000.0


def check_rate(name: str, rate_rps: float, most_rps: float = MOST_RPS) -> None:
    """Refuses a rate at which a simulation of every request would not end."""
    if not rate_rps <= most_rps:
        raise InputError(
            field=name,
            value=f"{rate_rps:.3g} req/s",
            problem=f"is more than the {most_rps:,.0f} req/s that are simulated",
            fix="Check the rate, its growth and the horizon, or plan one part of the traffic at a time.",
        )
