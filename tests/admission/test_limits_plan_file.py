"""The `admission` section: what a plan file says reaches the policy, and what it says wrongly is refused by name."""

from __future__ import annotations

import pytest

from ullage.admission import policy as defaults
from ullage.admission.policy import AdmissionPolicy, Success
from ullage.errors import InputError
from ullage.evidence import Evidence, number
from ullage.files.plan_file import read_plan_file
from ullage.files.sections.admission import admission_of
from ullage.files.sections.provenance import file_provenance

FILE = """
version: 1
service: a test
dated: 2026-11-15
workload:
  classes:
    - {{name: chat, rate: 20 req/s, longest_context: 16384, slo: {{ttft_p95: 1s}}, deadline: 30s}}
    - {{name: coding, rate: 4 req/s, longest_context: 32768, slo: {{ttft_p95: 3s}}, priority: 1}}
pool: {{model: qwen3-32b, device: h100-sxm, tensor_parallel: 2}}
{more}
"""


def read(more: str = "") -> AdmissionPolicy:
    file = read_plan_file(FILE.format(more=more), file="plan.yaml")
    deadlines = {each.name: each.deadline for each in file.workload.classes}
    dated = file.dated
    assert dated is not None
    return admission_of(file.admission, deadlines, file_provenance(file="plan.yaml", dated=dated, is_example=False))


def test_without_a_section_every_default_stands_with_its_source() -> None:
    found = read()
    assert found.attempts == defaults.ATTEMPTS
    assert found.deadline_of("coding") == defaults.DEADLINE
    assert number(found.deadline_of("chat")) == 30.0
    assert [each.name for each in found.stated] == ["chat.deadline"]
    assert found.stated[0].evidence is Evidence.STATED
    for each in AdmissionPolicy().inputs:
        assert each.evidence is Evidence.ASSUMED
        assert each.source.where.startswith(("https://", "docs/"))


def test_what_is_stated_takes_the_place_of_the_default() -> None:
    found = read(
        "admission:\n"
        "  deadline: 2min\n"
        "  first_token_timeout: 15s\n"
        "  retry: {attempts: 5, backoff: 1s, growth: 3, jitter: 50%, budget: 20%}\n"
        "  overload: 2\n"
        "  warm_replicas: 3\n"
        "  success: {coding: deadline}\n"
        "  tenants:\n"
        "    - {name: acme, share: 60%, weight: 2, most: 80%}\n"
        "    - {name: others, share: 40%}\n"
    )
    assert number(found.deadline_of("coding")) == 120.0
    assert found.retry().most_attempts == 5
    assert found.retry(budget_fraction=number(found.retry_budget)).budget_fraction == pytest.approx(0.2)
    assert found.warm_count(36) == 3
    assert read().warm_count(36) == 5
    assert found.of_class("coding").success is Success.DEADLINE
    acme, others = found.tenants
    assert (number(acme.weight), number(acme.most)) == (2.0, 0.8)
    assert (number(others.weight), number(others.most)) == (1.0, 1.0)
    assert others.weight.evidence is Evidence.ASSUMED


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("admission: {overlod: 2}", "overload"),
        ("admission: {overload: 0.5}", "admission.overload"),
        ("admission: {retry: {attempts: 0}}", "attempts"),
        ("admission: {retry: {budget: 150%}}", "admission.retry.budget"),
        ("admission: {success: {chatt: answer}}", "chat"),
        ("admission: {success: {chat: perhaps}}", "success"),
        ("admission: {tenants: [{name: a, share: 70%}, {name: b, share: 70%}]}", "add up to more than 1"),
        ("admission: {tenants: [{name: a, share: 10%}, {name: a, share: 10%}]}", "appears twice"),
        ("admission: {recovery: soon}", "recovery"),
        ("admission: {recovery: 30d}", "admission.recovery"),
        ("admission: {overload: 100}", "admission.overload"),
        ("admission: {retry: {attempts: 20, growth: 10}}", "makes the last of 20 attempts wait"),
    ],
)
def test_what_is_wrong_is_refused_by_name(more: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read(more)
