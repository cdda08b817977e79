"""What a tool's own configuration says of a test, where it lies beside the result.

inference-perf keeps the law of its lengths, the prompts that it repeats, whether answers may end early, when its client
gives up and how many requests its workers send at once in config.yaml (or profile.yaml), beside its result or one
folder above; the launch arguments of the engine lie in exp-config.yaml, or with a recording of vLLM's timestamps in
meta.json. Of two files that state a thing the nearer one
counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ullage.bounded import bounded_bytes
from ullage.errors import InputError
from ullage.readers.loadtests.content import parse
from ullage.service.loadtests.loadtest import (
    LengthSummary,
    LoadTest,
    LoadTestSubject,
    Point,
    SharedPrefix,
    Tokens,
)

_NAMES = ("config.yaml", "config.yml", "profile.yaml", "profile.yml", "exp-config.yaml", "exp-config.yml", "meta.json")
_READERS = ("inference_perf", "inference_perf_requests", "engine_timestamps")
_MOST_BYTES = 1_000_000
# aiohttp, which the tool sends with, gives up after five minutes unless it is told otherwise.
_CLIENT_TIMEOUT_S = 300.0


@dataclass(frozen=True, kw_only=True)
class ToolConfiguration:
    """One configuration file: its name and what it holds."""

    file: str
    content: Mapping[str, Any]


def configurations_beside(path: Path) -> tuple[ToolConfiguration, ...]:
    """The configurations in the folder of a result and in the one above it, the nearest first."""
    found = []
    for folder in (path.parent, path.parent.parent):
        for name in _NAMES:
            file = folder / name
            if file != path and file.is_file() and file.stat().st_size <= _MOST_BYTES:
                try:
                    content = parse(bounded_bytes(file, fix="", most_bytes=_MOST_BYTES), file=str(file)).first
                except (OSError, InputError):
                    continue
                found.append(ToolConfiguration(file=file.name, content=content))
    return tuple(found)


def with_configurations(test: LoadTest, configurations: Sequence[ToolConfiguration]) -> LoadTest:
    """The test with what the configurations add to what the result says itself."""
    if test.reader not in _READERS or not configurations:
        return test
    return replace(test, points=tuple(_configured(point, configurations) for point in test.points))


def _configured(point: Point, configurations: Sequence[ToolConfiguration]) -> Point:
    def stated(*path: str) -> tuple[Any, str]:
        for each in configurations:
            value: Any = each.content
            for name in path:
                value = value.get(name) if isinstance(value, Mapping) else None
            if value is not None:
                return value, each.file
        return None, ""

    def first(*paths: tuple[str, ...]) -> tuple[Any, str]:
        return next((found for path in paths if (found := stated(*path))[0] is not None), (None, ""))

    subject, load, tokens = point.subject, point.load, point.tokens
    is_tool = stated("data", "type")[0] is not None
    timeout_s = _number(stated("load", "request_timeout")[0]) or (_CLIENT_TIMEOUT_S if is_tool else None)
    return replace(
        point,
        subject=_subject(subject, first),
        load=replace(
            load,
            timeout_s=load.timeout_s or timeout_s,
            concurrency_cap_count=load.concurrency_cap_count or _at_once(stated),
        ),
        tokens=_tokens(tokens, point.completed_count, stated),
    )


def _at_once(stated: Any) -> int | None:
    """Requests that the tool's workers have under way at most; the defaults of both depend on version and machine."""
    workers, each = (_whole(stated("load", name)[0]) for name in ("num_workers", "worker_max_concurrency"))
    return workers * each if workers and each else None


def _subject(subject: LoadTestSubject, first: Any) -> LoadTestSubject:
    model, engine = first(("server", "model_name"), ("model",))[0], first(("server", "type"))[0]

    def argument(name: str) -> int | None:
        return _whole(first((name,), ("engine_kwargs", name))[0])

    version = first(("vllm_version",))[0]
    return replace(
        subject,
        model=subject.model or (model if isinstance(model, str) else None),
        engine=subject.engine or (engine if isinstance(engine, str) else None),
        engine_version=subject.engine_version or (version if isinstance(version, str) else None),
        tp=subject.tp or argument("tensor_parallelism") or argument("tensor_parallel_size"),
        max_sequences=subject.max_sequences or argument("max_num_seqs"),
        step_tokens=subject.step_tokens or argument("max_num_batched_tokens"),
    )


def _tokens(tokens: Tokens, completed: int | None, stated: Any) -> Tokens:
    layout = None
    if stated("data", "type")[0] == "shared_prefix":
        shared, file = stated("data", "shared_prefix")
        names = (("num_groups", "num_unique_system_prompts"), ("num_prompts_per_group", "num_users_per_system_prompt"))
        groups, each = (_whole(shared.get(new) or shared.get(old)) for new, old in names)
        prefix = _whole(shared.get("system_prompt_len"))
        if groups and each and prefix is not None:
            layout = SharedPrefix(groups=groups, prompts_per_group=each, prefix_tokens=prefix, said_by=file)
    if layout is not None and tokens.cached_prompt_tokens is None and tokens.cached_fraction is None:
        tokens = replace(tokens, shared_prefix=layout)
    output = _number(stated("data", "shared_prefix", "output_len")[0])
    if not output or stated("server", "ignore_eos")[0] is not True:
        return tokens
    # Answers that may not end early are as long as they were asked to be, whatever a client's tokenizer makes of them.
    return replace(
        tokens,
        output_tokens=None if completed is None else output * completed,
        other_output_tokens=tokens.output_tokens,
        nominal_output_tokens=output,
        output_lengths=LengthSummary(mean_tokens=output, std_tokens=0.0, min_tokens=output, max_tokens=output),
    )


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and value > 0 else None


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
