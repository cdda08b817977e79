"""Every key of a plan file does what its row says: it changes the specification, and the figure that it names.

A key that is read and then forgotten is the worst kind: the file is accepted, and the plan is another one's. So each
key is set to a value that is not its default, in the smallest plan in which it matters, and the figure of its row is
computed again by the cheapest stage that carries it (support/key_probes.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from support.key_probes import AS_OF, BASES, Probe, spec_of, with_value, write_files
from ullage.errors import InputError
from ullage.evidence import Assumption
from ullage.files.keys import KeyRow, find_path
from ullage.files.plan_file import PlanFile, key_rows
from ullage.files.strict_yaml import Document, read_yaml
from ullage.load.plan import load_plan
from ullage.planning.spec import PlanSpec

# Base -> key -> a value that is not the default. A key may stand under several bases.
CASES: dict[str, dict[str, str]] = {
    "one": {
        "service": "other",
        "dated": "2026-06-01",
        "ages.rates": "1d",
        "ages.statements": "1d",
        "owners": "{workload: ana}",
        "workload.classes.chat.name": "talk",
        "workload.classes.chat.rate": "8 req/s",
        "workload.classes.chat.longest_context": "8192",
        "workload.classes.chat.slo": "{ttft_p95: 2s, tpot_p95: 20ms}",
        "workload.classes.chat.definitions": "{tpot: with_first_token}",
        "workload.classes.chat.priority": "2",
        "workload.classes.chat.deadline": "20s",
        "workload.classes.chat.success": "solved",
        "workload.classes.chat.prompt": "{p50: 900}",
        "workload.classes.chat.output": "{p50: 300}",
        "workload.classes.chat.weekly_growth": "5%",
        "workload.classes.chat.peak_hour": "3",
        "workload.classes.chat.cached_fraction": "10%",
        "workload.classes.chat.outcomes.refused": "20%",
        "workload.classes.chat.outcomes.failed": "20%",
        "workload.classes.chat.outcomes.cancelled": "20%",
        "pool.name": "main",
        "pool.model": "llama-3.2-3b",
        "pool.device": "h100-sxm",
        "pool.tensor_parallel": "2",
        "pool.pipeline_parallel": "2",
        "pool.engine": "sglang",
        "pool.engine_version": "0.7",
        "pool.memory_fraction": "70%",
        "pool.token_budget": "1024",
        "pool.max_sequences": "64",
        "pool.poll_steps": "16",
        "pool.batch_wait_steps": "16",
        "pool.prefix_cache": "off",
        "pool.router": "prefix_aware",
        "pool.router_refresh": "5s",
        "pool.between_turns": "dropped",
        "pool.max_context": "16384",
        "pool.kv_dtype": "fp8",
        "pool.approved_concurrency": "8",
        "pool.least_replicas": "9",
        "pool.most_replicas": "1",
        "pool.storage": "local-nvme",
        "pool.storage_bandwidth": "100 MB/s",
        "pool.instance": "g6e.48xlarge",
        "policy.horizon": "60d",
        "policy.shortfall": "1%",
        "policy.margin": "30%",
        "policy.zones": "3",
        "policy.utilisation.mean": "10%",
        "policy.utilisation.busiest_hour": "10%",
        "policy.utilisation.planned": "10%",
        "policy.utilisation.machine_lost": "10%",
        "policy.reconcile_every": "14d",
        "scaling.least": "1",
        "scaling.most": "4",
        "scaling.scrape": "60s",
        "scaling.delay": "60s",
        "admission.deadline": "30s",
        "admission.first_token_timeout": "3s",
        "admission.retry.attempts": "5",
        "admission.retry.backoff": "5s",
        "admission.retry.growth": "3",
        "admission.retry.jitter": "100%",
        "admission.retry.budget": "50%",
        "admission.overload": "3",
        "admission.recovery": "60s",
        "admission.slo_window": "120s",
        "admission.warm_replicas": "3",
        "admission.scale_delay": "120s",
        "admission.backpressure": "20%",
        "admission.tenants.acme.name": "acme-labs",
        "admission.tenants.acme.share": "20%",
        "admission.tenants.acme.weight": "5",
        "admission.tenants.acme.most": "10%",
        "reliability.availability": "99.9999%",
        "reliability.survives": "nothing",
        "reliability.device_failures_per_year": "20",
        "reliability.device_repair": "30d",
        "reliability.node_failures_per_year": "20",
        "reliability.node_repair": "30d",
        "reliability.zone_failures_per_year": "0.05",
        "reliability.zone_repair": "1h",
        "reliability.repair_crews": "1",
        "rollout.strategy": "blue-green",
        "rollout.surge": "2",
        "rollout.max_unavailable": "1",
        "rollout.within": "5min",
        "rollout.drain": "30min",
        "rollout.demand": "90%",
        "rollout.spare_devices": "4",
        "maintenance.every": "1d",
        "reserves.counted": "sum",
        "reserves.batch": "never",
        "cost.log_bytes_per_request": "5000",
        "cost.log_retention": "90d",
        "cost.answer_bytes_per_token": "10",
        "cost.egress_share": "50%",
        "cost.zone_share": "50%",
        "cost.grid_kg_per_kwh": "0.4",
        "cost.facility_ratio": "1.4",
        "cost.spans_per_request": "20",
        "cost.series_per_replica": "50",
        "cost.store_copies": "3",
        "cost.disk_copies": "0",
        "cost.engineering.on_call": "20h",
        "cost.engineering.changes": "20h",
        "prices.provider": "runpod",
        "prices.purchase": "spot",
        "prices.discount": "{aws: 20%}",
        "claims.capacity": "500 req/s",
        "claims.concurrency": "9000",
        "claims.scale_up": "0s",
        "claims.attribution": "tokens",
        "claims.cost.per_success": "0.0001 USD",
        "claims.cost.dated": "2026-11-01",
        "claims.cost.region": "us-east-1",
        "claims.cost.model": "llama",
        "claims.cost.success": "answered",
        "options.devices": "[h100-sxm]",
        "options.tensor_parallel": "[4]",
        "options.pipeline_parallel": "[2]",
        "options.expert_parallel": "[2]",
        "options.models": "{llama-3.1-8b: [llama-3.2-3b]}",
        "options.kv_dtypes": "[auto, fp8]",
        "options.token_budgets": "[4096]",
        "options.max_sequences": "[64]",
        "options.split": "[1000]",
        "options.transfer": "5GB/s",
        "options.lead_times.quota_request": "60d",
        "options.lead_times.months": "3",
    },
    "emitted": {
        "emit.namespace": "other",
        "emit.labels": "{team: search}",
        "emit.prometheus": "http://prometheus.monitoring:9090",
        "emit.gateway": "inference",
        "emit.tenant_header": "x-tenant-id",
        "emit.class_header": "x-request-class",
        "emit.workloads.pool.name": "talk",
        "emit.workloads.pool.container": "engine",
        "emit.workloads.pool.image": "vllm/vllm-openai:v0.32.0",
        "emit.workloads.pool.model": "Qwen/Qwen3-32B",
        "emit.workloads.pool.served_model": "qwen3-32b",
        "emit.workloads.pool.selector": "{app: chat}",
        "emit.workloads.pool.series": "{model_name: qwen3-32b}",
        "emit.workloads.pool.args": "[--enable-auto-tool-choice]",
        "emit.workloads.pool.port": "8000",
        "emit.workloads.pool.device_resource": "nvidia.com/gpu",
        "emit.workloads.pool.node_selector": "{pool: gpu}",
        "emit.workloads.pool.node_class": "karpenter.k8s.aws/EC2NodeClass/gpu",
        "emit.workloads.pool.priority_class": "serving",
        "emit.workloads.pool.route": "chat",
        "emit.workloads.pool.endpoint_picker": "chat-epp:9002",
        "emit.workloads.pool.address": "http://chat.llm:8000/v1",
        "emit.workloads.pool.cpus": "16",
        "emit.workloads.pool.shared_memory": "8GiB",
        "emit.workloads.pool.scratch": "8GiB",
    },
    "sellers": {"prices.own.devices.0.provider": "mine", "prices.own.devices.2.region": "here"},
    "housed": {"prices.own.machines.0.site": "there"},
    "strained": {"admission.success": "{chat: answer, batch: answer}"},
    "committed": {"options.lead_times.reservation": "90d"},
    "scaled": {
        "scaling.machines": "released",
        "scaling.step": "1",
        "scaling.cooldown": "60min",
        "scaling.nodes_per_minute": "0.05",
        "scaling.refused": "0%",
        "scaling.refused_wait": "60min",
        "scaling.node_held": "5h",
        "scaling.sleepers": "2",
        "scaling.threshold": "2",
        "scaling.down_window": "50min",
        "scaling.window": "5min",
        "scaling.floor": "80%",
    },
    "asleep": {"scaling.sleeper_cost": "10%"},
    "experts": {"pool.expert_parallel": "1"},
    "reserved": {"pool.capacity_policy": "max_utilization", "pool.max_output": "4096"},
    "ratioed": {"pool.conservativeness": "0.1"},
    "drafted": {
        "pool.speculation.accepted_per_step": "2.5",
        "pool.speculation.draft": "llama-3.2-3b",
    },
    "adapted": {
        "pool.adapters.slots": "64",
        "pool.adapters.rank": "64",
        "pool.adapters.targets": "[attention]",
        "pool.adapters.slowdown": "60%",
    },
    "apart": {
        "pool.disaggregated.transfer": "1GB/s",
        "pool.disaggregated.overlap": "50%",
        "pool.disaggregated.decode_share": "30%",
        "pool.disaggregated.prefill.device": "h100-sxm",
        "pool.disaggregated.prefill.tensor_parallel": "2",
        "pool.disaggregated.prefill.token_budget": "8192",
        "pool.disaggregated.prefill.max_sequences": "64",
        "pool.disaggregated.prefill.instance": "g6e.48xlarge",
    },
    "turned": {"pool.disaggregated.prefill.router": "random"},
    "tiered": {"pool.host_cache.bytes": "50GB", "pool.host_cache.bandwidth": "10GB/s"},
    "headed": {"pool.speculation.tokens": "1", "pool.speculation.acceptance": "[50%, 20%]"},
    "looked": {"pool.speculation.method": "mtp"},
    "measured": {
        "facts": "facts",
        "evidence.engine_logs": "[engine.log]",
        "evidence.startup_logs": "[engine.log]",
        "evidence.load_tests": "[bench.json]",
        "evidence.step_profile": "steps.csv",
        "evidence.calibrations": "[calibration.json]",
        "workload.synthetic": "synthetic.json",
        "prices.region": "us-west-2",
        "prices.files.0.path": "other.csv",
        "prices.files.0.on": "2026-08-03",
    },
    "tested": {
        "evidence.cached_share": "90%",
        "evidence.tested_replicas": "4",
        "evidence.dated": "2026-05-01",
        "evidence.tested_device": "h200-sxm",
        "evidence.tested_tensor_parallel": "2",
        "evidence.accept": "[physics]",
        "evidence.validated": "[validated.json]",
    },
    "old": {"ages.load_tests": "1d"},
    "filed": {"prices.files.0.dated": "2026-10-01", "prices.files.0.provider": "lambda"},
    "profiled": {"workload.profile": "log.json"},
    "routed": {"routing.chat.class": "code", "workload.events.launch.name": "sale"},
    "counted": {"workload.lengths": "[log.csv]"},
    "ended": {
        "workload.classes.chat.outcomes.cancelled_after": "10%",
        "workload.classes.chat.outcomes.aborts": "false",
    },
    "seated": {
        "workload.classes.chat.users.concurrent": "400",
        "workload.classes.chat.users.think_time": "60s",
        "workload.classes.chat.users.answer_time": "20s",
        "workload.classes.chat.users.turns": "9",
        "workload.classes.chat.users.hours": "12",
        "workload.classes.chat.users.days": "7",
    },
    "seats": {"workload.classes.chat.users.seats": "4000", "workload.classes.chat.users.active": "20%"},
    "tokened": {"workload.classes.chat.tokens": "90 Mtokens/day"},
    "traced": {
        "ages.trace": "1d",
        "ages.lengths": "1d",
        "workload.classes.short.rate": "1 req/s",
        "workload.classes.short.match.product": "app-0",
        "workload.trace": "[half.csv]",
        "workload.columns": "{output_tokens: answer_tokens}",
        "workload.zone": "America/New_York",
        "workload.events.launch.from": "2026-11-17",
        "workload.events.launch.to": "2026-11-20",
        "workload.events.launch.demand": "5",
        "workload.classes.short.match.model": "llama-0",
        "workload.classes.short.match.tenant": "acme",
        "workload.classes.short.match.path": "/v1/chat*",
        "workload.classes.short.match.below_prompt_tokens": "320",
        "workload.classes.short.match.from_prompt_tokens": "320",
        "workload.classes.short.match.from_output_tokens": "50",
        "workload.classes.short.match.below_output_tokens": "50",
        "policy.shortfall": "30%",
        "policy.horizon": "60d",
    },
    "pools": {
        "workload.classes.mail.pool": "large",
        "routing.chat.escalation.small.goes_on": "40%",
        "routing.chat.escalation.small.success": "50%",
        "routing.chat.escalation.large.pool": "third",
        "routing.chat.carries_answer": "true",
        "routing.code.shares.small.share": "80%",
        "routing.code.shares.small.success": "20%",
        "routing.code.shares.large.pool": "third",
        "tools.search.name": "find",
        "tools.search.classes": "[chat]",
        "tools.search.calls_per_task": "3",
        "tools.search.requests_per_task": "3",
        "tools.search.latency": "2s",
        "tools.search.concurrency": "3",
        "tools.search.error_rate": "20%",
        "tools.search.while_waiting": "kept",
        "tools.fetch.rate_limit": "9 req/s",
        "claims.pool": "large",
    },
    "sites": {
        "claims.replicas": "1",
        "claims.least_replicas": "1",
        "sites.source": "a ticket",
        "sites.dated": "2026-06-01",
        "sites.regions.west.name": "north",
        "sites.regions.west.hours_later": "9",
        "sites.regions.west.quotas": "{l40s: 8}",
        "sites.regions.west.zones.wa.name": "wc",
        "sites.regions.west.zones.wa.quotas": "{l40s: 2}",
        "failover.survives": "none",
        "failover.share": "50%",
        "rollout.canary": "50%",
        "maintenance.work": "7h",
        "maintenance.window": "2h",
        "maintenance.window_every": "1d",
        "maintenance.drain": "3h",
        "maintenance.demand": "10%",
        "policy.utilisation.zone_lost": "10%",
        "warm.follows": "peak",
        "warm.start": "hot",
        "warm.absorbed": "5 req/s",
        "reserves.overlap": "[failure+rollout+maintenance+region]",
        "cost.prompt_bytes_per_token": "9",
    },
    "parted": {"sites.regions.west.share": "90%"},
    "own": {
        "prices.exchange.EUR.rate": "1.3",
        "prices.exchange.EUR.dated": "2026-06-01",
        "prices.exchange.EUR.source": "the bank",
        "prices.spot_lost": "3h",
        "prices.spot_classes": "chat",
        "prices.held.0.device": "h100-sxm",
        "prices.held.0.devices": "4",
        "prices.held.0.price": "2 USD/h",
        "prices.held.0.until": "2028-06-30",
        "prices.announced.0.on": "2027-03-01",
        "prices.announced.0.times": "0.8",
        "prices.tier": "batch",
        "prices.own.devices.0.dated": "2026-06-01",
        "prices.own.devices.0.source": "contract",
        "prices.own.devices.0.device": "h100-sxm",
        "prices.own.devices.0.price": "7 EUR/h",
        "prices.own.devices.0.devices": "4",
        "prices.own.devices.0.purchase": "3y-partial-upfront",
        "prices.own.devices.0.zone": "a",
        "prices.own.devices.0.instance": "box",
        "prices.own.devices.0.upfront": "20000 USD",
        "prices.own.devices.1.interruptions_per_hour": "0.5",
        "prices.own.machines.0.dated": "2026-06-01",
        "prices.own.machines.0.source": "invoice",
        "prices.own.machines.0.device": "h100-sxm",
        "prices.own.machines.0.devices": "4",
        "prices.own.machines.0.capex": "190000 USD",
        "prices.own.machines.0.power": "9 kW",
        "prices.own.machines.0.life": "800d",
        "prices.own.machines.0.residual": "50%",
        "prices.own.machines.0.cooling": "2",
        "prices.own.machines.0.electricity": "0.5 USD/kWh",
        "prices.own.machines.0.space": "400 USD/kW-month",
        "prices.own.machines.0.staff": "900 USD/month",
        "prices.own.machines.0.upkeep": "20%",
        "prices.own.machines.0.capital": "20%",
        "prices.own.tokens.0.dated": "2026-06-01",
        "prices.own.tokens.0.source": "offer",
        "prices.own.tokens.0.provider": "other",
        "prices.own.tokens.0.model": "small",
        "prices.own.tokens.0.tier": "batch",
        "prices.own.tokens.0.region": "here",
        "prices.own.tokens.0.input": "2 USD/Mtok",
        "prices.own.tokens.0.output": "9 USD/Mtok",
        "prices.own.tokens.0.cached_read": "0.5 USD/Mtok",
        "prices.own.tokens.0.cache_write": "9 USD/Mtok",
        "prices.own.items": "{tool-call search: 0.05 USD/call}",
        "cost.bought.spare.name": "other",
        "cost.bought.api.provider": "anthropic",
        "cost.bought.api.model": "other",
        "cost.bought.api.rate": "2 req/s",
        "cost.bought.api.prompt_tokens": "2000",
        "cost.bought.api.output_tokens": "400",
        "cost.bought.api.cached": "70%",
        "cost.bought.api.cache_written": "40%",
        "cost.bought.api.success": "50%",
        "cost.against.0.provider": "anthropic",
        "cost.against.0.model": "small",
        "cost.against.0.tier": "batch",
        "cost.against.0.classes": "[]",
        "cost.against.0.success": "50%",
        "cost.against.0.own_success": "50%",
        "cost.against.0.request_fee": "0.02 USD",
        "cost.against.0.request_limit": "1 req/min",
        "cost.against.0.token_limit": "1000 tokens/min",
        "cost.tool_calls": "{search: 9}",
        "cost.tasks.answer.name": "job",
        "cost.tasks.answer.requests": "{chat: 5}",
        "cost.tasks.answer.tools": "{search: 4}",
        "cost.tasks.answer.attempts": "2",
        "cost.tasks.answer.escalated": "50%",
        "cost.tasks.answer.escalated_requests": "{api: 9}",
        "cost.tasks.answer.success": "40%",
        "cost.evaluation.share": "9%",
        "cost.evaluation.suites_per_month": "9",
        "cost.evaluation.items_per_suite": "900",
        "cost.evaluation.provider": "other",
        "cost.evaluation.model": "small",
        "cost.evaluation.prompt_tokens": "5000",
        "cost.evaluation.output_tokens": "900",
        "options.lead_times.delivery": "300d",
    },
}
# Parts of one whole cannot be changed alone.
ALSO = {
    "routing.code.shares.small.share": {"routing.code.shares.large.share": "20%"},
    "sites.regions.west.share": {"sites.regions.east.share": "10%"},
}
ROWS = {each.path: each for each in key_rows()}
# The layout has one version, so there is no other value to give.
NOT_TRIED = {"version"}


def table_path(document: Document, key: str) -> str:
    """The row of a key of a document: entries of lists and names of the user's are one each."""
    found = ""
    for part in find_path(PlanFile, document.content, key):
        found += "[]" if isinstance(part, int) else f".{part}" if found else str(part)
    return found.replace("exchange.EUR", "exchange{}").replace("workloads.pool", "workloads{}")


def changed(document: Document, key: str, value: str) -> Document:
    for name, each in {key: value, **ALSO.get(key, {})}.items():
        document = with_value(document, name, each)
    return document


def differs(one: Any, other: Any) -> bool:
    """Whether two values differ anywhere; arrays inside them are compared as arrays."""
    if type(one) is not type(other):
        return True
    if is_dataclass(one):
        return any(differs(getattr(one, each.name), getattr(other, each.name)) for each in fields(one))
    if isinstance(one, dict):
        return list(one) != list(other) or any(differs(one[each], other[each]) for each in one)
    if isinstance(one, list | tuple):
        return len(one) != len(other) or any(map(differs, one, other))
    return bool(np.any(one != other))


def broken(document: Document, probe: Probe, found: PlanSpec, key: str) -> str:
    """What is wrong with a key that was set in this specification: '' where it does what its row says."""
    row = ROWS[table_path(document, key)].key
    assert row is not None
    if not differs(found, probe.spec):
        return "the specification does not change"
    return f"{row.moves} does not move" if row.moves and not probe.moved(found, row.moves) else ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("keys")
    write_files(made)
    return made


def test_every_key_is_tried_and_says_what_it_moves() -> None:
    tried = {
        table_path(read_yaml(BASES[base], file="plan.yaml"), key).replace("pools[]", "pool")
        for base, cases in CASES.items()
        for key in cases
    }
    keys = {path: row.key for path, row in ROWS.items() if row.key is not None}
    assert set(keys) - tried == NOT_TRIED
    assert [path for path, key in keys.items() if bool(key.moves) == bool(key.still)] == []


@pytest.mark.slow
@pytest.mark.parametrize("base", CASES)
def test_every_key_changes_the_specification_and_its_figure(base: str, folder: Path) -> None:
    document = read_yaml(BASES[base], file="plan.yaml")
    probe = Probe(spec_of(document, folder))
    found = {
        key: broken(document, probe, spec_of(changed(document, key, value), folder), key)
        for key, value in CASES[base].items()
    }
    assert {key: problem for key, problem in found.items() if problem} == {}


def _forgets_trace(was: PlanSpec, now: PlanSpec) -> PlanSpec:
    """The percentile reaches the forecast from the trace, and not what is read from it."""
    return replace(now, policy=was.policy)


def _forgets_context(was: PlanSpec, now: PlanSpec) -> PlanSpec:
    """The context reaches the engine's settings, and not what must fit into memory."""
    return replace(now, pools=tuple(replace(each, approved=was.pool.approved) for each in now.pools))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("base", "key", "forgets"),
    [("traced", "policy.shortfall", _forgets_trace), ("one", "pool.max_context", _forgets_context)],
)
def test_a_key_that_is_read_and_forgotten_is_found(
    base: str, key: str, forgets: Callable[[PlanSpec, PlanSpec], PlanSpec], folder: Path
) -> None:
    document = read_yaml(BASES[base], file="plan.yaml")
    probe = Probe(spec_of(document, folder))
    heard = spec_of(with_value(document, key, CASES[base][key]), folder)
    assert broken(document, probe, heard, key) == ""
    assert broken(document, probe, spec_of(document, folder), key) == "the specification does not change"
    assert broken(document, probe, forgets(probe.spec, heard), key) != ""


def written_defaults() -> Iterator[tuple[str, KeyRow]]:
    """Keys of the smallest plan whose default is a value."""
    for path, row in ROWS.items():
        if row.key is not None and row.default and not row.is_worded and "[]" not in path and "{}" not in path:
            yield path, row


@pytest.mark.parametrize(
    ("path", "row"), list(written_defaults()), ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_default_that_is_written_is_the_default(path: str, row: KeyRow, folder: Path) -> None:
    """Stating it changes who says it, and no value."""
    bases = {"pool.disaggregated": "apart", "pool.adapters": "adapted"}
    base = next((each for prefix, each in bases.items() if path.startswith(prefix)), "routed")
    document = read_yaml(BASES[base], file="plan.yaml")
    if path.startswith("cost.evaluation"):
        document = with_value(document, "cost.evaluation", "{share: 1%}")
    stated = spec_of(with_value(document, path, row.default), folder)
    assert values(stated) == values(spec_of(document, folder))


def values(spec: PlanSpec) -> list[object]:
    """Every value of a specification that a plan file can state, whoever says it."""
    reserves, lead = spec.reserves.inputs, (*spec.options.lead.inputs, spec.options.transfer)
    scaling = [each for each in vars(spec.scaling).values() if isinstance(each, Assumption)]
    inputs = (*spec.inputs, *reserves, *spec.admission.inputs, *spec.cost.inputs, *lead, spec.policy.margin, *scaling)
    return [
        sorted({(each.name, _plain(each.value), each.unit) for each in inputs}),
        [replace(each.settings, source=None, evidence=None, adapters=None) for each in spec.pools],  # type: ignore[arg-type]
        [None if (own := each.settings.adapters) is None else own.slowdown.value for each in spec.pools],
        spec.buying.tier,
    ]


def _plain(value: int | float | str) -> str:
    return value if isinstance(value, str) else f"{value:.9g}"


def test_a_context_below_what_a_class_may_send_is_refused(folder: Path) -> None:
    document = with_value(read_yaml(BASES["one"], file="plan.yaml"), "pool.max_context", "2048")
    with pytest.raises(
        InputError, match=r"pool\.max_context = '2048': is less than the 4096 tokens that chat may send"
    ):
        spec_of(document, folder)
    assert spec_of(with_value(document, "pool.max_context", "8192"), folder).pool.approved.context_tokens == 8192


# ---- what is refused -----------------------------------------------------------------------------------

# Of no kind, of another kind, and beyond every range.
WRONG = (
    "",
    "?",
    "-1",
    "0",
    "inf",
    "nan",
    "1e400",
    "9" * 400,
    "1e-300",
    "1 parsec",
    "[1, [2]]",
    "{a: {b: c}}",
    "x" * 300,
)
PARSER_WORDS = re.compile(r"[Ii]nput should|Correct the value|pydantic|<[a-z_.]+ object|Traceback|value_error|ctx")
CASE = [(base, key) for base, keys in CASES.items() for key in keys]


def refusal(folder: Path, base: str, key: str, value: str) -> tuple[str, dict[str, Any]] | None:
    """What the file with this value is refused with, and what the file says; nothing where it is taken."""
    changed = with_value(read_yaml(BASES[base], file="plan.yaml"), key, value).content
    file = folder / "plan.yaml"
    file.write_text(yaml.safe_dump(changed, sort_keys=False, allow_unicode=True))
    try:
        load_plan(file, as_of=AS_OF)
    except InputError as error:
        return str(error).replace(str(file), "plan.yaml"), changed
    return None


@pytest.mark.slow
@pytest.mark.parametrize(("base", "key"), CASE, ids=[f"{base}:{key}" for base, key in CASE])
def test_every_refusal_names_line_key_value_problem_and_fix(folder: Path, base: str, key: str) -> None:
    for value in WRONG[hash_of(key) % 3 :: 3]:
        found = refusal(folder, base, key, value)
        if found is None:
            continue
        message, content = found
        assert PARSER_WORDS.search(message) is None, message
        place = re.match(r"^plan\.yaml:(\d+): ([^=]+) = ", message)
        assert place is not None, message
        problem, _, fix = message.partition(": ")[2].partition(". ")
        assert problem, message
        assert fix, message
        line = (folder / "plan.yaml").read_text().splitlines()[int(place.group(1)) - 1]
        assert line.strip(), message
        # The key that is blamed stands in the file, or is one that the schema has and the file lacks.
        blamed = re.sub(r"(\.\d+|\.\?)$", "", re.sub(r": .*", "", place.group(2).strip()))
        assert find_path(PlanFile, content, blamed) or "is missing" in message


def hash_of(key: str) -> int:
    """The same third of the wrong values for a key every time; all of them over a few keys."""
    return sum(map(ord, key))
