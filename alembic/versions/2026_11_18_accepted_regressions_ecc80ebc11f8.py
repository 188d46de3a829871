"""accepted regressions

Revision ID: ecc80ebc11f8
Revises: dea8436fb20b
Created: 2026-11-18 13:05:56.530322+00:00
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "ecc80ebc11f8"
down_revision: str | Sequence[str] | None = "dea8436fb20b"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "acceptance",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_acceptance")),
        sa.UniqueConstraint("uid", name=op.f("uq_acceptance_uid")),
    )
    with op.batch_alter_table("acceptance", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_acceptance_name_path"), ["name", "path"], unique=False)

    with op.batch_alter_table("requirement", schema=None) as batch_op:
        batch_op.add_column(sa.Column("better", sa.Text(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("requirement", schema=None) as batch_op:
        batch_op.drop_column("better")

    with op.batch_alter_table("acceptance", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_acceptance_name_path"))

    op.drop_table("acceptance")
