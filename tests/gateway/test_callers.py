"""Keys and tokens: who is let in, and as whom."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from typer.testing import CliRunner

from glassbox.cli.main import app
from glassbox.gateway.keys import KeyFile, KeyRing, hashed
from glassbox.gateway.limits import Rates
from glassbox.gateway.oidc import Provider, TokenVerifier
from glassbox.gateway.private_file import KeysError
from glassbox.gateway.problems import Problem
from tests.gateway.parts import Door, door
from tests.gateway.test_submitting import URL, problem

DAY = timedelta(days=1)


def test_a_key_opens_until_it_ends(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    ring = KeyRing(file, required=True)
    assert ring.find("gbk_x_y") is None
    key, text = file.create("bot", "acme", ("read",), None, None)
    assert ring.find(text) == key
    assert key.hash == hashed(text)
    assert ring.find(text + "x") is None
    _, short = file.create("bot", "acme", ("read",), timedelta(0), None)
    assert ring.find(short) is None
    turned, new = file.rotate(key.id, DAY)
    assert (turned.tenant, turned.scopes) == ("acme", ("read",))
    assert ring.find(text) is not None
    assert ring.find(new) is not None
    ends = next(each for each in file.read() if each.id == key.id)
    assert not ends.valid(datetime.now(UTC) + 2 * DAY)
    file.rotate(turned.id, timedelta(0))
    assert ring.find(new) is None
    file.revoke(key.id)
    assert ring.find(text) is None


def test_a_key_needs_a_tenant_or_the_right_to_all(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    for tenant, scopes in ((None, ("read",)), ("acme", ()), ("acme", ("write",))):
        with pytest.raises(KeysError):
            file.create("bot", tenant, scopes, None, None)
    assert file.create("boss", None, ("admin",), None, None)[0].tenant is None
    file.path.write_text('[{"id": 1}]')
    with pytest.raises(KeysError, match="holds no list of API keys"):
        file.read()


def test_a_key_that_takes_anothers_place_lives_as_long(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    key, _ = file.create("bot", "acme", ("read",), 90 * DAY, None)
    assert file.rotate(key.id, DAY)[0].lifetime == 90 * DAY
    assert file.rotate(key.id, DAY, 2 * DAY)[0].lifetime == 2 * DAY
    eternal, _ = file.create("bot", "acme", ("read",), None, None)
    assert file.rotate(eternal.id, DAY)[0].lifetime is None
    dead, _ = file.create("bot", "acme", ("read",), timedelta(0), None)
    with pytest.raises(KeysError, match="--expires"):
        file.rotate(dead.id, DAY)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        *(("keys create bot --tenant a --expires 0d", "--expires"), ("keys rotate x --expires 0m", "--expires")),
        *((f"keys create bot --tenant a --rate {rate}", "--rate") for rate in ("inf", "nan", "0")),
        *((f"{keys} --tenant=", "--tenant") for keys in ("keys create bot", "callback-keys create")),
    ],
)
def test_what_would_make_no_key_is_refused_by_its_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, option: str
) -> None:
    monkeypatch.setenv("GLASSBOX_DATA_DIR", str(tmp_path))
    done = CliRunner().invoke(app, words.split())
    assert (done.exit_code, option in done.output, list(tmp_path.iterdir())) == (2, True, []), done.output


async def test_that_the_keys_cannot_be_read_is_logged_once_per_change(
    keyed_door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    key, path = keyed_door.key(), keyed_door.keys.path
    whole = path.read_text()

    async def asked(status: int) -> None:
        async with keyed_door.client(key) as client:
            assert (await client.get(URL)).status_code == status

    await asked(200)
    path.write_text("private text")
    for _ in range(3):
        await asked(500)
    path.write_text(whole)
    await asked(200)
    path.write_text("other private text")
    await asked(500)
    told = [each.getMessage() for each in caplog.records if each.name == "glassbox.keys"]
    assert len(told) == 2
    assert all(str(path) in each and "holds no list" in each and "private" not in each for each in told)


async def test_the_first_key_closes_an_open_gateway(open_door: Door) -> None:
    async with open_door.client() as client, open_door.client(host="elsewhere.example") as strange:
        assert (await client.get(URL)).status_code == 200
        problem(await strange.get(URL), 403, "forbidden")
        key = open_door.key()
        problem(await client.get(URL), 401, "unauthenticated")
        for host in ("localhost", "elsewhere.example"):
            async with open_door.client(key, host) as known:
                assert (await known.get(URL)).status_code == 200
        open_door.keys.path.unlink()
        problem(await client.get(URL), 401, "unauthenticated")


def test_a_file_of_keys_where_nobody_may_look_is_asked(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert KeyRing(KeyFile(loop), required=False).asked
    assert not KeyRing(KeyFile(tmp_path / "none" / "keys.json"), required=False).asked


def test_rates() -> None:
    rates = Rates()
    for _ in range(4):
        rates.take("k", 2.0, now=0.0)
    with pytest.raises(Problem):
        rates.take("k", 2.0, now=0.0)
    rates.take("k", 2.0, now=0.5)
    rates.take("other", 2.0, now=0.0)
    for _ in range(100):
        rates.take("free", None)


class Identity:
    """An OpenID Connect provider on this machine. `asked`: how often its keys were fetched."""

    def __init__(self) -> None:
        self.key, self.asked = rsa.generate_private_key(65537, 2048), 0
        identity = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(identity.document(self.path)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"

    def document(self, path: str) -> dict[str, Any]:
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}
        self.asked += 1
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [{**public, "kid": "one", "use": "sig", "alg": "RS256"}]}

    def token(self, key: Any = None, algorithm: str = "RS256", kid: str = "one", **claims: Any) -> str:
        now = int(time.time())
        said = {"iss": self.issuer, "aud": "glassbox", "exp": now + 600, "sub": "s", "tenant": "acme", **claims}
        named = {"scope": "openid glassbox:read glassbox:submit"} | said
        named = {name: value for name, value in named.items() if value is not None}
        return jwt.encode(named, key or self.key, algorithm, headers={"kid": kid})


@pytest.fixture(scope="module")
def identity() -> Iterator[Identity]:
    made = Identity()
    thread = Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@pytest.fixture
def token_door(tmp_path: Path, identity: Identity) -> Iterator[Door]:
    with door(tmp_path, tokens=TokenVerifier(Provider(identity.issuer, "glassbox"))) as made:
        yield made


async def test_a_token_lets_in_as_its_tenant(token_door: Door, identity: Identity) -> None:
    before = identity.asked
    async with token_door.client(identity.token()) as client:
        for _ in range(3):
            assert (await client.get(URL)).status_code == 200
        problem(await client.get(URL, params={"tenant": "other"}), 403, "forbidden")
    assert identity.asked == before + 1, "the keys are kept"
    async with token_door.client(identity.token(scope=["glassbox:admin"], tenant=None)) as client:
        assert (await client.get(URL, params={"tenant": "other"})).status_code == 200


async def test_tokens_that_prove_nothing(token_door: Door, identity: Identity) -> None:
    public = identity.key.public_key().public_bytes_raw() if hasattr(identity.key, "public_bytes_raw") else b"k" * 64
    now = int(time.time())
    wrong = {
        "expired": identity.token(exp=now - 120),
        "not yet": identity.token(nbf=now + 3600),
        "another audience": identity.token(aud="other"),
        "another issuer": identity.token(iss="https://evil.example"),
        "without an end": identity.token(exp=None),
        "another key": identity.token(rsa.generate_private_key(65537, 2048)),
        "a shared secret": identity.token(public, "HS256"),
        "unsigned": jwt.encode({"iss": identity.issuer, "aud": "glassbox", "exp": now + 60}, None, "none"),
        "no token": "abc.def.ghi",
    }
    for what, token in wrong.items():
        async with token_door.client(token) as client:
            answer = await client.get(URL)
            problem(answer, 401, "unauthenticated")
            assert token not in answer.text, what
    async with token_door.client(identity.token(tenant=None)) as client:
        problem(await client.get(URL), 403, "forbidden")
    async with token_door.client(identity.token(scope="openid")) as client:
        problem(await client.get(URL), 403, "forbidden")


async def test_unknown_key_ids_do_not_make_us_ask_again_and_again(token_door: Door, identity: Identity) -> None:
    async with token_door.client(identity.token()) as client:
        assert (await client.get(URL)).status_code == 200
    before = identity.asked
    for n in range(5):
        async with token_door.client(identity.token(kid=f"unknown-{n}")) as client:
            problem(await client.get(URL), 401, "unauthenticated")
    assert identity.asked <= before + 1


async def test_a_provider_that_is_away_is_said(tmp_path: Path, identity: Identity) -> None:
    away = TokenVerifier(Provider("http://127.0.0.1:1", "glassbox"))
    with door(tmp_path, tokens=away) as made:
        async with made.client(identity.token()) as client:
            problem(await client.get(URL), 503, "provider_unavailable")
