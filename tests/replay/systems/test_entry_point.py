"""One's own Python as a system, in a process that can be ended."""

import asyncio
from importlib.metadata import EntryPoint

import pytest

from glassbox.replay.systems import entry_point
from glassbox.replay.systems.entry_point import entry_point_system
from glassbox.replay.systems.port import InvocationFailed
from glassbox.replay.trace import Invocation

MODULE = "tests.replay.systems.own_system"


async def answers(name: str, *questions: str) -> list[Invocation | str]:
    system = entry_point_system(f"{MODULE}:{name}")
    made: list[Invocation | str] = []
    try:
        for question in questions:
            try:
                await system.start()
                made.append(await system.answer(question))
            except InvocationFailed as failed:
                made.append(f"{failed.type}: {failed.message}")
    finally:
        await system.close()
    return made


async def test_a_function_that_returns_text_and_prints() -> None:
    first, second = await answers("text", "a", "b\nc")
    assert isinstance(first, Invocation)
    assert isinstance(second, Invocation)
    assert (first.answer, second.answer) == ("You asked: a", "You asked: b\nc")


async def test_a_coroutine_that_returns_a_mapping() -> None:
    (made,) = await answers("later", "x")
    assert isinstance(made, Invocation)
    assert (made.answer, [each.document for each in made.citations]) == ("Later x.", ["doc"])


@pytest.mark.parametrize("name", ["Made", "made", "made.answer"])
async def test_a_class_an_object_or_its_method(name: str) -> None:
    made = await answers(name, "x", "y")
    assert [each.answer for each in made if isinstance(each, Invocation)] == ["call 1", "call 2"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("broken", f"exception: {MODULE}:broken raised ValueError"),
        ("ends", "exception: the command ended with exit code 0 instead of a reply"),
        ("nothing", f"malformed_output: {MODULE}:nothing returned what is no answer"),
        ("no_json", f"malformed_output: {MODULE}:no_json returned what is no answer"),
        ("constant", f"exception: {MODULE}:constant cannot be loaded (TypeError)"),
        ("missing", f"exception: {MODULE}:missing cannot be loaded (AttributeError)"),
    ],
)
async def test_failures_have_their_type_and_quote_nothing(name: str, said: str) -> None:
    assert await answers(name, "x") == [said]


async def test_one_that_hangs_is_ended_and_the_next_question_is_answered() -> None:
    system = entry_point_system(f"{MODULE}:hangs")
    await system.start()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await system.answer("hang")
    await system.start()
    assert (await system.answer("x")).answer == "here"
    await system.close()


def test_registered_names(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [EntryPoint("mine", f"{MODULE}:text", entry_point.GROUP)]
    monkeypatch.setattr(entry_point, "entry_points", lambda group: found if group == "glassbox.systems" else [])
    made = entry_point_system("mine", "7")
    assert made.reference.model_dump() == {
        "name": "mine", "version": "7", "parameters": {"entry_point": f"{MODULE}:text"},
    }  # fmt: skip
    assert entry_point_system("mine").reference.version == "unversioned"
    with pytest.raises(LookupError, match="no installed package registers a system 'min'; did you mean 'mine'"):
        entry_point_system("min")
