"""The runner: every case ends in one trace, whatever the system does, and time is the test's own."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbox.replay.runner import (
    FIRST_BACKOFF_S,
    LAST_BACKOFF_S,
    ExperimentRunner,
    Limits,
    SecretError,
    describe,
    git_revision,
)
from glassbox.replay.store import Run, RunStore, SystemReference
from glassbox.replay.suite import Suite
from glassbox.replay.systems.command import CommandSystem
from glassbox.replay.systems.port import InvocationFailed
from glassbox.replay.trace import ErrorType, Invocation, Trace
from tests.replay.builders import NOW, SYSTEM, manifest, suite

Step = str | BaseException | Callable[[], Awaitable[str]]

KEY = "sk-0123456789"


async def forever() -> str:
    await asyncio.Event().wait()
    return ""


class Double:
    """Answers with what it is given, one step a call; then with "fine"."""

    reference = SYSTEM
    secrets = frozenset((KEY,))

    def __init__(self, *steps: Step, start: Step = "") -> None:
        self.steps: Iterator[Step] = iter(steps)
        self.first = start
        self.calls: list[str] = []
        self.closed = self.starts = 0

    async def start(self) -> None:
        self.starts += 1
        await self._do(self.first)

    async def answer(self, question: str) -> Invocation:
        self.calls.append(question)
        return Invocation(answer=await self._do(next(self.steps, "fine")))

    async def _do(self, step: Step) -> str:
        if isinstance(step, BaseException):
            raise step
        return step if isinstance(step, str) else await step()

    async def close(self) -> None:
        self.closed += 1


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


def runner(system: Double, time: Time, **limits: Any) -> ExperimentRunner:
    return ExperimentRunner(lambda: system, Limits(**limits), clock=time.clock, sleep=time.sleep, jitter=lambda: 0.0)


async def run(folder: Path, system: Double, time: Time | None = None, cases: str = "a", **limits: Any) -> list[Trace]:
    of = suite(*cases)
    with RunStore.create(folder, manifest(of)) as store:
        await runner(system, time or Time(), **limits).run(of, store)
        return list(store.finish(NOW).traces())


async def one(folder: Path, *steps: Step, **limits: Any) -> Trace:
    (trace,) = await run(folder, Double(*steps), **limits)
    return trace


def failing(type_: ErrorType, times: int, **more: Any) -> list[Step]:
    return [InvocationFailed(type_, "no", **more) for _ in range(times)]


async def test_each_case_once_in_order(tmp_path: Path) -> None:
    system = Double()
    traces = await run(tmp_path, system, cases="abc")
    assert [(each.case, each.attempts, each.invocation and each.invocation.answer) for each in traces] == [
        ("a", 1, "fine"), ("b", 1, "fine"), ("c", 1, "fine"),
    ]  # fmt: skip
    assert system.calls == ["What is a?", "What is b?", "What is c?"]
    assert (system.starts, system.closed) == (3, 1)


@pytest.mark.parametrize(
    ("type_", "attempts"),
    [
        ("rate_limited", 3),
        ("unavailable", 3),
        ("timeout", 2),
        ("exception", 1),
        ("malformed_output", 1),
        ("refused", 1),
        ("truncated", 1),
        ("killed", 1),
    ],
)
async def test_only_what_another_try_may_mend_is_tried_again(tmp_path: Path, type_: ErrorType, attempts: int) -> None:
    trace = await one(tmp_path / "fails", *failing(type_, 9))
    assert trace.error is not None
    assert (trace.error.type, trace.error.message, trace.attempts) == (type_, "no", attempts)
    mended = await one(tmp_path / "mended", *failing(type_, attempts - 1))
    assert mended.invocation is not None
    assert mended.attempts == attempts
    once = await one(tmp_path / "once", *failing(type_, 9), retries=0)
    assert once.attempts == 1


async def test_what_is_final_is_not_tried_again(tmp_path: Path) -> None:
    assert (await one(tmp_path, *failing("unavailable", 9, final=True))).attempts == 1


async def test_backoff_doubles_and_retry_after_is_honoured(tmp_path: Path) -> None:
    time = Time()
    steps = [*failing("unavailable", 2), *failing("rate_limited", 1, retry_after=7.5)]
    (trace,) = await run(tmp_path, Double(*steps), time, retries=5)
    assert trace.attempts == 4
    assert time.slept == [FIRST_BACKOFF_S, 2 * FIRST_BACKOFF_S, 7.5]


async def test_all_workers_wait_where_one_was_asked_to(tmp_path: Path) -> None:
    time = Time()
    begun: list[float] = []

    class Watched(Double):
        async def answer(self, question: str) -> Invocation:
            begun.append(time.now)
            return await super().answer(question)

    await run(tmp_path, Watched(*failing("rate_limited", 1, retry_after=50.0)), time, "abc", concurrency=3)
    assert begun[0] == 0
    assert sorted(begun)[-1] >= 50
    assert not any(0 < at < 50 for at in begun), "nobody calls while it asked to be left alone"


async def test_a_system_that_asks_for_too_long_is_given_up(tmp_path: Path) -> None:
    time = Time()
    (trace,) = await run(tmp_path, Double(*failing("rate_limited", 1, retry_after=3600.0)), time)
    assert (trace.attempts, time.slept) == (1, [])
    assert trace.error is not None


@given(st.integers(1, 20), st.floats(0, 1, exclude_max=True), st.none() | st.floats(0, 1e4))
def test_a_wait_is_never_shorter_than_asked_nor_longer_than_allowed(
    attempts: int, jitter: float, asked: float | None
) -> None:
    made = ExperimentRunner(Double, Limits(retries=20), clock=lambda: 0.0, jitter=lambda: jitter)
    delay = made._delay(InvocationFailed("rate_limited", "", retry_after=asked), attempts)
    if delay is None:
        assert asked is not None
        assert asked > made._limits.longest_wait_s
    else:
        assert max(asked or 0, FIRST_BACKOFF_S / 2) <= delay <= max(asked or 0, LAST_BACKOFF_S)


async def test_calls_are_paced_together(tmp_path: Path) -> None:
    time = Time()
    begun: list[float] = []

    class Watched(Double):
        async def answer(self, question: str) -> Invocation:
            begun.append(time.now)
            return await super().answer(question)

    await run(tmp_path, Watched(), time, "abcd", concurrency=2, pause_s=2.0)
    assert all(later - earlier >= 2 for earlier, later in pairwise(begun))


async def test_concurrency_is_bounded_and_each_worker_has_a_system(tmp_path: Path) -> None:
    active = peak = 0
    made: list[Double] = []

    class Counted(Double):
        async def answer(self, question: str) -> Invocation:
            nonlocal active, peak
            active += 1
            peak = max(peak, active)
            await asyncio.sleep(0)
            active -= 1
            return await super().answer(question)

    def make() -> Double:
        made.append(Counted())
        return made[-1]

    of = suite(*"abcdefgh")
    with RunStore.create(tmp_path, manifest(of)) as store:
        await ExperimentRunner(make, Limits(concurrency=3)).run(of, store)
        store.finish(NOW)
    assert (peak, len(made), [each.closed for each in made]) == (3, 3, [1, 1, 1])


async def test_a_hung_system_is_cancelled_and_the_run_goes_on(tmp_path: Path) -> None:
    traces = await run(tmp_path, Double(forever), cases="ab", timeout_s=0.05, retries=0)
    assert traces[0].error is not None
    assert (traces[0].error.type, traces[0].error.message) == ("timeout", "no answer after 0.05 s")
    assert traces[1].invocation is not None


async def test_one_that_does_not_start_is_an_error_of_each_case(tmp_path: Path) -> None:
    traces = await run(tmp_path / "hangs", Double(start=forever), cases="ab", start_s=0.05)
    assert [(t.error and t.error.type, t.error and t.error.message, t.duration_ms) for t in traces] == [
        ("unavailable", "not up after 0.05 s", 0.0)
    ] * 2
    (trace,) = await run(tmp_path / "fails", Double(start=OSError("disk")))
    assert trace.error is not None
    assert (trace.error.type, trace.error.message) == ("exception", "OSError")


@pytest.mark.parametrize(
    ("step", "type_", "message"),
    [
        (ValueError(f"bad {KEY}"), "exception", "ValueError"),
        (TimeoutError("its own"), "exception", "TimeoutError"),
        (asyncio.CancelledError(), "exception", "CancelledError"),
        (
            InvocationFailed("refused", f"token {KEY}"),
            "refused",
            "what the system said holds a key of this environment",
        ),
        (f"The key is {KEY}.", "malformed_output", "the answer holds a key of this environment"),
        ("", "malformed_output", "an empty answer"),
        (" \n", "malformed_output", "an empty answer"),
        ("nul \0", "malformed_output", "invocation.answer: NUL character"),
    ],
)
async def test_what_cannot_be_an_answer_is_an_error(tmp_path: Path, step: Step, type_: str, message: str) -> None:
    trace = await one(tmp_path, step)
    assert trace.error is not None
    assert (trace.error.type, trace.error.message) == (type_, message)
    assert KEY not in (tmp_path / "traces.jsonl").read_text()


async def test_only_what_is_missing_is_run(tmp_path: Path) -> None:
    of = suite(*"abcd")

    class Stops(Double):
        async def answer(self, question: str) -> Invocation:
            if "c" in question:
                task.cancel()
            return await super().answer(question)

    stopped = Stops("one", "two", forever)
    with RunStore.create(tmp_path, manifest(of)) as store:
        task = asyncio.create_task(runner(stopped, Time()).run(of, store))
        with pytest.raises(asyncio.CancelledError):
            await task
    assert stopped.closed == 1
    rest = Double()
    with RunStore.resume(tmp_path, of, SYSTEM, NOW) as store:
        await runner(rest, Time()).run(of, store)
        store.finish(NOW)
    assert rest.calls == ["What is c?", "What is d?"]
    assert [each.case for each in Run.open(tmp_path, of).traces()] == list("abcd")
    assert Run.open(tmp_path).manifest.resumed_at == (NOW,)


async def test_repeats(tmp_path: Path) -> None:
    of = suite(*"ab")
    heard: list[tuple[str, int]] = []
    with RunStore.create(tmp_path, manifest(of, repeats=2)) as store:
        await runner(Double(), Time()).run(of, store, lambda trace: heard.append((trace.case, trace.repeat)))
        store.finish(NOW)
    assert heard == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]


async def test_a_disk_that_takes_nothing_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = suite(*"abc")
    system = Double()

    def full(_: Trace) -> None:
        raise OSError(28, "No space left on device")

    with RunStore.create(tmp_path, manifest(of)) as store:
        monkeypatch.setattr(store, "append", full)
        with pytest.raises(OSError, match="No space"):
            await runner(system, Time(), concurrency=2).run(of, store)
    assert system.closed == 2


async def test_duration_is_that_of_the_last_attempt(tmp_path: Path) -> None:
    time = Time()

    async def slow() -> str:
        time.now += 0.25
        return "fine"

    (trace,) = await run(tmp_path, Double(*failing("unavailable", 1), slow), time)
    assert (trace.duration_ms, trace.attempts) == (250.0, 2)


def test_the_manifest_says_what_was_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of: Suite = suite(*"ab")
    monkeypatch.chdir(tmp_path)
    made = describe(of, SYSTEM, frozenset(), repeats=3, now=NOW)
    assert made.run_id.startswith("20261130090000-")
    assert (made.suite.digest, made.suite.corpus_digest, made.suite.cases) == (of.digest, of.corpus_digest, 2)
    assert (made.system, made.repeats, made.git_revision, made.finished_at) == (SYSTEM, 3, None, None)
    assert set(made.environment) == {"glassbox", "python", "platform"}


def test_a_manifest_never_holds_a_key() -> None:
    named = SystemReference(name="command", version="1", parameters={"command": ["rag", f"--key={KEY}"]})
    with pytest.raises(SecretError):
        describe(suite("a"), named, frozenset((KEY,)))


def test_git_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_revision() is None

    def git(*words: str) -> None:
        identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        subprocess.run(["git", *identity, *words], check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / "a").write_text("a")
    git("add", "a")
    git("commit", "-q", "-m", "a")
    revision = git_revision()
    assert revision is not None
    assert len(revision) == 40
    (tmp_path / "a").write_text("b")
    assert git_revision() == f"{revision}-dirty"


LOADS = """
import json, sys, time
time.sleep(3)
if sys.argv[1] == "greets":
    print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if len(sys.argv) > 2:
        time.sleep(600)
    print(json.dumps({"id": asked["id"], "answer": "Nine."}), flush=True)
"""


@pytest.mark.parametrize(
    ("arguments", "error", "duration"),
    [
        (["greets"], None, (0, 2500)),
        (["silent"], None, (2500, 60_000)),
        (["greets", "hangs"], "timeout", (2000, 60_000)),
    ],
)
async def test_a_command_may_load_within_its_first_answer(
    tmp_path: Path, arguments: list[str], error: str | None, duration: tuple[float, float]
) -> None:
    """The time for one answer is shorter than the loading, and the limit for the start longer than this test's."""
    of = suite("a")
    limits = Limits(timeout_s=2, start_s=300, retries=0)

    def make() -> CommandSystem:
        return CommandSystem([sys.executable, "-c", LOADS, *arguments], SYSTEM)

    with RunStore.create(tmp_path, manifest(of)) as store:
        await ExperimentRunner(make, limits).run(of, store)
        (trace,) = store.finish(NOW).traces()
    assert (trace.error and trace.error.type) == error
    assert duration[0] <= trace.duration_ms <= duration[1]
