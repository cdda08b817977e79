"""`ullage size`."""

from __future__ import annotations

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
from ullage.cli.terminal import answered, explained, progress, talk


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
    from ullage.verbs.answer import Refusal
    from ullage.verbs.what_if import last, what_if

    if file is None:
        talk("No plan file given: the built-in example.", quiet=quiet)
    with progress("simulating", quiet=quiet) as report:
        found = what_if(
            lambda **what: verbs.size(
                file,
                rate=rate,
                slos=slo or [],
                definitions=definitions,
                calibration=calibration,
                beside=beside,
                as_of=as_of,
                seed=seed,
                limit=limit,
                progress=report,
                **what,
            ),
            changed,
            traffic,
        )
    if explain is not None and not isinstance(last(found), Refusal):
        return explained(found, explain, verb="size", json=json, no_color=no_color)
    return answered(found, json=json, no_color=no_color)
