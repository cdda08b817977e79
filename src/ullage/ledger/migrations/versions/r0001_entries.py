"""Entries, their bodies and what was removed of them; the database itself refuses to change what was kept."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

# Rows that may not be changed at all, and bodies, which go only where a removal says by which rule.
_KEPT = "BEFORE {} ON {} BEGIN SELECT RAISE(ABORT, '{} are never changed'); END"
_BY_RULE = "a body goes by a rule of retention alone"
_SQLITE = (
    *(
        f"CREATE TRIGGER {table}_{name} {_KEPT.format(verb, table, table)}"
        for table in ("entries", "removals")
        for name, verb in (("stay", "UPDATE"), ("last", "DELETE"))
    ),
    f"CREATE TRIGGER bodies_stay {_KEPT.format('UPDATE', 'bodies', 'bodies')}",
    f"""CREATE TRIGGER bodies_last BEFORE DELETE ON bodies
    WHEN NOT EXISTS (SELECT 1 FROM removals WHERE removals.digest = OLD.digest)
    BEGIN SELECT RAISE(ABORT, '{_BY_RULE}'); END""",
)
_POSTGRES = (
    """CREATE FUNCTION ullage_kept() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION '% are never changed', TG_TABLE_NAME; END $$""",
    f"""CREATE FUNCTION ullage_ruled() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM removals WHERE removals.digest = OLD.digest) THEN
    RAISE EXCEPTION '{_BY_RULE}'; END IF; RETURN OLD; END $$""",
    "CREATE TRIGGER entries_stay BEFORE UPDATE OR DELETE ON entries FOR EACH ROW EXECUTE FUNCTION ullage_kept()",
    "CREATE TRIGGER removals_stay BEFORE UPDATE OR DELETE ON removals FOR EACH ROW EXECUTE FUNCTION ullage_kept()",
    "CREATE TRIGGER bodies_stay BEFORE UPDATE ON bodies FOR EACH ROW EXECUTE FUNCTION ullage_kept()",
    "CREATE TRIGGER bodies_last BEFORE DELETE ON bodies FOR EACH ROW EXECUTE FUNCTION ullage_ruled()",
)


def upgrade() -> None:
    op.create_table(
        "entries",
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("as_of", sa.String(10), nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("kept_at", sa.String(32), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("entries_by_kind", "entries", ["kind", "position"])
    op.create_index("entries_by_service", "entries", ["kind", "service", "position"])
    op.create_table(
        "bodies",
        sa.Column("digest", sa.String(64), sa.ForeignKey("entries.digest"), primary_key=True),
        sa.Column("size_bytes", sa.Integer, nullable=False),
        sa.Column("packed", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "removals",
        sa.Column("digest", sa.String(64), sa.ForeignKey("entries.digest"), primary_key=True),
        sa.Column("rule", sa.Text, nullable=False),
        sa.Column("removed_at", sa.String(32), nullable=False),
    )
    for statement in _POSTGRES if op.get_bind().dialect.name == "postgresql" else _SQLITE:
        op.execute(statement)
