"""`ledger`: stored entries listed, shown, compared, exported, imported, verified and pruned."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError, NotGiven, check_name, unknown_name
from ullage.load.scored_bands import LEDGER_VARIABLE
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.evidence import Assumption
    from ullage.ledger.body import EntryBody
    from ullage.ledger.ledger import Damage, KeptEntry, Ledger
    from ullage.load.changes import Changes
    from ullage.load.plan import PlanSource
    from ullage.planning.document import Plan
    from ullage.reconcile.score import LastReconciled
    from ullage.verbs.plan_answer import DifferenceAnswer

LISTED = 20


@dataclass(frozen=True, kw_only=True, repr=False)
class LedgerAnswer(VerbAnswer):
    """What an action on a ledger found: entries, the content of one, damage, and how many were seen and new."""

    action: str
    place: str
    entries: tuple[KeptEntry, ...] = ()
    content: Mapping[str, Any] | None = None
    damage: tuple[Damage, ...] = ()
    seen_count: int = 0
    new_count: int = 0
    notes: tuple[str, ...] = field(default=())

    def headlines(self) -> tuple[Headline, ...]:
        return (
            Headline(name=self.action, value=len(self.entries) or self.seen_count, unit="entries"),
            Headline(name="damaged", value=len(self.damage)),
        )

    def page(self) -> list[RenderableType]:
        from ullage.report.decisions.ledger_page import damage_table, entries_table, entry_page, said

        if self.content is not None:
            return entry_page(f"{self.entries[0].kind} {self.entries[0].digest}", self.content)
        title = f"{self.action.capitalize()}: {self.place}"
        rows = [
            (each.digest, str(each.kind), each.service, each.as_of, each.kept_at[:16], each.removed_by or each.summary)
            for each in self.entries
        ]
        if self.action in ("list", "prune"):
            return [*entries_table(title, rows), *said(*self.notes)]
        done = {
            "export": f"{self.seen_count} entries written to {self.place}.",
            "import": f"{self.seen_count} entries read, {self.new_count} of them new in {self.place}.",
            "verify": f"{self.seen_count} entries checked in {self.place}: {len(self.damage)} damaged.",
        }
        return [
            *said(done.get(self.action, ""), *self.notes),
            *damage_table([(e.digest, e.problem) for e in self.damage]),
        ]

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        return document("ledger", self)


@dataclass(frozen=True, kw_only=True)
class LedgerAsked:
    """What the actions are asked with."""

    names: tuple[str, ...]
    kind: str | None
    service: str | None
    most: int | None
    out: Path | None
    force: bool
    newest_entries: int | None
    younger: str | None
    really: bool
    at: datetime.datetime


def ledger(
    action: str = "list",
    names: Sequence[str | Path] = (),
    *,
    ledger: str | Path | None = None,
    kind: str | None = None,
    service: str | None = None,
    most: int | None = LISTED,
    out: str | Path | None = None,
    force: bool = False,
    newest: int | None = None,
    younger: str | None = None,
    really: bool = False,
) -> LedgerAnswer | DifferenceAnswer:
    """Do one of `ACTIONS` on a ledger: a file or address, `ULLAGE_LEDGER` or the user's own where it is None.

    `names` are entries (the first digits of their digests, or `latest`), for `import` files that `export` wrote.
    `newest` and `younger` are what `prune` keeps; it only says what it would remove unless `really`.
    """
    from ullage.ledger.ledger import opened

    check_name(action, ACTIONS, field="action")
    asked = LedgerAsked(
        names=tuple(str(each) for each in names),
        kind=kind,
        service=service,
        most=most,
        out=None if out is None else Path(out),
        force=force,
        newest_entries=newest,
        younger=younger,
        really=really,
        at=datetime.datetime.now(tz=datetime.UTC),
    )
    if action == "import":
        _check_import(asked)
    with opened(ledger_address(ledger, create=action == "import"), create=action == "import") as found:
        return ACTIONS[action](found, asked)


def ledger_address(given: str | Path | None = None, *, create: bool = False) -> str:
    """The ledger that was named, that of the environment, or the user's own; its folder is made where it is created."""
    from ullage.files.whole import make_folder

    said = os.environ.get(LEDGER_VARIABLE, "") if given is None else str(given)
    if said:
        return said
    home = os.environ.get("XDG_DATA_HOME") or (f"{os.environ['HOME']}/.local/share" if "HOME" in os.environ else "")
    if not home:
        fix = f"Name one with --ledger or {LEDGER_VARIABLE}."
        raise InputError(field="ledger", value="", problem="has no location: there is no home folder", fix=fix)
    file = Path(home) / "ullage" / "ledger.sqlite"
    if create:
        make_folder(file.parent, field="ledger")
    return str(file)


def keep_plan(
    plan: Plan, source: PlanSource, changes: Changes, *, ledger: str | Path | None = None
) -> tuple[str, str, bool]:
    """Keep a plan with what it was made from: its name, the ledger's place, and whether it is new there."""
    from ullage.ledger.ledger import opened

    body = plan_body(plan, source, changes)
    with opened(ledger_address(ledger, create=True), create=True) as found:
        is_new = found.keep(body, at=datetime.datetime.now(tz=datetime.UTC))
        return body.digest, found.place, is_new


def plan_body(plan: Plan, source: PlanSource, changes: Changes) -> EntryBody:
    """A plan as it is kept: the document, the plan file as it was read, and what production is to be compared with."""
    from importlib import import_module

    from ullage.ledger.body import EntryBody, EntryKind
    from ullage.load.plan import plan_document
    from ullage.reconcile.expectation import expectation_of
    from ullage.report.encode import to_json
    from ullage.report.plan.json_document import plan_json
    from ullage.verbs.plan_answer import plan_headlines

    content = {
        "program": str(import_module("ullage").__version__),
        "seed": plan.seed,
        "document": plan_json(plan),
        "source": {
            "content": plan_document(source, changes).content,
            "traffic_ratio": changes.traffic_ratio,
            "text": plan_text(source),
        },
        "expectation": to_json(expectation_of(plan)),
    }
    return EntryBody(
        kind=EntryKind.PLAN,
        service=plan.spec.name,
        as_of=plan.as_of.isoformat(),
        summary=", ".join(f"{each.name} {each.text}" for each in plan_headlines(plan)),
        content=json.loads(json.dumps(content, allow_nan=False)),
    )


def plan_text(source: PlanSource) -> str:
    """The plan file as it was typed, comments and all; nothing where it never was a file."""
    from ullage.load.texts import read_text

    return read_text(Path(source), fix="Give a plan file.") if isinstance(source, str | Path) else ""


def last_of(service: str, bands: Sequence[Assumption] = ()) -> LastReconciled | NotGiven:
    """The last reconciliation of a service in the ledger that `ULLAGE_LEDGER` names, as a stage of its next plan.

    `bands` are what the plan made its forecasts wider or narrower by. Without the variable no ledger is looked at: a
    plan rests on what it is given.
    """
    from ullage.reconcile.score import last_reconciled

    said = os.environ.get(LEDGER_VARIABLE, "")
    if not said or ("://" not in said and not Path(said).exists()):
        return last_reconciled(None)
    from ullage.ledger.body import EntryKind
    from ullage.ledger.ledger import opened

    with opened(said) as found:
        newest = found.entries(kind=EntryKind.RECONCILIATION, service=service, most=1)
        if not newest or newest[0].removed_by:
            return last_reconciled(None)
        return last_reconciled(found.body(newest[0].digest).content, digest=newest[0].digest, bands=bands)


def _list(ledger: Ledger, asked: LedgerAsked) -> LedgerAnswer:
    from ullage.ledger.body import EntryKind

    _no_names(asked, "list")
    known = {each.value: each for each in EntryKind}
    if asked.kind is not None and asked.kind not in known:
        raise unknown_name(field="--kind", name=asked.kind, known=known)
    kind = None if asked.kind is None else known[asked.kind]
    found = ledger.entries(kind=kind, service=asked.service, most=asked.most)
    return LedgerAnswer(action="list", place=ledger.place, entries=tuple(found), seen_count=len(found))


def _show(ledger: Ledger, asked: LedgerAsked) -> LedgerAnswer:
    (name,) = _names(asked, "show", 1, "Give the name of one entry, or latest.")
    entry = ledger.find(name)
    return LedgerAnswer(
        action="show", place=ledger.place, entries=(entry,), content=ledger.body(entry.digest).content, seen_count=1
    )


def _diff(ledger: Ledger, asked: LedgerAsked) -> DifferenceAnswer:
    from ullage.planning.differences.difference import difference
    from ullage.verbs.plan_answer import DifferenceAnswer

    old, new = _names(asked, "diff", 2, "Give the names of two plans, the older first.")
    return DifferenceAnswer(**vars(difference(*(kept_record(ledger, each) for each in (old, new)))))


def kept_record(ledger: Ledger, name: str) -> Any:
    """The numbers of a plan that was kept, as two plans are compared by."""
    from ullage.files.plan_record import read_plan_record
    from ullage.ledger.body import EntryKind

    entry = ledger.find(name, kind=EntryKind.PLAN)
    text = json.dumps(ledger.body(entry.digest).content.get("document"))
    return read_plan_record(text, file=f"ledger: {entry.digest[:12]}")


def _export(ledger: Ledger, asked: LedgerAsked) -> LedgerAnswer:
    """One entry a line, the oldest first; what went by a rule is not in it."""
    from ullage.files.whole import check_target, write_whole

    if asked.out is None:
        raise InputError(field="--out", value=None, problem="is missing", fix="Give a file: --out ledger.jsonl.")
    check_target(asked.out, field="--out", force=asked.force)
    entries = [ledger.find(each) for each in asked.names] or list(reversed(ledger.entries()))
    kept = [each for each in entries if not each.removed_by]
    lines = (_line(each, ledger.body(each.digest)) for each in kept)
    write_whole(asked.out, lines, field="--out", force=asked.force)
    gone = len(entries) - len(kept)
    notes = (f"{gone} were removed by a rule and are not in it",) if gone else ()
    return LedgerAnswer(action="export", place=str(asked.out), seen_count=len(kept), new_count=len(kept), notes=notes)


def _line(entry: KeptEntry, body: EntryBody) -> str:
    return f'{{"digest":"{entry.digest}","body":{body.canonical.decode()}}}\n'


def _import(ledger: Ledger, asked: LedgerAsked) -> LedgerAnswer:
    from ullage.ledger.ledger import take_over

    seen = new = 0
    for each in asked.names:
        some, fresh = take_over(ledger, _bodies(Path(each)), at=asked.at)
        seen, new = seen + some, new + fresh
    return LedgerAnswer(action="import", place=ledger.place, seen_count=seen, new_count=new)


def _check_import(asked: LedgerAsked) -> None:
    """Every line of every file is read before the first is kept, so that a file that is cut short leaves nothing."""
    fix = "Give what ullage ledger export wrote."
    if not asked.names:
        raise InputError(field="import", value="", problem="has no file", fix=fix)
    for each in asked.names:
        try:
            for _ in _bodies(Path(each)):
                pass
        except OSError as error:
            problem = (error.strerror or "cannot be read").lower()
            raise InputError(field="import", value=each, problem=problem, fix=fix) from None


# The largest plan we know, of 200 services, has 40 million.
_MOST_CHARACTERS = 1 << 29


def _bodies(file: Path) -> Iterator[EntryBody]:
    """The entries of an export, each held to the digest that stands beside it."""
    from ullage.ledger.body import parse_body

    fix = "Give a file that ullage ledger export wrote."
    with file.open(encoding="utf-8", errors="replace") as opened:
        # A line that is longer is cut and then refused, before it fills the memory.
        for number, line in enumerate(iter(lambda: opened.readline(_MOST_CHARACTERS), ""), 1):
            where = f"{file}:{number}"
            try:
                value = json.loads(line)
                digest, body = str(value["digest"]), parse_body(json.dumps(value["body"]).encode(), where=where)
            except (ValueError, KeyError, TypeError, RecursionError):
                problem = "is not an entry, or is cut short; nothing was imported"
                raise InputError(field=where, value=line[:40], problem=problem, fix=fix) from None
            if body.digest != digest:
                problem = f"was changed since it was exported: its digest is {body.digest[:12]}"
                raise InputError(field=where, value=digest[:12], problem=problem, fix=fix)
            yield body


def _verify(ledger: Ledger, asked: LedgerAsked) -> LedgerAnswer:
    _no_names(asked, "verify")
    count, damage = ledger.verify()
    return LedgerAnswer(action="verify", place=ledger.place, damage=tuple(damage), seen_count=count)


def _prune(ledger: Ledger, asked: LedgerAsked) -> LedgerAnswer:
    from ullage.ledger.ledger import RetentionRule
    from ullage.units import DURATION, parse

    _no_names(asked, "prune")
    if asked.newest_entries is None and asked.younger is None:
        fix = "State what to keep: --newest 50, --younger 365d, or both."
        raise InputError(field="prune", value="", problem="has no rule", fix=fix)
    days = None if asked.younger is None else round(parse(asked.younger, DURATION, field="--younger") / 86_400.0)
    rule = RetentionRule(newest_entries=asked.newest_entries, younger_days=days)
    gone = ledger.let_go(rule, at=asked.at, really=asked.really)
    said = "removed" if asked.really else "would be removed; --really removes them"
    return LedgerAnswer(
        action="prune", place=ledger.place, entries=tuple(gone), seen_count=len(gone), notes=(rule.text, said)
    )


def _names(asked: LedgerAsked, action: str, count: int, fix: str) -> tuple[str, ...]:
    if len(asked.names) != count:
        raise InputError(field=action, value=list(asked.names), problem=f"takes {count} of them", fix=fix)
    return asked.names


def _no_names(asked: LedgerAsked, action: str) -> None:
    if asked.names:
        raise InputError(field=action, value=asked.names[0], problem="takes no names", fix="Leave it out, or use show.")


ACTIONS: dict[str, Callable[[Ledger, LedgerAsked], LedgerAnswer | DifferenceAnswer]] = {
    "list": _list,
    "show": _show,
    "diff": _diff,
    "export": _export,
    "import": _import,
    "verify": _verify,
    "prune": _prune,
}
