"""The recorded endpoint: the same code on the same answers, and never a call."""

import time

import pytest

from glassbox.contract.canonical import sha256_hex
from judges.llm import Endpoint, EndpointError, Output
from judges.llm.recorded import NOT_RECORDED, RecordedClient, recorded_endpoint
from tests.judges.conftest import says

ASK = [{"role": "user", "content": "a number, please"}]
OTHER = [{"role": "user", "content": "another number, please"}]


class Number(Output):
    number: int


class Word(Output):
    word: str


def soon(seconds=300.0):
    return time.monotonic() + seconds


def recorded(session, endpoint, keep=lambda call: True):
    calls = [call.evidence() for call in session.calls]
    outputs = {sha256_hex(call.answer.raw): call.answer.raw for call in session.calls if keep(call)}
    return RecordedClient(calls, outputs, endpoint)


async def failing(awaitable):
    with pytest.raises(EndpointError) as caught:
        await awaitable
    return caught.value


async def test_what_was_answered_is_answered_again_without_a_call(script, connect):
    script.steps = [says('{"number": 7}'), says('{"number": 8}'), says('{"number": 9}')]
    client = connect()
    live = client.session(soon())
    said = [await live.chat(ASK, Number), await live.chat(ASK, Number), await live.chat(OTHER, Number)]
    again = recorded(live, client.endpoint)
    session = again.session(soon())
    assert [await session.chat(OTHER, Number), await session.chat(ASK, Number), await session.chat(ASK, Number)] == [
        said[2],
        *said[:2],
    ]
    assert {str(call.evidence()) for call in session.calls} == {str(call.evidence()) for call in live.calls}
    assert (len(script.requests), again.stats.calls, again.reworded) == (3, 0, set())


async def test_two_sessions_that_asked_the_same_have_each_its_answers(script, connect):
    script.steps = [says("Sure!"), says('{"number": 7}'), says('{"number": 8}')]
    client = connect()
    lives = [client.session(soon()), client.session(soon())]
    said = [await live.chat(ASK, Number) for live in lives]
    calls = [call for live in lives for call in live.calls]
    outputs = {sha256_hex(call.answer.raw): call.answer.raw for call in calls}
    again = RecordedClient([call.evidence() for call in calls], outputs, client.endpoint)
    sessions = [again.session(soon()), again.session(soon())]
    assert [await session.chat(ASK, Number) for session in sessions] == said


async def test_it_asks_again_where_it_did(script, connect):
    script.steps = [says("Sure!"), says('{"number": 7}')]
    client = connect()
    live = client.session(soon())
    await live.chat(ASK, Number)
    session = recorded(live, client.endpoint).session(soon())
    assert (await session.chat(ASK, Number)).number == 7
    assert [call.rejected for call in session.calls] == ["malformed_output", None]


async def test_a_response_that_could_not_be_read_is_passed_over(script, connect):
    script.steps = [(200, {}, "no JSON"), says('{"number": 7}')]
    client = connect()
    live = client.session(soon())
    await live.chat(ASK, Number)
    assert (await recorded(live, client.endpoint).session(soon()).chat(ASK, Number)).number == 7


async def test_an_answer_that_is_refused_again_fails_with_its_cause(script, connect):
    script.steps = [says("Sure!")]
    client = connect()
    live = client.session(soon())
    recorded_error = await failing(live.chat(ASK, Number))
    error = await failing(recorded(live, client.endpoint).session(soon()).chat(ASK, Number))
    assert (error.cause, error.detail) == (recorded_error.cause, recorded_error.detail)


async def test_what_is_not_recorded_is_an_error_and_never_a_call(script, connect):
    script.steps = [says('{"number": 7}')]
    client = connect()
    live = client.session(soon())
    await live.chat(ASK, Number)
    session = recorded(live, client.endpoint).session(soon())
    await session.chat(ASK, Number)
    for asked in (session.chat(ASK, Number), session.chat(ASK, Word), session.embed(["a"])):
        assert (await failing(asked)).detail == NOT_RECORDED
    lost = recorded(live, client.endpoint, keep=lambda call: False).session(soon())
    assert (await failing(lost.chat(ASK, Number))).detail == NOT_RECORDED
    assert len(script.requests) == 1


async def test_the_one_prompt_of_a_step_answers_where_the_fence_differs(script, connect):
    script.steps = [says('{"number": 7}'), says('{"word": "seven"}')]
    client = connect()
    live = client.session(soon())
    await live.chat(ASK, Number)
    await live.chat(ASK, Word)
    again = recorded(live, client.endpoint)
    session = again.session(soon())
    assert (await session.chat(OTHER, Number)).number == 7
    assert len(again.reworded) == 1


async def test_of_two_prompts_of_a_step_none_is_guessed(script, connect):
    script.steps = [says('{"number": 7}'), says('{"number": 8}')]
    client = connect()
    live = client.session(soon())
    await live.chat(ASK, Number)
    await live.chat(OTHER, Number)
    third = [{"role": "user", "content": "a third"}]
    assert (await failing(recorded(live, client.endpoint).session(soon()).chat(third, Number))).detail == NOT_RECORDED


async def test_vectors_are_those_that_came_in_several_calls(client):
    texts = [f"passage number {n} of the harbour" for n in range(70)]
    live = client.session(soon())
    vectors = await live.embed(texts)
    again = recorded(live, client.endpoint)
    assert (await again.session(soon()).embed(texts)).tobytes() == vectors.tobytes()
    assert (await failing(again.session(soon()).embed(texts[:69]))).detail == NOT_RECORDED


def test_the_endpoint_is_read_from_calls_and_methods():
    chat = {"schema": "Number", "asked": "alias", "model": "served-1"}
    vectors = {"schema": "embeddings", "asked": "vectors-1", "model": "vectors-1-large"}
    method = {"model": "served-1", "parameters": {"temperature": "0.2", "max_tokens": 100}}
    made = recorded_endpoint([chat, vectors], [method])
    assert (made.model, made.embedding_model, made.temperature, made.max_tokens) == ("alias", "vectors-1", 0.2, 100)
    unasked = recorded_endpoint([], [method, {"model": None, "parameters": {"embedding_model": "vectors-2"}}])
    assert (unasked.model, unasked.embedding_model) == ("served-1", "vectors-2")
    assert recorded_endpoint([], []).parameters() == Endpoint("http://a", "m", "e", "").parameters()
