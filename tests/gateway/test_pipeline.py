"""The door on a whole pipeline of real processes: in over HTTP, through the judges, out with a proof."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from glassbox.catalogue.database import Database
from glassbox.cli.catalogue import projection_of, refill
from glassbox.cli.children import free_ports
from glassbox.settings import Settings
from ledger.checkpoint import load_key_file
from ledger.verify import exit_code, verify_bundle
from tests.gateway.receiver import documented, receiving
from tests.pipeline import MODULES, Pipeline, request, until

pytestmark = pytest.mark.timeout(300)

URL = "/v1/evaluations"


class Door:
    """A pipeline with its catalogue and its gateway."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline, (self.port, self.hook) = pipeline, free_ports(2)
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=30)

    def start(self) -> None:
        self.pipeline.start()
        command = [sys.executable, *MODULES["real"]]
        hosts = {"GLASSBOX_CALLBACK_HOSTS": f"127.0.0.1:{self.hook}"}
        more = {**hosts, **{f"GLASSBOX_CALLBACK_ALLOW_{what}": "true" for what in ("HTTP", "PRIVATE")}}
        self.pipeline.start_role("catalogue", more, command)
        self.pipeline.start_role("gateway", {"GLASSBOX_GATEWAY_PORT": str(self.port), **more}, command)
        for name in ("catalogue", "gateway"):
            self.pipeline.wait_ready(name)

    def state(self, name: str) -> str:
        answer = self.client.get(f"{URL}/{name}")
        return str(answer.json().get("state", answer.status_code))

    def committed(self, *names: str) -> None:
        for name in names:
            until(lambda name=name: self.state(name) == "committed", 60, f"{name}: {self.state(name)}")


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    pipeline = Pipeline(tmp_path_factory.mktemp("door"))
    made = Door(pipeline)
    try:
        made.start()
        yield made
    finally:
        made.client.close()
        pipeline.close()


def test_a_request_over_http_ends_in_a_proof(door: Door) -> None:
    answer = door.client.post(URL, json=request("over-http", model={"provider": "openai", "name": "gpt-x"}))
    assert (answer.status_code, answer.headers["location"]) == (202, f"{URL}/over-http")
    door.committed("over-http")
    found = door.client.get(f"{URL}/over-http").json()
    assert (found["scorecard"]["outcome"], found["scorecard"]["model"]["name"]) == ("pass", "gpt-x")
    key = load_key_file(door.pipeline.folder / "data" / "keys" / "signing.key").verifier
    steps = verify_bundle(door.client.get(f"{URL}/over-http/proof").content, [str(key)])
    assert exit_code(steps) == 0, steps
    assert door.client.get("/v1/checkpoint").text.startswith(key.name)
    (listed,) = door.client.get(URL, params={"model": "gpt-x"}).json()["items"]
    assert (listed["evaluation_id"], listed["state"]) == ("over-http", "committed")


def test_a_batch_and_a_follower(door: Door) -> None:
    with door.client.stream("GET", "/v1/events") as events:
        lines = "\n".join(json.dumps(request(f"batch-{n}")) for n in range(20))
        answer = door.client.post(f"{URL}:batch", content=lines, headers={"Content-Type": "application/x-ndjson"})
        assert {json.loads(line)["status"] for line in answer.text.splitlines()} == {202}
        seen = set()
        for line in events.iter_lines():
            if line.startswith("data: "):
                seen.add(json.loads(line.removeprefix("data: "))["evaluation_id"])
            if len(seen & {f"batch-{n}" for n in range(20)}) == 20:
                break


def test_an_application_that_is_traced_is_judged(door: Door) -> None:
    exporter = OTLPSpanExporter(f"{door.client.base_url}/v1/traces")
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    asked = request("unused")
    with provider.get_tracer("app").start_as_current_span("rag") as root:
        root.set_attributes({"openinference.span.kind": "CHAIN", "input.value": asked["query"]})
        root.set_attributes({"output.value": asked["answer"], "session.id": "a-session"})
        with provider.get_tracer("app").start_as_current_span("retrieve") as retrieve:
            retrieve.set_attribute("openinference.span.kind", "RETRIEVER")
            for n, text in enumerate(asked["retrieved_passages"]):
                retrieve.set_attribute(f"retrieval.documents.{n}.document.content", text)
        with provider.get_tracer("app").start_as_current_span("chat") as chat:
            chat.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai"})
            chat.set_attribute("gen_ai.request.model", "gpt-traced")
    provider.shutdown()

    def items() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = door.client.get(URL, params={"model": "gpt-traced"}).json()["items"]
        return found

    until(lambda: bool(items()), 60, "the trace's evaluation is there")
    door.committed(items()[0]["evaluation_id"])
    assert (items()[0]["outcome"], items()[0]["session"] is not None) == ("pass", True)


def test_a_review_is_signed_by_the_ledger_and_changes_no_scorecard(door: Door) -> None:
    asked = request("reviewed")
    door.client.post(URL, json=asked)
    door.committed("reviewed")
    before = door.client.get(f"{URL}/reviewed").json()["scorecard"]
    shown = door.client.get(f"{URL}/reviewed/evidence").json()
    assert (shown["answer"], [each["text"] for each in shown["passages"]]) == (
        asked["answer"],
        asked["retrieved_passages"],
    )
    assert {part["method"]["name"] for part in shown["parts"]}, "how each was judged is in the evidence"
    said = {"judge": "semantic_faithfulness", "part": "faithfulness", "agrees": False, "reason": "I doubt it."}
    name = door.client.post(f"{URL}/reviewed/reviews", json=said).json()["review"]

    def reviews() -> list[tuple[str, str, str]]:
        found = door.client.get(f"{URL}/reviewed/evidence").json()["reviews"]
        return [(each["review"], each["reason"], each["state"]) for each in found]

    until(lambda: reviews() == [(name, "I doubt it.", "committed")], 60, "the review is committed")
    bundle = door.pipeline.command("proof", name, "-o", "-", environment={}).stdout
    key = load_key_file(door.pipeline.folder / "data" / "keys" / "signing.key").verifier
    assert exit_code(verify_bundle(bundle.encode(), [str(key)])) == 0
    assert json.loads(bundle)["record"]["refers_to"] == "reviewed"
    assert "doubt" not in bundle
    assert door.client.get(f"{URL}/reviewed").json()["scorecard"] == before
    (line,) = door.client.get("/v1/reviews").text.splitlines()
    assert json.loads(line)["labels"] == {"faithfulness": False}


async def test_who_asked_is_called_back(door: Door) -> None:
    said = await asyncio.to_thread(door.pipeline.command, "callback-keys", "create", "--json", environment={})
    secret = json.loads(said.stdout)["secret"]
    async with receiving(port=door.hook) as receiver:
        asked = request("called", callback_url=receiver.url)
        assert (await asyncio.to_thread(door.client.post, URL, json=asked)).status_code == 202
        (call,) = await receiver.called(1)
    assert documented()(secret, call.headers, call.body, set())
    assert (call.said["type"], call.said["data"]["state"]) == ("evaluation.committed", "committed")
    logs = [child.log.read_text() for child in door.pipeline.roles.values()]
    assert not any("sesame" in log for log in logs), "of the address only the host"


def test_a_request_that_ends_as_a_dead_letter(door: Door) -> None:
    door.client.post(URL, json=request("reused"))
    door.committed("reused")
    door.pipeline.publish([request("reused", answer="Another answer altogether.")])  # by a producer on Kafka
    until(lambda: bool(door.client.get(f"{URL}/reused").json()["dead_letters"]), 60, "the dead letter is told")
    found = door.client.get(f"{URL}/reused").json()
    assert (found["state"], found["dead_letters"][0]["reason"]) == ("committed", "id_reused")


async def test_no_accepted_request_is_lost_when_the_gateway_is_stopped(door: Door) -> None:
    accepted: list[str] = []

    async def post(client: httpx.AsyncClient, name: str) -> None:
        try:
            answer = await client.post(URL, json=request(name))
        except httpx.TransportError:
            return  # it was not taken
        if answer.status_code == 202:
            accepted.append(name)

    async with httpx.AsyncClient(base_url=str(door.client.base_url), timeout=30) as client:
        tasks = [asyncio.create_task(post(client, f"stopped-{n}")) for n in range(60)]
        while len(accepted) < 10:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(door.pipeline.kill, "gateway", signal.SIGTERM)
        await asyncio.gather(*tasks)
    assert door.pipeline.roles["gateway"].exit_code == 0
    door.pipeline.start_role("gateway")
    await asyncio.to_thread(door.pipeline.wait_ready, "gateway")
    await asyncio.to_thread(door.committed, *accepted)


def test_the_catalogue_is_made_anew_from_the_topics(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    before = everything(door)
    assert len(before) > 20
    done = door.pipeline.command("catalogue", "rebuild", environment={})
    assert done.returncode == 0, done.stderr
    assert "made anew from" in done.stdout
    # once more by its function: only here it is known that this broker is the embedded one, which says too early that
    # a topic ends
    monkeypatch.setenv("GLASSBOX_DATA_DIR", str(door.pipeline.folder / "data"))
    settings = Settings.load()
    database = Database(settings.catalogue)
    assert len(list(refill(door.pipeline.broker, database, projection_of(settings)))) > 2
    database.close()
    after = everything(door)
    assert {name: after.get(name) for name in before} == before, "more may have come meanwhile"


def everything(door: Door) -> dict[str, Any]:
    """What is committed, by id."""
    page = door.client.get(URL, params={"limit": 200}).json()
    assert page["next"] is None
    return {item["evaluation_id"]: item for item in page["items"] if item["state"] == "committed"}


def test_a_gateway_that_others_reach_asks_who_they_are(door: Door) -> None:
    said = door.pipeline.command("worker", "gateway", environment={"GLASSBOX_GATEWAY_HOST": "192.0.2.1"})
    assert said.returncode == 2
    assert "make a key with `glassbox keys create`" in said.stderr


def test_keys_on_the_command_line(door: Door) -> None:
    environment = {"GLASSBOX_API_KEYS_FILE": str(door.pipeline.folder / "keys.json")}

    def keys(*words: str, code: int = 0) -> str:
        done = door.pipeline.command("keys", *words, environment=environment)
        assert done.returncode == code, done.stderr
        return done.stdout or done.stderr

    made = json.loads(keys("create", "bot", "--tenant", "acme", "--rate", "5", "--expires", "90d", "--json"))
    assert made["key"].startswith(f"gbk_{made['id']}_")
    assert "acme" in keys("list")
    assert made["key"] not in keys("list", "--json")
    turned = json.loads(keys("rotate", made["id"], "--grace", "1h", "--json"))
    assert (turned["tenant"], turned["rate"]) == ("acme", 5)
    assert "opens nothing" in keys("revoke", made["id"])
    assert "no key 'none'" in keys("revoke", "none", code=2)
    assert "needs a tenant" in keys("create", "bot", code=2)


def test_a_broker_that_is_away_is_said_and_nothing_is_accepted(door: Door) -> None:
    """The last test: it takes the broker away."""
    server = door.pipeline._server
    assert server is not None
    server.send(signal.SIGKILL)
    server.wait()
    answer = door.client.post(URL, json=request("late"))
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:glassbox:problem:broker_unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert door.state("late") == "404"
