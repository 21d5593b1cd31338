"""What people say of scorecards."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "reviews",
        sa.Column("tenant", sa.String(length=256), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("evaluation_id", sa.String(length=128), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("judge", sa.String(length=64), nullable=True),
        sa.Column("part", sa.String(length=64), nullable=True),
        sa.Column("agrees", sa.Boolean(), nullable=True),
        sa.Column("met", sa.Boolean(), nullable=True),
        sa.Column("method_digest", sa.String(length=64), nullable=True),
        sa.Column("reviewer", sa.String(length=64), nullable=True),
        sa.Column("committed", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "digest"),
    )
    op.create_index("reviews_by_evaluation", "reviews", ["tenant", "evaluation_id", "created_at"])
    op.create_index("reviews_by_time", "reviews", ["tenant", "created_at"])
