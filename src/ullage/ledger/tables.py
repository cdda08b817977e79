"""The ledger's tables as queries see them; the revisions in migrations/ make them."""

from __future__ import annotations

import sqlalchemy as sa

METADATA = sa.MetaData()

ENTRIES = sa.Table(
    "entries",
    METADATA,
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("digest", sa.String(64)),
    sa.Column("kind", sa.String(32)),
    sa.Column("service", sa.Text),
    sa.Column("as_of", sa.String(10)),
    sa.Column("summary", sa.Text),
    sa.Column("kept_at", sa.String(32)),
)
BODIES = sa.Table(
    "bodies",
    METADATA,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("size_bytes", sa.Integer),
    sa.Column("packed", sa.LargeBinary),
)
REMOVALS = sa.Table(
    "removals",
    METADATA,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("rule", sa.Text),
    sa.Column("removed_at", sa.String(32)),
)
MENTIONS = sa.Table(
    "mentions",
    METADATA,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("about", sa.String(64), primary_key=True),
)
