"""What a check of a proof consists of: steps, each of which holds, does not, or cannot be told."""

import base64
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Step:
    """One check. `holds` is None where it could not be told; `detail` says what holds, or why it does not."""

    name: str
    holds: bool | None
    detail: str


class Fails(Exception):
    """The proof is wrong; the message says where."""


class CannotTell(Exception):
    """The proof may be right, and this call cannot know; the message says what it lacks."""


def decoded(text: Any, what: str) -> bytes:
    """Of base64 that is written in the one way. Raises Fails."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (TypeError, ValueError):
        raise Fails(f"{what} is not base64") from None
    if base64.b64encode(raw).decode() != text:
        raise Fails(f"{what} is not base64 as RFC 4648 has it")
    return raw
