"""`emit`: a plan in, the files that a cluster, a gateway and a monitoring stack take out."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError, Rejection
from ullage.execute.run import Progress, RunContext, running, silent
from ullage.load.changes import NO_CHANGES, Changes, SetValues, parse_changes
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.emit.drift import ManifestDrift
    from ullage.emit.numbers import PlanNumbers
    from ullage.emit.tree import EmittedFile
    from ullage.files.plan_file import PlanFile
    from ullage.load.plan import PlanSource
    from ullage.verbs.answer import Refusal

_STORED_FIX = "Give the file that ullage plan --json wrote for this plan file."


@dataclass(frozen=True, kw_only=True, repr=False)
class Emitted(VerbAnswer):
    """Files made from a plan. `compared` is the folder that they were compared with, and `drift` what differs there."""

    service: str
    as_of: datetime.date
    seed: int
    targets: tuple[str, ...]
    files: tuple[EmittedFile, ...]
    compared: str
    drift: tuple[ManifestDrift, ...]
    difference: str

    def headlines(self) -> tuple[Headline, ...]:
        found = [Headline(name="files", value=len(self.files))]
        return (*found, Headline(name="not as planned", value=len(self.drift))) if self.compared else tuple(found)

    def page(self) -> list[RenderableType]:
        from ullage.report.decisions.emit_page import emit_page

        rows = [(each.object, each.place, each.planned, each.found) for each in self.drift]
        lines = {each.name: each.text.count("\n") for each in self.files}
        return emit_page(f"the plan for {self.service} of {self.as_of}", lines, self.compared, rows)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        return document("emit", self, as_of=self.as_of, seed=self.seed, service=self.service)

    def write(self, folder: str | Path, *, force: bool = False) -> None:
        """Write every file into a folder, or none of them."""
        from ullage.files.whole import write_set

        write_set(Path(folder), {each.name: each.text for each in self.files}, field="--out", force=force)


def emit(
    source: PlanSource = None,
    targets: Sequence[str] = (),
    *,
    stored: str | Path | None = None,
    against: str | Path | None = None,
    searched: bool = False,
    set: SetValues = (),  # noqa: A002
    traffic: str | float | None = None,
    as_of: datetime.date | None = None,
    seed: int = 0,
    limit: str | None = None,
    workers: int | None = None,
    progress: Progress = silent,
) -> Emitted | Refusal:
    """Make the files of these targets from a plan, planned now or `stored` as JSON; `against` is a folder to compare.

    With `searched` the scaling rule is searched as `scale` does, and the plan is made with the one that was found.
    Names, labels and addresses come from the plan file's `emit` section. A target that is not known, or that lacks a
    name it writes, is an error before anything is written.
    """
    from ullage.emit.numbers import plan_numbers
    from ullage.emit.targets import check_target_name, emit_files, sends
    from ullage.load.mixes import pool_mixes

    if not targets:
        raise InputError(
            field="--target", value=None, problem="is missing", fix="Name one or more: ullage emit --list."
        )
    for name in targets:
        check_target_name(name)
    changes = parse_changes(set, traffic)
    if stored is not None and searched:
        raise InputError(
            field="--searched", value=True, problem="asks for a different rule than the stored plan has",
            fix="Leave out --plan, and plan again.",
        )  # fmt: skip
    if stored is not None and changes != NO_CHANGES:
        problem = "would change a plan that is already made"
        raise InputError(
            field="--set", value=str(changes.texts), problem=problem, fix="Leave out --plan, and plan again."
        )
    with running(as_of=as_of, seed=seed, limit=limit, workers=workers, progress=progress) as run:
        file, settings = _names(source, run, changes)
        _require_colocated(file)
        if stored is None:
            found = _planned(source, run, changes, searched=searched)
            if isinstance(found, Rejection):
                return found
            numbers = plan_numbers(found, file="plan")
        else:
            numbers = _stored(Path(stored))
            _check_same(file, numbers, str(stored))
        mixes = pool_mixes(source, as_of=numbers.as_of, seed=numbers.seed, changes=changes) if sends(targets) else {}
    made = emit_files(numbers, _choices(file), settings, targets, mixes)
    there = {} if against is None else _there(Path(against), made)
    return Emitted(
        service=numbers.service,
        as_of=numbers.as_of,
        seed=numbers.seed,
        targets=tuple(targets),
        files=made,
        compared="" if against is None else str(against),
        drift=() if against is None else _drift(made, there),
        difference="" if against is None else _difference(made, there),
    )


def _require_colocated(file: PlanFile) -> None:
    """Engines of two sides are started with roles and a connector between them, which no target writes."""
    from ullage.files.sections.pool import POOL

    for each in file.every_pool:
        if each.disaggregated is not None:
            raise InputError(
                field="pool.disaggregated",
                value=each.name or POOL,
                problem="is disaggregated, and no target writes the roles and the KV connector",
                fix="Take replicas and machines of each side from ullage plan; write their manifests by hand.",
            )


def _planned(source: PlanSource, run: RunContext, changes: Changes, *, searched: bool) -> dict[str, Any] | Refusal:
    from ullage.verbs.plan import planned
    from ullage.verbs.scale import SEARCH_DAYS, searched_settings

    found = planned(source, run, changes, played_days=SEARCH_DAYS if searched else 0)
    if searched and not isinstance(found, Rejection):
        rule = parse_changes(searched_settings(found))
        found = planned(source, run, replace(changes, values=(*changes.values, *rule.values)))
    return found if isinstance(found, Rejection) else found.to_dict()


def _stored(file: Path) -> PlanNumbers:
    from ullage.documents import json_value
    from ullage.emit.numbers import plan_numbers
    from ullage.load.texts import read_text

    text = read_text(file, fix=_STORED_FIX)
    return plan_numbers(json_value(text, file=str(file), fix=_STORED_FIX), file=str(file))


def _names(source: PlanSource, run: RunContext, changes: Changes) -> tuple[PlanFile, Any]:
    """The plan file, and the names in it; neither its traces nor its evidence are read."""
    from ullage.files.plan_file import read_plan_document
    from ullage.files.sections.emit import emit_of
    from ullage.files.sections.pool import POOL
    from ullage.files.sections.provenance import file_provenance
    from ullage.load.located import located
    from ullage.load.plan import plan_document

    document = plan_document(source, changes)
    read = read_plan_document(document)
    said = file_provenance(file=document.file, dated=read.dated or run.as_of, is_example=source is None)
    with located(lambda: document):
        return read, emit_of(read.emit, tuple(each.name or POOL for each in read.every_pool), said)


def _choices(file: PlanFile) -> Mapping[str, Any]:
    """How the plan file starts each pool's engine."""
    from ullage.emit.request import EngineChoice
    from ullage.files.sections.pool import POOL
    from ullage.memory.sharding import Sharding

    return {
        each.name or POOL: EngineChoice(
            engine=each.value("engine"),
            sharding=Sharding(
                tp=each.value("tensor_parallel"), pp=each.value("pipeline_parallel"), ep=each.value("expert_parallel")
            ),
            version=each.engine_version,
            budget_tokens=each.token_budget,
            drafting=None if each.speculation is None else (each.speculation.method, each.speculation.tokens),
            adapters=None if each.adapters is None else (each.adapters.slots, each.adapters.rank),
        )
        for each in file.every_pool
    }


def _check_same(file: PlanFile, stored: PlanNumbers, name: str) -> None:
    """A plan that was made from another file has other numbers: refuse it by the first that differs."""
    from ullage.files.sections.pool import POOL

    def differs(field: str, said: object, was: object) -> InputError:
        problem = f"the stored plan was made with {was}, and the plan file says {said}"
        return InputError(field=f"{name}: {field}", value=was, problem=problem, fix="Plan again, and store that plan.")

    if stored.service != file.service:
        raise differs("service", file.service, stored.service)
    # In which order a file lists them is nobody's number, and a plan has an order of its own.
    pools = sorted(each.name or POOL for each in file.every_pool)
    if sorted(stored.pools) != pools:
        raise differs("pools", ", ".join(pools), ", ".join(sorted(stored.pools)))
    classes = sorted(f"{each.name} (priority {each.priority})" for each in file.workload.classes)
    kept = sorted(f"{each.name} (priority {each.priority})" for each in stored.classes)
    if kept != classes:
        raise differs("classes", ", ".join(classes), ", ".join(kept))
    for pool in file.every_pool:
        prefix = "pool" if len(pools) == 1 else f"{pool.name}.pool"
        for key in ("model", "device", "engine", "tensor_parallel"):
            was = stored.numbers.get(f"{prefix}.{key}")
            if was is not None and str(was.value) != str(pool.value(key)):
                raise differs(f"{prefix}.{key}", pool.value(key), was.value)


def _there(folder: Path, made: Sequence[EmittedFile]) -> dict[str, str]:
    """The texts of a folder: its YAML, and files of the names that would be written."""
    if not folder.is_dir():
        raise InputError(field="--diff", value=str(folder), problem="is not a folder", fix="Give one with manifests.")
    names = {each.name for each in made}
    found = [each for each in sorted(folder.iterdir()) if each.suffix in (".yaml", ".yml") or each.name in names]
    from ullage.load.texts import read_text

    fix = "Fix or remove the file, or give another folder."
    return {each.name: read_text(each, fix=fix, field="--diff") for each in found if each.is_file()}


def _drift(made: Sequence[EmittedFile], there: Mapping[str, str]) -> tuple[ManifestDrift, ...]:
    from ullage.emit.drift import drift

    return drift(made, there)


def _difference(made: Sequence[EmittedFile], there: Mapping[str, str]) -> str:
    """What writing the files over those of a folder would change, line by line, as a patch shows it."""
    import difflib

    lines: list[str] = []
    for each in made:
        was, now = there.get(each.name, "").splitlines(), each.text.splitlines()
        lines += difflib.unified_diff(was, now, f"a/{each.name}", f"b/{each.name}", lineterm="")
    return "\n".join(lines)
