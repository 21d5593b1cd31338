"""What a system under test is: something that answers a question, whatever is behind it."""

from __future__ import annotations

from typing import Protocol

from glassbox.replay.store import SystemReference
from glassbox.replay.trace import ErrorType, Invocation


class InvocationFailed(Exception):
    """A system that did not answer. `retry_after`: seconds that it asked to be left alone. `message` quotes nothing."""

    def __init__(self, type_: ErrorType, message: str, *, retry_after: float | None = None) -> None:
        self.type: ErrorType = type_
        self.message, self.retry_after = message, retry_after
        super().__init__(f"{type_}: {message}")


class SystemUnderTest(Protocol):
    """`reference` names it in the manifest, with all that its answers depend on."""

    @property
    def reference(self) -> SystemReference: ...

    async def answer(self, question: str) -> Invocation:
        """Answer one question. Raises `InvocationFailed`; any other exception is an error of type `exception`."""
        ...

    async def close(self) -> None: ...
