"""One suite on both databases: a test that asks for `address` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from support.postgres import Server, server
from ullage.ledger.database import connect, parse_address


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with server() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.sqlite")
    running: Server = request.getfixturevalue("postgres")
    engine = connect(parse_address(running.address))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        name = f"ledger_{abs(hash(request.node.name)) % 10**12}"
        connection.execute(sa.text(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return running.address.replace("/postgres?", f"/{name}?")
