"""The database under a ledger: SQLite or PostgreSQL by address, its settings, and its tables brought up to date.

SQLite runs with a write-ahead log, so that readers never wait, with a full sync at every commit, and writers queue for
the lock; what was committed is on disk. PostgreSQL keeps its own settings.
"""

from __future__ import annotations

import sqlite3
import time
from importlib.resources import files
from typing import Any

import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from ullage.errors import InputError

# Writers queue this long for one another. Each holds the lock for milliseconds, so that hundreds fit in.
_BUSY_MS = 30_000
# Whoever brings the tables up to date holds this PostgreSQL lock; the number has no meaning but to be ours.
_MIGRATION_LOCK = 7_311_205
_WRITES = "ullage_writes"
_FIX = "Give a file, or an address such as postgresql://user@host/name."


def parse_address(address: str) -> URL:
    """A path is an SQLite file; anything with a scheme is an address of SQLite or PostgreSQL."""
    if "://" not in address:
        return URL.create("sqlite", database=address)
    try:
        url = make_url(address)
    except ArgumentError:
        raise InputError(field="ledger", value=address, problem="is not an address", fix=_FIX) from None
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        problem = "is neither SQLite nor PostgreSQL"
        raise InputError(field="ledger", value=url.render_as_string(), problem=problem, fix=_FIX)
    return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url


def connect(url: URL) -> Engine:
    """An engine whose transactions are real ones, on SQLite too."""
    try:
        if url.get_backend_name() == "sqlite":
            engine = sa.create_engine(url, connect_args={"timeout": _BUSY_MS / 1000.0})
            sa.event.listen(engine, "connect", _sqlite_settings)
            sa.event.listen(engine, "begin", _sqlite_begin)
            return engine
        # A server that was restarted has forgotten its connections: each is tried before it is used.
        asked = {"connect_timeout": 10, "client_encoding": "utf8"}
        return sa.create_engine(url, pool_pre_ping=True, connect_args=asked)
    except (NoSuchModuleError, ModuleNotFoundError):
        fix = "Install ullage[postgres], or give an SQLite file."
        problem = "needs a driver that is not installed"
        raise InputError(field="ledger", value=url.drivername, problem=problem, fix=fix) from None


def writing(connection: Connection) -> Connection:
    """Marks a connection whose transaction writes: SQLite takes the lock at its start, not halfway through."""
    return connection.execution_options(**{_WRITES: True})


def _sqlite_settings(connection: Any, _record: object) -> None:
    # The driver's own idea of transactions leaves out schema changes; ours are begun by hand.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _sqlite_begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def migrate(engine: Engine, *, to: str = "head") -> str:
    """Bring the tables up to this revision, in one transaction; the revision that they are then at.

    Alembic finds the files under migrations/versions by their `revision` and calls `upgrade` of each in turn.
    """
    if engine.dialect.name == "sqlite":
        _use_write_ahead_log(engine)
    with engine.connect() as raw, writing(raw) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
        script = _revisions()

        def steps(at: Any, _context: object) -> Any:
            return script._upgrade_revs(to, at)  # noqa: SLF001 - Alembic has no other way without its own environment

        context = MigrationContext.configure(connection, opts={"fn": steps})
        if context.get_current_revision() != script.as_revision_number(to):
            with Operations.context(context):
                context.run_migrations()
        return context.get_current_revision() or ""


def is_current(engine: Engine) -> bool:
    """Whether the tables are there, and those of this version."""
    with engine.connect() as connection:
        found = MigrationContext.configure(connection).get_current_revision()
    script = _revisions()
    known = {each.revision for each in script.walk_revisions()}
    if found is not None and found not in known:
        raise InputError(
            field="ledger",
            value=found,
            problem="was written by a newer version of ullage",
            fix="Install that version, or use another ledger.",
        )
    return found == script.get_current_head()


def _revisions() -> ScriptDirectory:
    return ScriptDirectory(str(files("ullage.ledger") / "migrations"))


def _use_write_ahead_log(engine: Engine) -> None:
    """Set once and kept in the file. Changing it does not wait for others, so that it is tried again."""
    waited_s = 0.0
    while True:
        connection = engine.raw_connection()
        try:
            cursor = connection.cursor()
            cursor.execute("PRAGMA journal_mode = WAL")
            cursor.fetchall()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or waited_s > _BUSY_MS / 1000.0:
                raise
        finally:
            connection.close()
        time.sleep(0.02)
        waited_s += 0.02
