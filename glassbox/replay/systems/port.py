"""What a system under test is: something that answers a question, whatever is behind it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from glassbox.replay.store import SystemReference
from glassbox.replay.trace import ErrorType, Invocation

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_KEY = re.compile(
    r"""(?:api[-_]?key|access[-_]?key|secret(?:[-_]?key)?|(?<![a-z])token|password|passwd)["']?[=:]\s*["']?[^\s"'$]
    |(?:^|\s)--?[\w-]*?(?:api[-_]?key|access[-_]?key|secret(?:[-_]?key)?|(?<![a-z])token|password|passwd)\s+[^\s$"'-]
    |\bbearer\s+["']?[^\s"'$]
    |(?<![a-z0-9])(?:sk-|gh[pousr]_|hf_)[a-z0-9_-]{8}
    |://[^/\s:@]*:[^/\s@$]+@""",
    re.IGNORECASE | re.VERBOSE,
)
"""What an argument that is a key looks like; `$NAME` in its place is none."""
_SHORTEST = 8
"""Shorter values of the environment are no keys, and would be found in any text."""


class InvocationFailed(Exception):
    """A system that did not answer. `retry_after`: seconds that it asked to be left alone; `final`: asking again is
    useless. `message` is one sentence that quotes nothing."""

    def __init__(
        self, type_: ErrorType, message: str, *, retry_after: float | None = None, final: bool = False
    ) -> None:
        self.type: ErrorType = type_
        self.message, self.retry_after, self.final = message, retry_after, final
        super().__init__(f"{type_}: {message}")


class SystemUnderTest(Protocol):
    """Answers one question at a time. `reference` names it in the manifest, with all that its answers depend on;
    `secrets` are texts that nothing that is kept may hold."""

    @property
    def reference(self) -> SystemReference: ...

    @property
    def secrets(self) -> frozenset[str]: ...

    async def start(self) -> None:
        """Be up: called before each question, outside its time. Raises `InvocationFailed`."""
        ...

    async def answer(self, question: str) -> Invocation:
        """Answer one question. Cancelled, it leaves nothing running. Raises `InvocationFailed`; any other exception
        is an error of type `exception`."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class LoadsLate(Protocol):
    """A system that may still load when it is asked first: `loading`, until its first answer. It calls `when_ready`
    where it says that it has loaded, and the time of the answer counts from there."""

    when_ready: Callable[[], None]

    @property
    def loading(self) -> bool: ...


def environment_secrets(environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """The values of variables that are named like keys: what a system that inherits them may let slip."""
    return frozenset(value for name, value in environment.items() if names_secret(name) and len(value) >= _SHORTEST)


def names_secret(name: str) -> bool:
    """Whether what has this name is a key, by its name."""
    return bool(_SECRET.search(name))


def shows_key(words: Sequence[str]) -> bool:
    """Whether the words of a command look as if a key stood among them: `--api-key=…`, `sk-…`, `Bearer …`."""
    return bool(_KEY.search(" ".join(words)))
