"""Lists in the order of trust, and the scores of every part beside the evaluation: what statistics are made of."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

# the same text as `writing` makes of a record's parts
_SQLITE = """
UPDATE evaluations SET parts = (
    SELECT '{' || coalesce(group_concat(
        '"' || json_extract(part.value, '$.judge') || '/' || json_extract(part.value, '$.part') || '":'
        || CAST(replace(json_extract(part.value, '$.score'), '.', '') AS INTEGER)
    ), '') || '}'
    FROM cards, json_each(cards.record, '$.parts') AS part
    WHERE cards.tenant = evaluations.tenant AND cards.evaluation_id = evaluations.evaluation_id
        AND json_extract(part.value, '$.score') IS NOT NULL
) WHERE record_digest IS NOT NULL
"""
_POSTGRESQL = """
UPDATE evaluations SET parts = (
    SELECT '{' || coalesce(string_agg(
        '"' || (part ->> 'judge') || '/' || (part ->> 'part') || '":'
        || CAST(replace(part ->> 'score', '.', '') AS BIGINT), ',' ORDER BY number
    ), '') || '}'
    FROM cards, json_array_elements(CAST(cards.record AS json) -> 'parts') WITH ORDINALITY AS each(part, number)
    WHERE cards.tenant = evaluations.tenant AND cards.evaluation_id = evaluations.evaluation_id
        AND part ->> 'score' IS NOT NULL
) WHERE record_digest IS NOT NULL
"""


def upgrade() -> None:
    op.add_column("evaluations", sa.Column("parts", sa.Text(), nullable=True))
    # as the driver has it: colons stand for themselves
    op.get_bind().exec_driver_sql(_SQLITE if op.get_bind().dialect.name == "sqlite" else _POSTGRESQL)
    op.create_index("evaluations_by_trust", "evaluations", ["tenant", "trust", "evaluation_id"])
    op.create_index("evaluations_by_outcome_and_trust", "evaluations", ["tenant", "outcome", "trust", "evaluation_id"])
