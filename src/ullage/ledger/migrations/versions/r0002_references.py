"""Which entries an entry is about: a reconciliation of a plan, the scores of its forecast.

Entries that were kept before say so in their bodies, so that the table is filled from them.
"""

from __future__ import annotations

import json
import zlib

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    table = op.create_table(
        "mentions",
        sa.Column("digest", sa.String(64), sa.ForeignKey("entries.digest"), primary_key=True),
        sa.Column("about", sa.String(64), primary_key=True),
    )
    op.create_index("mentions_by_about", "mentions", ["about"])
    bind = op.get_bind()
    for digest, packed in bind.execute(sa.text("SELECT digest, packed FROM bodies")):
        about = json.loads(zlib.decompress(bytes(packed)))["about"]
        if about:
            bind.execute(table.insert(), [{"digest": digest, "about": each} for each in about])
