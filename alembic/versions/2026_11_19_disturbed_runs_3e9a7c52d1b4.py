"""disturbed runs

Revision ID: 3e9a7c52d1b4
Revises: bf787dda9f1f
Created: 2026-11-19 20:47:02.118204+00:00
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "3e9a7c52d1b4"
down_revision: str | Sequence[str] | None = "bf787dda9f1f"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    with op.batch_alter_table("test_run", schema=None) as batch_op:
        batch_op.add_column(sa.Column("disturbed", sa.Text(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("test_run", schema=None) as batch_op:
        batch_op.drop_column("disturbed")
