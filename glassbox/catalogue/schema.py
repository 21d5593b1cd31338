"""The tables. Times are milliseconds since 1970, figures millionths; no column holds a text of an evaluation.

Every list is read in the order of an index that begins with the tenant, so that a page costs the same wherever it is.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Identity, Index, Integer, MetaData, String, Table, Text

metadata = MetaData()

_TENANT, _ID = String(256), String(128)

evaluations = Table(
    "evaluations",
    metadata,
    Column("tenant", _TENANT, primary_key=True),
    Column("evaluation_id", _ID, primary_key=True),
    Column("requested_at", BigInteger, nullable=False),
    Column("rank", Integer, nullable=False),  # states.Order: what the rest of the row rests on
    Column("at", BigInteger, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("provider", String(256)),
    Column("model", String(256)),
    Column("session", String(64)),
    Column("supersedes", _ID),
    Column("policy_digest", String(64)),
    Column("record_digest", String(64)),
    Column("closed_at", BigInteger),
    Column("outcome", String(16)),
    Column("trust", Integer),
    Column("coverage", Integer),
    Column("parts", Text),  # JSON {"JUDGE/PART": score} of those that were scored; together, for statistics read all
    Index("evaluations_by_time", "tenant", "requested_at", "evaluation_id"),
    Index("evaluations_by_outcome", "tenant", "outcome", "requested_at", "evaluation_id"),
    Index("evaluations_by_model", "tenant", "model", "requested_at", "evaluation_id"),
    Index("evaluations_by_session", "tenant", "session", "requested_at", "evaluation_id"),
    Index("evaluations_by_trust", "tenant", "trust", "evaluation_id"),
    Index("evaluations_by_outcome_and_trust", "tenant", "outcome", "trust", "evaluation_id"),
)

cards = Table(  # apart from what lists read: a record with its proof is some kilobytes
    "cards",
    metadata,
    Column("tenant", _TENANT, primary_key=True),
    Column("evaluation_id", _ID, primary_key=True),
    Column("rank", Integer, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("record", Text, nullable=False),
    Column("record_digest", String(64), nullable=False),
    Column("ledger", String(16)),
    Column("proof", Text),
)

scores = Table(
    "scores",
    metadata,
    Column("tenant", _TENANT, primary_key=True),
    Column("evaluation_id", _ID, primary_key=True),
    Column("judge", String(64), primary_key=True),
    Column("record_digest", String(64), primary_key=True),  # of which card: only the shown one's count
    Column("score", Integer, nullable=False),
    Index("scores_by_score", "tenant", "judge", "score", "evaluation_id"),
)

feed = Table(  # the order in which evaluations were found committed: what a follower has seen is one number
    "feed",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), Identity(), primary_key=True),
    Column("tenant", _TENANT, nullable=False),
    Column("evaluation_id", _ID, nullable=False),
    Index("feed_by_evaluation", "tenant", "evaluation_id", unique=True),
    Index("feed_by_tenant", "tenant", "seq"),
    sqlite_autoincrement=True,
)

announcements = Table(
    "announcements",
    metadata,
    Column("evaluation_id", _ID, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("tenant", _TENANT, nullable=False),
    Column("request_digest", String(64), nullable=False),
    Column("policy_digest", String(64), nullable=False),
    Column("intake_run", String(64), nullable=False),
    Column("deadline_ms", BigInteger, nullable=False),
    Column("kinds", Text, nullable=False),
)

answers = Table(
    "answers",
    metadata,
    Column("evaluation_id", _ID, primary_key=True),
    Column("kind", String(64), primary_key=True),
    Column("request_digest", String(64), primary_key=True),
    Column("policy_digest", String(64), primary_key=True),
    Column("intake_run", String(64), primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("failed", Boolean, nullable=False),
)

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("tenant", _TENANT, nullable=False),
    Column("evaluation_id", _ID),
    Column("reason", String(64), nullable=False),
    Column("field", String(256), nullable=False),
    Column("detail", Text, nullable=False),
    Column("source_topic", String(256), nullable=False),
    Column("source_partition", Integer, nullable=False),
    Column("source_offset", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("first_seen", BigInteger, nullable=False),
    Index("dead_letters_by_evaluation", "tenant", "evaluation_id"),
)

actions = Table(
    "actions",
    metadata,
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("at", String(32), nullable=False),
    Column("action", String(16), nullable=False),
)

callbacks = Table(  # who waits for the end of a request; not made anew from the topics: what was sent stays sent
    "callbacks",
    metadata,
    Column("position", BigInteger, primary_key=True, autoincrement=False),  # of the request, states.CallbackKey
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("tenant", _TENANT, nullable=False),
    Column("evaluation_id", _ID, nullable=False),
    Column("url", String(1024), nullable=False),
    Column("host", String(256), nullable=False),
    Column("event", String(32)),  # null: the request has not come to its end
    Column("event_at", BigInteger),
    Column("due_at", BigInteger),  # the next attempt; null: there is none to make
    Column("attempts", Integer, nullable=False),
    Column("result", String(32)),  # of the last attempt
    Column("delivered", Boolean, nullable=False),
    Index("callbacks_by_evaluation", "tenant", "evaluation_id"),
    Index("callbacks_due", "due_at"),
)

reviews = Table(  # what people say of scorecards; their words are in the evidence store
    "reviews",
    metadata,
    Column("tenant", _TENANT, primary_key=True),
    Column("digest", String(64), primary_key=True),
    Column("rank", Integer, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("evaluation_id", _ID, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("judge", String(64)),  # null, as what follows: only the receipt has come
    Column("part", String(64)),
    Column("agrees", Boolean),
    Column("met", Boolean),
    Column("method_digest", String(64)),
    Column("reviewer", String(64)),
    Column("committed", Boolean, nullable=False),
    Index("reviews_by_evaluation", "tenant", "evaluation_id", "created_at"),
    Index("reviews_by_time", "tenant", "created_at"),
)

heads = Table(
    "heads",
    metadata,
    Column("origin", String(256), primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("note", Text, nullable=False),
)

policies = Table(
    "policies",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("policy", Text, nullable=False),
)
