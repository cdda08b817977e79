"""Autoscalers that no controller would take: refused with file, line, key, value, problem and fix before any work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ullage.cli.app import run
from ullage.errors import ExitCode, InputError
from ullage.readers.kubernetes import read_rules
from ullage.readers.kubernetes.autoscaler_rules import ReadRule
from ullage.scaling.formula import evaluate
from ullage.scaling.keda import KedaSpec, KedaState, KedaTrigger, ScalingModifiers, keda_step

_HEADS = {
    "ScaledObject": "apiVersion: keda.sh/v1alpha1",
    "HorizontalPodAutoscaler": "apiVersion: autoscaling/v2",
    "Service": "apiVersion: serving.knative.dev/v1",
    "InferenceService": "apiVersion: serving.kserve.io/v1beta1",
}
TRIGGER = "triggers: [{type: prometheus, metadata: {query: 'sum(vllm:num_requests_waiting)', threshold: '%s'}}]"
GOOD = TRIGGER % "5"
QUEUE = "{type: External, external: {metric: {name: 'vllm:num_requests_waiting'}, target: {averageValue: '%s'}}}"
BEHAVIOR = GOOD + "\\nadvanced: {horizontalPodAutoscalerConfig: {behavior: {scaleUp: {%s}}}}"
NOTES = "template: {metadata: {annotations: {autoscaling.knative.dev/%s}}}"


def text_of(kind: str, spec: str) -> str:
    inner = "\n".join(f"  {line}" for line in spec.replace("\\n", "\n").splitlines())
    return f"# as kubectl prints it\n{_HEADS[kind]}\nkind: {kind}\nmetadata: {{name: chat}}\nspec:\n{inner}\n"


def read(folder: Path, text: str) -> tuple[ReadRule, ...]:
    (folder / "rules.yaml").write_text(text)
    return read_rules([folder / "rules.yaml"])


CASES = [
    ("ScaledObject", "scaleTargetRef: {name: chat}", 6, "spec.triggers", "has no trigger"),
    ("ScaledObject", "triggers: []", 6, "spec.triggers", "has no trigger"),
    ("ScaledObject", "triggers: [hello]", 6, "spec.triggers.0", "is not a mapping"),
    ("ScaledObject", "triggers: [{type: prometheus, metadata: [1]}]", 6, "spec.triggers.0.metadata", "not a mapping"),
    ("ScaledObject", TRIGGER % "-5", 6, "spec.triggers.0.metadata.threshold", "is below 0"),
    ("ScaledObject", TRIGGER % "0", 6, "spec.triggers.0.metadata.threshold", "must be above 0"),
    ("ScaledObject", TRIGGER % "many", 6, "spec.triggers.0.metadata.threshold", "is not a quantity"),
    ("ScaledObject", TRIGGER % ("1" + 40 * "0"), 6, "spec.triggers.0.metadata.threshold", "is not a quantity"),
    ("ScaledObject", f"{GOOD}\\nminReplicaCount: 9\\nmaxReplicaCount: 3", 8, "spec.maxReplicaCount", "the minimum, 9"),
    ("ScaledObject", f"{GOOD}\\nmaxReplicaCount: 0", 7, "spec.maxReplicaCount", "is no maximum"),
    ("ScaledObject", f"{GOOD}\\nminReplicaCount: -1", 7, "spec.minReplicaCount", "is not a whole number"),
    ("ScaledObject", f"{GOOD}\\nfallback: hello", 7, "spec.fallback", "is not a mapping"),
    ("ScaledObject", f"{GOOD}\\nfallback: {{behavior: nope}}", 7, "spec.fallback.behavior", "is not static"),
    ("ScaledObject", "triggers: [{type: cpu, name: a}, {type: cpu, name: a}]", 6, "spec.triggers.1.name", "names two"),
    ("ScaledObject", BEHAVIOR % "policies: []", 7, "behavior.scaleUp.policies", "has no policy"),
    ("ScaledObject", BEHAVIOR % "policies: [x]", 7, "scaleUp.policies.0.type", "is not Pods or Percent"),
    ("ScaledObject", BEHAVIOR % "policies: [{type: Pods, value: 0, periodSeconds: 9}]", 7, "0.value", "be above 0"),
    (
        "ScaledObject", BEHAVIOR % "policies: [{type: Pods, value: 1, periodSeconds: 0}]", 7, "periodSeconds",
        "is shorter than 1 s",
    ),
    ("ScaledObject", BEHAVIOR % "selectPolicy: Most", 7, "scaleUp.selectPolicy", "is not Max, Min or Disabled"),
    ("ScaledObject", BEHAVIOR % "tolerance: '-1'", 7, "scaleUp.tolerance", "is below 0"),
    (
        "ScaledObject", f"{GOOD}\\nadvanced: {{scalingModifiers: {{formula: nosuch + 1, target: '2'}}}}", 7,
        "scalingModifiers.formula", "names 'nosuch'",
    ),
    (
        "ScaledObject", f"{GOOD}\\nadvanced: {{scalingModifiers: {{formula: 1 + 1, target: '0'}}}}", 7,
        "scalingModifiers.target", "must be above 0",
    ),
    ("HorizontalPodAutoscaler", "minReplicas: 1", 6, "spec.maxReplicas", "is not a whole number"),
    ("HorizontalPodAutoscaler", "minReplicas: 4\\nmaxReplicas: 3", 7, "spec.maxReplicas", "is below the minimum, 4"),
    ("HorizontalPodAutoscaler", f"maxReplicas: 3\\nmetrics: [{QUEUE % '0'}]", 7, "averageValue", "must be above 0"),
    ("HorizontalPodAutoscaler", "maxReplicas: 3\\nmetrics: [hello]", 7, "spec.metrics.0.type", "is not a metric type"),
    (
        "HorizontalPodAutoscaler", "maxReplicas: 3\\ntargetCPUUtilizationPercentage: 0", 7,
        "spec.targetCPUUtilizationPercentage", "must be above 0",
    ),
    ("HorizontalPodAutoscaler", "maxReplicas: 3\\nbehavior: hello", 7, "spec.behavior", "is not a mapping"),
    ("Service", NOTES % "target: '0'", 2, "autoscaling.knative.dev/target", "must be above 0"),
    ("Service", NOTES % "window: 1s", 2, "autoscaling.knative.dev/window", "is shorter than 6 s"),
    ("Service", "template: {metadata: {annotations: [1]}}", 6, "spec.template.metadata.annotations", "not a mapping"),
    ("InferenceService", "predictor: hello", 6, "spec.predictor", "is not a mapping"),
    (
        "InferenceService", "predictor: {minReplicas: 4, maxReplicas: 2}", 6, "spec.predictor.maxReplicas",
        "is below the minimum, 4",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "spec", "line", "key", "problem"), CASES)
def test_a_rule_that_cannot_be_meant_is_refused_at_its_line(
    kind: str, spec: str, line: int, key: str, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=re.escape(problem)) as refusal:
        read(tmp_path, text_of(kind, spec))
    found = refusal.value
    assert found.field.startswith(f"{tmp_path / 'rules.yaml'}:{line}: {kind} chat")
    assert found.field.endswith(key)
    assert found.fix


def test_the_second_object_of_a_list_is_found_by_its_own_line(tmp_path: Path) -> None:
    items = [text_of("ScaledObject", each).replace("chat", name) for each, name in ((GOOD, "a"), (TRIGGER % "x", "b"))]
    listed = "".join("- " + "  ".join(each.splitlines(keepends=True)[1:]) for each in items)
    with pytest.raises(InputError, match=r"rules\.yaml:13: ScaledObject b\.spec"):
        read(tmp_path, f"apiVersion: v1\nkind: List\nitems:\n{listed}")


def test_what_controllers_take_is_read(tmp_path: Path) -> None:
    for spec in (GOOD, TRIGGER % "1e1", TRIGGER % "500m", f"{GOOD}\\npollingInterval: 0", f"{GOOD}\\nfallback: {{}}"):
        (found,) = read(tmp_path, text_of("ScaledObject", spec))
        assert isinstance(found.rule.spec, KedaSpec)
        assert found.rule.spec.triggers[0].threshold_value in (5.0, 10.0, 0.5)


@pytest.mark.parametrize("name", ["absent.yaml", "folder", "binary.yaml", "empty.yaml", "list.yaml", "plan.yaml"])
@pytest.mark.parametrize("verb", ["scale", "check"])
def test_files_that_hold_no_rule_are_wrong_input(
    verb: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary.yaml").write_bytes(bytes(range(256)))
    (tmp_path / "empty.yaml").write_text("")
    (tmp_path / "list.yaml").write_text("- 1\n")
    (tmp_path / "plan.yaml").write_text("version: 1\nservice: x\n")
    assert run([verb, "--rules", str(tmp_path / name), "--quiet"]) == ExitCode.WRONG_INPUT
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: rules = ")
    assert name in said.err


@pytest.mark.parametrize(
    "formula", ["1 / (a - a)", "ceil(1 / (a - a))", "(0 - a) ** 0.5", "a % 0", "round(0 / (a - a))"]
)
def test_a_formula_without_a_value_is_a_metric_that_cannot_be_read(formula: str) -> None:
    spec = KedaSpec(
        triggers=(KedaTrigger(name="a", threshold_value=1.0),),
        most_replicas=9,
        modifiers=ScalingModifiers(formula=formula, target_value=1.0),
    )
    assert not -1e300 < evaluate(formula, {"a": 2.0}) < 1e300
    _, decision = keda_step(spec, KedaState(), {"a": 2.0}, now_s=0.0, current=3, ready=3)
    assert (decision.replicas, decision.asked_replicas) == (3, None)
