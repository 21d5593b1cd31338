"""`python -m glassbox.replay.systems.child module:callable`: one's own Python as a command that answers questions.

The object is called with the question, or its method `answer` is, if it has one; a class is made first, without
arguments. It returns, or its coroutine does, the answer as text or a mapping as `wire` has it. What it prints goes to
standard error.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any


def main() -> None:
    """Answer until standard input ends. An exception is told by its class alone: its text may quote anything."""
    questions, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    target = sys.argv[1]

    def reply(value: Mapping[str, Any]) -> None:
        replies.write(json.dumps(value).encode() + b"\n")

    try:
        answer = _load(target)
    except Exception as error:
        traceback.print_exc()
        reply(_failure("exception", f"{target} cannot be loaded ({type(error).__name__})"))
        return
    reply({"ready": True})
    with asyncio.Runner() as loop:
        for line in questions:
            asked = json.loads(line)
            try:
                made = answer(asked["question"])
                made = loop.run(_awaited(made)) if inspect.isawaitable(made) else made
            except Exception as error:
                traceback.print_exc()
                reply({"id": asked["id"], **_failure("exception", f"{target} raised {type(error).__name__}")})
                continue
            try:
                reply({"id": asked["id"], **_document(made)})
            except (TypeError, ValueError):
                reply({"id": asked["id"], **_failure("malformed_output", f"{target} returned what is no answer")})


def _load(target: str) -> Callable[[str], Any]:
    module, _, path = target.partition(":")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    found = found() if inspect.isclass(found) else found
    answer = getattr(found, "answer", found)
    if not callable(answer):
        raise TypeError(f"{target} cannot be called")
    return answer  # type: ignore[no-any-return]  # whatever a package registers


async def _awaited(made: Any) -> Any:
    return await made


def _document(made: Any) -> Mapping[str, Any]:
    """The reply for what was returned. Raises TypeError where that is neither text nor a mapping."""
    if isinstance(made, str):
        return {"answer": made}
    if hasattr(made, "model_dump"):
        made = made.model_dump(mode="json")
    if not isinstance(made, Mapping):
        raise TypeError
    return made


def _failure(type_: str, message: str) -> dict[str, Any]:
    return {"error": {"type": type_, "message": message}}


if __name__ == "__main__":
    main()
