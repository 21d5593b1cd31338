"""A system that is a command: it reads questions and writes replies, a JSON line each (`wire`), until its standard
input ends. What it writes to standard error is the reader's to see, and is not kept."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress

from glassbox.contract.canonical import CanonicalError, strict_loads
from glassbox.lifeline import die_with
from glassbox.replay.store import SystemReference
from glassbox.replay.systems.port import InvocationFailed, environment_secrets
from glassbox.replay.systems.wire import MAX_REPLY, question_line, read_reply
from glassbox.replay.trace import Invocation

_GRACE_S = 2.0
"""How long a command may take to end after its standard input has, in seconds."""


class CommandSystem:
    """One process, which is killed with all that it has started where it is late or not in step, and then begun anew.

    Once it has loaded it may write {`ready`: true}: the time of its first answer counts from there. `greets`: it always
    does, or writes an {`error`}, and is not up before.
    """

    def __init__(self, command: Sequence[str], reference: SystemReference, *, greets: bool = False) -> None:
        self.reference = reference
        self.secrets = environment_secrets()
        self._command, self._greets = list(command), greets
        self._process: Process | None = None
        self._asked = 0
        self.loading = False
        self.when_ready: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Raises `InvocationFailed` where the command cannot be begun."""
        if self._process is not None:
            if self._process.returncode is None:
                return
            await self._kill()  # what it has left behind
        parent = os.getpid()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=PIPE,
                stdout=PIPE,
                start_new_session=True,  # so that what it starts can be killed with it
                preexec_fn=lambda: die_with(parent),
                limit=MAX_REPLY,
            )
        except OSError as error:
            raise InvocationFailed("unavailable", f"cannot be started: {error.strerror}", final=True) from None
        self.loading = not self._greets
        if self._greets:
            try:
                _check_greeting(await self._line())
            except BaseException:
                await self._kill()
                raise

    async def answer(self, question: str) -> Invocation:
        self._asked += 1
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            try:
                self._process.stdin.write(question_line(self._asked, question))
                await self._process.stdin.drain()
            except ConnectionError:
                raise await self._ended() from None
            line = await self._line()
            if self.loading and _is_greeting(line):
                self.when_ready()
                line = await self._line()
        except BaseException:
            await self._kill()
            raise
        self.loading = False
        try:
            return read_reply(line, self._asked)
        except InvocationFailed as failed:
            if failed.type == "malformed_output":
                await self._kill()  # its next line may belong to this question
            raise

    async def _line(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            return await self._process.stdout.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            raise await self._ended() from None
        except asyncio.LimitOverrunError:
            raise InvocationFailed("malformed_output", f"a reply of more than {MAX_REPLY} bytes") from None

    async def _ended(self) -> InvocationFailed:
        assert self._process is not None
        code = await self._process.wait()
        if code < 0:
            return InvocationFailed("killed", f"the command was ended by {signal.Signals(-code).name}")
        return InvocationFailed("exception", f"the command ended with exit code {code} instead of a reply")

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # also what an ended one has left in its group
            assert process.stdout is not None
            with suppress(TimeoutError):  # what left the group may still hold its pipe
                async with asyncio.timeout(_GRACE_S):
                    while await process.stdout.read(MAX_REPLY):
                        pass  # it counts as ended when its pipe is read to the end
                    await process.wait()

    async def close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_S):
                    await self._process.wait()
        await self._kill()


def _is_greeting(line: bytes) -> bool:
    try:
        return bool(strict_loads(line) == {"ready": True})
    except CanonicalError:
        return False


def _check_greeting(line: bytes) -> None:
    if not _is_greeting(line):
        try:
            read_reply(line)
        except InvocationFailed as failed:
            raise InvocationFailed(failed.type, failed.message, final=True) from None
        raise InvocationFailed("malformed_output", "the command has answered before it was asked", final=True)
