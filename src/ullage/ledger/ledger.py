"""The ledger itself: keep, find, list, verify, take over from a file, and let go by rule.

An entry is committed or it is not: a process that is killed, a disk that is full or a server that goes away loses the
write in flight and nothing else. Since an entry's name is the digest of what it says, keeping it twice is keeping it
once, and a write whose fate is unknown is simply made again.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

from ullage.errors import InputError
from ullage.ledger.body import EntryBody, EntryKind, digest_of, parse_body, unpacked
from ullage.ledger.database import connect, is_current, migrate, parse_address, writing
from ullage.ledger.tables import BODIES, ENTRIES, MENTIONS, REMOVALS

LATEST = "latest"
_SHORTEST_PREFIX = 4
_SQLITE = b"SQLite format 3\0"
_DIGEST_DIGITS = 64
# A restart of a database server takes seconds: a write is tried again over half a minute.
_PAUSES_S = (0.1, 0.3, 1.0, 3.0, 10.0, 15.0)
_AWAY = (
    "connection refused", "server closed", "terminating connection", "starting up", "shutting down",
    "connection is bad", "connection failed", "could not connect", "timeout expired",
)  # fmt: skip
_FULL = ("disk is full", "no space", "could not extend", "disk i/o error", "disk full")

Done = TypeVar("Done")


@dataclass(frozen=True, kw_only=True)
class KeptEntry:
    """One line of a list: everything about an entry but its body. `removed_by` is the rule its body went by."""

    digest: str
    kind: EntryKind
    service: str
    as_of: str
    summary: str
    kept_at: str
    removed_by: str = ""


@dataclass(frozen=True, kw_only=True)
class Damage:
    """An entry that is not what was kept."""

    digest: str
    problem: str


@dataclass(frozen=True, kw_only=True)
class RetentionRule:
    """What a rule keeps: the newest so many of each kind and service, and all that is younger than so many days."""

    newest_entries: int | None = None
    younger_days: int | None = None

    @property
    def text(self) -> str:
        said = [] if self.newest_entries is None else [f"the newest {self.newest_entries} of each kind and service"]
        said += [] if self.younger_days is None else [f"those younger than {self.younger_days} days"]
        return f"kept are {' and '.join(said)}"


class Ledger:
    """A ledger that is open. Used by one thread at a time; several processes may have it open at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def place(self) -> str:
        """Where it is, without the password."""
        url = self._engine.url
        return str(url.database) if url.get_backend_name() == "sqlite" else url.render_as_string()

    def close(self) -> None:
        self._engine.dispose()

    # ---- keeping

    def keep(self, body: EntryBody, *, at: datetime.datetime) -> bool:
        """Keep an entry; whether it is new. It is on disk when this returns."""
        return self.keep_all([body], at=at) == 1

    def keep_all(self, bodies: Sequence[EntryBody], *, at: datetime.datetime) -> int:
        """Keep several, all or none; how many of them are new."""
        return self._again(lambda: self._keep(bodies, at.astimezone(datetime.UTC).isoformat(timespec="seconds")))

    def _keep(self, bodies: Sequence[EntryBody], at: str) -> int:
        insert = postgresql.insert if self._engine.dialect.name == "postgresql" else sqlite.insert
        new = 0
        with self._writing() as connection:
            for body in bodies:
                row = {**_row(body), "kept_at": at}
                if self._is_here(connection, row["digest"]):
                    continue
                kept = insert(ENTRIES).values(row).on_conflict_do_nothing().returning(ENTRIES.c.digest)
                new += len(connection.execute(kept).all())
                packed = {"digest": row["digest"], "size_bytes": len(body.canonical), "packed": body.packed}
                connection.execute(insert(BODIES).values(packed).on_conflict_do_nothing())
                for each in sorted(set(body.about)):
                    mention = {"digest": row["digest"], "about": each}
                    connection.execute(insert(MENTIONS).values(mention).on_conflict_do_nothing())
        return new

    def _is_here(self, connection: Connection, digest: str) -> bool:
        """Whether an entry needs no keeping: its body is here, or went by a rule, which holds for it."""
        of_body, of_rule = (sa.select(each.c.digest).where(each.c.digest == digest) for each in (BODIES, REMOVALS))
        return connection.execute(of_body.union_all(of_rule)).first() is not None

    # ---- finding

    def entries(
        self, *, kind: EntryKind | None = None, service: str | None = None, most: int | None = None
    ) -> list[KeptEntry]:
        """The newest first."""
        query = sa.select(*_COLUMNS)
        if kind is not None:
            query = query.where(ENTRIES.c.kind == kind.value)
        if service is not None:
            query = query.where(ENTRIES.c.service == service)
        with self._reading() as connection:
            found = connection.execute(query.order_by(ENTRIES.c.position.desc()).limit(most)).all()
            # Few entries are ever removed: asked for apart, they cost the many nothing.
            removed = connection.execute(sa.select(REMOVALS.c.digest, REMOVALS.c.rule))
            rules = {each[0]: str(each[1]) for each in removed}
        return [_entry(each, rules) for each in found]

    def find(self, name: str, *, kind: EntryKind | None = None) -> KeptEntry:
        """The entry of this digest, of a digest that begins so, or the `latest`."""
        if name == LATEST:
            newest = self.entries(kind=kind, most=1)
            if newest:
                return newest[0]
            raise self._unknown(name, kind, "there is none yet", "Store one first: ullage plan --keep.")
        query = name.lower()
        is_digest = _SHORTEST_PREFIX <= len(query) <= _DIGEST_DIGITS and all(
            each in "0123456789abcdef" for each in query
        )
        if not is_digest:
            digits = f"{_SHORTEST_PREFIX} or more digits of an entry's name"
            fix = f"Give {digits} as ullage ledger list prints it, or {LATEST}."
            raise self._unknown(name, kind, "is not the name of an entry", fix)
        with self._reading() as connection:
            begins = sa.select(ENTRIES.c.digest).where(ENTRIES.c.digest.between(query, query + "g"))
            digests = [each[0] for each in connection.execute(begins.limit(3))]
        if not digests:
            raise self._unknown(name, kind, f"is not in {self.place}", "ullage ledger list prints what is.")
        if len(digests) > 1:
            raise self._unknown(
                name, kind, f"begins {' and '.join(each[:12] for each in digests)}", "Give more digits."
            )
        entry = self._one(digests[0])
        if kind is not None and entry.kind is not kind:
            raise self._unknown(name, kind, f"is a {entry.kind}", f"Give the name of a {kind}.")
        return entry

    def body(self, digest: str) -> EntryBody:
        """What an entry says, checked against its name."""
        canonical = self._canonical(digest)
        if digest_of(canonical) != digest:
            raise InputError(
                field="ledger",
                value=digest[:12],
                problem="is damaged: what is stored has another digest",
                fix="Run ullage ledger verify, and import an export into a new ledger.",
            )
        return parse_body(canonical, where=f"ledger: {digest[:12]}")

    def about(self, digest: str, *, kind: EntryKind) -> list[KeptEntry]:
        """Entries of this kind that are about another, the newest first."""
        query = sa.select(MENTIONS.c.digest).where(MENTIONS.c.about == digest)
        with self._reading() as connection:
            digests = {each[0] for each in connection.execute(query)}
        return [each for each in self.entries(kind=kind) if each.digest in digests]

    # ---- whole

    def verify(self) -> tuple[int, list[Damage]]:
        """How many entries were looked at, and what is wrong with any: digest, row and references."""
        damage: list[Damage] = []
        known = self.entries()
        digests = {each.digest for each in known}
        for each in known:
            damage += [Damage(digest=each.digest, problem=problem) for problem in self._problems(each, digests)]
        return len(known), damage

    def _problems(self, entry: KeptEntry, digests: set[str]) -> Iterator[str]:
        if entry.removed_by:
            return
        try:
            canonical = self._canonical(entry.digest)
        except (InputError, ValueError) as error:
            yield f"its body cannot be read: {error}"
            return
        if digest_of(canonical) != entry.digest:
            yield "its body has another digest"
            return
        body = parse_body(canonical, where=entry.digest[:12])
        stored = {"kind": entry.kind.value, "service": entry.service, "as_of": entry.as_of, "summary": entry.summary}
        for key, value in _row(body).items():
            if key in stored and stored[key] != value:
                yield f"its {key} was changed: {stored[key]!r} where its body has {value!r}"
        for each in body.about:
            if each not in digests:
                yield f"it is about {each[:12]}, which is not here"

    def lines(self) -> Iterator[tuple[KeptEntry, EntryBody | None]]:
        """Every entry with its body, the oldest first; no body where it went by a rule."""
        for each in reversed(self.entries()):
            yield each, None if each.removed_by else self.body(each.digest)

    def let_go(self, rule: RetentionRule, *, at: datetime.datetime, really: bool) -> list[KeptEntry]:
        """Remove the bodies that a rule does not keep; their lines stay, with the rule that they went by.

        What an entry that stays is about stays too, whatever its age.
        """
        gone = self._beyond(rule, at)
        if really and gone:
            moment = at.astimezone(datetime.UTC).isoformat(timespec="seconds")
            self._again(lambda: self._remove([each.digest for each in gone], rule.text, moment))
        return gone

    def _beyond(self, rule: RetentionRule, at: datetime.datetime) -> list[KeptEntry]:
        counts: dict[tuple[EntryKind, str], int] = {}
        keep, gone = set[str](), []
        for each in self.entries():
            if each.removed_by:
                continue
            key = (each.kind, each.service)
            counts[key] = counts.get(key, 0) + 1
            age = at - datetime.datetime.fromisoformat(each.kept_at)
            newest = rule.newest_entries is not None and counts[key] <= rule.newest_entries
            young = rule.younger_days is not None and age < datetime.timedelta(days=rule.younger_days)
            if newest or young:
                keep.add(each.digest)
            else:
                gone.append(each)
        with self._reading() as connection:
            pairs = connection.execute(sa.select(MENTIONS.c.digest, MENTIONS.c.about)).all()
        needed = {about for digest, about in pairs if digest in keep}
        return [each for each in gone if each.digest not in needed]

    def _remove(self, digests: Sequence[str], rule: str, moment: str) -> None:
        insert = postgresql.insert if self._engine.dialect.name == "postgresql" else sqlite.insert
        with self._writing() as connection:
            for each in digests:
                row = {"digest": each, "rule": rule, "removed_at": moment}
                connection.execute(insert(REMOVALS).values(row).on_conflict_do_nothing())
                connection.execute(sa.delete(BODIES).where(BODIES.c.digest == each))

    # ---- below

    def _one(self, digest: str) -> KeptEntry:
        with self._reading() as connection:
            row = connection.execute(sa.select(*_COLUMNS).where(ENTRIES.c.digest == digest)).one()
            rule = connection.execute(sa.select(REMOVALS.c.rule).where(REMOVALS.c.digest == digest)).scalar()
        return _entry(row, {} if rule is None else {digest: rule})

    def _canonical(self, digest: str) -> bytes:
        with self._reading() as connection:
            found = connection.execute(sa.select(BODIES.c.packed).where(BODIES.c.digest == digest)).first()
        if found is None:
            entry = self._one(digest)
            problem = f"has no body any more: {entry.removed_by}" if entry.removed_by else "has lost its body"
            raise InputError(
                field="ledger", value=digest[:12], problem=problem, fix="Import an export into a new ledger."
            )
        return unpacked(bytes(found[0]))

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with _said_plainly(self.place), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._engine.connect() as raw, writing(raw) as connection, connection.begin():
            yield connection

    def _again(self, write: Callable[[], Done]) -> Done:
        """Write; where the server went away meanwhile, wait for it and write again: keeping twice is keeping once."""
        with _said_plainly(self.place):
            for pause_s in _PAUSES_S:
                try:
                    return write()
                except DBAPIError as error:
                    if self._engine.dialect.name == "sqlite" or not _is_away(error):
                        raise
                    time.sleep(pause_s)
            return write()

    def _unknown(self, name: str, kind: EntryKind | None, problem: str, fix: str) -> InputError:
        return InputError(field="entry" if kind is None else str(kind), value=name, problem=problem, fix=fix)


def open_ledger(address: str, *, create: bool = False) -> Ledger:
    """Open a ledger by its file or address; without `create` a file that is not there is an error."""
    url = parse_address(address)
    place = str(url.database) if url.get_backend_name() == "sqlite" else url.render_as_string()
    is_file = url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")
    if is_file and not create and not Path(str(url.database)).exists():
        fix = "Store a plan first: ullage plan --keep. ULLAGE_LEDGER or --ledger names another place."
        raise InputError(field="ledger", value=place, problem="is not there", fix=fix)
    if is_file:
        _check_file(Path(str(url.database)), create=create)
    engine = connect(url)
    try:
        with _said_plainly(place):
            if not is_current(engine):
                _check_ours(engine, place)
                migrate(engine)
    except InputError:
        engine.dispose()
        raise
    return Ledger(engine)


def _check_file(file: Path, *, create: bool) -> None:
    """A file of something else is never opened: SQLite writes over what is too short to be a database."""
    fix = "Give the file of a ledger, or a name that is not taken."
    if file.is_dir():
        raise InputError(field="ledger", value=str(file), problem="is a folder", fix=fix)
    if file.exists() and not file.is_file():
        raise InputError(field="ledger", value=str(file), problem="is no regular file", fix=fix)
    if not file.is_file():
        return
    with file.open("rb") as opened_file:
        head = opened_file.read(len(_SQLITE))
    if head != _SQLITE and (head or not create):
        problem = "is not a ledger" if head else "is empty"
        raise InputError(field="ledger", value=str(file), problem=problem, fix=fix)


def _check_ours(engine: Engine, place: str) -> None:
    """A database that holds tables of something else gets none of ours."""
    held = set(sa.inspect(engine).get_table_names())
    if engine.dialect.name == "sqlite" and held and "alembic_version" not in held:
        raise InputError(
            field="ledger",
            value=place,
            problem=f"is a database of something else: it holds {sorted(held)[0]}",
            fix="Give the file of a ledger, or a name that is not taken.",
        )


@contextmanager
def opened(address: str, *, create: bool = False) -> Iterator[Ledger]:
    """An open ledger that is closed again."""
    ledger = open_ledger(address, create=create)
    try:
        yield ledger
    finally:
        ledger.close()


def take_over(ledger: Ledger, bodies: Iterable[EntryBody], *, at: datetime.datetime) -> tuple[int, int]:
    """Keep what a file has; how many entries it had, and how many of them are new here. A part at a time is kept."""
    seen = new = 0
    part: list[EntryBody] = []
    for body in bodies:
        part.append(body)
        seen += 1
        if len(part) == _PART:
            new += ledger.keep_all(part, at=at)
            part = []
    return seen, new + (ledger.keep_all(part, at=at) if part else 0)


# So many entries are taken over in one transaction: each of them alone would wait for the disk.
_PART = 200


def _row(body: EntryBody) -> dict[str, Any]:
    return {
        "digest": body.digest,
        "kind": body.kind.value,
        "service": body.service,
        "as_of": body.as_of,
        "summary": body.summary,
    }


_COLUMNS = tuple(ENTRIES.c[each] for each in ("digest", "kind", "service", "as_of", "summary", "kept_at"))
_KINDS = {each.value: each for each in EntryKind}


def _entry(row: Sequence[Any], rules: Mapping[str, str]) -> KeptEntry:
    digest, kind, service, as_of, summary, kept_at = row
    return KeptEntry(
        digest=digest,
        kind=_KINDS[kind],
        service=service,
        as_of=as_of,
        summary=summary,
        kept_at=kept_at,
        removed_by=rules.get(digest, "") if rules else "",
    )


@contextmanager
def _said_plainly(place: str) -> Iterator[None]:
    """What a database refuses, as an error that says what became of the data."""
    try:
        yield
    except DBAPIError as error:
        said = " ".join(str(error.orig).split())
        if any(each in said.lower() for each in _FULL):
            problem = f"could not be written ({said}); this entry was not stored; earlier entries are intact"
            fix = "Free some space, then run the same command again."
        elif _is_away(error):
            problem, fix = f"cannot be reached ({said})", "Check the address and that the server runs."
        elif "not a database" in said or "malformed" in said:
            problem = f"is not a ledger or is damaged ({said})"
            fix = "Give another file, or import an export into a new one."
        else:
            problem, fix = f"refused ({said})", "Check the place and its rights."
        raise InputError(field="ledger", value=place, problem=problem, fix=fix) from None


def _is_away(error: DBAPIError) -> bool:
    """Whether the server is not there, or went away in the middle; a disk that is full is neither."""
    said = str(error.orig).lower()
    if any(each in said for each in _FULL):
        return False
    return bool(error.connection_invalidated) or any(each in said for each in _AWAY)
