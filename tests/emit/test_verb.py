"""The verb and its command: from a plan file and a stored plan to files, what would change, and an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from support.emitted import NAMES, document
from support.planned import AS_OF
from ullage import verbs
from ullage.cli.app import run
from ullage.errors import ExitCode, InputError, Rejection
from ullage.readers.kubernetes import read_rules
from ullage.verbs.emit import Emitted
from ullage.verbs.plan_answer import PlanAnswer
from ullage.verbs.scale import searched_settings

PLAN = """
version: 1
service: made by hand
dated: 2026-11-15
workload:
  trace: [not-there.csv]
  classes:
    - {name: chat, rate: 20 req/s, longest_context: 16384, slo: {ttft_p95: 1s, tpot_p95: 80ms}}
    - {name: coding, rate: 4 req/s, longest_context: 32768, slo: {ttft_p95: 3s, e2e_p95: 30s}, priority: 1}
pool: {model: qwen3-32b, device: h100-sxm, tensor_parallel: 2}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A plan file with names for the cluster, and the plan that was stored; its trace is not needed to emit."""
    (tmp_path / "plan.yaml").write_text(
        f"{PLAN}emit:\n" + "".join(f"  {line}\n" for line in NAMES.strip().splitlines())
    )
    (tmp_path / "plan.json").write_text(json.dumps(document()))
    return tmp_path


def emitted(folder: Path, *targets: str) -> Emitted:
    found = verbs.emit(folder / "plan.yaml", targets, stored=folder / "plan.json")
    assert not isinstance(found, Rejection)
    return found


def command(folder: Path, *words: str) -> int:
    return run(["emit", str(folder / "plan.yaml"), "--plan", str(folder / "plan.json"), "--quiet", *words])


def test_files_are_written_whole_and_not_twice(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder / "manifests"
    assert command(folder, "--target", "keda,pdb", "--target", "deployment", "--out", str(out)) == ExitCode.OK
    names = ["chat.deployment.yaml", "chat.keda.yaml", "chat.pdb.yaml"]
    assert sorted(each.name for each in out.iterdir()) == names
    said = capsys.readouterr().out
    assert [name for name in names if name not in said] == []
    before = {each.name: each.read_bytes() for each in out.iterdir()}
    (out / "chat.pdb.yaml").unlink()
    assert command(folder, "--target", "keda,pdb", "--out", str(out)) == ExitCode.WRONG_INPUT
    assert not (out / "chat.pdb.yaml").exists()
    assert command(folder, "--target", "keda,pdb", "--out", str(out), "--force") == ExitCode.OK
    assert {each.name: each.read_bytes() for each in out.iterdir()} == before


SMALL = """
version: 1
service: small
dated: 2026-11-15
workload:
  classes: [{name: chat, rate: 4 req/s, longest_context: 4096, slo: {ttft_p95: 2s, tpot_p95: 80ms}}]
pool: {model: llama-3.1-8b, device: l40s, max_sequences: 3, instance: g6e.xlarge}
"""


@pytest.mark.slow
@pytest.mark.fresh
def test_a_searched_rule_is_what_is_written(tmp_path: Path) -> None:
    """The search states its rule in the plan, whose rule is read back from the file to the last value."""
    names = "".join(f"  {line}\n" for line in NAMES.strip().splitlines())
    plan = tmp_path / "plan.yaml"
    plan.write_text(f"{SMALL}emit:\n{names}")
    made = verbs.emit(plan, ["keda"], searched=True, as_of=AS_OF)
    assert isinstance(made, Emitted)
    (tmp_path / "scaled.yaml").write_text(made.files[0].text)
    (found,) = read_rules([tmp_path / "scaled.yaml"])
    plain = verbs.plan(plan, as_of=AS_OF)
    assert isinstance(plain, PlanAnswer)
    stated = verbs.plan(plan, as_of=AS_OF, set=searched_settings(plain))
    assert isinstance(stated, PlanAnswer)
    rule = stated.pools[0].scaling.rule
    assert (found.rule.spec, found.rule.schedule, found.rule.queries) == (rule.spec, rule.schedule, rule.queries)
    with pytest.raises(InputError, match="--searched"):
        verbs.emit(plan, ["keda"], searched=True, stored=tmp_path / "plan.json")


def test_check_is_an_exit_code(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder / "manifests"
    command(folder, "--target", "keda", "--out", str(out))
    assert command(folder, "--target", "keda", "--diff", str(out), "--check") == ExitCode.OK
    assert command(folder, "--target", "keda", "--out", str(out), "--check") == ExitCode.OK
    file = out / "chat.keda.yaml"
    file.write_text(file.read_text().replace("maxReplicaCount: 45", "maxReplicaCount: 44"))
    capsys.readouterr()
    assert command(folder, "--target", "keda", "--diff", str(out), "--check") == ExitCode.REFUSED
    assert "spec.maxReplicaCount" in capsys.readouterr().out
    assert "44" in file.read_text()
    assert command(folder, "--target", "keda", "--check") == ExitCode.WRONG_INPUT


def test_diff_prints_a_patch_and_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder / "manifests"
    command(folder, "--target", "pdb", "--out", str(out))
    capsys.readouterr()
    assert command(folder, "--target", "pdb", "--diff", str(out)) == ExitCode.OK
    assert "needs no change" in capsys.readouterr().out
    file = out / "chat.pdb.yaml"
    file.write_text(file.read_text().replace("maxUnavailable: 4", "maxUnavailable: 9"))
    assert command(folder, "--target", "pdb", "--diff", str(out), "--out", str(out)) == ExitCode.OK
    said = capsys.readouterr().out
    assert "-  maxUnavailable: 9 " in said
    assert "+  maxUnavailable: 4 " in said
    assert "maxUnavailable: 9" in file.read_text()


def test_without_a_folder_the_files_are_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(folder, "--target", "pdb,keda") == ExitCode.OK
    kinds = [each["kind"] for each in yaml.safe_load_all(capsys.readouterr().out)]
    assert sorted(kinds) == ["PodDisruptionBudget", "ScaledObject"]
    assert command(folder, "--target", "pdb", "--json") == ExitCode.OK
    said = json.loads(capsys.readouterr().out)
    assert (said["schema"], said["targets"], [each["name"] for each in said["files"]]) == (
        "ullage.emit/2", ["pdb"], ["chat.pdb.yaml"]
    )  # fmt: skip


def test_targets_are_listed_and_needed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["emit", "--list"]) == ExitCode.OK
    assert "envoy-ai-gateway" in capsys.readouterr().out
    assert command(folder) == ExitCode.WRONG_INPUT
    assert command(folder, "--target", "kong") == ExitCode.WRONG_INPUT
    assert "is not made by this version" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("was", "now", "field"),
    [
        ("service: made by hand", "service: other", "service"),
        ("tensor_parallel: 2", "tensor_parallel: 4", "pool.tensor_parallel"),
        ("h100-sxm", "h200-sxm", "pool.device"),
        ("priority: 1", "priority: 2", "classes"),
        ("{name: coding", "{name: code", "classes"),
    ],
)
def test_a_stored_plan_of_another_file_is_refused(was: str, now: str, field: str, folder: Path) -> None:
    made = json.loads((folder / "plan.json").read_text())
    made["assumptions"]["pool.tensor_parallel"] = {"value": 2, "unit": "devices", "evidence": "stated"}
    (folder / "plan.json").write_text(json.dumps(made))
    file = folder / "plan.yaml"
    file.write_text(file.read_text().replace(was, now))
    with pytest.raises(InputError, match="the stored plan was made with") as refusal:
        verbs.emit(file, ["pdb"], stored=folder / "plan.json")
    assert refusal.value.field.endswith(field)


def test_the_order_in_which_a_file_lists_its_classes_is_no_other_plan(folder: Path) -> None:
    made = json.loads((folder / "plan.json").read_text())
    made["classes"].reverse()
    (folder / "plan.json").write_text(json.dumps(made))
    assert emitted(folder, "pdb").files


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "is not ullage.plan/2"),
        ('{"schema": "ullage.plan/2", "refused": true}', "is a refusal"),
        ('{"schema": "ullage.plan/2"}', "lacks or garbles"),
        ("not json", "is not JSON"),
    ],
)
def test_a_stored_plan_that_is_none_is_refused(text: str, said: str, folder: Path) -> None:
    (folder / "plan.json").write_text(text)
    with pytest.raises(InputError, match=said):
        verbs.emit(folder / "plan.yaml", ["pdb"], stored=folder / "plan.json")


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("namespace: llm", "namespace: CHANGEME", "is not a short name"),
        ("team: search", "team: <your-team>", "is a placeholder"),
        ("image: vllm/vllm-openai:v0.32.0", "image: vllm/vllm-openai", "is not an image with a tag or a digest"),
        ("vllm/vllm-openai:v0.32.0", "vllm/vllm-openai:v0.12.0", "does not know max-num-queued-reqs"),
        ("served_model: qwen3-32b", "served_model: todo", "is a placeholder"),
        ("prometheus: http://prometheus.monitoring:9090", "prometheus: prometheus", "is not an address"),
        ("selector: {app: chat}", "selector: {app: 'a b'}", "is not a label's value"),
        ("series: {namespace: llm,", "series: {'name space': llm,", "is not a label of Prometheus"),
        ("  pool:\n", "  other:\n", "is not a pool of this plan"),
        ("device_resource: nvidia.com/gpu", "device_resource: gpu", "is not an extended resource"),
        ('"chat-epp:9002"', "chat-epp", "is not a Service and its port"),
        ("port: 8000", "port: 80000", "is more than is plausible here"),
        ("container: engine", "conteiner: engine", "is not a known key"),
    ],
)
def test_names_that_no_cluster_takes_are_refused_where_they_stand(was: str, now: str, said: str, folder: Path) -> None:
    file = folder / "plan.yaml"
    assert was in file.read_text()
    file.write_text(file.read_text().replace(was, now))
    with pytest.raises(InputError, match=said):
        verbs.emit(file, ["pdb", "vllm"], stored=folder / "plan.json")


def test_a_model_may_be_a_folder_of_the_pod(folder: Path) -> None:
    file = folder / "plan.yaml"
    file.write_text(file.read_text().replace("    model: Qwen/Qwen3-32B", "    model: /models/qwen3-32b"))
    text = "".join(each.text for each in emitted(folder, "vllm", "deployment").files)
    assert "/models/qwen3-32b" in text
    assert "Qwen/Qwen3-32B" not in text


@pytest.mark.slow
def test_a_real_plan_has_every_number_that_targets_read(tmp_path: Path) -> None:
    """The built-in example's plan, planned and stored, makes the same files for every target of its engine."""
    from importlib.resources import files

    from support.planned import AS_OF, planned
    from ullage.emit.targets import TARGETS

    text = (files("ullage.files") / "example.yaml").read_text(encoding="utf-8")
    (tmp_path / "plan.yaml").write_text(
        f"{text}\nemit:\n" + "".join(f"  {line}\n" for line in NAMES.strip().splitlines())
    )
    (tmp_path / "plan.json").write_text(json.dumps(planned().to_dict()))  # type: ignore[attr-defined]
    # Its rollouts take replicas that are idle in their hours, so that there is no room to keep free.
    targets = [each for each in TARGETS if each not in ("sglang", "tensorrt-llm", "hpa", "capacity-buffer")]
    with pytest.raises(InputError, match="rollout_surge_replicas"):
        emitted(tmp_path, "capacity-buffer")
    made = emitted(tmp_path, *targets)
    assert made.as_of == AS_OF
    assert len(made.files) >= len(targets)
