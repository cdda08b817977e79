"""A first plan file, written from what a user has: each line has its origin, or what to decide.

The text is a plan file as it stands: it can be planned with before anything in it was changed.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from ullage.files.sections.policy import PolicySection
from ullage.files.sections.pool import PoolSection
from ullage.files.sections.section import Section, key_of, written
from ullage.foreign import visible, yaml_scalar

# SLOs to begin with. They are placeholders and the file says so: only the service's owner can make an SLO.
_SLO = "{ttft_p95: 1s, tpot_p95: 80ms}"


# What decides a plan and only the service's owner knows; until it is answered, the built-in profile answers.
_LENGTHS = (
    "How long are prompts and answers, in tokens? Plausible answers differ by several times the fleet.",
    "prompt: {p50: 1200, p95: 6000}",
    "output: {p50: 250, p95: 900}",
)
_CACHED = (
    "Which share of prompt tokens repeats an earlier prompt's prefix (system prompts, conversations)?",
    "cached_fraction: 40%",
)


@dataclass(frozen=True, kw_only=True)
class Found:
    """A value for the file, and where it was found; an empty `where` means that it is not stated."""

    value: str
    where: str


@dataclass(frozen=True, kw_only=True)
class StarterClass:
    """A class of requests: with a rate of its own, or found in a trace by its name."""

    name: str
    rate: Found | None
    longest_context: Found
    asks_lengths: bool = True
    asks_cached: bool = True


@dataclass(frozen=True, kw_only=True)
class Starter:
    """What is known before the first plan. Paths are as the user typed them, relative to the file's folder."""

    service: str
    dated: datetime.date
    classes: tuple[StarterClass, ...]
    traces: tuple[str, ...]
    profile: str | None
    model: Found
    device: Found
    tensor_parallel: Found
    engine: Found | None
    engine_version: Found | None
    load_tests: tuple[str, ...]
    anomalies: tuple[str, ...]
    engine_logs: tuple[str, ...]


def starter_text(starter: Starter) -> str:
    """The commented plan file."""
    lines = [
        "# A plan file of Ullage: ullage plan FILE. Every key is explained in docs/reference/plan-file.md.",
        "# What is left out has a sourced default, and the plan lists it as assumed.",
        "version: 1",
        f"service: {yaml_scalar(starter.service)}",
        f"dated: {starter.dated.isoformat()}  # when these values were stated; their age counts from here",
        "",
        "workload:",
        *_traffic(starter),
        "  classes:",
    ]
    for each in starter.classes:
        lines += _class(each)
    lines += ["", "pool:", _line("model", starter.model), _line("device", starter.device)]
    lines += [_line("tensor_parallel", starter.tensor_parallel)]
    if starter.engine is not None:
        lines.append(_line("engine", starter.engine))
    if starter.engine_version is not None:
        lines.append(_line("engine_version", starter.engine_version))
    lines += [
        *(f"  # {_default(PoolSection, name)}" for name in ("approved_concurrency", "storage")),
        "",
        *_evidence(starter),
        "",
        "policy:",
        *(f"  {_default(PolicySection, name)}" for name in ("horizon", "shortfall", "zones", "reconcile_every")),
    ]
    return "\n".join(lines) + "\n"


def _traffic(starter: Starter) -> list[str]:
    if starter.profile is not None:
        return [
            f"  profile: {yaml_scalar(starter.profile)}  # saved by ullage profile: rates, lengths, bursts, seasons"
        ]
    if starter.traces:
        return ["  # Rates, lengths, bursts and seasons come from these.", f"  trace: {_list(starter.traces)}"]
    return ["  # trace: [requests.csv]  # your request log: rates, lengths, bursts and seasons then come from it"]


def _class(each: StarterClass) -> list[str]:
    lines = [f"    - name: {yaml_scalar(each.name)}"]
    if each.rate is not None:
        lines.append(_line("rate", each.rate, indent=6))
    lines += [
        _line("longest_context", each.longest_context, indent=6),
        f"      slo: {_SLO}  # decide: these are placeholders, not your SLOs",
    ]
    asked = (*(_LENGTHS if each.asks_lengths else ()), *(_CACHED if each.asks_cached else ()))
    return [*lines, *(f"      # {line}" for line in asked)]


def _evidence(starter: Starter) -> list[str]:
    kinds = (
        ("load_tests", starter.load_tests, "results of your load tool: the step model is fitted to them"),
        ("engine_logs", starter.engine_logs, "start-up logs or /metrics dumps: memory as the engine has it"),
        ("startup_logs", (), "start-up logs: how long a start takes"),
    )
    said = [f"  {name}: {_list(paths)}" for name, paths, _ in kinds if paths]
    if starter.load_tests:
        said += [_tested("tested_device", starter.device), _tested("tested_tensor_parallel", starter.tensor_parallel)]
        said += [f"  # decide: {' '.join(each.split())}" for each in starter.anomalies]
    wanted = [f"  # {name}: [FILE]  # {what}" for name, paths, what in kinds if not paths]
    return [*(["evidence:"] if said else ["# evidence:  # measurements replace estimates"]), *said, *wanted]


def _tested(key: str, found: Found) -> str:
    """Where the load tests ran. What they do not state is to be decided: the pool's value is only the likeliest."""
    known = found.where.startswith(("the load test", "as the load test"))
    where = "where the load tests ran" if known else "decide: the load tests do not say where they ran"
    return _line(key, Found(value=found.value, where=f"{where}; on anything else they scale an estimate"))


def _default(section: type[Section], name: str) -> str:
    """A key with the default that stands in for it, and what it means."""
    key = key_of(section, name)
    assert key is not None
    assert key.assumed is not None
    return f"{name}: {written(key.assumed)}  # {key.means[0].lower()}{key.means[1:].rstrip('.')}"


def _line(key: str, found: Found, *, indent: int = 2) -> str:
    said = f"  # {visible(found.where)}" if found.where else ""
    return f"{' ' * indent}{key}: {yaml_scalar(found.value)}{said}"


def _list(values: tuple[str, ...]) -> str:
    return f"[{', '.join(yaml_scalar(each) for each in values)}]"
