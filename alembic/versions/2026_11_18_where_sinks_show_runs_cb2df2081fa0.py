"""where sinks show runs

Revision ID: cb2df2081fa0
Revises: ecc80ebc11f8
Created: 2026-11-18 13:07:08.555541+00:00
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "cb2df2081fa0"
down_revision: str | Sequence[str] | None = "ecc80ebc11f8"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    with op.batch_alter_table("bench_session", schema=None) as batch_op:
        batch_op.add_column(sa.Column("sink_urls", sa.JSON(), nullable=True))

    with op.batch_alter_table("test_run", schema=None) as batch_op:
        batch_op.add_column(sa.Column("sink_urls", sa.JSON(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("test_run", schema=None) as batch_op:
        batch_op.drop_column("sink_urls")

    with op.batch_alter_table("bench_session", schema=None) as batch_op:
        batch_op.drop_column("sink_urls")
