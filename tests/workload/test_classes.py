"""SLOs and classes print as they are written and refuse what cannot be met."""

from __future__ import annotations

import pytest

from support.traces import make_trace
from ullage.errors import InputError
from ullage.workload.classes import ClassRule, Metric, RequestClass, Slo
from ullage.workload.profile.profile import profile


def test_an_slo_prints_as_it_is_written() -> None:
    slo = Slo(metric=Metric.TTFT, percentile_fraction=0.95, limit_s=0.5)
    assert str(slo) == "ttft p95 <= 500 ms"
    assert slo.name == "ttft_p95"


@pytest.mark.parametrize(
    ("percentile_fraction", "limit_s", "said"),
    [
        (0.0, 1.0, "between 0 and 1"),
        (1.0, 1.0, "between 0 and 1"),
        (95.0, 1.0, "between 0 and 1"),
        (0.9, 0.0, "greater"),
    ],
)
def test_an_slo_that_limits_nothing_is_an_error(percentile_fraction: float, limit_s: float, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Slo(metric=Metric.E2E, percentile_fraction=percentile_fraction, limit_s=limit_s)


def test_a_class_states_a_percentile_once() -> None:
    slo = Slo(metric=Metric.E2E, percentile_fraction=0.9, limit_s=10)
    with pytest.raises(InputError, match="stated twice"):
        RequestClass(name="chat", slos=(slo, Slo(metric=Metric.E2E, percentile_fraction=0.9, limit_s=20)))


def test_a_rule_that_no_request_can_meet_is_an_error() -> None:
    with pytest.raises(InputError, match="no request can match"):
        ClassRule(from_prompt_tokens=100, below_prompt_tokens=100)


def test_rules_sort_requests_into_classes_and_miss_none() -> None:
    trace = make_trace(
        arrival_s=range(6),
        prompt_tokens=[10, 10, 5000, 5000, 10, 10],
        output_tokens=[1] * 6,
        model=["llama-8b", "llama-70b", "llama-8b", "gpt", "gpt", "gpt"],
        path=["/chat", "/chat", "/chat", "/chat", "/embed", "/chat"],
    )
    classes = [
        RequestClass(name="long", slos=(), rule=ClassRule(from_prompt_tokens=1000)),
        RequestClass(name="llama", slos=(), rule=ClassRule(model="llama-*")),
        RequestClass(name="embed", slos=(), rule=ClassRule(path="/embed")),
    ]
    found = {group.name: group.profile.requests for group in profile(trace, classes=classes).of("class")}
    # The first rule that holds decides; what no rule takes is shown, not lost.
    assert found == {"long": 2, "llama": 2, "embed": 1, "(unclassified)": 1}
