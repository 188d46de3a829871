"""initial schema

Revision ID: dea8436fb20b
Revises:
Created: 2026-11-18 11:01:06.349262+00:00
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "dea8436fb20b"
down_revision: str | Sequence[str] | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "bench_session",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("results_directory", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("commit", sa.Text(), nullable=True),
        sa.Column("dirty", sa.Boolean(), nullable=True),
        sa.Column("branch", sa.Text(), nullable=True),
        sa.Column("viewer_url", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bench_session")),
        sa.UniqueConstraint("uid", name=op.f("uq_bench_session_uid")),
    )
    with op.batch_alter_table("bench_session", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_bench_session_name"), ["name"], unique=False)

    op.create_table(
        "invocation",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("session", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("start", sa.DateTime(timezone=True), nullable=False),
        sa.Column("end", sa.DateTime(timezone=True), nullable=True),
        sa.Column("exit_status", sa.BigInteger(), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("environment", sa.JSON(), nullable=True),
        sa.Column("ci_run_url", sa.Text(), nullable=True),
        sa.Column("command_line", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["session"], ["bench_session.id"], name=op.f("fk_invocation_session"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_invocation")),
        sa.UniqueConstraint("uid", name=op.f("uq_invocation_uid")),
    )
    with op.batch_alter_table("invocation", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_invocation_session"), ["session"], unique=False)

    op.create_table(
        "subject",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("session", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("package", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=True),
        sa.Column("commit", sa.Text(), nullable=True),
        sa.Column("dirty", sa.Boolean(), nullable=True),
        sa.ForeignKeyConstraint(["session"], ["bench_session.id"], name=op.f("fk_subject_session"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_subject")),
    )
    with op.batch_alter_table("subject", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_subject_session"), ["session"], unique=False)

    op.create_table(
        "test_run",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("session", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("invocation", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("originalname", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("nodeid", sa.Text(), nullable=True),
        sa.Column("definition_hash", sa.Text(), nullable=True),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("machine_id", sa.Text(), nullable=True),
        sa.Column("node", sa.Text(), nullable=True),
        sa.Column("gpu", sa.Text(), nullable=True),
        sa.Column("boot_id", sa.Text(), nullable=True),
        sa.Column("pid", sa.BigInteger(), nullable=True),
        sa.Column("process_start", sa.Double(), nullable=True),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("setup_outcome", sa.Text(), nullable=True),
        sa.Column("call_outcome", sa.Text(), nullable=True),
        sa.Column("teardown_outcome", sa.Text(), nullable=True),
        sa.Column("start", sa.DateTime(timezone=True), nullable=False),
        sa.Column("end", sa.DateTime(timezone=True), nullable=True),
        sa.Column("duration", sa.Double(), nullable=True),
        sa.Column("exit_code", sa.BigInteger(), nullable=True),
        sa.Column("command", sa.Text(), nullable=True),
        sa.Column("log_path", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("python_version", sa.Text(), nullable=True),
        sa.Column("platform", sa.Text(), nullable=True),
        sa.Column("ray_version", sa.Text(), nullable=True),
        sa.Column("ci_run_url", sa.Text(), nullable=True),
        sa.Column("ray_num_cpus", sa.Double(), nullable=True),
        sa.Column("ray_num_gpus", sa.Double(), nullable=True),
        sa.Column("average_memory", sa.Double(), nullable=True),
        sa.Column("peak_memory", sa.Double(), nullable=True),
        sa.Column("compute_time", sa.Double(), nullable=True),
        sa.Column("disk_spill_time", sa.Double(), nullable=True),
        sa.Column("serializing_time", sa.Double(), nullable=True),
        sa.Column("transfer_time", sa.Double(), nullable=True),
        sa.Column("peak_gpu_memory", sa.Double(), nullable=True),
        sa.Column("average_gpu_utilization", sa.Double(), nullable=True),
        sa.Column("cluster_name", sa.Text(), nullable=True),
        sa.Column("cluster_id", sa.Text(), nullable=True),
        sa.Column("cluster_details_url", sa.Text(), nullable=True),
        sa.Column("performance_report_url", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["invocation"], ["invocation.id"], name=op.f("fk_test_run_invocation"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(["session"], ["bench_session.id"], name=op.f("fk_test_run_session")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_test_run")),
        sa.UniqueConstraint("uid", name=op.f("uq_test_run_uid")),
    )
    with op.batch_alter_table("test_run", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_test_run_invocation"), ["invocation"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_test_run_name_path_machine_id_start"), ["name", "path", "machine_id", "start"], unique=False
        )
        batch_op.create_index(batch_op.f("ix_test_run_originalname"), ["originalname"], unique=False)
        batch_op.create_index(
            "ix_test_run_running", ["verdict"], unique=False, sqlite_where=sa.text("verdict = 'running'")
        )
        batch_op.create_index(batch_op.f("ix_test_run_session"), ["session"], unique=False)

    op.create_table(
        "metric",
        sa.Column("run", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("text", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["run"], ["test_run.id"], name=op.f("fk_metric_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run", "name", name=op.f("pk_metric")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "param",
        sa.Column("run", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["run"], ["test_run.id"], name=op.f("fk_param_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run", "name", name=op.f("pk_param")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "requirement",
        sa.Column("run", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("bound", sa.Text(), nullable=False),
        sa.Column("limit", sa.Text(), nullable=True),
        sa.Column("actual", sa.Text(), nullable=True),
        sa.Column("met", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["test_run.id"], name=op.f("fk_requirement_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run", "position", name=op.f("pk_requirement")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "sample",
        sa.Column("run", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("repeat", sa.BigInteger(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["run"], ["test_run.id"], name=op.f("fk_sample_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run", "repeat", "metric", name=op.f("pk_sample")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("sample")
    op.drop_table("requirement")
    op.drop_table("param")
    op.drop_table("metric")
    with op.batch_alter_table("test_run", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_test_run_session"))
        batch_op.drop_index("ix_test_run_running", sqlite_where=sa.text("verdict = 'running'"))
        batch_op.drop_index(batch_op.f("ix_test_run_originalname"))
        batch_op.drop_index(batch_op.f("ix_test_run_name_path_machine_id_start"))
        batch_op.drop_index(batch_op.f("ix_test_run_invocation"))

    op.drop_table("test_run")
    with op.batch_alter_table("subject", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_subject_session"))

    op.drop_table("subject")
    with op.batch_alter_table("invocation", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_invocation_session"))

    op.drop_table("invocation")
    with op.batch_alter_table("bench_session", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_bench_session_name"))

    op.drop_table("bench_session")
