"""How a system in another process or on another machine is asked: one JSON object there, one back.

There: {`id`, `question`}. Back: {`answer`, and as far as it knows them `citations`, `retrieved`, `usage`, `model`,
`parameters`}, each as in a trace, or {`error`: {`type`, `message`, `retry_after_s`}}. `retrieved` may list bare ids.
A command may write {`ready`: true} first, when it has loaded.
Where `citations` is absent, they are read from markers in the answer that name retrieved documents.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from glassbox.contract.canonical import CanonicalError, canonical, strict_loads
from glassbox.replay.systems.citations import read_markers
from glassbox.replay.systems.port import InvocationFailed
from glassbox.replay.trace import ErrorType, Invocation

MAX_REPLY = 16 * 1024 * 1024
"""Longest reply that is read, in bytes."""
_MAX_MESSAGE = 200


class _Failure(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")

    type: ErrorType = "exception"
    message: str = ""
    retry_after_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


def question_line(number: int, question: str) -> bytes:
    """A question for a process that answers many: the reply has its `id`."""
    return json.dumps({"id": number, "question": question}).encode() + b"\n"


def read_reply(raw: bytes, number: int | None = None) -> Invocation:
    """What a system replied; `number`: the id that it has to repeat.

    Raises `InvocationFailed`: of the type that the reply names, or malformed_output for one that is none.
    """
    try:
        value = strict_loads(raw)
    except CanonicalError as error:
        raise _malformed(error.field, error.reason) from None
    if not isinstance(value, dict):
        raise _malformed("", "the reply is not a JSON object")
    repeated = value.pop("id", None)
    if number is not None and repeated != number:
        raise _malformed("id", "is not that of the question")
    try:
        if "error" in value:
            failure = _Failure.model_validate_json(json.dumps(value["error"]))
            message = " ".join(failure.message.split())[:_MAX_MESSAGE] or "the system said no more"
            raise InvocationFailed(failure.type, message, retry_after=failure.retry_after_s)
        return Invocation.model_validate_json(canonical(_completed(value)), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise _malformed(".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")) from None


def _completed(value: dict[str, Any]) -> dict[str, Any]:
    retrieved = value.get("retrieved")
    if isinstance(retrieved, list):
        value["retrieved"] = [{"document": each} if isinstance(each, str) else each for each in retrieved]
    if "citations" not in value and isinstance(value.get("answer"), str) and isinstance(retrieved, list):
        named = [each["document"] for each in value["retrieved"] if isinstance(each, dict) and "document" in each]
        answer, citations = read_markers(value["answer"], [name for name in named if isinstance(name, str)])
        value |= {"answer": answer, "citations": [citation.model_dump() for citation in citations]}
    return value


def _malformed(field: str, reason: str) -> InvocationFailed:
    return InvocationFailed("malformed_output", f"{field}: {reason}" if field else reason)
