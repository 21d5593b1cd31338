"""The first tables.

There is no way back down: an older release has an older catalogue rebuilt from the topics.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "actions",
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.String(length=32), nullable=False),
        sa.Column("action", sa.String(length=16), nullable=False),
        sa.PrimaryKeyConstraint("partition", "position"),
    )
    op.create_table(
        "announcements",
        sa.Column("evaluation_id", sa.String(length=128), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("tenant", sa.String(length=256), nullable=False),
        sa.Column("request_digest", sa.String(length=64), nullable=False),
        sa.Column("policy_digest", sa.String(length=64), nullable=False),
        sa.Column("intake_run", sa.String(length=64), nullable=False),
        sa.Column("deadline_ms", sa.BigInteger(), nullable=False),
        sa.Column("kinds", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("evaluation_id"),
    )
    op.create_table(
        "answers",
        sa.Column("evaluation_id", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("request_digest", sa.String(length=64), nullable=False),
        sa.Column("policy_digest", sa.String(length=64), nullable=False),
        sa.Column("intake_run", sa.String(length=64), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("evaluation_id", "kind", "request_digest", "policy_digest", "intake_run"),
    )
    op.create_table(
        "cards",
        sa.Column("tenant", sa.String(length=256), nullable=False),
        sa.Column("evaluation_id", sa.String(length=128), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.Column("record_digest", sa.String(length=64), nullable=False),
        sa.Column("ledger", sa.String(length=16), nullable=True),
        sa.Column("proof", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "evaluation_id"),
    )
    op.create_table(
        "dead_letters",
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("tenant", sa.String(length=256), nullable=False),
        sa.Column("evaluation_id", sa.String(length=128), nullable=True),
        sa.Column("reason", sa.String(length=64), nullable=False),
        sa.Column("field", sa.String(length=256), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("source_topic", sa.String(length=256), nullable=False),
        sa.Column("source_partition", sa.Integer(), nullable=False),
        sa.Column("source_offset", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("first_seen", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("partition", "position"),
    )
    op.create_index("dead_letters_by_evaluation", "dead_letters", ["tenant", "evaluation_id"])
    op.create_table(
        "evaluations",
        sa.Column("tenant", sa.String(length=256), nullable=False),
        sa.Column("evaluation_id", sa.String(length=128), nullable=False),
        sa.Column("requested_at", sa.BigInteger(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("provider", sa.String(length=256), nullable=True),
        sa.Column("model", sa.String(length=256), nullable=True),
        sa.Column("session", sa.String(length=64), nullable=True),
        sa.Column("supersedes", sa.String(length=128), nullable=True),
        sa.Column("policy_digest", sa.String(length=64), nullable=True),
        sa.Column("record_digest", sa.String(length=64), nullable=True),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("trust", sa.Integer(), nullable=True),
        sa.Column("coverage", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "evaluation_id"),
    )
    op.create_index("evaluations_by_model", "evaluations", ["tenant", "model", "requested_at", "evaluation_id"])
    op.create_index("evaluations_by_outcome", "evaluations", ["tenant", "outcome", "requested_at", "evaluation_id"])
    op.create_index("evaluations_by_session", "evaluations", ["tenant", "session", "requested_at", "evaluation_id"])
    op.create_index("evaluations_by_time", "evaluations", ["tenant", "requested_at", "evaluation_id"])
    op.create_table(
        "feed",
        sa.Column(
            "seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(always=False), nullable=False
        ),
        sa.Column("tenant", sa.String(length=256), nullable=False),
        sa.Column("evaluation_id", sa.String(length=128), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
        sqlite_autoincrement=True,
    )
    op.create_index("feed_by_evaluation", "feed", ["tenant", "evaluation_id"], unique=True)
    op.create_index("feed_by_tenant", "feed", ["tenant", "seq"])
    op.create_table(
        "heads",
        sa.Column("origin", sa.String(length=256), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("origin"),
    )
    op.create_table(
        "policies",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_table(
        "scores",
        sa.Column("tenant", sa.String(length=256), nullable=False),
        sa.Column("evaluation_id", sa.String(length=128), nullable=False),
        sa.Column("judge", sa.String(length=64), nullable=False),
        sa.Column("record_digest", sa.String(length=64), nullable=False),
        sa.Column("score", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "evaluation_id", "judge", "record_digest"),
    )
    op.create_index("scores_by_score", "scores", ["tenant", "judge", "score", "evaluation_id"])
