import asyncio
import base64
import json
import time

import numpy as np
import pytest

from glassbox.contract.canonical import sha256_hex
from judges.lexical import CHAT_MODEL
from judges.lexical.server import LexicalServer
from judges.llm import Endpoint, EndpointError, Output
from judges.llm.endpoint import EMBEDDING_BATCH, environment_proxy
from tests.judges.conftest import says


class Number(Output):
    number: int


ASK = ({"role": "user", "content": "a number, please"},)
SEVEN = says('{"number": 7}')


class MemoryCache:
    def __init__(self):
        self.kept = {}

    async def get(self, key):
        return self.kept.get(key)

    async def put(self, key, value):
        self.kept[key] = value


def soon(seconds=100.0):
    return time.monotonic() + seconds


def vectors(body):
    data = [
        {"index": n, "embedding": base64.b64encode(np.asarray([len(text), 1], dtype="<f4").tobytes()).decode()}
        for n, text in enumerate(body["input"])
    ]
    return 200, {}, json.dumps({"data": data[::-1], "usage": {"prompt_tokens": 2}})


async def failing(awaitable):
    with pytest.raises(EndpointError) as caught:
        await awaitable
    return caught.value


async def test_a_chat_call_sends_a_strict_schema_and_logs_its_answer(script, connect):
    script.steps = [SEVEN]
    client = connect()
    session = client.session(soon())
    assert (await session.chat(ASK, Number)).number == 7
    (request,) = script.requests
    assert request["path"] == "/v1/chat/completions"
    assert request["authorization"] == "Bearer k"
    assert request["response_format"]["json_schema"]["name"] == "Number"
    assert (request["temperature"], request["max_tokens"]) == (0, 2048)
    assert "seed" not in request
    (call,) = session.calls
    assert call.evidence() == {
        "schema": "Number",
        "sample": 0,
        "asked": "asked-1",
        "model": "served-1",
        "prompt_digest": call.prompt_digest,
        "output_digest": sha256_hex(b'{"number": 7}'),
        "finish_reason": "stop",
        "prompt_tokens": 11,
        "completion_tokens": 3,
        "usage_provenance": "api",
        "rejected": None,
    }
    assert client.stats.calls == 1
    assert client.stats.in_flight == 0


async def test_the_same_question_twice_is_two_samples(script, connect):
    script.steps = [SEVEN]
    session = connect().session(soon())
    await session.chat(ASK, Number)
    await session.chat(ASK, Number)
    assert [call.sample for call in session.calls] == [0, 1]
    assert script.requests[1]["seed"] == 1


async def test_a_malformed_answer_is_asked_again_once_as_the_next_sample(script, connect):
    script.steps = [says("Sure! Here you go."), SEVEN]
    client = connect()
    session = client.session(soon())
    assert (await session.chat(ASK, Number)).number == 7
    assert [(call.sample, call.rejected) for call in session.calls] == [(0, "malformed_output"), (1, None)]
    assert client.stats.retries == client.stats.failures == {"malformed_output": 1}
    usages = [call.answer.usage for call in session.calls]
    assert client.stats.prompt_tokens == sum(usage.prompt_tokens for usage in usages) > 0
    assert client.stats.completion_tokens == sum(usage.completion_tokens for usage in usages) > 0


async def test_an_answer_that_stays_malformed_fails(script, connect):
    script.steps = [says('{"number": "seven"}')]
    session = connect().session(soon())
    error = await failing(session.chat(ASK, Number))
    assert (error.cause, error.detail) == ("malformed_output", "number: int_type")
    assert len(script.requests) == 2
    assert [call.rejected for call in session.calls] == ["malformed_output"] * 2


async def test_a_cut_answer_is_asked_again_with_twice_the_room(script, connect):
    script.steps = [says('{"num', "length")]
    error = await failing(connect(max_tokens=100).session(soon()).chat(ASK, Number))
    assert error.cause == "truncated"
    assert [request["max_tokens"] for request in script.requests] == [100, 200]


async def test_what_the_caller_does_not_accept_is_asked_again(script, connect):
    def even(made):
        if made.number % 2:
            raise EndpointError("count_mismatch", "odd")

    script.steps = [SEVEN, says('{"number": 8}')]
    assert (await connect().session(soon()).chat(ASK, Number, even)).number == 8


@pytest.mark.parametrize(
    ("step", "cause", "calls"),
    [
        (says("{}", refusal="no"), "refused", 1),
        (says("{}", "content_filter"), "refused", 1),
        ((400, {}, "{}"), "refused", 1),
        ((401, {}, "{}"), "unavailable", 1),
        ((404, {}, "{}"), "model_missing", 1),
        ((200, {}, "<html>"), "malformed_output", 2),
        ((429, {"retry-after": "3600"}, "{}"), "rate_limited", 1),
    ],
)
async def test_every_failure_has_its_cause(script, connect, step, cause, calls):
    script.steps = [step]
    error = await failing(connect().session(soon()).chat(ASK, Number))
    assert error.cause == cause
    assert len(script.requests) == calls


@pytest.mark.parametrize(
    ("fault", "cause"),
    [((429, {"retry-after": "0"}, "{}"), "rate_limited"), ((503, {}, "{}"), "unavailable"), ("reset", "unavailable")],
)
async def test_a_passing_fault_is_retried(script, connect, fault, cause):
    script.steps = [fault, SEVEN]
    client = connect()
    session = client.session(soon())
    assert (await session.chat(ASK, Number)).number == 7
    assert client.stats.retries == {cause: 1}
    assert [call.sample for call in session.calls] == [0]  # no answer, no sample


async def test_a_hang_ends_at_the_call_limit_and_leaves_nothing_behind(script, connect):
    script.steps = ["hang", SEVEN]
    client = connect(concurrency=1, call_limit_s=0.1)
    assert (await client.session(soon()).chat(ASK, Number)).number == 7
    assert client.stats.retries == {"timeout": 1}
    assert client.stats.in_flight == 0
    assert (await client.session(soon()).chat(ASK, Number)).number == 7
    assert [name for name in map(str, asyncio.all_tasks()) if "judges/llm" in name and "test_client" not in name] == []


async def test_the_deadline_ends_everything(script, connect):
    script.steps = ["hang"]
    client = connect(call_limit_s=60)
    async with asyncio.timeout(30):  # half of the call's own limit
        error = await failing(client.session(soon(2)).chat(ASK, Number))
    assert error.cause == "timeout"
    error = await failing(client.session(soon(-1)).chat(ASK, Number))
    assert error.cause == "timeout"
    assert len(script.requests) == 1


async def test_a_call_waits_for_its_slot_only_until_the_deadline(script, connect):
    script.steps = ["hang"]
    client = connect(concurrency=1)
    first = asyncio.create_task(failing(client.session(soon(5)).chat(ASK, Number)))
    async with asyncio.timeout(30):
        while not script.requests:
            await asyncio.sleep(0.001)
    error = await failing(client.session(soon(0.2)).chat(ASK, Number))
    assert error.cause == "timeout"
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert client.stats.in_flight == 0
    assert len(script.requests) == 1


async def test_calls_in_flight_are_bounded_and_a_waiting_retry_holds_no_slot(script, connect):
    script.steps, script.delay_s = [SEVEN], 0.005
    client = connect(concurrency=3)
    await asyncio.gather(*(client.session(soon()).chat(ASK, Number) for _ in range(20)))
    assert script.peak == client.stats.peak == 3

    single = connect(concurrency=1)
    script.steps, script.requests[:] = [(503, {}, "{}"), SEVEN], []
    waiting = asyncio.create_task(single.session(soon()).chat(ASK, Number))
    async with asyncio.timeout(30):
        while not single.stats.retries:
            await asyncio.sleep(0.001)
    await single.session(soon()).chat(ASK, Number)
    assert not waiting.done()
    await waiting


async def test_an_endpoint_that_is_not_there(connect):
    client = connect(base_url="http://127.0.0.1:9/v1", call_limit_s=20)
    error = await failing(client.session(soon(10)).chat(ASK, Number))
    assert error.cause == "unavailable"
    assert client.stats.calls == 1  # no retry would fit before the deadline


async def test_embeddings_are_batched_and_in_order(script, connect):
    script.steps = [vectors]
    session = connect().session(soon())
    texts = ["x" * n for n in range(1, EMBEDDING_BATCH + 3)]
    made = await session.embed(texts)
    assert made[:, 0].tolist() == [len(text) for text in texts]
    assert sorted(len(request["input"]) for request in script.requests) == [2, EMBEDDING_BATCH]
    (call,) = session.calls
    assert call.evidence()["prompt_tokens"] == 4
    with pytest.raises(ValueError, match="nothing to embed"):
        await session.embed([])


async def test_one_bad_batch_fails_the_whole(script, connect):
    script.steps = [vectors, (200, {}, '{"data": []}')]
    error = await failing(connect().session(soon()).embed(["x"] * (EMBEDDING_BATCH + 1)))
    assert error.cause == "bad_embedding"


async def test_the_cache_answers_a_second_run_with_the_same_log(script, connect):
    script.steps = [says("no json"), SEVEN, vectors]
    client, cache = connect(), MemoryCache()

    async def run():
        session = client.session(soon(), cache)
        made = await session.chat(ASK, Number), (await session.embed(["a", "bc"])).tolist()
        return made, session.calls

    assert await run() == await run()
    assert client.stats.calls == 3
    assert (client.stats.answers, client.stats.cache_hits) == (4, 2)


async def test_the_cache_key_is_what_the_answer_depends_on(script, connect):
    script.steps = [SEVEN]
    cache = MemoryCache()
    await connect(concurrency=2).session(soon(), cache).chat(ASK, Number)
    await connect(api_key="other", concurrency=9).session(soon(), cache).chat(ASK, Number)
    assert len(script.requests) == 1
    await connect(model="other").session(soon(), cache).chat(ASK, Number)
    await connect(temperature=0.5).session(soon(), cache).chat(ASK, Number)
    await connect(max_tokens=9).session(soon(), cache).chat(ASK, Number)
    await connect().session(soon(), cache).chat(({"role": "user", "content": "another"},), Number)
    assert len(script.requests) == len(cache.kept) == 5


async def test_a_failure_is_not_kept_and_a_broken_entry_is_not_believed(script, connect):
    script.steps = [says("no json"), says("no json"), SEVEN]
    client, cache = connect(), MemoryCache()
    await failing(client.session(soon(), cache).chat(ASK, Number))
    assert not cache.kept
    await client.session(soon(), cache).chat(ASK, Number)
    (key,) = cache.kept
    for broken in (b"", b"[]", b"[[1]]", b"{}"):
        cache.kept[key] = broken
        assert (await client.session(soon(), cache).chat(ASK, Number)).number == 7
    assert len(script.requests) == 7


def test_endpoint_settings_are_checked_and_the_key_is_not_shown():
    settings = {"base_url": "http://h/v1", "model": "m", "embedding_model": "e", "api_key": "secret"}
    assert "secret" not in repr(Endpoint(**settings))
    for wrong in ({"base_url": "h/v1"}, {"concurrency": 0}, {"call_limit_s": 0}, {"temperature": 3}):
        (name,) = wrong
        with pytest.raises(ValueError, match=name):
            Endpoint(**settings | wrong)


def test_the_environment_names_the_proxy_but_never_for_this_machine(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "inside.example")
    assert environment_proxy("https://api.example/v1") == "http://proxy:3128"
    for base_url in ("https://inside.example/v1", "https://localhost/v1", "https://127.0.0.1/v1", "http://api.example"):
        assert environment_proxy(base_url) is None


async def test_the_offline_model_says_that_a_question_is_none_of_its_own(connect):
    async with LexicalServer() as server:
        client = connect(base_url=server.url, model=CHAT_MODEL)
        error = await failing(client.session(soon()).chat(ASK, Number))
        assert (error.cause, client.stats.calls) == ("refused", 1)
        assert error.detail.startswith("the offline model answers only GlassBox's own questions")
