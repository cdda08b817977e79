"""Every target, over the one table: its files are what their readers take, complete, and the same every time."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.debian import require_program
from support.emitted import FIGURES, choice, document, documents, emitted, mixes, numbers, settings, without
from support.manifest_schemas import BY_HAND, against, problems
from ullage.emit.numbers import PlanNumbers, plan_numbers
from ullage.emit.targets import NOT_BUILT, TARGETS, emit_files
from ullage.emit.tree import EmittedFile
from ullage.errors import InputError
from ullage.planning.manifests import EmitSettings, WorkloadNames

# Numbers that some plans do not have, and files can do without: a bill, and what is lost without a gateway.
OPTIONAL = (
    "answer.devices_usd",
    "bill.per_success_usd",
    "bill.total_usd",
    "fleet.evidence_replicas",
    "limit.engine_queue_requests",
    "placement.zone-1.replicas",
)
# What load tools read line by line has no room for a remark; tests/emit/test_loadtest.py reads it.
DATA = (".jsonl", ".csv")
# How each target is asked for; a target without an entry is of vLLM on one node.
ENGINES = {"sglang": "sglang", "tensorrt-llm": "tensorrt-llm"}


def made(target: str, **asked: Any) -> tuple[EmittedFile, ...]:
    return emitted(target, engine=ENGINES.get(target, "vllm"), **asked)


def refused(file: EmittedFile, folder: Path) -> list[str]:
    """What the reader of a file would refuse of it."""
    if file.name.endswith(".sh"):
        done = subprocess.run(["sh", "-n"], input=file.text, capture_output=True, text=True, check=False)
        return [done.stderr] if done.returncode else []
    if file.name.endswith(DATA):
        return []
    if file.name.endswith(".tfvars"):
        return [] if re.fullmatch(r'(\s*(#.*|[\w"-]+ = (\{|\d+)|\})\n)*', file.text) else ["is not plain HCL"]
    if file.name.endswith(".rules.yaml"):
        (folder / file.name).write_text(file.text)
        promtool = require_program("promtool", package="prometheus")
        done = subprocess.run(
            [promtool, "check", "rules", folder / file.name], capture_output=True, text=True, check=False
        )
        return [] if done.returncode == 0 else [done.stderr]
    values = [json.loads(file.text)] if file.name.endswith(".json") else list(yaml.safe_load_all(file.text))
    by_hand = BY_HAND.get(file.name.replace("small.", "chat.").replace("large.", "chat."))
    if by_hand is not None:
        return [problem for each in values for problem in against(by_hand, each)]
    return [problem for each in values for problem in problems(each)]


@pytest.mark.parametrize("target", TARGETS)
def test_every_file_is_what_its_reader_takes(target: str, tmp_path: Path) -> None:
    files = made(target)
    assert files
    assert {each.name: refused(each, tmp_path) for each in files} == {each.name: [] for each in files}


@pytest.mark.parametrize("target", TARGETS)
def test_a_file_says_where_it_comes_from_and_is_the_same_every_time(target: str) -> None:
    first, again = made(target), made(target)
    assert first == again
    for each in (file for file in first if not file.name.endswith(DATA)):
        assert "the plan for made by hand of 2026-11-15 (seed 0, verdict GO)" in " ".join(
            each.text.replace("# ", "").split()
        )
        assert (
            max(len(line) for line in each.text.splitlines() if line.lstrip().startswith("#")) <= 120
            if "#" in each.text
            else True
        )


@pytest.mark.parametrize("target", TARGETS)
def test_names_are_never_guessed(target: str) -> None:
    """Without the emit section nothing is made, and the refusal names the key to write."""
    with pytest.raises(InputError, match=r"^emit[ .]") as refusal:
        emit_files(numbers(), {"pool": choice(ENGINES.get(target, "vllm"))}, EmitSettings(), [target], mixes())
    assert refusal.value.fix.startswith("Add ")


@pytest.mark.parametrize("target", TARGETS)
def test_all_missing_names_come_in_one_refusal_and_its_section_is_enough(target: str) -> None:
    """Whoever pastes the section of the refusal, with names of their own, is asked for nothing more."""
    chosen = {"pool": choice(ENGINES.get(target, "vllm"))}
    with pytest.raises(InputError) as refusal:
        emit_files(numbers(), chosen, EmitSettings(), [target], mixes())
    if refusal.value.field == "emit":
        given = yaml.safe_load(refusal.value.fix.partition("for example: ")[2])["emit"]
    else:
        key, example = refusal.value.field.split(".")[-1], refusal.value.fix.rstrip(".").rpartition("such as ")[2]
        shared = refusal.value.field.count(".") == 1
        given = {key: example} if shared else {"workloads": {"pool": {key: example}}}
    workloads = {pool: WorkloadNames(**{"name": "", **names}) for pool, names in given.pop("workloads", {}).items()}
    assert emit_files(numbers(), chosen, EmitSettings(**given, workloads=workloads), [target], mixes())


def test_a_refusal_of_one_name_is_that_name_and_survives_another_process() -> None:
    named = WorkloadNames(name="chat", selector={"app": "chat"})
    with pytest.raises(InputError, match=r"^emit\.namespace = None: is missing, and target pdb") as refusal:
        emit_files(numbers(), {"pool": choice("vllm")}, EmitSettings(workloads={"pool": named}), ["pdb"])
    assert str(pickle.loads(pickle.dumps(refusal.value))) == str(refusal.value)


def test_requests_name_the_model_that_the_engine_loads_where_no_other_name_is_given() -> None:
    named = replace(settings(), workloads={"pool": replace(settings().workloads["pool"], served_model=None)})
    text = "".join(each.text for each in emit_files(numbers(), {"pool": choice("vllm")}, named, ["vllm"]))
    assert f"served-model-name: {named.workloads['pool'].model}" in text.replace('"', "")


@pytest.mark.parametrize("target", TARGETS)
def test_a_plan_that_lacks_a_number_is_refused_by_its_name(target: str) -> None:
    """Whichever number a target reads, a plan without it makes no file: missing is not zero."""
    whole = numbers()
    chosen = {"pool": choice(ENGINES.get(target, "vllm"))}
    files = emit_files(whole, chosen, settings(), [target], mixes())
    # A class that a pool has no rate for is not served by it.
    classes = ("limit.chat.rate_rps", "limit.coding.rate_rps")
    read = [name for name in FIGURES if name not in classes and any(f"{name} =" in each.text for each in files)]
    said = {name: attempt(without(whole, name), target) for name in read}
    assert {name: each for name, each in said.items() if name not in each} == {}


def attempt(plan: PlanNumbers, target: str) -> str:
    """The refusal; or, where a file can be made without the number, every number that is named in it."""
    try:
        files = emit_files(plan, {"pool": choice(ENGINES.get(target, "vllm"))}, settings(), [target], mixes())
    except InputError as error:
        return str(error)
    return " ".join(name for name in OPTIONAL if all(f"{name} =" not in each.text for each in files))


def test_targets_are_named_exactly() -> None:
    with pytest.raises(InputError, match="Did you mean keda"):
        emitted("kedda")
    for name in NOT_BUILT:
        assert name not in TARGETS
        with pytest.raises(InputError, match="is not made by this version"):
            emitted(name)
    with pytest.raises(InputError, match="would fight"):
        emitted("keda", "hpa")


def test_a_set_is_whole_or_not_made() -> None:
    with pytest.raises(InputError, match="no pool of the plan runs it"):
        emitted("pdb", "sglang")


def test_an_autoscaler_beside_a_workload_owns_the_number_of_replicas() -> None:
    for target in ("deployment", "leaderworkerset"):
        (alone,) = documents(emitted(target))
        beside = next(each for each in documents(emitted(target, "keda")) if each["kind"] != "ScaledObject")
        assert alone["spec"]["replicas"] == 41
        assert "replicas" not in beside["spec"]


def test_no_change_takes_what_an_autoscaler_has_left() -> None:
    """Six of sixteen are idle in a quiet hour; where two run, six at once would be all of them."""
    figures: dict[str, float | str] = {
        "reserve.rollout_surge_replicas": 0,
        "reserve.rollout_unavailable_replicas": 6,
        "reserve.maintenance_replicas": 6,
        "scaling.least_replicas": 2,
    }
    scaled = {each["kind"]: each for each in documents(emitted("deployment", "pdb", "keda", figures=figures))}
    fixed = {each["kind"]: each for each in documents(emitted("deployment", "pdb", figures=figures))}

    def pace(found: dict[str, Any]) -> tuple[int, int, int]:
        rolling = found["Deployment"]["spec"]["strategy"]["rollingUpdate"]
        budget = found["PodDisruptionBudget"]["spec"]["maxUnavailable"]
        return rolling["maxSurge"], rolling["maxUnavailable"], budget

    assert (pace(scaled), pace(fixed)) == ((6, 0, 1), (0, 6, 6))


def test_pods_stand_on_nodes_as_the_plan_has_them() -> None:
    """Evenly over nodes, so that losing one takes what the plan says; apart where a node holds one of several."""

    def pod(nodes: int, each: int) -> dict[str, Any]:
        figures = {"packing.nodes": nodes, "packing.devices": 8 * nodes, "packing.replicas_per_node": each}
        (found,) = documents(emitted("deployment", figures=figures))
        return dict(found["spec"]["template"]["spec"])

    def keys(spec: dict[str, Any]) -> list[str]:
        return [each["topologyKey"] for each in spec["topologySpreadConstraints"] if each["maxSkew"] == 1]

    assert "kubernetes.io/hostname" in keys(pod(12, 4))
    assert "affinity" not in pod(12, 4)
    assert "kubernetes.io/hostname" not in keys(pod(2, 1))
    assert pod(2, 1)["affinity"]["podAntiAffinity"]
    assert "affinity" not in pod(1, 1)


def test_a_replica_on_two_nodes_is_a_group_of_pods(tmp_path: Path) -> None:
    wide = {"tp": 8, "pp": 2}
    for target in ("deployment", "kserve", "knative", "production-stack"):
        with pytest.raises(InputError, match="leaderworkerset"):
            emitted(target, sharding=wide)
    for target in ("leaderworkerset", "kserve-llm", "keda", "pdb", "kueue", "capacity-buffer"):
        for each in emitted(target, sharding=wide):
            assert refused(each, tmp_path) == []
    (group,) = documents(emitted("leaderworkerset", sharding=wide))
    template = group["spec"]["leaderWorkerTemplate"]
    assert template["size"] == 2
    for part in ("leaderTemplate", "workerTemplate"):
        asked = template[part]["spec"]["containers"][0]["resources"]["requests"]
        assert asked["nvidia.com/gpu"] == "8"
        assert template[part]["spec"]["affinity"]["podAntiAffinity"]
    (budget,) = documents(emitted("pdb", sharding=wide))
    assert budget["spec"]["maxUnavailable"] == 8
    (scaled,) = documents(emitted("keda", sharding=wide))
    assert scaled["spec"]["scaleTargetRef"]["kind"] == "LeaderWorkerSet"


def test_engines_say_what_they_cannot_enforce() -> None:
    for target in ("vllm", "sglang", "tensorrt-llm", "deployment"):
        head = " ".join(made(target)[0].text.replace("# ", "").split())
        assert "gateway" in head
        lost = "At 3 times the planned load 10.0% of requests succeed with these flags alone, and 39.0%"
        # vLLM's flags bound its queue, which what the plan says of them does not count on yet.
        assert (lost in head) is (target not in ("vllm", "deployment"))
    assert "takes no priorities" in " ".join(made("tensorrt-llm")[0].text.replace("# ", "").split())


def test_arguments_of_ones_own_stand_beside_the_plans_and_not_over_them() -> None:
    (found,) = documents(emitted("deployment"))
    assert found["spec"]["template"]["spec"]["containers"][0]["args"][-1] == "--enable-auto-tool-choice"
    # The reason for a flag stands beside the flag, not beside its value.
    lines = [each.strip() for each in emitted("deployment")[0].text.splitlines()]
    at = next(place for place, each in enumerate(lines) if "--max-num-seqs" in each)
    assert "  # limit.engine_running_requests = 32 requests" in lines[at]
    assert lines[at + 1] == '- "32"'
    with pytest.raises(InputError, match="is set by the plan"):
        emitted("deployment", names="args: [--max-num-seqs=9]")


def test_tenants_of_the_plan_get_their_own_rules() -> None:
    figures = {"limit.tenant.acme.rate_rps": 12.5, "limit.tenant.acme.tokens_per_s": 1000.0}
    for target, per_s in (("envoy-gateway", 12.5), ("envoy-ai-gateway", 1000.0)):
        policy = next(
            each for each in documents(emitted(target, figures=figures)) if each["kind"] == "BackendTrafficPolicy"
        )
        rules = policy["spec"]["rateLimit"]["global"]["rules"]
        mine = [each for each in rules if "x-tenant-id" in json.dumps(each)]
        assert {each["limit"]["unit"]: each["limit"]["requests"] for each in mine} == {
            "Minute": int(per_s * 60 * 1.46),
            "Hour": int(per_s * 3600),
        }
        with pytest.raises(InputError, match=r"emit\.tenant_header"):
            emitted(target, figures=figures, names="tenant_header: null")


# ---- several pools -----------------------------------------------------------------------------------------

SHARED = ("demand.", "bill.", "burst.", "limit.engine_success", "limit.gateway_success")


def two_pools() -> tuple[PlanNumbers, EmitSettings]:
    """The plan twice over: pool `large` has ten times the replicas of pool `small`, and serves the other class."""
    whole = document()
    for name, row in list(whole["figures"].items()):
        if name.startswith(SHARED):
            continue
        del whole["figures"][name]
        for pool, other, ratio in (("small", "coding", 1), ("large", "chat", 10)):
            if not name.startswith(f"limit.{other}."):
                counted = row["unit"] in ("replicas", "nodes") or name in ("packing.devices", "fleet.total_devices")
                value = row["value"] * (ratio if counted else 1)
                whole["figures"][f"{pool}.{name}"] = row | {"name": f"{pool}.{name}", "value": value}
    for pool in ("small", "large"):
        for name in ("storage", "device"):
            whole["assumptions"][f"{pool}.pool.{name}"] = whole["assumptions"][f"pool.{name}"]
    whole["summary"]["pools"] = [{"name": "small"}, {"name": "large"}]
    given = settings().workloads["pool"]
    named = {name: replace(given, name=name, selector={"app": name}, route=name) for name in ("small", "large")}
    return plan_numbers(whole, file="plan"), replace(settings(), workloads=named)


@pytest.mark.parametrize("target", [each for each in TARGETS if each not in ENGINES])
def test_every_pool_has_its_own_numbers(target: str, tmp_path: Path) -> None:
    plan, names = two_pools()
    files = emit_files(plan, {"small": choice(), "large": choice()}, names, [target], mixes("small", "large"))
    assert {each.name: refused(each, tmp_path) for each in files} == {each.name: [] for each in files}
    texts = " ".join(each.text for each in files)
    assert "small" in texts
    assert "large" in texts


def test_pools_do_not_mix() -> None:
    plan, names = two_pools()
    files = emit_files(plan, {"small": choice(), "large": choice()}, names, ["keda", "envoy-gateway", "resource-quota"])
    found = {(each["kind"], each["metadata"]["name"]): each["spec"] for each in documents(files)}
    assert found["ScaledObject", "small"]["minReplicaCount"] == 12
    assert found["ScaledObject", "large"]["minReplicaCount"] == 120
    # A pool of one class needs no header to tell classes apart.
    rules = found["BackendTrafficPolicy", "large"]["rateLimit"]["global"]["rules"]
    assert [each for each in rules if "clientSelectors" in each] == []
    timeouts = {
        name: found["BackendTrafficPolicy", name]["timeout"]["http"]["requestTimeout"] for name in ("small", "large")
    }
    assert timeouts == {"small": "60s", "large": "120s"}
    assert found["ResourceQuota", "small-devices"]["hard"] == {"requests.nvidia.com/gpu": str(102 + 1020)}


@pytest.mark.parametrize(
    ("serving", "most", "surge", "idle", "replicas"),
    [
        (41, 45, 6, 0, 51),  # an autoscaler at its maximum, and the surge of a rollout
        (41, 30, 6, 0, 47),  # the fixed fleet, whose reserve holds the surge
        (46, 30, 6, 0, 52),  # a surge that no reserve holds
        (41, 45, 0, 2, 47),  # an autoscaler may not fall below what runs: what may be missing is surge
        (41, 47, 0, 0, 47),
    ],
)
def test_quotas_hold_a_rollout_of_the_largest_fleet(
    serving: int, most: int, surge: int, idle: int, replicas: int
) -> None:
    figures = {
        "reserve.serving_replicas": serving,
        "scaling.most_replicas": most,
        "reserve.rollout_surge_replicas": surge,
        "reserve.rollout_unavailable_replicas": idle,
    }
    (file,) = emitted("resource-quota", figures=figures)
    (found,) = documents([file])
    assert found["spec"]["hard"] == {"requests.nvidia.com/gpu": str(2 * replicas)}
    assert "a rollout's surge" in file.text or replicas == 47
    queue = next(each for each in documents(list(emitted("kueue", figures=figures))) if each["kind"] == "ClusterQueue")
    (flavor,) = queue["spec"]["resourceGroups"][0]["flavors"]
    quotas = {each["name"]: str(each["nominalQuota"]) for each in flavor["resources"]}
    assert quotas["nvidia.com/gpu"] == str(2 * replicas)
    # The strategy of the workload never asks for more at once than the quota holds.
    for target, running in (("deployment", serving), ("kserve", most)):
        (made,) = (each for each in emitted(target, figures=figures) if "rollingUpdate" in each.text)
        kinds = ("Deployment", "InferenceService")
        rolling = next(each["spec"] for each in documents([made]) if each["kind"] in kinds)
        rule = rolling.get("strategy") or rolling["predictor"]["deploymentStrategy"]
        assert 2 * (running + int(rule["rollingUpdate"]["maxSurge"])) <= 2 * replicas


@pytest.mark.parametrize(
    ("target", "method", "starts"),
    [
        ("vllm", "mtp", "num_speculative_tokens"),
        ("vllm", "draft", ""),
        ("sglang", "mtp", "speculative-num-draft-tokens"),
        ("tensorrt-llm", "mtp", ""),
    ],
)
def test_speculation_is_started_or_its_lack_is_said(target: str, method: str, starts: str) -> None:
    """A plan that counts on drafts must not be deployed without them unnoticed."""
    drafting = replace(choice(ENGINES.get(target, "vllm")), drafting=(method, 3))
    text = " ".join(each.text for each in emit_files(numbers(), {"pool": drafting}, settings(), [target]))
    plain = " ".join(each.text for each in made(target))
    assert "specul" not in plain
    said = "assumes speculation" in " ".join(text.replace("#", " ").split())
    assert (starts in text and not said) if starts else said


def test_the_chart_of_vllm_on_one_node_takes_no_other_pool() -> None:
    with pytest.raises(InputError, match="does not run vLLM, and the chart's Deployments are of vLLM on one node"):
        emitted("production-stack", engine="sglang")
