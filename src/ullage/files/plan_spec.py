"""A plan file as the value the core plans from: statements become assumptions, gaps become named defaults."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, replace

from ullage.admission.start import MeasuredStart, StartSettings
from ullage.errors import InputError, unknown_name
from ullage.evidence import Assumption, Evidence, Source
from ullage.facts.catalogue import Catalogue
from ullage.facts.device import Device
from ullage.facts.model import Model
from ullage.facts.startup import STORAGES
from ullage.files.plan_file import ClassSection, PlanFile, PoolSection
from ullage.memory.case import Approved
from ullage.memory.engine_word import EngineMemory
from ullage.memory.settings import RuntimeSettings
from ullage.memory.sharding import Sharding
from ullage.plan.spec import ClassDemand, PlanSpec, Policy, PoolSpec, promises
from ullage.workload.classes import ClassRule, Metric, RequestClass, Slo
from ullage.workload.traffic import Traffic

_DAY_S = 86_400.0

# The defaults of a plan file, each once, with its reason.
HORIZON_S = 30 * _DAY_S  # a month is what capacity is ordered for
PLANNING_FRACTION = 0.95  # one hour in twenty may exceed the plan; reserves are added on top, not hidden in it
ZONES = 1  # a second zone is a decision with a price, so it is not assumed
RECONCILE_S = 7 * _DAY_S  # a week holds every day of the week once
TENSOR_PARALLEL = 1
ENGINE = "vllm"  # the engine most request logs and load tests come from
STORAGE = "shared-filesystem"  # what a new node shares with the others; the published clusters read from NFS
APPROVED_CONCURRENCY = 1  # an engine refuses to start unless one request of the longest context fits


@dataclass(frozen=True, kw_only=True)
class Word:
    """Whose word the file's statements are."""

    evidence: Evidence
    source: Source
    defaults: Source

    def decides(self, name: str, value: float | None, unit: str, default: float) -> Assumption:
        """As `says`, for what is chosen and not known."""
        return replace(self.says(name, value, unit, default), decision=True)

    def says(self, name: str, value: int | float | str | None, unit: str, default: int | float | str) -> Assumption:
        """A statement of the file or, where it says nothing, the default, marked as ours."""
        if value is None:
            return Assumption(name=name, value=default, unit=unit, evidence=Evidence.ASSUMED, source=self.defaults)
        return Assumption(name=name, value=value, unit=unit, evidence=self.evidence, source=self.source)


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """What the names in the file stand for."""

    model: Model
    device: Device
    word: EngineMemory | None
    engines: Catalogue
    alternatives: tuple[Device, ...]
    traffic: Traffic | None = None
    starts: tuple[MeasuredStart, ...] = ()
    startups: Catalogue | None = None


def word_of(*, file: str, dated: datetime.date, is_example: bool) -> Word:
    """The user's word, or ours for the built-in example, which is about nobody's system."""
    source = (
        Source(what="built-in example, made up", where="docs/reference/example.md", date=dated)
        if is_example
        else Source(what="plan file", where=file, date=dated)
    )
    return Word(
        evidence=Evidence.ASSUMED if is_example else Evidence.STATED,
        source=source,
        defaults=Source(
            what="default of Ullage", where="docs/reference/plan-file.md", date=datetime.date(2026, 11, 15)
        ),
    )


def spec_of(file: PlanFile, loaded: Loaded, word: Word) -> PlanSpec:
    """The specification; a class named twice or a promise that is none is an InputError."""
    names = [each.name for each in file.workload.classes]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                field="workload.classes", value=name, problem="is named twice", fix="Give each class its own name."
            )
    return PlanSpec(
        name=file.service,
        traffic=loaded.traffic,
        demands=tuple(_demand(each, loaded.traffic, word) for each in file.workload.classes),
        pool=_pool(file, loaded, word),
        policy=_policy(file, word),
    )


def request_class(section: ClassSection) -> RequestClass:
    """A class as the workload knows it: its promises, and the rule that finds its requests in a trace."""
    return RequestClass(
        name=section.name,
        slos=tuple(_slo(section.name, promise, limit_s) for promise, limit_s in section.slo.items()),
        priority=section.priority,
        rule=None if section.match is None else ClassRule(**section.match.model_dump()),
    )


def _demand(section: ClassSection, traffic: Traffic | None, word: Word) -> ClassDemand:
    name = section.name
    found = request_class(section)
    return ClassDemand(
        request_class=found,
        promises=promises(found, evidence=word.evidence, source=word.source),
        mean_rate=_mean_rate(section, traffic, word),
        longest_context=word.says(f"{name}.longest_context", section.longest_context, "tokens", 0),
    )


def _mean_rate(section: ClassSection, traffic: Traffic | None, word: Word) -> Assumption:
    """The rate has one word behind it: the trace's, or the file's."""
    field, name = f"workload.classes.{section.name}.rate", f"{section.name}.mean_rate"
    if section.rate is None and traffic is None:
        raise InputError(field=field, value=None, problem="is missing", fix="Give a rate such as 12 req/s, or a trace.")
    if section.rate is not None and traffic is not None:
        problem = "is given beside a trace, which says it too"
        raise InputError(field=field, value=section.rate, problem=problem, fix="Leave out one of the two.")
    if traffic is None:
        return word.says(name, section.rate, "req/s", 0)
    rate = traffic.mean_rates_rps[section.name]
    return Assumption(name=name, value=rate, unit="req/s", evidence=Evidence.MEASURED, source=traffic.source)


def _slo(name: str, promise: str, limit_s: float) -> Slo:
    found = re.fullmatch(r"(ttft|tpot|itl|e2e)_p(\d+(?:\.\d+)?)", promise)
    if found is None:
        raise InputError(
            field=f"workload.classes.{name}.slo",
            value=promise,
            problem="is not a metric and a percentile",
            fix="Write ttft, tpot, itl or e2e and the percentile, for example ttft_p95.",
        )
    return Slo(metric=Metric(found.group(1)), percentile_fraction=float(found.group(2)) / 100, limit_s=limit_s)


def _pool(file: PlanFile, loaded: Loaded, word: Word) -> PoolSpec:
    pool = file.pool
    engine = word.says("pool.engine", pool.engine, "", ENGINE)
    tp = word.says("pool.tensor_parallel", pool.tensor_parallel, "devices", TENSOR_PARALLEL)
    concurrency = word.says("pool.approved_concurrency", pool.approved_concurrency, "requests", APPROVED_CONCURRENCY)
    longest = max(each.longest_context for each in file.workload.classes)
    start = _start(pool, loaded, word)
    choices = [
        word.says("pool.model", pool.model, "", ""),
        engine,
        *([] if pool.engine_version is None else [word.says("pool.engine_version", pool.engine_version, "", "")]),
        word.says("pool.device", pool.device, "", ""),
        tp,
        concurrency,
        start.storage,
        *([] if start.bandwidth is None else [start.bandwidth]),
    ]
    return PoolSpec(
        choices=tuple(choices),
        model=loaded.model,
        device=loaded.device,
        settings=_settings(pool, str(engine.value), int(tp.value), longest, word),
        approved=Approved(context_tokens=longest, sequences=int(concurrency.value)),
        start=start,
        word=loaded.word,
        engines=loaded.engines,
        alternatives=loaded.alternatives,
    )


def _start(pool: PoolSection, loaded: Loaded, word: Word) -> StartSettings:
    if pool.storage is not None and pool.storage not in STORAGES:
        raise unknown_name(field="pool.storage", name=pool.storage, known=STORAGES)
    rate = pool.storage_bandwidth
    return StartSettings(
        storage=word.says("pool.storage", pool.storage, "", STORAGE),
        bandwidth=None if rate is None else word.says("pool.storage_bandwidth", rate, "bytes/s", rate),
        measured=loaded.starts,
        sheets=loaded.startups,
    )


def _settings(pool: PoolSection, engine: str, tp: int, longest_tokens: int, word: Word) -> RuntimeSettings:
    return RuntimeSettings(
        source=word.source,
        evidence=word.evidence,
        engine=engine,
        version=pool.engine_version,
        sharding=Sharding(tp=tp, pp=pool.pipeline_parallel or 1, ep=pool.expert_parallel or 1),
        memory_fraction=pool.memory_fraction,
        step_tokens=pool.token_budget,
        max_sequences=pool.max_sequences,
        kv_dtype=pool.kv_dtype,
        # An engine started for more context than any class may use would set memory aside for nothing.
        max_context_tokens=pool.max_context or longest_tokens,
    )


def _policy(file: PlanFile, word: Word) -> Policy:
    policy = file.policy
    return Policy(
        horizon=word.decides("policy.horizon", policy.horizon, "s", HORIZON_S),
        planning_percentile=word.decides(
            "policy.planning_percentile", policy.planning_percentile, "fraction", PLANNING_FRACTION
        ),
        zones=word.decides("policy.zones", policy.zones, "zones", ZONES),
        reconcile_every=word.decides("policy.reconcile_every", policy.reconcile_every, "s", RECONCILE_S),
    )
