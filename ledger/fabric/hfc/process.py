"""This side of the process boundary: a worker under another environment's Python, one request at a time."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import PIPE, Process
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from glassbox import lifeline
from ledger.fabric.identity import Signer
from ledger.port import LedgerUnavailable

WORKER = Path(__file__).with_name("worker.py")
MAX_LINE = 256 << 20
"""Longest answer, in bytes: what a Fabric node sends at most, in base64 and with room to spare."""
_GRACE_S = 2.0
"""How much longer than asked an answer may take, and how long the worker may take to end, in seconds."""
_START_S = 30.0
_ENVIRONMENT = {
    "PATH": os.defpath,
    "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python",  # the only one that its messages work with here
    "GRPC_VERBOSITY": "NONE",  # what fails is said in the answer
}


class WorkerFailed(LedgerUnavailable):
    """No result, and none to be expected: the worker cannot be started, or was late, or is gone."""


class HfcFailed(Exception):
    """What hfc, or the network through it, says went wrong; the worker goes on working."""


class Worker:
    """Starts with the first request, and anew after a request that failed on its way.

    `opening`: the arguments of the request `open` (worker.py) without the identity, which `signer` has and keeps: the
    worker asks for signatures. The process ends with this one, and it sees nothing of this one's environment: what
    is in there are secrets of others.
    """

    def __init__(self, python: Path, opening: Mapping[str, Any], signer: Signer) -> None:
        self._python, self._opening, self._signer = python, opening, signer
        self._process: Process | None = None
        self._turn = asyncio.Lock()

    async def call(self, name: str, wait_s: float, **arguments: Any) -> Any:
        """The result of one request (worker.py), within `wait_s` and the time a start takes. Raises WorkerFailed or
        HfcFailed."""
        async with self._turn:
            try:
                if self._process is None or self._process.returncode is not None:
                    await self._start()
                return await self._ask(wait_s, {"call": name, "wait_s": wait_s, **arguments})
            except HfcFailed:
                raise
            except BaseException:
                await self._kill()  # its next line might answer this request
                raise

    async def close(self) -> None:
        async with self._turn:
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.close()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_GRACE_S):
                        await self._process.wait()
            await self._kill()

    async def _start(self) -> None:
        try:
            self._process = await asyncio.create_subprocess_exec(
                self._python,
                "-I",  # what it imports is in its own environment
                WORKER,
                lifeline.__file__,  # not preexec_fn: a process with gRPC in it is not to be forked
                str(os.getpid()),
                stdin=PIPE,
                stdout=PIPE,
                env=_ENVIRONMENT,
                start_new_session=True,  # Ctrl-C is for the parent, which may still need it
                limit=MAX_LINE,
            )
        except OSError as error:
            raise WorkerFailed(
                f"{self._python}, which is to run hfc, cannot be started: {error.strerror} (`make hfc` installs it)"
            ) from None
        identity = {"msp_id": self._signer.msp_id, "certificate": self._signer.certificate.decode()}
        try:
            await self._ask(_START_S, {"call": "open", **self._opening, **identity})
        except HfcFailed as failed:
            raise WorkerFailed(f"hfc does not work under {self._python}: {failed} (`make hfc` installs it)") from None

    async def _ask(self, wait_s: float, message: Mapping[str, Any]) -> Any:
        try:
            async with asyncio.timeout(wait_s + _GRACE_S):
                while "sign" in (answer := await self._exchange(message)):
                    message = {"signature": b64encode(self._signer.sign(b64decode(answer["sign"]))).decode()}
        except TimeoutError:
            raise WorkerFailed(f"hfc gave no answer in {wait_s:g} s; it is started anew with the next call") from None
        if "error" in answer:
            raise HfcFailed(answer["error"])
        return answer["result"]

    async def _exchange(self, message: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            await self._process.stdin.drain()
            line = await self._process.stdout.readuntil(b"\n")
        except (ConnectionError, asyncio.IncompleteReadError):
            code = await self._process.wait()
            raise WorkerFailed(f"hfc ended with exit code {code}; it is started anew with the next call") from None
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            raise WorkerFailed("hfc's answer is not JSON; it is started anew with the next call") from None
        return answer

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
