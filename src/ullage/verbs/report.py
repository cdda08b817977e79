"""`report`: a plan in, one HTML file with charts out."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError, Rejection
from ullage.execute.run import Progress, running, silent
from ullage.load.changes import NO_CHANGES, SetValues, parse_changes
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.load.plan import PlanSource
    from ullage.verbs.answer import Refusal

_FIX = "Give a plan file, or what ullage plan --json wrote."
# As tall as a notebook's window on a laptop.
_FRAME_PIXELS = 800


@dataclass(frozen=True, kw_only=True, repr=False)
class ReportAnswer(VerbAnswer):
    """A plan's document and the page that shows it."""

    document: Mapping[str, Any]
    html: str

    def dated(self) -> datetime.date:
        return datetime.date.fromisoformat(self.document["as_of"])

    def headlines(self) -> tuple[Headline, ...]:
        return (
            Headline(name="service", value=str(self.document["service"])),
            Headline(name="verdict", value=str(self.document["summary"]["verdict"])),
            Headline(name="size", value=len(self.html), unit="bytes"),
        )

    def page(self) -> list[RenderableType]:
        return [f"{each.name}: {each.text}" for each in self.headlines()]

    def to_dict(self) -> dict[str, Any]:
        return dict(self.document)

    def _repr_html_(self) -> str:
        """The report itself in a notebook, in a frame of its own that may run its script and nothing else."""
        import html

        held = html.escape(self.html, quote=True)
        return f'<iframe sandbox="allow-scripts" srcdoc="{held}" width="100%" height="{_FRAME_PIXELS}"></iframe>'

    def write(self, file: str | Path, *, force: bool = False) -> None:
        """Write the page, whole or not at all."""
        from ullage.files.whole import write_whole

        write_whole(Path(file), self.html, field="--out", force=force)


def report(
    source: PlanSource = None,
    *,
    set: SetValues = (),  # noqa: A002
    traffic: str | float | None = None,
    drills: str | Path | None = None,
    reconciled: str | Path | None = None,
    ledger: str | Path | None = None,
    as_of: datetime.date | None = None,
    seed: int = 0,
    limit: str | None = None,
    workers: int | None = None,
    progress: Progress = silent,
) -> ReportAnswer | Refusal:
    """A plan as one HTML page: planned now, or read back where the source is what `ullage plan --json` wrote.

    Views are added for `drills`, what `ullage drill --json` wrote, and for `reconciled`, what `ullage reconcile --json`
    wrote or the name of a reconciliation in the ledger.
    """
    from ullage.report.html_report import html_report, report_page
    from ullage.verbs.plan import planned

    # Refused before the minutes that a plan takes.
    page = report_page()
    beside = _beside(drills, reconciled, ledger)
    changes = parse_changes(set, traffic)
    document = _stored(source)
    if document is not None and changes != NO_CHANGES:
        problem = "would change a plan that is already made"
        raise InputError(field="--set", value=str(changes.texts), problem=problem, fix="Give the plan file instead.")
    if document is None:
        with running(as_of=as_of, seed=seed, limit=limit, workers=workers, progress=progress) as run:
            found = planned(source, run, changes, studied=True)
        if isinstance(found, Rejection):
            return found
        document = found.to_dict()
    _check_service(document, beside)
    return ReportAnswer(document=document, html=html_report(document, page, beside=beside))


def _beside(
    drills: str | Path | None, reconciled: str | Path | None, ledger: str | Path | None
) -> dict[str, Mapping[str, Any]]:
    """What the page shows beside the plan, under the names that its views know."""
    found: dict[str, Mapping[str, Any]] = {}
    if drills is not None:
        found["drilled"] = _answer_of("drill", "results", Path(drills), field="--drills")
    if reconciled is not None and Path(reconciled).is_file():
        found["reconciled"] = _answer_of("reconcile", "found", Path(reconciled), field="--reconciled")
    elif reconciled is not None:
        from ullage.ledger.body import EntryKind
        from ullage.ledger.ledger import opened
        from ullage.verbs.ledger import ledger_address

        with opened(ledger_address(ledger)) as kept:
            entry = kept.find(str(reconciled), kind=EntryKind.RECONCILIATION)
            found["reconciled"] = {"found": kept.body(entry.digest).content, "updates": []}
    return found


def _answer_of(verb: str, part: str, file: Path, *, field: str) -> Mapping[str, Any]:
    """What a verb printed with --json, held to be of that verb."""
    from ullage.documents import json_value
    from ullage.load.texts import read_text
    from ullage.report.encode import schema_name

    fix = f"Give a file that ullage {verb} --json wrote."
    found = json_value(read_text(file, fix=fix), file=str(file), fix=fix)
    if not isinstance(found, dict) or found.get("schema") != schema_name(verb) or part not in found:
        said = found.get("schema") if isinstance(found, dict) else type(found).__name__
        raise InputError(field=field, value=said, problem=f"is not an answer of ullage {verb}", fix=fix)
    return found


def _check_service(document: Mapping[str, Any], beside: Mapping[str, Mapping[str, Any]]) -> None:
    """Drills and production of another service say nothing about this plan."""
    for name, each in beside.items():
        service = each["found"].get("service") if name == "reconciled" else each.get("service")
        if service != document["service"]:
            field = "--reconciled" if name == "reconciled" else "--drills"
            problem = f"belongs to another service than the plan, which is {document['service']}"
            raise InputError(field=field, value=service, problem=problem, fix="Give the file of this plan's service.")


def _stored(source: PlanSource) -> dict[str, Any] | None:
    """The document in a JSON file, held to what a plan's document is; None where the source is a plan."""
    from ullage.documents import json_value
    from ullage.files.plan_record import read_plan_record
    from ullage.load.texts import read_text

    if source is None or isinstance(source, Mapping):
        return None
    text = read_text(Path(source), fix=_FIX)
    if not text.lstrip().startswith("{"):
        return None
    read_plan_record(text, file=str(source))
    found: dict[str, Any] = json_value(text, file=str(source), fix=_FIX)
    return found
