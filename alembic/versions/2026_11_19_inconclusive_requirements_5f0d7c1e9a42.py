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


def upgrade() -> None:
    with op.batch_alter_table("requirement", schema=None) as batch_op:
        batch_op.alter_column("met", existing_type=sa.Boolean(), nullable=True)
        batch_op.add_column(sa.Column("note", sa.Text(), nullable=True))


def downgrade() -> None:
    op.execute("UPDATE requirement SET met = TRUE WHERE met IS NULL")
    with op.batch_alter_table("requirement", schema=None) as batch_op:
        batch_op.drop_column("note")
        batch_op.alter_column("met", existing_type=sa.Boolean(), nullable=False)
