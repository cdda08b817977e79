"""What the parties of a log make necessary: the traffic without some of them, worked out by hand, and a log's bill."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.mixes import small_trial
from support.served_replicas import class_with_slos
from support.traces import make_trace
from ullage import verbs
from ullage.cost.attribution.usage import UsageLog, grouped, usage_of_trace
from ullage.errors import Rejection
from ullage.planning.billing.parties import PartyTraffic, Unknown, part_of, party_traffic
from ullage.service.trial.mix import MixLoad
from ullage.workload.classes import ClassRule
from ullage.workload.synthetic.model import FRACTIONS, SyntheticModel

AS_OF = datetime.date(2026, 11, 15)
DAYS = 2


def log_of(*, day: tuple[int, int] = (300, 100), night: tuple[int, int] = (100, 500)) -> UsageLog:
    """Two days of twelve hours each by day and by night, with so many requests an hour of acme and of globex."""
    hours = [[day if hour % 24 < 12 else night][0] for hour in range(24 * DAYS)]
    arrival, tenant = [], []
    for hour, counts in enumerate(hours):
        for name, count in zip(("acme", "globex"), counts, strict=True):
            arrival += (hour * 3600.0 + np.arange(count) * 3600.0 / count).tolist()
            tenant += [name] * count
    output = [20] * len(arrival)
    prompt = [400 if each == "acme" else 100 for each in tenant]
    return usage_of_trace(make_trace(arrival_s=arrival, prompt_tokens=prompt, output_tokens=output, tenant=tenant))


def small_mix(*names: str) -> MixLoad:
    mix = small_trial(*(class_with_slos(each, ttft_p95=0.5) for each in names)).load_at
    assert isinstance(mix, MixLoad)
    return mix


def traffic_of(log: UsageLog, mix: MixLoad, by: str = "tenant") -> PartyTraffic:
    found = party_traffic(log, by, None, mix)
    assert not isinstance(found, Unknown), found
    return found


def test_nobody_taken_out_is_the_plans_own_traffic() -> None:
    mix = small_mix("chat")
    whole = part_of(traffic_of(log_of(), mix), mix, np.array([True, True]), {"chat": 30.0}, {"chat": 0.1})
    assert whole.mix == mix
    assert whole.rate_rps == pytest.approx(30.0)
    assert whole.busy_fraction == pytest.approx(3.0)


def test_those_who_remain_have_their_own_busiest_hour_and_lengths() -> None:
    """By day 300 and 100 ask, by night 100 and 500. In weighted tokens, 460 and 160 a request, the day is busier:
    of its 400 requests acme alone has 300, and globex alone, whose busiest hour is at night, asks for 500."""
    log, mix = log_of(), small_mix("chat")
    lengths = replace(
        mix.model.classes[0].lengths, prompt_tokens=tuple(np.quantile(log.prompt_tokens, FRACTIONS).tolist())
    )
    mix = replace(mix, model=SyntheticModel(classes=(replace(mix.model.classes[0], lengths=lengths),)))
    traffic = traffic_of(log, mix)
    acme, globex = (
        part_of(traffic, mix, np.array(some), {"chat": 40.0}, {"chat": 0.1}) for some in ([True, False], [False, True])
    )
    assert acme.rate_rps == pytest.approx(30.0)
    assert globex.rate_rps == pytest.approx(50.0)
    # The mix has the lengths of the log, and without acme all prompts are of 100 tokens.
    (own,), (planned,) = globex.mix.model.classes, mix.model.classes
    assert own.lengths.prompt_tokens == pytest.approx([100.0] * len(FRACTIONS))
    assert acme.mix.model.classes[0].lengths.prompt_tokens[-1] == planned.lengths.prompt_tokens[-1] == 400.0
    assert own.lengths.output_tokens == planned.lengths.output_tokens
    # Who asks for less is looked for among fewer replicas.
    assert globex.busy_fraction < acme.busy_fraction * 50.0 / 30.0


def test_few_requests_say_nothing_of_hours() -> None:
    """Ten and two requests an hour: parts of the log alone, 5 in 6 and 1 in 6."""
    mix = small_mix("chat")
    traffic = traffic_of(log_of(day=(10, 2), night=(10, 2)), mix)
    rates = [
        part_of(traffic, mix, np.array(some), {"chat": 60.0}, {"chat": 0.1}).rate_rps
        for some in ([True, False], [False, True])
    ]
    assert rates == pytest.approx([50.0, 10.0])


def test_a_class_without_its_party_is_gone() -> None:
    """Globex sends all coding: without it only chat is left, at the rate that it has in the plan."""
    count = 600
    log = usage_of_trace(
        make_trace(
            arrival_s=np.linspace(0.0, 600.0, count).tolist(),
            prompt_tokens=[100] * count,
            output_tokens=[20] * count,
            tenant=["acme", "globex", "acme"] * (count // 3),
            class_=["chat", "coding", "chat"] * (count // 3),
        )
    )
    mix = small_mix("chat", "coding")
    rates, work = {"chat": 9.0, "coding": 4.0}, {"chat": 0.1, "coding": 0.1}
    traffic = traffic_of(log, mix)
    assert traffic.names == ("acme", "globex")
    part = part_of(traffic, mix, np.array([True, False]), rates, work)
    assert [each.name for each in part.mix.model.classes] == ["chat"]
    assert part.rate_rps == pytest.approx(9.0)
    part = part_of(traffic, mix, np.array([False, True]), rates, work)
    assert [each.name for each in part.mix.model.classes] == ["coding"]
    assert part.rate_rps == pytest.approx(4.0)


def test_what_cannot_be_told_says_why() -> None:
    log = log_of()
    several = party_traffic(log, "tenant", None, small_mix("chat", "coding"))
    assert isinstance(several, Unknown)
    assert "which class a request is of" in str(several)
    few = party_traffic(log.where(np.arange(log.requests) < 5), "tenant", None, small_mix("chat"))
    assert isinstance(few, Unknown)
    assert "5 requests" in str(few)


def test_the_rules_of_a_plan_sort_a_logs_requests() -> None:
    short = class_with_slos("short", ttft_p95=0.5)
    ruled = [
        replace(short, rule=ClassRule(below_prompt_tokens=100)),
        replace(short, name="long", rule=ClassRule(from_prompt_tokens=200)),
    ]
    trace = make_trace(arrival_s=[0.0, 1.0, 2.0], prompt_tokens=[50, 150, 300], output_tokens=[9, 9, 9])
    groups = grouped(usage_of_trace(trace, classes=ruled), "class")
    assert {each.name: each.requests for each in groups} == {"short": 1.0, "long": 1.0, "unallocated": 1.0}


@pytest.mark.slow
def test_a_log_without_ends_is_divided_by_what_each_tenant_makes_necessary(tmp_path: Path) -> None:
    """Half of all requests have prompts ten times as long, and make most of the fleet necessary."""
    rng = np.random.default_rng(2)
    rows = ["arrival_s,prompt_tokens,output_tokens,tenant"]
    for place in range(2000):
        name = ("short", "long")[place % 2]
        prompt = int(rng.lognormal(np.log(4000 if name == "long" else 400), 0.4))
        rows.append(f"{place * 0.3:.1f},{prompt},{int(rng.lognormal(np.log(150), 0.4))},{name}")
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
    plan = {
        "version": 1,
        "service": "tickets",
        "workload": {
            "trace": [str(tmp_path / "log.csv")],
            "classes": [
                {"name": "chat", "rate": "30 req/s", "longest_context": "32k", "slo": {"ttft_p95": "1s"}},
            ],
        },
        "pool": {"model": "llama-3.1-8b", "device": "h100-sxm"},
    }
    found = verbs.cost(plan, by="tenant", as_of=AS_OF)
    assert not isinstance(found, Rejection)
    assert found.attribution is not None
    assert found.attribution.choice.rule == "causation"
    (caused,) = found.causes.values()
    assert sum(caused.caused.values()) == pytest.approx(caused.replicas)
    assert caused.caused["long"] > 2.0 * caused.caused["short"] > 0.0
    assert any("2,000 requests of log.csv" in note for note in found.notes)
    assert found.attribution.total_cents == found.bill.total_cents
