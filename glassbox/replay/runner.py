"""Runs a system once over a suite and keeps what it answered: each case ends in one trace, an answer or an error."""

from __future__ import annotations

import asyncio
import platform
import random
import secrets
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

from glassbox.contract.canonical import canonical
from glassbox.replay.store import Manifest, RunStore, SuiteReference, SystemReference
from glassbox.replay.suite import Case, Suite
from glassbox.replay.systems.port import InvocationFailed, LoadsLate, SystemUnderTest
from glassbox.replay.trace import Invocation, InvocationError, Trace, TraceError

TIMEOUT_S, LLM_TIMEOUT_S = 30.0, 150.0
"""Time for one answer, in seconds: of any system, and of one with a language model."""

FIRST_BACKOFF_S, LAST_BACKOFF_S = 1.0, 60.0
"""Backoff in seconds: it doubles with each attempt; jitter takes up to half of it away."""

_RETRIED = ("rate_limited", "unavailable")
"""What another try may mend. A timeout is retried once; what a system answers or raises is its own, and is kept."""


class SecretError(ValueError):
    """A manifest that would hold a key."""


@dataclass(frozen=True)
class Limits:
    """Times in seconds. `timeout_s`: one answer; `start_s`: until a system is up, and how much longer the first answer
    of one that loads within it may take; `longest_wait_s`: a system that asks
    to wait longer than this is given up. `retries`: beyond the first attempt. `pause_s`: between the beginnings of
    calls, of all workers together."""

    timeout_s: float = TIMEOUT_S
    start_s: float = 300.0
    longest_wait_s: float = 300.0
    retries: int = 2
    concurrency: int = 1
    pause_s: float = 0.0


class ExperimentRunner:
    """`make` gives a system; each of the `concurrency` workers has one of its own, which is closed at the end."""

    def __init__(
        self,
        make: Callable[[], SystemUnderTest],
        limits: Limits,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._make, self._limits = make, limits
        self._clock, self._sleep, self._jitter = clock, sleep, jitter
        self._free_at = clock()

    async def run(self, suite: Suite, store: RunStore, kept: Callable[[Trace], None] = lambda trace: None) -> None:
        """Run what the store has no trace of yet; `kept` hears of each that it has then. Cancelled, it ends what runs
        and leaves a run that can be resumed. Raises OSError where a trace cannot be kept."""
        todo = [
            (case, repeat)
            for repeat in range(store.manifest.repeats)
            for case in suite.cases.values()
            if (case.id, repeat) not in store.done
        ]
        queue = iter(todo)
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(min(self._limits.concurrency, len(todo))):
                    workers.create_task(self._work(queue, suite, store, kept))
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None

    async def _work(
        self, queue: Iterator[tuple[Case, int]], suite: Suite, store: RunStore, kept: Callable[[Trace], None]
    ) -> None:
        system = self._make()
        try:
            for case, repeat in queue:
                trace = await self._run(system, case, repeat, suite.digest)
                store.append(trace)
                kept(trace)
        finally:
            await system.close()

    async def _run(self, system: SystemUnderTest, case: Case, repeat: int, suite: str) -> Trace:
        attempts = 0
        while True:
            attempts += 1
            await self._turn()
            made, duration_ms = await self._attempt(system, case.question)
            if isinstance(made, InvocationFailed) and (delay := self._delay(made, attempts)) is not None:
                if made.retry_after:
                    self._free_at = max(self._free_at, self._clock() + made.retry_after)  # all workers wait
                await self._sleep(delay)
                continue
            about = {
                "case": case.id,
                "suite": suite,
                "repeat": repeat,
                "attempts": attempts,
                "duration_ms": duration_ms,
            }
            return _trace(about, made, system.secrets)

    async def _turn(self) -> None:
        while (wait := self._free_at - self._clock()) > 0:
            await self._sleep(wait)
        self._free_at = self._clock() + self._limits.pause_s

    async def _attempt(self, system: SystemUnderTest, question: str) -> tuple[Invocation | InvocationFailed, float]:
        """The answer or why there is none, and the milliseconds it took once the system was up."""
        made: Invocation | InvocationFailed
        try:
            async with asyncio.timeout(self._limits.start_s):
                await system.start()
        except TimeoutError:
            return InvocationFailed("unavailable", f"not up after {self._limits.start_s:g} s", final=True), 0.0
        except Exception as error:
            return _failure(error), 0.0
        begun, most = self._clock(), self._limits.timeout_s
        loads = isinstance(system, LoadsLate) and system.loading
        limit = asyncio.timeout(most + (self._limits.start_s if loads else 0.0))

        def ready() -> None:
            nonlocal begun
            begun = self._clock()
            limit.reschedule(asyncio.get_running_loop().time() + most)

        if isinstance(system, LoadsLate):
            system.when_ready = ready
        try:
            async with limit:
                made = await system.answer(question)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            made = InvocationFailed("exception", type(error).__name__)  # the system's own: nobody has asked for it
        except Exception as error:
            late = f"no answer after {most:g} s"
            made = InvocationFailed("timeout", late) if limit.expired() else _failure(error)
        else:
            if not made.answer.strip():
                made = InvocationFailed("malformed_output", "an empty answer")
        return made, round((self._clock() - begun) * 1000, 3)

    def _delay(self, failed: InvocationFailed, attempts: int) -> float | None:
        """Seconds until the next attempt, or None where there is to be none."""
        most = self._limits.retries if failed.type in _RETRIED else min(self._limits.retries, failed.type == "timeout")
        if failed.final or attempts > most:
            return None
        backoff = min(FIRST_BACKOFF_S * 2 ** (attempts - 1), LAST_BACKOFF_S) * (1 - self._jitter() / 2)
        delay = max(backoff, failed.retry_after or 0.0)
        return delay if delay <= self._limits.longest_wait_s else None


def _failure(error: Exception) -> InvocationFailed:
    """An exception's text may quote anything, so that only its class is told."""
    return error if isinstance(error, InvocationFailed) else InvocationFailed("exception", type(error).__name__)


def _trace(about: dict[str, object], made: Invocation | InvocationFailed, keys: frozenset[str]) -> Trace:
    """What is kept. An answer that cannot be, or that has a secret in it, is an error."""
    if isinstance(made, Invocation):
        trace = Trace.model_validate({**about, "invocation": made})
        try:
            if not _tells(trace.line(), keys):
                return trace
            made = InvocationFailed("malformed_output", "the answer holds a key of this environment")
        except TraceError as error:
            made = InvocationFailed("malformed_output", str(error))
    message = made.message
    if _tells(canonical(message), keys):
        message = "what the system said holds a key of this environment"
    return Trace.model_validate({**about, "error": InvocationError(type=made.type, message=message)})


def _tells(line: bytes, keys: frozenset[str]) -> bool:
    return any(canonical(key)[1:-1] in line for key in keys)


def describe(
    suite: Suite, system: SystemReference, keys: frozenset[str], *, repeats: int = 1, now: str | None = None
) -> Manifest:
    """The manifest of a run that begins now. Raises `SecretError` where what describes the system holds a key."""
    if _tells(canonical(system.model_dump()), keys):
        raise SecretError(
            "what names the system holds a key of this environment, and it would be kept: let the system read it itself"
        )
    started = now or utc_now()
    return Manifest(
        run_id=f"{''.join(filter(str.isdigit, started))[:14]}-{secrets.token_hex(4)}",
        suite=SuiteReference(
            name=suite.name,
            digest=suite.digest,
            corpus_digest=suite.corpus_digest,
            cases=len(suite.cases),
            columns=dict(suite.columns),
        ),
        system=system,
        repeats=repeats,
        git_revision=git_revision(),
        environment={
            "glassbox": version("glassbox"),
            "python": platform.python_version(),
            "platform": platform.platform(),
        },
        started_at=started,
    )


def utc_now() -> str:
    """RFC 3339, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def git_revision() -> str | None:
    """The commit of the working folder, with `-dirty` where tracked files have changed; None outside a repository."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
