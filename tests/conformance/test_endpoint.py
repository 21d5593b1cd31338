"""Whatever an endpoint does, a call to it is bounded in time, ends in a value or a typed cause, and leaves nothing
behind."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from glassbox.contract.canonical import canonical
from glassbox.contract.request import JudgeInput, Passage
from glassbox.contract.verdict import Failed, Scored
from judges.calibration import CalibrationJudge
from judges.embedders import EndpointEmbedder
from judges.grounding import GroundingJudge
from judges.lexical import CHAT_MODEL, EMBEDDING_MODEL
from judges.llm import Endpoint, EndpointClient, EndpointError, Output
from judges.llm.client import PAUSE_CAP_S
from judges.port import Case
from judges.relevance import RelevanceJudge
from judges.run import answer
from tests.judges.conftest import says


class Number(Output):
    number: int


ASK = ({"role": "system", "content": "a number"}, {"role": "user", "content": "please"})
SEVEN = says('{"number": 7}')
CHAT = SEVEN[2].encode()
QUERY = "When was the old mill of Tornby rebuilt?"
GOOD = "The old mill of Tornby was rebuilt in 1913 after a fire."
BAD = "Penguins are excellent swimmers and eat mostly fish."


def soon(seconds: float = 100.0) -> float:
    return time.monotonic() + seconds


async def number(client: EndpointClient, seconds: float = 100.0) -> int:
    return (await client.session(soon(seconds)).chat(ASK, Number)).number


async def failure(client: EndpointClient, seconds: float = 100.0) -> EndpointError:
    with pytest.raises(EndpointError) as caught:
        await number(client, seconds)
    return caught.value


@pytest.fixture(autouse=True)
async def _nothing_left_behind() -> AsyncIterator[None]:
    """No task of ours outlives a test. Connections are counted by the servers below."""
    yield
    left = [task for task in asyncio.all_tasks() if "judges/" in str(task.get_coro()) and "tests" not in str(task)]
    assert left == []


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter, bytes], Awaitable[None]]


class Wire:
    """A server that speaks bytes. `handle` is given each request after its head; `open` counts connections."""

    def __init__(self) -> None:
        self.handle: Handler = _seven
        self.requests = 0
        self.open = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
                )
                await reader.readexactly(length)
                self.requests += 1
                await self.handle(reader, writer, head)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()


def reply(body: bytes, *, status: str = "200 OK", declared: int | None = None) -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        status.encode(),
        len(body) if declared is None else declared,
        body,
    )


async def _seven(_: asyncio.StreamReader, writer: asyncio.StreamWriter, _head: bytes) -> None:
    writer.write(reply(CHAT))


@pytest.fixture
async def wire() -> AsyncIterator[Any]:
    made = Wire()
    server = await asyncio.start_server(made, "127.0.0.1", 0)
    clients: list[EndpointClient] = []

    def connect(**settings: Any) -> EndpointClient:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        clients.append(EndpointClient(Endpoint(url, "m", "e", "k", **settings), jitter=lambda: 1.0))
        return clients[-1]

    made.connect = connect  # type: ignore[attr-defined]
    yield made
    for client in clients:
        await client.close()
    async with asyncio.timeout(30):
        while made.open:
            await asyncio.sleep(0.001)
    server.close()


# --- answers that are none --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [
        (200, {}, ""),
        (200, {}, "null"),
        (200, {}, "[]"),
        (200, {}, "<html>"),
        (200, {}, '{"choices": []}'),
        (200, {}, '{"choices": [{"message": {"content": null}}]}'),
        (200, {}, SEVEN[2][:-20]),
        says(""),
        says('{"number": 7'),
        says('```json\n{"number": 7}\n```'),
        says('The number is {"number": 7}.'),
        says('{"number": 7}\n\nHope this helps!'),
        says('```json\n{"number": 7}\n```\n```json\n{"number": 8}\n```'),
        says('{"number": 7, "number": 8}'),
        says('{"number": "7"}'),
        says('{"number": NaN}'),
        says("I'm sorry, but I cannot help with that."),
    ],
)
async def test_what_is_no_answer_is_asked_for_again_once_and_then_malformed(script, connect, step):
    script.steps = [step]
    assert (await failure(connect())).cause == "malformed_output"
    assert len(script.requests) == 2
    script.steps, script.requests[:] = [step, SEVEN], []
    assert await number(connect()) == 7


@pytest.mark.parametrize("step", [says("", refusal="I cannot help with that."), says("x", "content_filter")])
async def test_a_refusal_is_final(script, connect, step):
    script.steps = [step]
    assert (await failure(connect())).cause == "refused"
    assert len(script.requests) == 1


async def test_a_length_stop_is_asked_again_with_a_larger_limit_once(script, connect):
    script.steps = [says('{"num', "length"), SEVEN]
    assert await number(connect(max_tokens=100)) == 7
    script.steps = [says('{"num', "length")]
    assert (await failure(connect(max_tokens=100))).cause == "truncated"
    assert [request["max_tokens"] for request in script.requests] == [100, 200, 100, 200]


# --- a connection that misbehaves -------------------------------------------------------------------------------


async def _slow(_reader: Any, writer: asyncio.StreamWriter, _head: bytes) -> None:
    writer.write(reply(b"", declared=10_000))
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)


async def _hangs(reader: asyncio.StreamReader, _writer: Any, _head: bytes) -> None:
    await reader.read()  # until the client goes away


async def _stalls_half_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
    writer.write(reply(CHAT[:20], declared=len(CHAT)))
    await _hangs(reader, writer, head)


async def _closes_half_way(_reader: Any, writer: asyncio.StreamWriter, _head: bytes) -> None:
    writer.write(reply(CHAT[:20], declared=len(CHAT)))
    await writer.drain()
    raise ConnectionResetError


async def _resets(_reader: Any, writer: asyncio.StreamWriter, _head: bytes) -> None:
    writer.transport.abort()
    raise ConnectionResetError


async def _babbles(_reader: Any, writer: asyncio.StreamWriter, _head: bytes) -> None:
    writer.write(b"\x00\xff not http at all\r\n\r\n")


async def _moves(_reader: Any, writer: asyncio.StreamWriter, _head: bytes) -> None:
    writer.write(b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:9/v1\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize(
    ("handle", "cause"),
    [
        (_hangs, "timeout"),
        (_slow, "timeout"),
        (_stalls_half_way, "timeout"),
        (_closes_half_way, "unavailable"),
        (_resets, "unavailable"),
        (_babbles, "unavailable"),
        (_moves, "unavailable"),
    ],
)
async def test_a_connection_that_misbehaves_has_a_bound_and_a_cause(wire, handle, cause):
    wire.handle = handle
    client = wire.connect(call_limit_s=1)
    error = await failure(client, 2)
    assert error.cause == cause
    assert client.stats.in_flight == 0
    wire.handle = _seven
    assert await number(client) == 7, "the next call gets its own answer"


async def test_a_redirect_takes_neither_key_nor_text_anywhere(wire):
    wire.handle = _moves
    error = await failure(wire.connect())
    assert "moved" in error.detail
    assert wire.requests == 1


# --- too many calls ---------------------------------------------------------------------------------------------


async def test_one_that_is_told_to_wait_makes_all_wait(script, connect):
    asked: list[float] = []

    def limited(_: Any) -> Any:
        asked.append(time.monotonic())
        return (429, {"Retry-After": "0.4"}, "{}") if len(asked) == 1 else SEVEN

    script.steps = [limited]
    client = connect(concurrency=2)
    first = asyncio.create_task(number(client))
    async with asyncio.timeout(30):
        while not client.stats.retries:
            await asyncio.sleep(0.001)
    assert await asyncio.gather(first, *(number(client) for _ in range(5))) == [7] * 6
    assert min(asked[1:]) - asked[0] >= 0.4
    assert len(asked) == 7, "nobody else was refused"


async def test_a_wait_past_the_deadline_is_rate_limited_at_once_and_one_without_end_is_cut_for_the_others(
    script, connect
):
    script.steps = [(429, {"Retry-After": "86400"}, "{}"), SEVEN]
    client = connect()
    assert (await failure(client)).cause == "rate_limited"
    async with asyncio.timeout(PAUSE_CAP_S / 2):
        assert (await failure(client, PAUSE_CAP_S - 5)).cause == "rate_limited"
    assert len(script.requests) == 1
    client._paused_until = 0  # the cap has passed
    assert await number(client) == 7


async def test_calls_are_bounded_and_not_evaluations(script, connect):
    script.steps, script.delay_s = [SEVEN], 0.02
    client = connect(concurrency=4)
    await asyncio.gather(*(number(client) for _ in range(30)))
    assert script.peak == client.stats.peak == 4


# --- cancelled half-way, other loops ----------------------------------------------------------------------------


@pytest.mark.parametrize("waits_for", ["answer", "slot", "retry", "pause"])
async def test_cancelled_half_way_leaves_nothing_behind(wire, waits_for):
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        if waits_for == "retry":
            writer.write(reply(b"{}", status="503 Service Unavailable"))
        elif waits_for == "pause":
            writer.write(b"HTTP/1.1 429 Slow\r\nRetry-After: 30\r\nContent-Length: 2\r\n\r\n{}")
        else:
            await _hangs(reader, writer, head)

    wire.handle = handle
    client = wire.connect(concurrency=1)
    tasks = [asyncio.create_task(number(client)) for _ in range(3)]
    async with asyncio.timeout(30):
        while not (wire.requests and (waits_for in ("answer", "slot") or client.stats.retries)):
            await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)
    for task in tasks if waits_for == "slot" else tasks[::-1]:
        task.cancel()
    assert all(
        isinstance(made, asyncio.CancelledError) for made in await asyncio.gather(*tasks, return_exceptions=True)
    )
    assert client.stats.in_flight == 0
    client._paused_until = 0
    wire.handle = _seven
    assert await number(client) == 7


def test_inside_a_running_loop_of_any_make(missing):
    """The client binds to the loop that asks, whichever implementation it is, and needs no patch of it."""

    async def ask() -> tuple[int, str]:
        wire = Wire()
        server = await asyncio.start_server(wire, "127.0.0.1", 0)
        client = EndpointClient(Endpoint(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", "m", "e", "k"))
        made = await asyncio.gather(*(number(client) for _ in range(20)))
        await client.close()
        server.close()
        return sum(made), type(asyncio.get_running_loop()).__module__

    assert asyncio.run(ask()) == (140, "asyncio.unix_events")
    try:
        import uvloop
    except ImportError:
        missing("uvloop is not installed: pip install uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(ask()) == (140, "uvloop")


# --- parameters that a model refuses ----------------------------------------------------------------------------


def refusing(*parameters: str) -> Callable[[dict[str, Any]], Any]:
    """A model that refuses these, one a response, and otherwise answers."""

    def step(body: dict[str, Any]) -> Any:
        kind = (body.get("response_format") or {}).get("type")
        sent = {**body, **({"response_format": 1} if kind == "json_schema" else {"response_format": None})}
        for name in parameters:
            if sent.get(name) is not None:
                error = {"message": f"Unsupported parameter: '{name}'", "param": name}
                return 400, {}, json.dumps({"error": error})
        return SEVEN

    return step


async def test_what_a_model_refuses_is_sent_in_another_way_for_the_life_of_the_client(script, connect):
    script.steps = [refusing("max_tokens", "temperature", "response_format", "seed")]
    client = connect()
    session = client.session(soon())
    assert (await session.chat(ASK, Number)).number == 7
    assert (await session.chat(ASK, Number)).number == 7
    first, second = session.calls
    assert first.answer.adapted == ("max_tokens", "response_format", "temperature")
    assert second.answer.adapted == ("max_tokens", "response_format", "seed", "temperature")
    assert first.evidence()["adapted"] == ["max_tokens", "response_format", "temperature"]
    sent = script.requests[-1]
    assert sent["max_completion_tokens"] == 2048
    assert sent["response_format"] == {"type": "json_object"}
    assert '"number"' in sent["messages"][0]["content"]
    assert sent["messages"][1]["content"] == "please"
    assert len(script.requests) == 3 + 1 + 1 + 1
    assert await number(client) == 7
    assert len(script.requests) == 7, "remembered"
    assert await number(connect()) == 7
    assert len(script.requests) == 11, "by this client alone"


async def test_many_calls_at_once_learn_of_a_refusal_together(script, connect):
    script.steps = [refusing("temperature")]
    client = connect()
    assert await asyncio.gather(*(number(client) for _ in range(10))) == [7] * 10
    assert client.stats.retries == {}
    assert len(script.requests) <= 20


async def test_a_refusal_that_nothing_can_be_adapted_to_is_final(script, connect):
    for param in ("messages", "max_completion_tokens", "seed"):
        script.steps, script.requests[:] = [(400, {}, json.dumps({"error": {"message": "no", "param": param}}))], []
        assert (await failure(connect())).cause == "refused"
        assert len(script.requests) == 1
    script.steps, script.requests[:] = [(400, {}, json.dumps({"error": {"message": "no", "param": "temperature"}}))], []
    assert (await failure(connect())).cause == "refused"
    assert len(script.requests) == 2, "adapted once, refused again"


# --- through the judges --------------------------------------------------------------------------------------------


def case(*passages: str, seconds: float = 100.0) -> Case:
    given = JudgeInput(query=QUERY, retrieved_passages=[Passage(text=text) for text in passages])
    return Case("e-1", given, {"llm_relevance": {}}, soon(seconds))


@pytest.mark.parametrize("fault", ["hang", "reset", (429, {"Retry-After": "60"}, "{}"), (200, {}, ""), says("no")])
async def test_no_score_is_kept_from_the_evaluation_before(script, connect, fault):
    verdicts = says(json.dumps({"verdicts": [{"index": 0, "reason": "r", "verdict": "yes"}]}))
    judge = RelevanceJudge(connect(call_limit_s=0.2))
    script.steps = [verdicts]
    (scored,) = (await answer(judge, case(GOOD))).verdicts
    assert isinstance(scored, Scored)
    script.steps = [fault]
    (failed,) = (await answer(judge, case(BAD, seconds=0.6))).verdicts
    assert isinstance(failed, Failed)


async def test_one_bad_evaluation_does_no_harm_to_others_at_the_same_time(script, connect):
    def step(body: dict[str, Any]) -> Any:
        if "Penguins" in body["messages"][-1]["content"]:
            return says("no")
        return says(json.dumps({"verdicts": [{"index": 0, "reason": "r", "verdict": "yes"}]}))

    script.steps = [step]
    judge = RelevanceJudge(connect(concurrency=3))
    made = await asyncio.gather(*(answer(judge, case(BAD if n % 3 == 0 else f"{GOOD} {n}")) for n in range(12)))
    assert [one.verdicts[0].state for one in made] == ["failed" if n % 3 == 0 else "scored" for n in range(12)]


def embedding_judge(client: EndpointClient) -> CalibrationJudge:
    return CalibrationJudge(EndpointEmbedder(client))


TEXTS = [
    GOOD,
    BAD,
    "The mill of Tornby burned in 1911.",
    "Its rebuilding took two years.",
    "The spring of 1913 was dry.",
]


@pytest.mark.parametrize("make", [RelevanceJudge, GroundingJudge, embedding_judge])
async def test_same_input_same_method_same_score_whatever_the_order_and_concurrency(lexical, make):
    chance = random.Random(9)
    parts: dict[str, dict[str, Any]] = {
        "relevance": {"llm_relevance": {"repeats": 2}},
        "grounding": {"faithfulness": {"repeats": 2}, "answer_relevancy": {"strictness": 2}},
        "calibration": {"similarity_calibration": {}},
    }

    def one(n: int, kind: str) -> Case:
        texts = random.Random(n).sample(TEXTS, k=5)
        given = JudgeInput(
            query=QUERY,
            answer=f"{texts[0]} It has {n} windows. {texts[1]}",
            retrieved_passages=[Passage(text=text) for text in texts],
            chunk_scores=[1.0 - place / 10 for place in range(5)],
        )
        return Case(f"e-{n}", given, parts[kind], soon())

    first: dict[int, Any] = {}
    for concurrency in (1, 3, 64):
        client = EndpointClient(Endpoint(lexical.url, CHAT_MODEL, EMBEDDING_MODEL, "", concurrency=concurrency))
        judge = make(client)
        order = chance.sample(range(12), k=12)
        made = await asyncio.gather(*(answer(judge, one(n, judge.kind)) for n in order))
        assert client.stats.peak <= concurrency
        await judge.close()
        await client.close()
        for n, judgement in zip(order, made, strict=True):
            assert "failed" not in {verdict.state for verdict in judgement.verdicts}
            same = (judgement.verdicts, canonical(judgement.evidence), judgement.raw)
            assert first.setdefault(n, same) == same
