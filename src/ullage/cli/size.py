"""`ullage size`."""

from __future__ import annotations

from functools import partial

from ullage.cli.options import (
    AsJson,
    AsOf,
    Beside,
    Calibration,
    Definitions,
    Explain,
    Limit,
    NoColor,
    PlanArgument,
    Quiet,
    Rate,
    Seed,
    Set,
    Slos,
    Traffic,
)
from ullage.cli.terminal import answered, ask_verb


def command(
    file: PlanArgument = None,
    changed: Set = None,
    traffic: Traffic = None,
    rate: Rate = None,
    slo: Slos = None,
    definitions: Definitions = None,
    calibration: Calibration = None,
    beside: Beside = None,
    explain: Explain = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    limit: Limit = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Size a pool: the fewest replicas that meet every SLO at a rate, by simulation.

    Reserves for failures, rollouts and growth are not in it: those are lines of a plan. Without a rate it is sized for
    the plan's planning rate. An SLO that no replica meets is refused (exit 3).
    """
    from ullage import verbs

    ask = partial(
        verbs.size,
        file,
        rate=rate,
        slos=slo or [],
        definitions=definitions,
        calibration=calibration,
        beside=beside,
        as_of=as_of,
        seed=seed,
        limit=limit,
    )
    found = ask_verb("simulating", ask, changed, traffic, quiet=quiet, example=file is None)
    return answered(found, json=json, no_color=no_color, explain=explain, verb="size")
