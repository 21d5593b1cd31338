"""Calling back: what a receiver gets, on a real connection, and who is never called."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import ssl
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from glassbox.catalogue.callbacks import COMMITTED
from glassbox.cli.main import app
from glassbox.gateway.callbacks import metrics, signing
from glassbox.gateway.callbacks.addresses import CallbackRules, NotAllowed, allowed_hosts, is_public
from glassbox.gateway.callbacks.keys import CallbackKeyFile, CallbackKeys
from glassbox.gateway.callbacks.sending import Patience
from glassbox.gateway.private_file import KeysError
from streams.ports import Record
from tests.catalogue.stories import letter, receipt, request
from tests.gateway.parts import ASKED, RULES, Door, door
from tests.gateway.receiver import DRIPPING, QUICK, Call, documented, local, offering, receiving, sending

NOW = time.time_ns() // 1_000_000


@pytest.fixture(autouse=True)
def no_secret_in_any_line(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG, "glassbox"):
        yield
    lines = [line.getMessage() for line in caplog.get_records("call") if line.name.startswith("glassbox")]
    assert "sesame" not in "".join(lines)


class House:
    """A catalogue with its callbacks, and the keys of the tenant acme."""

    def __init__(self, made: Door, folder: Path) -> None:
        self.door, self.database, self.path = made, made.database, folder / "callback-keys.json"
        self.keys = CallbackKeyFile(self.path)
        self.key = self.keys.create("acme")
        self._offset = 0

    def told(self, *records: Record) -> None:
        self.door.told(records)

    def due(self, url: str, name: str = "e", tenant: str | None = "acme") -> None:
        """A request that names this address, and its record."""
        self._offset += 1
        self.told(request(name, tenant, NOW, callback_url=url, offset=self._offset), receipt(name, tenant))

    async def state(self, state: str, name: str = "e") -> dict[str, Any]:
        """The callback of an evaluation, once it is in this state."""
        async with self.door.client() as client, asyncio.timeout(60):
            while True:
                found = (await client.get(f"/v1/evaluations/{name}", params={"tenant": "acme"})).json()
                (callback,) = found["callbacks"]
                if callback["state"] == state:
                    return dict(callback)
                await asyncio.sleep(0.02)

    def checked(self, calls: Sequence[Call], secret: str | None = None) -> list[bool]:
        seen: set[str] = set()
        return [documented()(secret or self.key.secret, call.headers, call.body, seen) for call in calls]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with door(tmp_path) as made:
        yield House(made, tmp_path)


async def test_it_is_sent_until_it_is_taken_in_and_checked_as_documented(house: House) -> None:
    async with receiving(500, 503, 302) as receiver, sending(house.database, house.path, local(receiver.port)):
        house.due(receiver.url)
        state = await house.state("delivered")
        calls = await receiver.called(4)
    assert (state["host"], state["event"], state["attempts"]) == (f"127.0.0.1:{receiver.port}", COMMITTED, 4)
    assert (state["result"], state["next_attempt_at"]) == ("200", None)
    assert len({call.id for call in calls}) == 1
    assert house.checked(calls) == [True, False, False, False], "the same is taken in once"
    said = calls[0].said
    assert (said["type"], said["data"]["evaluation_id"], said["data"]["state"]) == (COMMITTED, "e", "committed")
    assert said["data"]["scorecard"]["outcome"] == "pass"
    assert said["data"]["receipt"]["proof"]["tree_size"] == 8


async def test_what_somebody_kept_and_sends_again_is_refused(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as receiver, sending(house.database, house.path, local(receiver.port)):
        house.due(receiver.url)
        (call,) = await receiver.called(1)
    take_in, secret = documented(), house.key.secret
    assert take_in(secret, call.headers, call.body, set())
    assert not take_in(secret, call.headers, call.body, {call.id}), "within the window the id gives it away"
    for headers, body in (
        ({**call.headers, "webhook-timestamp": str(int(call.headers["webhook-timestamp"]) + 1)}, call.body),
        ({**call.headers, "webhook-id": "msg_other"}, call.body),
        (call.headers, call.body.replace(b"pass", b"fail")),
    ):
        with pytest.raises(ValueError, match="signed by somebody else"):
            take_in(secret, headers, body, set())
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 400)
    with pytest.raises(ValueError, match="sent again"):
        take_in(secret, call.headers, call.body, set())


async def test_a_receiver_that_hangs_costs_an_attempt_and_no_more(house: House) -> None:
    patience = replace(QUICK, limit_s=2.0)
    async with receiving(None) as receiver, sending(house.database, house.path, local(receiver.port), patience):
        house.due(receiver.url)
        assert (await house.state("delivered"))["attempts"] > 1
    assert len(receiver.calls) > 1
    assert len({call.id for call in receiver.calls}) == 1


async def test_the_status_counts_whatever_comes_after_it(house: House) -> None:
    async with receiving(DRIPPING) as receiver, sending(house.database, house.path, local(receiver.port)):
        house.due(receiver.url)
        assert (await house.state("delivered"))["attempts"] == 1


async def test_no_redirect_is_followed(house: House) -> None:
    async with (
        receiving() as elsewhere,
        receiving(elsewhere.url, 410) as receiver,
        sending(house.database, house.path, local(receiver.port, elsewhere.port)),
    ):
        house.due(receiver.url)
        state = await house.state("failed")
    assert (state["result"], state["attempts"]) == ("410", 2), "Gone is the end"
    assert elsewhere.calls == []


async def test_no_private_address_is_called_and_none_twice_looked_up(house: House) -> None:
    asked: list[str] = []
    answers: list[list[tuple[int, str]]] = []

    async def look(host: str, port: int) -> Sequence[tuple[int, str]]:
        asked.append(host)
        return answers.pop(0)

    async with receiving() as receiver:
        rules = CallbackRules(allowed_hosts(f"rebound.example:{receiver.port}"), allow_http=True)
        answers += [[(socket.AF_INET, "93.184.215.14"), (socket.AF_INET, "127.0.0.1")], []]
        async with sending(house.database, house.path, rules, replace(QUICK, attempts=2), look=look):
            house.due(f"http://rebound.example:{receiver.port}/")
            state = await house.state("failed")
        assert (state["result"], receiver.calls, asked) == ("private_address", [], ["rebound.example"] * 2)
        # allowed by setting: to the address that was checked, and to no other that the name may have by now
        answers += [[(socket.AF_INET, "127.0.0.1")]]
        async with sending(house.database, house.path, replace(rules, allow_private=True), look=look):
            house.due(f"http://rebound.example:{receiver.port}/", "again")
            await house.state("delivered", "again")
        assert receiver.calls[0].headers["host"] == f"rebound.example:{receiver.port}"
    assert len(asked) == 3


async def test_the_address_of_this_machine_is_private_however_it_is_written(house: House) -> None:
    async with receiving() as receiver:
        hosts = [
            f"{host}:{receiver.port}" for host in ("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "127.1")
        ]
        rules = CallbackRules(allowed_hosts(",".join(hosts)), allow_http=True)
        async with sending(house.database, house.path, rules, replace(QUICK, attempts=1)):
            for n, host in enumerate(hosts):
                house.due(f"http://{host}/", f"e{n}")
                assert (await house.state("failed", f"e{n}"))["result"] == "private_address"
        assert receiver.calls == []


async def test_a_host_that_is_not_on_the_list_is_never_called(house: House) -> None:
    async with receiving() as receiver, sending(house.database, house.path, local(1)):
        house.due(receiver.url)  # by a producer on Kafka, or before the list was changed
        state = await house.state("failed")
    assert (state["result"], state["attempts"], receiver.calls) == ("not_allowed", 1, [])


async def test_after_the_last_attempt_it_is_a_failure_that_is_seen(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    def failed() -> float:
        return metrics.FAILED.labels(result="5xx")._value.get()

    before = failed()
    async with (
        receiving(*[500] * 9) as receiver,
        sending(house.database, house.path, local(receiver.port), replace(QUICK, attempts=3)),
    ):
        house.due(receiver.url)
        state = await house.state("failed")
    assert (state["result"], state["attempts"], len(receiver.calls)) == ("500", 3, 3)
    assert failed() == before + 1
    assert f"callback for e of acme to 127.0.0.1:{receiver.port}: 500, given up after attempt 3" in caplog.text


async def test_a_sender_that_is_killed_has_lost_nothing(house: House) -> None:
    async with receiving(None) as receiver:
        house.due(receiver.url)
        words = (str(house.database.engine.url), str(house.path), str(receiver.port))
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.gateway.receiver", *words)
        try:
            await receiver.called(1)
        finally:
            process.send_signal(signal.SIGKILL)
            await process.wait()
        async with sending(house.database, house.path, local(receiver.port)):
            assert (await house.state("delivered"))["attempts"] > 1
    assert len(receiver.calls) > 1
    assert len({call.id for call in receiver.calls}) == 1


async def test_each_tenant_is_told_its_own_under_its_own_secret(house: House) -> None:
    theirs = house.keys.create("other")
    async with receiving() as receiver, sending(house.database, house.path, local(receiver.port)):
        house.told(request("e", "other", NOW, callback_url=receiver.url, offset=50))
        house.due(receiver.url)
        (ours,) = await receiver.called(1)
        house.told(refusal("e", "other", 50))  # acme had the id first
        (_, other) = await receiver.called(2)
    assert (ours.said["data"]["tenant"], ours.said["type"]) == ("acme", COMMITTED)
    assert (other.said["data"]["tenant"], other.said["type"]) == ("other", "evaluation.dead_letter")
    assert other.said["data"]["scorecard"] is None
    assert other.said["data"]["dead_letters"][0]["reason"] == "id_reused"
    assert ours.id != other.id
    assert house.checked([other], theirs.secret) == [True]
    with pytest.raises(ValueError, match="signed by somebody else"):
        house.checked([other])


def refusal(name: str, tenant: str, offset: int) -> Record:
    made = letter(name, tenant=tenant, at=NOW)
    return replace(made, headers={**made.headers, "source_partition": b"0", "source_offset": str(offset).encode()})


async def test_a_secret_is_replaced_without_a_gap(house: House) -> None:
    async with receiving() as receiver, sending(house.database, house.path, local(receiver.port)):
        new = house.keys.rotate(house.key.id, timedelta(hours=1))
        house.due(receiver.url, "both")
        await receiver.called(1)
        house.keys.revoke(house.key.id)
        house.due(receiver.url, "new")
        both, one = await receiver.called(2)
    assert house.checked([both]) == house.checked([both], new.secret) == [True]
    assert house.checked([one], new.secret) == [True]
    with pytest.raises(ValueError, match="signed by somebody else"):
        house.checked([one])


async def test_without_a_secret_it_waits_for_one(house: House) -> None:
    async with receiving() as receiver, sending(house.database, house.path, local(receiver.port)):
        house.keys.revoke(house.key.id)
        house.due(receiver.url)
        async with asyncio.timeout(60):
            while (await house.state("pending"))["result"] != "no_key":
                await asyncio.sleep(0.01)
        house.keys.create("acme")
        await receiver.called(1)


async def test_a_certificate_that_nobody_vouches_for_is_not_trusted(house: House, tmp_path: Path) -> None:
    async with receiving(tls=certificate(tmp_path)) as receiver:
        patience = replace(QUICK, attempts=1)
        async with sending(house.database, house.path, local(receiver.port), patience):
            house.due(receiver.url.replace("http:", "https:"))
            assert (await house.state("failed"))["result"] == "tls"
    assert receiver.calls == []


def certificate(folder: Path) -> ssl.SSLContext:
    """A server's, which it has signed itself."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, none = serialization.Encoding.PEM, serialization.NoEncryption()
    file = folder / "server.pem"
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, none)
    file.write_bytes(private + made.public_bytes(pem))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)
    return context


async def test_the_gateway_takes_an_address_that_may_be_called(tmp_path: Path) -> None:
    with door(tmp_path, rules=replace(RULES, callbacks=offering(tmp_path))) as made:
        async with made.client() as client:
            names = set()
            for url in ("https://hooks.example/a?token=sesame", "https://hooks.example/b"):
                answer = await client.post("/v1/evaluations", json={**ASKED, "callback_url": url})
                assert answer.status_code == 202
                names.add(answer.json()["evaluation_id"])
            assert len(names) == 1, "the same content is one evaluation, whoever is told of it"
            plain = await client.post("/v1/evaluations", json=ASKED)
            assert plain.json()["evaluation_id"] in names
            for url, why in (
                ("http://hooks.example/", "must be an https address"),
                ("https://other.example/?token=sesame", "its host is not among"),
                ("https://user:sesame@hooks.example/", "without user name"),
                ("https://hooks.example:8443/", "its host is not among"),
            ):
                answer = await client.post("/v1/evaluations", json={**ASKED, "callback_url": url})
                problem = answer.json()
                assert (answer.status_code, problem["field"]) == (422, "callback_url")
                assert why in problem["detail"]
                assert "sesame" not in answer.text
    assert [json.loads(value).get("callback_url") for _, value, _ in made.broker.sent] == [
        "https://hooks.example/a?token=sesame",
        "https://hooks.example/b",
        None,
    ]


async def test_the_gateway_says_before_the_202_that_it_would_not_call(tmp_path: Path) -> None:
    asked = {**ASKED, "callback_url": "https://hooks.example/"}
    for callbacks, why in (
        (offering(tmp_path / "other", tenant="other"), "no secret to sign by"),
        (offering(tmp_path, ""), "calls nobody back"),
    ):
        with door(tmp_path, rules=replace(RULES, callbacks=callbacks)) as made:
            async with made.client() as client:
                answer = await client.post("/v1/evaluations", json=asked)
                document = (await client.get("/openapi.json")).json()
        assert answer.status_code == 422
        assert why in answer.json()["detail"]
    assert "callback_url" not in document["components"]["schemas"]["EvaluationRequest"]["properties"]
    assert "callbacks" not in document["paths"]["/v1/evaluations"]["post"]


async def test_the_openapi_document_says_what_a_receiver_gets(tmp_path: Path) -> None:
    with door(tmp_path, rules=replace(RULES, callbacks=offering(tmp_path))) as made:
        async with made.client() as client:
            document = (await client.get("/openapi.json")).json()
    assert "callback_url" in document["components"]["schemas"]["EvaluationRequest"]["properties"]
    submit = document["paths"]["/v1/evaluations"]["post"]
    told = submit["callbacks"]["callback"]["{$request.body#/callback_url}"]["post"]
    assert {each["name"] for each in told["parameters"]} == {"webhook-id", "webhook-timestamp", "webhook-signature"}
    assert list(told["responses"]) == ["200"]
    (name,) = {
        text.rpartition("/")[2] for text in told["requestBody"]["content"]["application/json"]["schema"].values()
    }
    schema = document["components"]["schemas"][name]
    assert schema["properties"]["data"]["$ref"] == "#/components/schemas/EvaluationStatus"
    assert "HTTPValidationError" not in json.dumps(document)


def test_signatures_are_those_of_standard_webhooks() -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # the example of its specification
    made = signing.headers([secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert made["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_keys(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = CallbackKeyFile(tmp_path / "keys.json")
    ring = CallbackKeys(file)
    assert ring.secrets("acme") == ()
    key = file.create("acme")
    assert ring.secrets("acme") == (key.secret,)
    assert ring.secrets(None) == ring.secrets("other") == ()
    assert key.secret not in repr(key)
    with pytest.raises(KeysError, match=f"rotate {key.id}"):
        file.create("acme")
    new = file.rotate(key.id, timedelta(seconds=-1))
    assert ring.secrets("acme") == (new.secret,), "its grace is over"
    assert file.create(None).tenant is None
    with pytest.raises(KeysError, match="no key 'none'"):
        file.rotate("none", timedelta(0))
    assert (tmp_path / "keys.json").stat().st_mode & 0o777 == 0o600
    (tmp_path / "keys.json").write_text('[{"id": 1}]')
    for _ in range(2):
        with pytest.raises(KeysError, match="holds no list of callback keys"):
            ring.secrets("acme")
    assert caplog.text.count(f"{tmp_path / 'keys.json'} holds no list of callback keys") == 1


def test_keys_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSBOX_CALLBACK_KEYS_FILE", str(tmp_path / "keys.json"))

    def keys(*words: str) -> str:
        done = CliRunner().invoke(app, ["callback-keys", *words])
        assert done.exit_code == 0, done.output
        return done.output

    made = json.loads(keys("create", "--tenant", "acme", "--json"))
    turned = json.loads(keys("rotate", made["id"], "--grace", "1h", "--json"))
    assert (turned["tenant"], turned["secret"] != made["secret"]) == ("acme", True)
    listed = keys("list")
    assert (made["id"] in listed, "whsec_" in listed, "whsec_" in keys("list", "--json")) == (True, False, False)
    assert "signs nothing" in keys("revoke", turned["id"])


PUBLIC = ["8.8.8.8", "93.184.215.14", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"]
PRIVATE = [
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.1.1"),  # noqa: S104
    *("192.0.0.8", "192.0.2.1", "198.18.0.1", "240.0.0.1", "255.255.255.255", "192.88.99.1"),
    *("::1", "::", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "fec0::1", "ff0e::1", "2001:db8::1", "::127.0.0.1"),
    *("::ffff:10.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::a00:1", "2002:a00:1::", "2001:0:a00:1::", "nonsense"),
]


def test_which_addresses_are_public() -> None:
    assert [each for each in PUBLIC if not is_public(each)] == []
    assert [each for each in PRIVATE if is_public(each)] == []


@pytest.mark.parametrize(
    ("hosts", "url", "allowed"),
    [
        ("a.example", "https://a.example", True),
        ("a.example", "HTTPS://A.Example:443/x?y=1", True),
        ("A.example", "https://a.example/", True),
        ("a.example", "https://a.example:8443/", False),
        ("a.example:8443", "https://a.example:8443/", True),
        ("a.example:8443", "https://a.example/", False),
        ("a.example", "https://b.a.example/", False),
        ("*.a.example", "https://b.a.example/", True),
        ("*.a.example", "https://a.example/", False),
        ("*.a.example", "https://ba.example/", False),
        ("a.example", "https://a.example.evil.example/", False),
        ("a.example", "https://a.example@evil.example/", False),
        ("a.example", "https://evil.example\\@a.example/", False),
        ("a.example", "https://evil.example/#@a.example/", False),
        ("a.example", "https://a.example\n.evil.example/", False),
        ("a.example", "https://a.example./", False),
        ("a.example", "ftp://a.example/", False),
        ("a.example", "//a.example/", False),
        ("a.example", "https://\u0430.example/", False),
        ("a.example", "http://a.example/", False),
        ("[::1]:9000", "https://[::1]:9000/", True),
        ("a.example, b.example", "https://b.example/", True),
    ],
)
def test_which_hosts_are_called(hosts: str, url: str, allowed: bool) -> None:
    rules = CallbackRules(allowed_hosts(hosts))
    if allowed:
        assert rules.target(url).url == url
        return
    with pytest.raises(NotAllowed):
        rules.target(url)


@pytest.mark.parametrize(
    "hosts", ["*", "*.", "https://a.example", "a b", "a.example:0", "a.example:99999", "a.example/x"]
)
def test_a_list_of_hosts_that_is_none_is_refused(hosts: str) -> None:
    with pytest.raises(ValueError, match="must be HOST"):
        allowed_hosts(hosts)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
def test_the_host_that_is_checked_is_the_host_that_is_called(rest: str) -> None:
    from yarl import URL

    url = f"https://a.example{rest}"
    try:
        target = CallbackRules(allowed_hosts("a.example")).target(url)
    except NotAllowed:
        return
    assert (URL(target.url, encoded=True).host, URL(url, encoded=True).port) == ("a.example", 443)


@given(st.integers(1, 100), st.none() | st.floats(0, 1e9), st.floats(0, 1, exclude_max=True))
def test_waits_grow_and_have_an_end(made: int, asked_s: float | None, chance: float) -> None:
    patience = Patience()
    wait_s = patience.wait_s(made, asked_s, chance)
    assert 2.5 < wait_s <= patience.most_s
    assert wait_s >= min(asked_s or 0, patience.most_s)
    assert sum(patience.wait_s(n, None, 0) for n in range(1, patience.attempts)) < 24 * 3600
