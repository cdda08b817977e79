"""The emitted autoscalers, read back and played, are the rule that the plan tried: its replicas, its attainment."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as settings_of
from hypothesis import strategies as st

from support.emitted import choice, documents, emitted, mixes, numbers, pool, settings, without
from support.planned import TWO_POOLS, planned
from ullage.emit.numbers import PlanNumber, plan_numbers
from ullage.emit.targets import emit_files
from ullage.emit.tree import EmittedFile
from ullage.errors import InputError
from ullage.evidence import number
from ullage.readers.kubernetes import read_rules
from ullage.readers.kubernetes.autoscaler_rules import ReadRule
from ullage.readers.kubernetes.documents import Object
from ullage.readers.kubernetes.scaling_rules import scaling_rules
from ullage.scaling.hpa import HpaSpec
from ullage.scaling.keda import KedaSpec
from ullage.scaling.played import played
from ullage.scaling.published_rules import IN_FLIGHT, schedule_text, tracking_rule
from ullage.scaling.stage import scaling_pool, tried_day
from ullage.verbs.plan_answer import PlanAnswer

# The figures of support/emitted.py.
TRIED = tracking_rule("tried", 20.4, least=12, most=45, up_s=0.0, down_s=1380.0, fallback_replicas=35).spec
assert isinstance(TRIED, KedaSpec)


def read_back(folder: Path, files: tuple[EmittedFile, ...]) -> tuple[ReadRule, ...]:
    for each in files:
        (folder / each.name).write_text(each.text)
    return read_rules([folder / each.name for each in files])


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_a_scaled_object_is_the_rule_that_was_tried(engine: str, tmp_path: Path) -> None:
    (found,) = read_back(tmp_path, emitted("keda", engine=engine))
    assert found.unread == ()
    assert found.rule.spec == TRIED
    assert found.rule.queries == {"in-flight": IN_FLIGHT}


@pytest.mark.parametrize("target", ["keda", "hpa"])
def test_a_rule_that_starts_no_reserve_says_so_and_one_that_always_runs_it_does_not(target: str) -> None:
    """At its minimum a pool that survives a lost node in the plan does not survive one."""
    said = "Of at most 45 replicas 10 are reserve for losses"
    told = " ".join(emitted(target)[0].text.replace("\n# ", " ").split())
    assert said in told
    assert "23 min at p90. To keep the reserve running, state scaling.least: 45." in told
    assert said not in emitted(target, figures={"scaling.least_replicas": 45})[0].text.replace("\n# ", " ")


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_an_hpa_is_what_keda_would_make_of_the_rule(engine: str, tmp_path: Path) -> None:
    """Its metric has a name of ours; the adapter's rules beside it say what that is."""
    (found,) = read_back(tmp_path, emitted("hpa", engine=engine))
    assert isinstance(found.rule.spec, HpaSpec)
    name = found.rule.spec.metrics[0].signal
    renamed = replace(found.rule.spec, metrics=(replace(found.rule.spec.metrics[0], signal="in-flight"),))
    assert isinstance(TRIED, KedaSpec)
    assert renamed == TRIED.hpa
    assert (found.unread, found.rule.queries) == ((), {name: IN_FLIGHT})
    (alone,) = read_rules([tmp_path / "chat.hpa.yaml"])
    assert alone.unread == (name,)


@settings_of(max_examples=25)
@given(st.lists(st.tuples(st.integers(1, 45), st.integers(1, 60)), min_size=1, max_size=40), st.booleans())
def test_every_schedule_is_read_back_hour_by_hour(runs: list[tuple[int, int]], daily: bool) -> None:
    """Whatever the clock asks for, in runs that cross midnights or on every day alike."""
    hours = [each for each, length in runs for _ in range(length)]
    schedule = tuple((hours[:24] * 24)[:24] * 7 if daily else (hours * 168)[:168])
    figures: dict[str, float | str] = {"scaling.schedule": schedule_text(schedule), "scaling.floor_fraction": 0.85}
    (made,) = documents(emitted("keda", figures=figures))
    (found,) = scaling_rules([Object(kind="ScaledObject", name="chat", namespace="llm", body=made, file="made")])
    # An hour of one replica asks for nothing; a schedule of such hours alone is none.
    assert found.rule.schedule == (schedule if max(schedule) > 1 else ())
    assert found.unread == ()
    tried = tracking_rule("tried", 20.4, least=12, most=45, up_s=0.0, down_s=1380.0, schedule=found.rule.schedule,
                          fallback_replicas=35)  # fmt: skip
    assert found.rule.spec == tried.spec


@pytest.mark.parametrize("target", ["hpa", "kserve", "kserve-llm", "knative"])
def test_a_kind_without_a_clock_says_what_it_leaves_out(target: str) -> None:
    said = "schedule by hour of week"
    assert said not in emitted(target)[0].text
    given: dict[str, float | str] = {"scaling.schedule": "1x100 20x68", "scaling.floor_fraction": 0.85}
    assert said in " ".join(emitted(target, figures=given)[0].text.replace("#", " ").split())


@pytest.mark.parametrize("text", ["20x167", "0x168", "46x168", "many", "3x"])
def test_a_schedule_that_no_plan_has_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"scaling\.schedule"):
        emitted("keda", figures={"scaling.schedule": text})


def test_thresholds_that_keda_cuts_are_cut_alike(tmp_path: Path) -> None:
    """1.001 x 1000 is below 1001 in binary: KEDA's own autoscaler gets 1000, and so does ours."""
    figures = {"scaling.threshold_requests": 1.001}
    (keda,), (hpa,) = (read_back(tmp_path, emitted(target, figures=figures)) for target in ("keda", "hpa"))
    assert isinstance(keda.rule.spec, KedaSpec)
    assert isinstance(hpa.rule.spec, HpaSpec)
    assert hpa.rule.spec.metrics[0].target_value == keda.rule.spec.hpa.metrics[0].target_value == 1000


def test_a_config_map_of_the_adapter_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "hpa.yaml").write_text(emitted("hpa")[0].text)
    (tmp_path / "adapter.yaml").write_text(
        """
apiVersion: v1
kind: ConfigMap
metadata: {name: prometheus-adapter}
data:
  config.yaml: |
    externalRules:
      - seriesQuery: 'vllm:num_requests_waiting'
        name: {matches: "^vllm:num_requests_(.*)$", as: "ullage_chat_in_flight"}
        metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>})'
    rules:
      - seriesQuery: 'vllm:num_requests_running{namespace!=""}'
        name: {matches: "^vllm:(.*)$", as: "engine_${1}"}
        metricsQuery: 'avg(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)'
      - {seriesQuery: '{__name__=~"^x.*"}', metricsQuery: 'sum(<<.Series>>)'}
"""
    )
    (found,) = read_rules([tmp_path / "hpa.yaml", tmp_path / "adapter.yaml"])
    ((_, query),) = found.rule.queries.items()
    assert (found.unread, query.label, query.window_s) == ((), "waiting requests", 0.0)


@cache
def several() -> tuple[EmittedFile, ...]:
    """Both autoscalers' files of a plan of two pools."""
    plan = planned(TWO_POOLS)
    workload = settings().workloads["pool"]
    workloads = {each.spec.name: replace(workload, name=each.spec.name) for each in plan.pools}
    names = replace(settings(), workloads=workloads)
    engines = {each.spec.name: choice(tp=each.spec.settings.sharding.tp) for each in plan.pools}
    assert isinstance(plan, PlanAnswer)
    said = plan_numbers(plan.to_dict(), file="plan")
    return tuple(each for target in ("keda", "hpa") for each in emit_files(said, engines, names, [target]))


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1])
def test_what_is_emitted_behaves_as_the_plan_said(place: int, tmp_path: Path) -> None:
    """On the plan's own day the rule of each file has the plan's replica-hours, attainment, lag and thrash."""
    plan = planned(TWO_POOLS)
    own = plan.pools[place]
    rules = [each.rule for each in read_back(tmp_path, several()) if each.target == own.spec.name]
    planned_rule = own.scaling.rule
    assert isinstance(planned_rule.spec, KedaSpec)
    assert (rules[0].spec, rules[0].queries, rules[0].schedule) == (
        planned_rule.spec, planned_rule.queries, planned_rule.schedule,
    )  # fmt: skip
    assert isinstance(rules[1].spec, HpaSpec)
    named = replace(rules[1].spec.metrics[0], signal="in-flight")
    assert replace(rules[1].spec, metrics=(named,)) == planned_rule.spec.hpa
    scaled = scaling_pool(own.demand, own.steady_fleet, own.reserves, own.time_to_ready, settings=plan.spec.scaling)
    day = tried_day(own.demand, scaled, seed=plan.seed)
    said = own.scaling.figures
    for rule in rules:
        found = played(rule, scaled, [day])
        assert replace(found, name="") == replace(own.scaling.played, name="")
        assert round(found.mean_replicas, 3) == number(said["scaling.mean_replicas"])
        assert round(found.attainment.attained.value, 5) == number(said["scaling.attained_fraction"])


def test_a_plan_without_a_rule_is_refused_by_name() -> None:
    gone = without(numbers(), "scaling.threshold_requests")
    with pytest.raises(InputError, match=r"plan: scaling\.threshold_requests") as refusal:
        emit_files(gone, {"pool": choice()}, settings(), ["keda"])
    assert "target keda is made from it" in refusal.value.problem


def test_a_fleet_of_one_size_is_a_rule_within_it(tmp_path: Path) -> None:
    """A fixed fleet has one bound: the files say it, and what is read back never moves."""
    figures = {"scaling.least_replicas": 1, "scaling.most_replicas": 1, "fleet.replicas": 1}
    (found,) = read_back(tmp_path, emitted("keda", figures=figures))
    assert found.rule.bounds == (1, 1)
    assert pool(figures).whole("scaling.most_replicas") == 1


@pytest.mark.parametrize("target", ["keda", "hpa", "kserve", "production-stack"])
def test_a_rule_that_violated_an_slo_says_so_in_its_file(target: str) -> None:
    made = numbers()
    figures = {"scaling.attained_fraction": 0.93, "scaling.fixed_attained_fraction": 0.961}
    short = replace(
        made,
        numbers={
            **made.numbers,
            **{
                name: PlanNumber(name=name, value=value, unit="fraction", evidence="estimated")
                for name, value in figures.items()
            },
        },
    )
    for plan_of, is_said in ((made, False), (short, True)):
        (text, *_) = (each.text for each in emit_files(plan_of, {"pool": choice()}, settings(), [target], mixes()))
        said = " ".join(line.removeprefix("# ") for line in text.splitlines())
        assert ("93.0 % met it, 96.1 % with a fixed fleet of 45" in said) is is_said
