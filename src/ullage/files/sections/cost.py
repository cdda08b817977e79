"""`cost:` of a plan file: what is logged, kept, sent, judged and looked after, and what a task is made of.

What is left out has a sourced default where there can be one (ullage.cost.policy); where there cannot, its line of the
bill says `not priced` and what to write here.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ullage.cost.policy import CostPolicy, Judging
from ullage.cost.service_use import ProviderUse, TaskUse
from ullage.errors import unknown_name
from ullage.evidence import Assumption
from ullage.files.sections.provenance import Provenance
from ullage.files.sections.quantities import Duration, RequestRate, Share, Tokens
from ullage.files.sections.section import Name, Section
from ullage.prices.purchase import HOURS_PER_MONTH

_HOUR_S = 3600.0
_MONTH_S = HOURS_PER_MONTH * _HOUR_S
_Number = Annotated[float, Field(ge=0)]


class EvaluationSection(Section):
    """How answers are judged."""

    share: Annotated[Share, Field(description="Share of requests whose answer is judged.")]
    suites_per_month: Annotated[_Number, Field(description="Releases a month that run the whole suite.")] = 0.0
    items_per_suite: Annotated[_Number, Field(description="Answers that a suite judges.")] = 0.0
    provider: Annotated[str, Field(description="Who sells the judging model's tokens.")] = ""
    model: Annotated[str, Field(description="The judging model; left out: the price of one `evaluation`.")] = ""
    prompt_tokens: Annotated[Tokens | None, Field(description="Tokens that a judgement reads.")] = None
    output_tokens: Annotated[Tokens | None, Field(description="Tokens that it writes.")] = None


class EngineeringSection(Section):
    """Hours of engineers for each pool, a month."""

    on_call: Annotated[Duration | None, Field(description="Hours on call for a pool in a month.")] = None
    changes: Annotated[Duration | None, Field(description="Hours of changes to a pool in a month.")] = None


class BoughtSection(Section):
    """Requests that a provider serves, by the token: a class of its own, which no pool is planned for."""

    name: Name
    provider: Annotated[str, Field(min_length=1, description="Who sells the tokens, as in the price book.")]
    model: Annotated[str, Field(min_length=1, description="The model, as the provider calls it.")]
    rate: Annotated[RequestRate, Field(description="Mean rate of these requests.")]
    prompt_tokens: Annotated[Tokens, Field(description="Mean length of a prompt.")]
    output_tokens: Annotated[Tokens, Field(description="Mean length of an answer.")]
    cached: Annotated[Share | None, Field(description="Share of the prompt that is read from the cache.")] = None
    success: Annotated[Share | None, Field(description="Share of them that succeed; left out: all.")] = None


class TaskSection(Section):
    """What a user asks for, where it takes more than one request."""

    name: Name
    requests: Annotated[dict[str, _Number], Field(description="Requests of each class that a task makes.")]
    tools: Annotated[
        dict[str, _Number], Field(default_factory=dict, description="Calls of each tool that a task makes.")
    ]
    attempts: Annotated[float, Field(ge=1, description="How often a task is tried, on average.")] = 1.0
    escalated: Annotated[Share | None, Field(description="Share of tasks given to another class after the first.")] = (
        None
    )
    escalated_requests: Annotated[
        dict[str, _Number], Field(default_factory=dict, description="Requests of each class in the second attempt.")
    ]
    success: Annotated[Share, Field(description="Share of tasks that end as the user wanted.")]


class CostSection(Section):
    """What drives the lines of the bill around the devices."""

    log_bytes_per_request: Annotated[_Number | None, Field(description="Bytes that one request leaves in logs.")] = None
    log_retention: Annotated[Duration | None, Field(description="How long logs are kept.")] = None
    answer_bytes_per_token: Annotated[_Number | None, Field(description="Bytes sent for a token of an answer.")] = None
    prompt_bytes_per_token: Annotated[_Number | None, Field(description="Bytes received for one of a prompt.")] = None
    egress_share: Annotated[Share | None, Field(description="Share of answers that leave by the internet.")] = None
    zone_share: Annotated[Share | None, Field(description="Share of traffic that crosses zones.")] = None
    spans_per_request: Annotated[_Number | None, Field(description="Spans that one request leaves in traces.")] = None
    series_per_replica: Annotated[_Number | None, Field(description="Metric series that one replica keeps.")] = None
    store_copies: Annotated[_Number | None, Field(description="Copies of the weights in a region's store.")] = None
    disk_copies: Annotated[_Number | None, Field(description="Copies of the weights on a replica's disk.")] = None
    evaluation: EvaluationSection | None = None
    engineering: EngineeringSection = EngineeringSection()
    tool_calls: Annotated[
        dict[str, _Number] | None, Field(description="Calls of each priced tool a request makes; {} for none.")
    ] = None
    bought: Annotated[tuple[BoughtSection, ...], Field(description="Classes that a provider serves.")] = ()
    tasks: tuple[TaskSection, ...] = ()


def cost_policy(section: CostSection, provenance: Provenance) -> CostPolicy:
    """The drivers, each as the file states it or our default under the same name."""
    plain = CostPolicy()
    retention = None if section.log_retention is None else section.log_retention / _MONTH_S
    return CostPolicy(
        store_copies=provenance.over(plain.store_copies, section.store_copies),
        disk_copies=provenance.over(plain.disk_copies, section.disk_copies),
        log_bytes=provenance.over(plain.log_bytes, section.log_bytes_per_request),
        log_retention=provenance.over(plain.log_retention, retention),
        answer_bytes=provenance.over(plain.answer_bytes, section.answer_bytes_per_token),
        prompt_bytes=provenance.over(plain.prompt_bytes, section.prompt_bytes_per_token),
        egress_share=provenance.over(plain.egress_share, section.egress_share),
        zone_share=_said(provenance, "zone_share", section.zone_share, "fraction"),
        spans=provenance.over(plain.spans, section.spans_per_request),
        series=provenance.over(plain.series, section.series_per_replica),
        judging=None if section.evaluation is None else _judging(section.evaluation, provenance),
        on_call=_said(provenance, "on_call", _hours(section.engineering.on_call), "h/pool-month"),
        changes=_said(provenance, "changes", _hours(section.engineering.changes), "h/pool-month"),
        tool_calls=None
        if section.tool_calls is None
        else {
            name: provenance.says(f"cost.tool_calls.{name}", calls, "calls/request", 0)
            for name, calls in section.tool_calls.items()
        },
    )


def bought_of(section: CostSection, policy: CostPolicy, provenance: Provenance) -> tuple[ProviderUse, ...]:
    """The classes that a provider serves, for one period of the bill."""
    period_s = policy.period_hours * _HOUR_S
    return tuple(
        ProviderUse(
            provider=each.provider,
            model=each.model,
            class_name=each.name,
            requests=each.rate * period_s,
            prompt_tokens=each.rate * period_s * each.prompt_tokens,
            output_tokens=each.rate * period_s * each.output_tokens,
            cached_tokens=each.rate * period_s * each.prompt_tokens * (each.cached or 0.0),
            failed_fraction=0.0 if each.success is None else 1.0 - each.success,
            basis=(
                provenance.says(f"cost.bought.{each.name}.rate", each.rate, "req/s", 0),
                provenance.says(f"cost.bought.{each.name}.prompt", each.prompt_tokens, "tokens", 0),
                provenance.says(f"cost.bought.{each.name}.output", each.output_tokens, "tokens", 0),
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
            if name not in classes:
                raise unknown_name(field=f"cost.tasks.{each.name}.requests", name=name, known=classes)
        found.append(
            TaskUse(
                name=each.name,
                requests=each.requests,
                calls=each.tools,
                attempts_ratio=each.attempts,
                escalated_fraction=each.escalated or 0.0,
                escalated_requests=each.escalated_requests,
                success_fraction=each.success,
                basis=(provenance.says(f"cost.tasks.{each.name}.success", each.success, "fraction", 1.0),),
            )
        )
    return tuple(found)


def _judging(section: EvaluationSection, provenance: Provenance) -> Judging:
    return Judging(
        sampled_share=provenance.says("cost.evaluation.share", section.share, "fraction", 0),
        suites=provenance.says("cost.evaluation.suites", section.suites_per_month, "suites/month", 0),
        suite_items=provenance.says("cost.evaluation.items", section.items_per_suite, "items/suite", 0),
        provider=section.provider,
        model=section.model,
        prompt=_said(provenance, "evaluation.prompt_tokens", section.prompt_tokens, "tokens"),
        output=_said(provenance, "evaluation.output_tokens", section.output_tokens, "tokens"),
    )


def _said(provenance: Provenance, name: str, value: float | None, unit: str) -> Assumption | None:
    """What only the user can know: stated, or not given."""
    return None if value is None else provenance.says(f"cost.{name}", value, unit, value)


def _hours(duration_s: float | None) -> float | None:
    return None if duration_s is None else duration_s / _HOUR_S
