"""runs of hunts apart, and the place of a commit

Revision ID: 8c41d0b7a6e3
Revises: 433cbc6f603a
Created: 2026-11-19 08:40:12.417095+00:00
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "8c41d0b7a6e3"
down_revision: str | Sequence[str] | None = "433cbc6f603a"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_SESSIONS = sa.table("bench_session", sa.column("id"), sa.column("name", sa.Text()), sa.column("reason", sa.Text()))
_INVOCATIONS = sa.table("invocation", sa.column("id"), sa.column("command_line", sa.Text()))
_RUNS = sa.table("test_run", sa.column("session"), sa.column("invocation"), sa.column("hunt", sa.Text()))

_KEY = "_" * 8
_ENDS = ("", " --bench-confirm 0")
_COMMANDS = {
    **{f"% --bench-session bisect-{_KEY}-% -q -p no:cacheprovider --bench-sink none{end}": "bisect" for end in _ENDS},
    **{f"% --bench-session ab-{_KEY}-% -q -p no:cacheprovider --bench-sink none{end}": "ab" for end in _ENDS},
    **{
        f"% --junitxml=%/curator-bench-{_KEY}/junit.xml{end}": "bisect-step"
        for end in ("", " --bench-inconclusive=pass")
    },
}
"""Command lines that only `bisect`, `ab` and `bisect-step` made."""


def upgrade() -> None:
    with op.batch_alter_table("bench_session", schema=None) as batch_op:
        batch_op.add_column(sa.Column("committed_at", sa.DateTime(timezone=True), nullable=True))
        batch_op.add_column(sa.Column("commit_depth", sa.BigInteger(), nullable=True))
        batch_op.add_column(sa.Column("branches", sa.JSON(), nullable=True))

    with op.batch_alter_table("test_run", schema=None) as batch_op:
        batch_op.add_column(sa.Column("hunt", sa.Text(), nullable=True))

    _mark_hunts()


def downgrade() -> None:
    with op.batch_alter_table("test_run", schema=None) as batch_op:
        batch_op.drop_column("hunt")

    with op.batch_alter_table("bench_session", schema=None) as batch_op:
        batch_op.drop_column("branches")
        batch_op.drop_column("commit_depth")
        batch_op.drop_column("committed_at")


def _mark_hunts() -> None:
    """Mark the runs that were certainly recorded by `bisect`, `bisect-step` or `ab`."""
    for command, hunt in _COMMANDS.items():
        measuring = sa.select(_INVOCATIONS.c.id).where(_INVOCATIONS.c.command_line.like(command))
        op.execute(sa.update(_RUNS).where(_RUNS.c.invocation.in_(measuring)).values(hunt=hunt))
    # Runs that were imported may have no invocation. The sessions of a bisect have a reason of their own.
    bisected = sa.select(_SESSIONS.c.id).where(
        _SESSIONS.c.name.like(f"bisect-{_KEY}-%-{'_' * 12}"), _SESSIONS.c.reason.like("bisect of % between % and %")
    )
    op.execute(
        sa.update(_RUNS).where(_RUNS.c.invocation.is_(None), _RUNS.c.session.in_(bisected)).values(hunt="bisect")
    )
