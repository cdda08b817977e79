"""`cost:` of a plan file: what is logged, kept, sent, judged and looked after, and what a task is made of.

What is left out has a sourced default where there can be one (ullage.cost.policy); where there cannot, its line of the
bill says `not priced` and what to write here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from ullage.cost import policy
from ullage.cost.policy import CostPolicy, Judging
from ullage.cost.provider.offer import ProviderOffer
from ullage.cost.service_use import ProviderUse, TaskUse
from ullage.errors import InputError, check_name
from ullage.evidence import number
from ullage.files.sections.provenance import Provenance
from ullage.files.sections.quantities import (
    HOUR_S,
    YEAR_S,
    Duration,
    MoneyText,
    Names,
    Number,
    Range,
    RequestRate,
    Share,
    ShareOrNone,
    StartTime,
    TokenRate,
    Tokens,
)
from ullage.files.sections.section import Key, Name, Section
from ullage.prices.book import Tier
from ullage.prices.purchase import HOURS_PER_MONTH
from ullage.units import DURATION

_HOUR_S = 3600.0
_MONTH_S = HOURS_PER_MONTH * _HOUR_S
# A plan file says it as a duration, the bill in months.
_KEPT = replace(policy.LOG_RETENTION, value=number(policy.LOG_RETENTION) * _MONTH_S, unit="s", low=None, high=None)


_NOT_PRICED = "its line of the bill is not priced"
_JUDGED, _BOUGHT, _TASK = "bill.evaluation*_usd", "bill.external_usd", "bill.*.per_task_usd"


class EvaluationSection(Section):
    """How answers are judged."""

    share: Annotated[ShareOrNone, Key(means="Share of requests whose answer is evaluated.", moves=_JUDGED)]
    suites_per_month: Annotated[Number, Key(means="Releases a month that run the whole suite.", moves=_JUDGED)] = 0.0
    items_per_suite: Annotated[Number, Key(means="Answers per suite.", moves=_JUDGED)] = 0.0
    provider: Annotated[
        str, Key(means="Who sells the evaluating model's tokens.", default="any provider", moves=_JUDGED)
    ] = ""
    model: Annotated[
        str, Key(means="The evaluating model.", default="the price of one `evaluation`", moves=_JUDGED)
    ] = ""
    prompt_tokens: Annotated[
        Tokens | None, Key(means="Prompt tokens of an evaluation.", default=_NOT_PRICED, moves=_JUDGED)
    ] = None
    output_tokens: Annotated[
        Tokens | None, Key(means="Output tokens of an evaluation.", default=_NOT_PRICED, moves=_JUDGED)
    ] = None


class EngineeringSection(Section):
    """Hours of engineers for each pool, a month."""

    on_call: Annotated[
        StartTime | None,
        Range(least=0.0, most=YEAR_S, dimension=DURATION),
        Key(means="Hours on call for a pool in a month.", default=_NOT_PRICED, moves="bill.engineering.*_usd"),
    ] = None
    changes: Annotated[
        StartTime | None,
        Range(least=0.0, most=YEAR_S, dimension=DURATION),
        Key(means="Hours of changes to a pool in a month.", default=_NOT_PRICED, moves="bill.engineering.*_usd"),
    ] = None


class BoughtSection(Section):
    """Requests that a provider serves, by the token: a class of its own, which no pool is planned for."""

    name: Annotated[Name, Key(means="Its name in figures.", still="It is a label in their names.")]
    provider: Annotated[
        str, Field(min_length=1), Key(means="Who sells the tokens, as in the price book.", moves=_BOUGHT)
    ]
    model: Annotated[str, Field(min_length=1), Key(means="The model, as the provider calls it.", moves=_BOUGHT)]
    rate: Annotated[RequestRate, Key(means="Mean rate of these requests.", moves=_BOUGHT)]
    prompt_tokens: Annotated[Tokens, Key(means="Mean length of a prompt.", moves=_BOUGHT)]
    output_tokens: Annotated[Tokens, Key(means="Mean length of an answer.", moves=_BOUGHT)]
    cached: Annotated[
        ShareOrNone | None,
        Key(means="Share of the prompt that is read from the cache.", default="none", moves=_BOUGHT),
    ] = None
    cache_written: Annotated[
        ShareOrNone | None,
        Key(
            means="Share of the prompt that is written to the cache, where a write has its price.",
            default="none",
            moves=_BOUGHT,
        ),
    ] = None
    success: Annotated[
        Share | None, Key(means="Share of them that succeed.", default="all", moves="bill.failed_work_usd")
    ] = None


_COMPARED = "ullage cost compares with it; no line of the bill is made of it."


class AgainstSection(Section):
    """A provider's model that classes could go to in place of own devices."""

    provider: Annotated[str, Field(min_length=1), Key(means="Who sells it, as in the price book.", still=_COMPARED)]
    model: Annotated[str, Field(min_length=1), Key(means="The model, as the provider calls it.", still=_COMPARED)]
    tier: Annotated[str, Key(means="standard, batch, flex or priority.", still=_COMPARED)] = Tier.STANDARD.value
    classes: Annotated[Names, Key(means="Classes that may go there.", default="all", still=_COMPARED)] = ()
    success: Annotated[
        Share | None,
        Key(means="Share of its answers that complete the task.", default="the same as hosted", still=_COMPARED),
    ] = None
    own_success: Annotated[
        Share | None,
        Key(
            means="Share of hosted answers in time that complete the task.",
            default="that of the class's own task in cost.tasks, else all",
            still=_COMPARED,
        ),
    ] = None
    request_fee: Annotated[
        MoneyText | None, Key(means="Fee per request, in addition to tokens.", default="nothing", still=_COMPARED)
    ] = None
    request_limit: Annotated[
        RequestRate | None, Key(means="Requests that the account may send.", default="no limit", still=_COMPARED)
    ] = None
    token_limit: Annotated[
        TokenRate | None,
        Key(means="Tokens of prompts and answers it may send.", default="no limit", still=_COMPARED),
    ] = None


class TaskSection(Section):
    """What a user asks for, where it takes more than one request."""

    name: Annotated[Name, Key(means="Its name in figures.", still="It is a label in their names.")]
    requests: Annotated[dict[str, Number], Key(means="Requests of each class that a task makes.", moves=_TASK)]
    tools: Annotated[
        dict[str, Number],
        Field(default_factory=dict),
        Key(means="Calls of each tool that a task makes.", default="none", moves=_TASK),
    ]
    attempts: Annotated[
        Number, Range(least=1.0, most=1000.0), Key(means="How often a task is tried, on average.", moves=_TASK)
    ] = 1.0
    escalated: Annotated[
        ShareOrNone | None,
        Key(means="Share of tasks given to another class after the first.", default="none", moves=_TASK),
    ] = None
    escalated_requests: Annotated[
        dict[str, Number],
        Field(default_factory=dict),
        Key(means="Requests of each class in the second attempt.", default="none", moves=_TASK),
    ]
    success: Annotated[Share, Key(means="Share of tasks that succeed.", moves="bill.*.per_successful_task_usd")]


class CostSection(Section):
    """What drives the lines of the bill around the devices."""

    log_bytes: Annotated[
        Number | None,
        Field(alias="log_bytes_per_request"),
        Key(means="Bytes that one request leaves in logs.", default=policy.LOG_BYTES, moves="bill.storage.logs_usd"),
    ] = None
    log_retention: Annotated[
        Duration | None,
        Range(least=HOUR_S, most=100 * YEAR_S, dimension=DURATION),
        Key(means="How long logs are kept.", default=lambda: _KEPT, moves="bill.storage.logs_usd"),
    ] = None
    answer_bytes: Annotated[
        Number | None,
        Field(alias="answer_bytes_per_token"),
        Key(means="Bytes sent for a token of an answer.", default=policy.ANSWER_BYTES, moves="bill.network.egress_usd"),
    ] = None
    prompt_bytes: Annotated[
        Number | None,
        Field(alias="prompt_bytes_per_token"),
        Key(
            means="Bytes received for one of a prompt.",
            default=policy.PROMPT_BYTES,
            moves="bill.network.between-zones_usd",
        ),
    ] = None
    egress_share: Annotated[
        ShareOrNone | None,
        Key(
            means="Share of answers that leave by the internet.",
            default=policy.EGRESS_SHARE,
            moves="bill.network.egress_usd",
        ),
    ] = None
    zone_share: Annotated[
        ShareOrNone | None,
        Key(
            means="Share of traffic that crosses zones.",
            default="1 - 1 / zones, of a router that does not know zones",
            moves="bill.network.between-zones_usd",
        ),
    ] = None
    grid: Annotated[
        Number | None,
        Range(least=0.0, most=10.0),
        Field(alias="grid_kg_per_kwh"),
        Key(
            means="What a kWh of the site's grid emits, in kg of CO2e.",
            default="not given: no emissions are printed",
            moves="power.co2e_kg_per_success",
        ),
    ] = None
    facility: Annotated[
        Number | None,
        Range(least=1.0, most=10.0),
        Field(alias="facility_ratio"),
        Key(
            means="Power of the site over that of its devices: hosts, network, cooling.",
            default="not given: energy of the devices alone",
            moves="power.kwh_per_success",
        ),
    ] = None
    spans: Annotated[
        Number | None,
        Field(alias="spans_per_request"),
        Key(
            means="Spans that one request leaves in traces.",
            default=policy.SPANS,
            moves="bill.observability.spans_usd",
        ),
    ] = None
    series: Annotated[
        Number | None,
        Field(alias="series_per_replica"),
        Key(
            means="Metric series that one replica keeps.",
            default=policy.SERIES,
            moves="bill.observability.metrics_usd",
        ),
    ] = None
    store_copies: Annotated[
        Number | None,
        Key(
            means="Copies of the weights in a region's store.",
            default=policy.STORE_COPIES,
            moves="bill.storage.*.store_usd",
        ),
    ] = None
    disk_copies: Annotated[
        Number | None,
        Key(
            means="Copies of the weights on a replica's disk.",
            default=policy.DISK_COPIES,
            moves="bill.storage.*.disks_usd",
        ),
    ] = None
    evaluation: EvaluationSection | None = None
    engineering: EngineeringSection = EngineeringSection()
    tool_calls: Annotated[
        dict[str, Number] | None,
        Key(
            means="Calls of each priced tool a request makes; {} for none.",
            default=_NOT_PRICED,
            moves="bill.tool_apis*_usd",
        ),
    ] = None
    bought: Annotated[tuple[BoughtSection, ...], Key(means="Classes that a provider serves.")] = ()
    tasks: tuple[TaskSection, ...] = ()
    against: Annotated[tuple[AgainstSection, ...], Key(means="Providers to compare own devices with.")] = ()


def cost_policy(section: CostSection, provenance: Provenance) -> CostPolicy:
    """The drivers, each as the file states it or our default under the same name."""
    retention = None if section.log_retention is None else section.log_retention / _MONTH_S
    calls = section.tool_calls
    return CostPolicy(
        **provenance.filled(section),
        period=policy.PERIOD,
        log_retention=provenance.over(policy.LOG_RETENTION, retention),
        grid=provenance.may_say("cost.grid", section.grid, "kg/kWh"),
        facility=provenance.may_say("cost.facility", section.facility, "ratio"),
        zone_share=provenance.may_say("cost.zone_share", section.zone_share, "fraction"),
        judging=None if section.evaluation is None else _judging(section.evaluation, provenance),
        on_call=provenance.may_say("cost.on_call", _hours(section.engineering.on_call), "h/pool-month"),
        changes=provenance.may_say("cost.changes", _hours(section.engineering.changes), "h/pool-month"),
        tool_calls=None
        if calls is None
        else {name: provenance.says(f"cost.tool_calls.{name}", each, "calls/request") for name, each in calls.items()},
    )


def bought_of(section: CostSection, chosen: CostPolicy, provenance: Provenance) -> tuple[ProviderUse, ...]:
    """The classes that a provider serves, for one period of the bill."""
    period_s = chosen.period_hours * _HOUR_S
    for each in section.bought:
        if (each.cached or 0.0) + (each.cache_written or 0.0) > 1.0 + 1e-9:
            raise InputError(
                field=f"cost.bought.{each.name}.cache_written",
                value=each.cache_written,
                problem=f"is more than what is left of a prompt of which {each.cached:.3g} is read from the cache",
                fix="A token is read from the cache, written to it or neither: give shares that sum to at most 100%.",
            )
    return tuple(
        ProviderUse(
            provider=each.provider,
            model=each.model,
            class_name=each.name,
            requests=each.rate * period_s,
            prompt_tokens=each.rate * period_s * each.prompt_tokens,
            output_tokens=each.rate * period_s * each.output_tokens,
            cached_tokens=each.rate * period_s * each.prompt_tokens * (each.cached or 0.0),
            written_tokens=each.rate * period_s * each.prompt_tokens * (each.cache_written or 0.0),
            failed_fraction=0.0 if each.success is None else 1.0 - each.success,
            basis=(
                provenance.says(f"cost.bought.{each.name}.rate", each.rate, "req/s"),
                provenance.says(f"cost.bought.{each.name}.prompt", each.prompt_tokens, "tokens"),
                provenance.says(f"cost.bought.{each.name}.output", each.output_tokens, "tokens"),
            ),
        )
        for each in section.bought
    )


def tasks_of(section: CostSection, classes: tuple[str, ...], provenance: Provenance) -> tuple[TaskUse, ...]:
    """The tasks; a class that neither the workload nor a provider has is an InputError with the nearest."""
    classes = (*classes, *(each.name for each in section.bought))
    found = []
    for each in section.tasks:
        for name in (*each.requests, *each.escalated_requests):
            check_name(name, classes, field=f"cost.tasks.{each.name}.requests")
        found.append(
            TaskUse(
                name=each.name,
                requests=each.requests,
                calls=each.tools,
                attempts_ratio=each.attempts,
                escalated_fraction=each.escalated or 0.0,
                escalated_requests=each.escalated_requests,
                success_fraction=each.success,
                basis=(provenance.says(f"cost.tasks.{each.name}.success", each.success, "fraction"),),
            )
        )
    return tuple(found)


def offers_of(section: CostSection, classes: tuple[str, ...], provenance: Provenance) -> tuple[ProviderOffer, ...]:
    """What own devices are compared with; a class or tier of another name is an InputError with the nearest."""
    tiers = {each.value: each for each in Tier}
    found = []
    for at, each in enumerate(section.against):
        where = f"cost.against.{at}"
        check_name(each.tier, tiers, field=f"{where}.tier")
        for name in each.classes:
            check_name(name, classes, field=f"{where}.classes")
        found.append(
            ProviderOffer(
                provider=each.provider,
                model=each.model,
                tier=tiers[each.tier],
                classes=each.classes,
                success=provenance.may_say(f"{where}.success", each.success, "fraction"),
                own_success=provenance.may_say(f"{where}.own_success", each.own_success, "fraction"),
                request_fee=provenance.may_say(f"{where}.request_fee", _fee_usd(each, where), "USD"),
                request_limit=provenance.may_say(f"{where}.request_limit", each.request_limit, "req/s"),
                token_limit=provenance.may_say(f"{where}.token_limit", each.token_limit, "tokens/s"),
            )
        )
    return tuple(found)


def _fee_usd(section: AgainstSection, where: str) -> float | None:
    if section.request_fee is not None and section.request_fee.currency != "USD":
        raise InputError(
            field=f"{where}.request_fee",
            value=str(section.request_fee),
            problem="is not in USD",
            fix="Give the price of a request in USD.",
        )
    return None if section.request_fee is None else float(section.request_fee.amount)


def _judging(section: EvaluationSection, provenance: Provenance) -> Judging:
    return Judging(
        sampled_share=provenance.says("cost.evaluation.share", section.share, "fraction"),
        suites=provenance.says("cost.evaluation.suites", section.suites_per_month, "suites/month"),
        suite_items=provenance.says("cost.evaluation.items", section.items_per_suite, "items/suite"),
        provider=section.provider,
        model=section.model,
        prompt=provenance.may_say("cost.evaluation.prompt_tokens", section.prompt_tokens, "tokens"),
        output=provenance.may_say("cost.evaluation.output_tokens", section.output_tokens, "tokens"),
    )


def _hours(duration_s: float | None) -> float | None:
    return None if duration_s is None else duration_s / _HOUR_S
