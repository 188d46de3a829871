"""inconclusive requirements

Revision ID: 5f0d7c1e9a42
Revises: cb2df2081fa0
Created: 2026-11-19 01:20:11.204113+00:00
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "5f0d7c1e9a42"
down_revision: str | Sequence[str] | None = "cb2df2081fa0"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def requirement(*, is_always_known: bool, has_note: bool) -> sa.Table:
    """The table as it stands before a batch. As an SQL script, a migration has no database to read it from."""
    note = [sa.Column("note", sa.Text(), nullable=True)] if has_note else []
    return sa.Table(
        "requirement",
        sa.MetaData(),
        sa.Column("run", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("bound", sa.Text(), nullable=False),
        sa.Column("limit", sa.Text(), nullable=True),
        sa.Column("actual", sa.Text(), nullable=True),
        sa.Column("met", sa.Boolean(), nullable=not is_always_known),
        sa.Column("better", sa.Text(), nullable=True),
        *note,
        sa.ForeignKeyConstraint(["run"], ["test_run.id"], name=op.f("fk_requirement_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run", "position", name=op.f("pk_requirement")),
        sqlite_with_rowid=False,
    )


def upgrade() -> None:
    with op.batch_alter_table("requirement", copy_from=requirement(is_always_known=True, has_note=False)) as batch_op:
        batch_op.alter_column("met", existing_type=sa.Boolean(), nullable=True)
        batch_op.add_column(sa.Column("note", sa.Text(), nullable=True))


def downgrade() -> None:
    op.execute("UPDATE requirement SET met = TRUE WHERE met IS NULL")
    with op.batch_alter_table("requirement", copy_from=requirement(is_always_known=False, has_note=True)) as batch_op:
        batch_op.drop_column("note")
        batch_op.alter_column("met", existing_type=sa.Boolean(), nullable=False)
