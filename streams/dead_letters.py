"""Dead letters: the original bytes, and headers that say why and from where.

Headers are short UTF-8 strings and never quote the evaluation.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Literal, get_args

from glassbox.contract.events import Source, rfc3339
from streams import metrics
from streams.ports import Outbox, Record, TooLarge
from streams.topics import DEAD_LETTERS

log = logging.getLogger("glassbox.streams")

Code = Literal[
    "contract", "too_large", "id_reused", "request_lost", "erased", "bad_task", "bad_result", "bad_entry", "refused"
]
for _code in get_args(Code):
    metrics.DEAD_LETTERS.labels(reason=_code)


@dataclass(frozen=True)
class Reason:
    """Why a message is dead: a code for machines, `field` and `detail` for people."""

    code: Code
    field: str = ""
    detail: str = ""


def headers(
    reason: Reason,
    source: Source,
    first_seen: int,
    evaluation_id: str | None,
    tenant: str | None,
    attempt: str = "0",
    original: str = "",
) -> dict[str, str]:
    """The headers of a dead letter. `first_seen`: append time of the message in ms. `attempt`: how often the request
    was redriven, `original`: where it stood at first (TOPIC/PARTITION/OFFSET), if it was."""
    named = {
        "reason": reason.code,
        "field": reason.field,
        "detail": reason.detail,
        "source_topic": source.topic,
        "source_partition": str(source.partition),
        "source_offset": str(source.offset),
        "attempt": attempt,
        "original": original,
        "first_seen": rfc3339(first_seen),
        "evaluation_id": evaluation_id or "",
        "tenant": tenant or "",
    }
    return {name: value for name, value in named.items() if value}


async def bury(
    outbox: Outbox,
    record: Record,
    reason: Reason,
    *,
    evaluation_id: str | None = None,
    tenant: str | None = None,
    source: Source | None = None,
    with_content: bool = True,
) -> None:
    """Put a record, its own key and value bytes, on the dead-letter topic and wait for the acknowledgement.

    `source`: where the request stands, when the record at hand only points at it. `with_content=False` leaves the
    value out (an erased evaluation's). So does one that leaves no room for the headers: nobody but the roles themselves
    should be able to send it, and a role that it stopped would be stopped by it for ever.
    """
    where = source or Source(topic=record.topic, partition=record.partition, offset=record.offset)
    attempt = record.headers.get("attempt", b"0").decode("ascii", "replace")
    original = record.headers.get("original", b"").decode("utf-8", "replace")
    value = record.value if with_content else None
    key = record.key
    if key is None and value is None:  # clients refuse such a message
        key = f"{where.topic}/{where.partition}/{where.offset}".encode()
    named = headers(reason, where, record.timestamp, evaluation_id, tenant, attempt, original)
    try:
        await outbox.send(DEAD_LETTERS, key, value, headers=named, partition=record.partition)
    except TooLarge:
        key = f"{where.topic}/{where.partition}/{where.offset}".encode()
        await outbox.send(DEAD_LETTERS, key, None, headers=named, partition=record.partition)
    metrics.DEAD_LETTERS.labels(reason=reason.code).inc()
    log.warning("dead letter: %s%s", reason.code, f" ({reason.field})" if reason.field else "")
