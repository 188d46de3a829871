"""Declare bankruptcy for test_shuffle: until 23 January 2026 it measured the start of its cluster too.

Revision ID: 5b0c0ffee001
Revises: REVISION_BEFORE
Created: 2026-01-23 15:00:00+00:00
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

revision: str = "5b0c0ffee001"
down_revision: str | Sequence[str] | None = "REVISION_BEFORE"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

start = sa.column("start", sa.DateTime(timezone=True))
runs = sa.table("test_run", sa.column("id"), sa.column("originalname"), sa.column("path"), start)
parts = [sa.table(name, sa.column("run")) for name in ("metric", "sample", "param", "requirement")]


def upgrade() -> None:
    old = sa.select(runs.c.id).where(
        runs.c.path == "dedup/matrix.yaml",
        runs.c.originalname == "test_shuffle",
        runs.c.start < datetime(2026, 1, 23, 15, tzinfo=UTC),
    )
    for part in parts:
        op.execute(sa.delete(part).where(part.c.run.in_(old)))
    op.execute(sa.delete(runs).where(runs.c.id.in_(old)))


def downgrade() -> None:
    """What is gone is gone; the copy made before the migration has it."""
