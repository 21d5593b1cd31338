"""A language model as a system under test, here the product's own offline endpoint and doubles of others."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from glassbox.replay.runner import ExperimentRunner, Limits, describe
from glassbox.replay.store import Run, RunStore
from glassbox.replay.suite import Suite
from glassbox.replay.systems.endpoint import INSTRUCTIONS, EndpointSystem
from glassbox.replay.systems.port import InvocationFailed
from judges.lexical import CHAT_MODEL
from judges.lexical.faults import Faults
from judges.lexical.server import LexicalServer
from judges.llm import Endpoint
from tests.replay.builders import NOW
from tests.replay.systems.conftest import Serve

KEY = "sk-endpoint-0123456789"


def endpoint(url: str, **fields: Any) -> Endpoint:
    return Endpoint(**{"base_url": url, "model": CHAT_MODEL, "embedding_model": "", "api_key": KEY} | fields)


@pytest.fixture
async def lexical() -> AsyncIterator[LexicalServer]:
    async with LexicalServer() as running:
        yield running


async def answered(suite: Suite, to: Endpoint, question: str) -> Any:
    system = EndpointSystem(suite, to)
    try:
        return await system.answer(question)
    finally:
        await system.close()


async def test_the_offline_model_answers_with_citations(tidewell: Suite, lexical: LexicalServer) -> None:
    made = await answered(tidewell, endpoint(lexical.url), tidewell.cases["bill-due"].question)
    assert made.answer == "A bill is due 21 days after its date."
    assert [(each.document, each.start, each.end) for each in made.citations] == [("bills", 0, len(made.answer))]
    assert made.retrieved[0].document == "bills"
    assert (len(made.retrieved), made.model, made.usage.provenance) == (3, CHAT_MODEL, "api")
    assert made.parameters["temperature"] == "0"
    assert made.parameters["top"] == 3


def completion(text: str | None, **fields: Any) -> dict[str, Any]:
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"} | fields
    return {"choices": [choice], "model": "served-model"}


async def test_what_is_sent(tidewell: Suite, serve: Serve) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append((request.headers["Authorization"], await request.json()))
        return web.json_response(completion("It is due [bills]. Perhaps [rumours]."))

    question = tidewell.cases["bill-due"].question
    made = await answered(tidewell, endpoint(await serve(handler), model="m", max_tokens=99), question)
    ((authorization, body),) = seen
    assert authorization == f"Bearer {KEY}"
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("m", 0.0, 99)
    system, user = body["messages"]
    assert system == {"role": "system", "content": INSTRUCTIONS}
    data = json.loads(user["content"].removeprefix("input: "))
    assert data["question"] == question
    assert [each["id"] for each in data["documents"]] == [each.document for each in made.retrieved]
    assert (made.answer, made.model) == ("It is due. Perhaps.", "served-model")
    assert [each.document for each in made.citations] == ["bills", "rumours"], (
        "what does not exist is cited all the same"
    )
    assert made.usage.provenance == "estimated"
    assert made.usage.prompt_tokens == -(-(len(system["content"]) + len(user["content"])) // 4)


async def test_a_parameter_that_a_model_refuses_is_left_out_and_named(tidewell: Suite, serve: Serve) -> None:
    async def handler(request: web.Request) -> web.Response:
        if "temperature" in await request.json():
            return web.json_response(
                {"error": {"message": "unsupported parameter", "param": "temperature"}}, status=400
            )
        return web.json_response(completion("Yes."))

    made = await answered(tidewell, endpoint(await serve(handler)), "Is it?")
    assert made.parameters["adapted"] == ["temperature"]


@pytest.mark.parametrize(
    ("reply", "type_"),
    [
        (completion("cut off", finish_reason="length"), "truncated"),
        (completion("no", finish_reason="content_filter"), "refused"),
        (completion(None), "malformed_output"),
        ({"choices": []}, "malformed_output"),
        ([], "malformed_output"),
    ],
)
async def test_what_is_no_answer(tidewell: Suite, serve: Serve, reply: Any, type_: str) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.json_response(reply)

    with pytest.raises(InvocationFailed) as caught:
        await answered(tidewell, endpoint(await serve(handler)), "Is it?")
    assert caught.value.type == type_


async def run(folder: Path, suite: Suite, to: Endpoint, **limits: Any) -> Run:
    """A run whose waits take no time."""

    async def at_once(_: float) -> None: ...

    system = EndpointSystem(suite, to)
    with RunStore.create(folder, describe(suite, system.reference, system.secrets)) as store:
        runner = ExperimentRunner(lambda: system, Limits(**limits), clock=lambda: 0.0, sleep=at_once)
        await runner.run(suite, store)
        return store.finish(NOW)


@pytest.mark.parametrize(
    ("faults", "type_"),
    [
        (Faults(rate_limit_rate=1, times=3, retry_after_s=0), "rate_limited"),
        (Faults(error_rate=1, times=3), "unavailable"),
        (Faults(hang_rate=1, times=2), "timeout"),
        (Faults(malformed="not_json", times=1), "malformed_output"),
        (Faults(refuse_rate=1, times=1), "refused"),
        (Faults(truncate_rate=1, times=1), "truncated"),
    ],
)
async def test_each_fault_of_the_endpoint_is_an_error_of_its_type_and_the_run_goes_on(
    tmp_path: Path, tidewell: Suite, lexical: LexicalServer, faults: Faults, type_: str
) -> None:
    lexical.faults = faults
    made = await run(tmp_path / "run", tidewell, endpoint(lexical.url), timeout_s=0.3)
    traces = list(made.traces())
    assert [trace.error.type for trace in traces if trace.error] == [type_]
    assert made.manifest.counts is not None
    assert (made.manifest.counts.traces, made.manifest.counts.errors) == (26, 1)
    assert traces[0].attempts == faults.times


async def test_the_key_is_in_nothing_that_is_kept(
    tmp_path: Path, tidewell: Suite, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """An endpoint that says the key in every way it can."""
    calls = 0

    async def handler(request: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        key = request.headers["Authorization"]
        match calls % 6:
            case 0:
                return web.Response(status=400, text=key, reason=key)
            case 1:
                return web.json_response(completion(f"The key is {key} [{key.split()[1]}]."))
            case 2:
                return web.Response(status=500, text=key)
            case 3:
                return web.json_response(completion("Fine.") | {"model": key})
            case 4:
                return web.Response(text=key)
            case _:
                return web.json_response(completion("Fine."))

    caplog.set_level("DEBUG")
    to = endpoint(await serve(handler))
    made = await run(tmp_path / "run", tidewell, to, retries=0)
    assert made.manifest.counts is not None
    assert 0 < made.manifest.counts.errors < 26
    assert len(kept := written(tmp_path)) == 2
    assert KEY not in "".join(kept) + caplog.text + repr(to)


def written(folder: Path) -> list[str]:
    return [path.read_text() for path in folder.rglob("*") if path.is_file()]
