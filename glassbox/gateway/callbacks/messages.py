"""What a callback says."""

from __future__ import annotations

from hashlib import sha256
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from glassbox.catalogue.callbacks import DEAD_LETTER, Due
from glassbox.catalogue.reading import Detail
from glassbox.contract.canonical import canonical
from glassbox.contract.events import rfc3339
from glassbox.gateway import shapes


class CallbackMessage(BaseModel):
    """The body of a callback. It holds no text of the evaluation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["evaluation.committed", "evaluation.dead_letter"] = Field(
        description="The evaluation has a record, or the request was refused after it had been accepted."
    )
    timestamp: str = Field(description="When that was found.")
    data: shapes.EvaluationStatus = Field(description="The evaluation as it stands when this is sent.")


def message(due: Due, found: Detail | None) -> bytes:
    """The body, JSON. `found`: None where the catalogue keeps nothing of the evaluation any more."""
    if found is None:
        state: Literal["dead_letter", "committed"] = "dead_letter" if due.event == DEAD_LETTER else "committed"
        name, tenant = due.evaluation_id, due.tenant or None
        data = shapes.EvaluationStatus(evaluation_id=name, tenant=tenant, state=state, requested_at=None)
    else:
        data = shapes.status(due.tenant, due.evaluation_id, found)
    made = CallbackMessage.model_validate(
        {"type": due.event, "timestamp": rfc3339(due.event_at), "data": data.model_dump()}
    )
    return made.model_dump_json().encode()


def message_id(due: Due) -> str:
    """The same for every attempt, and for every request that asks for the same word to the same address: a receiver
    that drops what it has seen takes it in once. A refused request is an event of its own."""
    which = due.key if due.event == DEAD_LETTER else ()
    told = canonical([due.tenant, due.evaluation_id, due.url, due.event, *map(str, which)])
    return "msg_" + sha256(told).hexdigest()[:32]
