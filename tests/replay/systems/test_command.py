"""A command as a system: in step or ended."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from glassbox.replay.store import SystemReference
from glassbox.replay.systems.command import CommandSystem
from glassbox.replay.systems.port import InvocationFailed


async def ask(system: CommandSystem, question: str) -> str:
    await system.start()
    return (await system.answer(question)).answer


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for has."""
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().split()[2] == "Z"


def written(path: Path) -> bool:
    return path.exists() and path.read_text() != ""


async def test_one_process_answers_all(system: CommandSystem) -> None:
    assert len({await ask(system, f"q{n}") for n in range(3)}) == 1
    assert len(await ask(system, "huge")) == 1_000_000


async def test_a_hung_command_is_killed_with_what_it_has_started(system: CommandSystem, tmp_path: Path) -> None:
    first = int(await ask(system, "who"))
    task = asyncio.create_task(ask(system, f"brood {tmp_path / 'pid'}"))
    while not written(tmp_path / "pid"):
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while not (gone(first) and gone(int((tmp_path / "pid").read_text()))):
        await asyncio.sleep(0.01)
    assert int(await ask(system, "who")) != first, "the next question has a process of its own"


@pytest.mark.parametrize(
    ("question", "type_", "said"),
    [
        ("die", "killed", "the command was ended by SIGKILL"),
        ("exit", "exception", "the command ended with exit code 3 instead of a reply"),
        ("chatter", "malformed_output", "not JSON"),
    ],
)
async def test_a_command_that_fails_is_begun_anew(system: CommandSystem, question: str, type_: str, said: str) -> None:
    first = await ask(system, "who")
    with pytest.raises(InvocationFailed) as caught:
        await ask(system, question)
    assert caught.value.type == type_
    assert said in caught.value.message
    assert await ask(system, "who") != first


async def test_a_reply_too_many_is_never_taken_for_the_next_answer(system: CommandSystem) -> None:
    assert await ask(system, "twice") == "one"
    with pytest.raises(InvocationFailed, match="id: is not that of the question"):
        await ask(system, "who")
    assert (await ask(system, "who")).isdigit()


async def test_an_error_that_it_tells_leaves_it_running(system: CommandSystem) -> None:
    first = await ask(system, "who")
    with pytest.raises(InvocationFailed) as caught:
        await ask(system, "busy")
    assert (caught.value.type, caught.value.retry_after) == ("rate_limited", 1)
    assert await ask(system, "who") == first


async def test_a_reply_without_end_is_malformed(monkeypatch: pytest.MonkeyPatch, script: list[str]) -> None:
    monkeypatch.setattr("glassbox.replay.systems.command.MAX_REPLY", 10_000)
    system = CommandSystem(script, SystemReference(name="command", version="1"))
    with pytest.raises(InvocationFailed, match="more than 10000 bytes"):
        await ask(system, "huge")
    await system.close()


async def test_one_that_cannot_be_begun_is_not_tried_again() -> None:
    system = CommandSystem(["/nowhere/at-all"], SystemReference(name="command", version="1"))
    with pytest.raises(InvocationFailed, match="cannot be started: No such file") as caught:
        await system.start()
    assert caught.value.final
    await system.close()


async def test_one_that_does_not_end_by_itself_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassbox.replay.systems.command._GRACE_S", 0.05)
    code = "import sys, time; print('{\"ready\": true}', flush=True); time.sleep(600)"
    system = CommandSystem([sys.executable, "-c", code], SystemReference(name="c", version="1"), greets=True)
    await system.start()
    assert system._process is not None
    pid = system._process.pid
    await system.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
