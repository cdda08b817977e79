"""`ullage options`; the options that several verbs share are in options.py."""

from __future__ import annotations

from ullage.cli.options import AsJson, AsOf, Explain, Limit, NoColor, PlanArgument, Quiet, RunOn, Seed, Set, Traffic
from ullage.cli.terminal import answered, progress, talk
from ullage.errors import ExitCode


def command(
    file: PlanArgument = None,
    changed: Set = None,
    traffic: Traffic = None,
    explain: Explain = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    limit: Limit = None,
    run_on: RunOn = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Compare devices, parallelism and settings: ranked by cost per success, refused with reasons, and when to order.

    Candidates are those that the section options of the plan file names. They are screened by memory, bounded by the
    roofline, and the rest is simulated in rounds on the same traffic.
    """
    from ullage import verbs
    from ullage.verbs.answer import Refusal
    from ullage.verbs.what_if import last, what_if

    if file is None:
        talk("No plan file given: comparing options of the built-in example.", quiet=quiet)
    with progress("simulating candidates", quiet=quiet):
        found = what_if(
            lambda **what: verbs.options(file, as_of=as_of, seed=seed, limit=limit, run_on=run_on, **what),
            changed,
            traffic,
        )
    code, best = answered(found, json=json, no_color=no_color, explain=explain, verb="options"), last(found)
    failed = explain is None and not isinstance(best, Refusal) and not best.holds
    return ExitCode.REFUSED if failed else code
