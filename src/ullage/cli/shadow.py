"""`ullage shadow`."""

from __future__ import annotations

from functools import partial

from ullage.cli.options import (
    AsJson,
    AsOf,
    HttpConfig,
    Limit,
    Markdown,
    MetricNames,
    NoColor,
    PlanOption,
    Prometheus,
    Quiet,
    RangeAnswers,
    Rules,
    Seed,
    Set,
    Since,
    Traffic,
    Until,
)
from ullage.cli.terminal import answered, ask_verb, talk


def command(
    files: RangeAnswers = None,
    plan: PlanOption = None,
    rules: Rules = None,
    prometheus: Prometheus = None,
    since: Since = None,
    until: Until = None,
    http_config: HttpConfig = None,
    names: MetricNames = None,
    changed: Set = None,
    traffic: Traffic = None,
    markdown: Markdown = False,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    limit: Limit = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Replay a scaling rule on production traffic, beside what the live autoscaler did.

    Replica-hours, SLO violations predicted for both, and when and why they differ. Without --rules it is the rule that
    the plan proposes.
    """
    from ullage import verbs

    if plan is None:
        talk("No plan file given: the built-in example's pool stands in for production's.", quiet=quiet)
    ask = partial(
        verbs.shadow,
        plan,
        rules=rules or (),
        files=files or (),
        prometheus=prometheus,
        http_config=http_config,
        names=names,
        from_=since,
        until=until,
        as_of=as_of,
        seed=seed,
        limit=limit,
    )
    found = ask_verb("shadowing", ask, changed, traffic, quiet=quiet)
    return answered(found, json=json, markdown=markdown, no_color=no_color)
