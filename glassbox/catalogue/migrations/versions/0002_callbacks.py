"""Who is to be called back, and how far that has come."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "callbacks",
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tenant", sa.String(length=256), nullable=False),
        sa.Column("evaluation_id", sa.String(length=128), nullable=False),
        sa.Column("url", sa.String(length=1024), nullable=False),
        sa.Column("host", sa.String(length=256), nullable=False),
        sa.Column("event", sa.String(length=32), nullable=True),
        sa.Column("event_at", sa.BigInteger(), nullable=True),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("result", sa.String(length=32), nullable=True),
        sa.Column("delivered", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("position", "at"),
    )
    op.create_index("callbacks_by_evaluation", "callbacks", ["tenant", "evaluation_id"])
    op.create_index("callbacks_due", "callbacks", ["due_at"])
