"""What people and models said, out of the shapes that instrumentations write it in.

Messages come as OpenTelemetry's parts, as OpenAI's content, or as LangChain serialises its own; inputs and outputs of
chains as plain text or as JSON of whatever the chain takes and gives.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

MASKED = "__REDACTED__"
"""What OpenInference writes where content is not to be recorded."""

_DEPTH = 12
_ROLES = {
    **dict.fromkeys(("user", "human", "HumanMessage", "HumanMessageChunk"), "user"),
    **dict.fromkeys(("assistant", "ai", "model", "AIMessage", "AIMessageChunk"), "assistant"),
}
QUESTION = (
    *("question", "query", "input", "user_input", "user_msg", "query_str", "str_or_query_bundle", "query_bundle"),
    *("prompt", "message", "text", "content", "messages", "inputs", "kwargs", "args"),
)
"""Under which names a chain takes a question, the surest first."""
ANSWER = (
    *("answer", "output", "response", "result", "output_text", "text", "content", "message", "messages"),
    *("return_values", "outputs"),
)
"""Likewise its answer."""


class Message(NamedTuple):
    """`role`: `user`, `assistant`, or what else it was called."""

    role: str
    text: str


def plain(value: Any) -> str:
    """A text as it is; empty where there is none, or where it was masked."""
    return value if isinstance(value, str) and value != MASKED else ""


def structure(value: Any) -> Any:
    """What a JSON text says, and anything else as it is: attributes of spans often hold structure as JSON."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "[", '"'):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def messages(value: Any) -> list[Message]:
    """The messages in a list (or in the first of several lists, or in one object), without those that hold no text."""
    found = structure(value)
    for _ in range(_DEPTH):
        if not (isinstance(found, list) and found and isinstance(found[0], list)):
            break
        found = found[0]
    items = found if isinstance(found, list) else [found]
    made = (_message(item) for item in items if isinstance(item, Mapping))
    return [message for message in made if message.text]


def last(said: Sequence[Message], role: str) -> str:
    """The last text in this role; the last of any, where no message names a role that is known."""
    if not any(message.role in ("user", "assistant") for message in said):
        return said[-1].text if said else ""
    return next((message.text for message in reversed(said) if message.role == role), "")


def of_chain(value: Any, names: Iterable[str], role: str, depth: int = _DEPTH) -> str:
    """The one text that an input or output of a chain is about; empty where it is not clear which that is."""
    found = structure(value)
    if depth == 0:
        return ""
    if isinstance(found, str):
        return plain(found)
    if isinstance(found, list):
        said = [message for message in messages(found) if message.role in ("user", "assistant")]
        is_sole = len(found) == 1 and role == "user"  # a function's argument; what is given in a list is no answer
        return last(said, role) or (of_chain(found[0], names, role, depth - 1) if is_sole else "")
    if not isinstance(found, Mapping):
        return ""
    if _is_message(found):
        return _message(found).text
    for name in names:
        if name in found and (text := of_chain(found[name], names, role, depth - 1)):
            return text
    return ""


def _is_message(value: Mapping[str, Any]) -> bool:
    return ("role" in value and ("content" in value or "parts" in value)) or _role(value) in ("user", "assistant")


def _inner(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """LangChain puts a message's fields under `kwargs` (its own serialisation) or `data`."""
    return next((value[name] for name in ("kwargs", "data") if isinstance(value.get(name), Mapping)), value)


def _role(value: Mapping[str, Any]) -> str:
    inner, path = _inner(value), value.get("id")
    called = [
        inner.get("role"),
        inner.get("type"),
        value.get("type"),
        path[-1] if isinstance(path, list) and path else "",
    ]
    return next((_ROLES[name] for name in called if isinstance(name, str) and name in _ROLES), str(called[0] or ""))


def _message(value: Mapping[str, Any]) -> Message:
    inner = _inner(value)
    body = next((inner[name] for name in ("parts", "content", "text") if inner.get(name)), "")
    return Message(_role(value), _body(body))


def _body(value: Any) -> str:
    parts = structure(value)
    if isinstance(parts, list) and (
        parts is value or all(isinstance(part, Mapping) and "type" in part for part in parts)
    ):
        return "\n".join(filter(None, map(_part, parts)))
    return plain(value)


def _part(value: Any) -> str:
    """The text of one part of a message; calls of tools, reasoning and media have none."""
    if not isinstance(value, Mapping):
        return plain(value)
    if value.get("type", "text") not in ("text", "input_text", "output_text"):
        return ""
    return plain(value.get("content")) or plain(value.get("text"))
