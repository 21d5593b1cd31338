"""A bucket that cannot keep an evidence store's promises is refused, and trouble is a sentence."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from glassbox.cli.stores import evidence_store, evidence_store_to_write
from glassbox.settings import Settings
from ledger.evidence import EvidenceVault
from ledger.objects import BucketStore, Objects
from ledger.port import StoreRefused, StoreUnavailable
from tests.ledger.s3 import S3

pytestmark = pytest.mark.timeout(180)  # an S3 may take its time to start

SETTING = "GLASSBOX_EVIDENCE_URL"
NAME = f"{'ab' * 32}/request"


@pytest.fixture
def credentials(s3: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    return s3


async def test_a_bucket_that_keeps_its_promises_is_left_as_it_was(credentials: S3) -> None:
    objects = Objects(credentials.bucket("sound") + "/below", SETTING)
    await objects.check()
    assert await objects.paths("glassbox-check") == []


async def test_versioning_is_refused(credentials: S3) -> None:
    objects = Objects(credentials.bucket("versioned", "Enabled"), SETTING)
    with pytest.raises(StoreRefused, match=r"versioning is on in s3://versioned.*GLASSBOX_EVIDENCE_URL"):
        await objects.check()
    with pytest.raises(StoreRefused, match="could be had back"):
        await BucketStore(objects).replace(NAME, b"a tombstone")


async def test_a_role_that_writes_does_not_start_on_such_a_bucket(credentials: S3) -> None:
    url = credentials.bucket("refused", "Enabled")
    with pytest.raises(StoreRefused):
        await evidence_store_to_write(Settings(evidence_url=url))
    sound = Settings(evidence_url=credentials.bucket("accepted") + "/below")
    vault = EvidenceVault(await evidence_store_to_write(sound))
    await vault.put_receipt("e1", {"result": "created"})
    assert await EvidenceVault(evidence_store(sound)).receipt("e1") == {"result": "created"}


async def test_no_bucket_is_trouble_and_never_an_absent_object(credentials: S3) -> None:
    store = BucketStore(Objects("s3://nowhere", SETTING))
    for operation in (store.check(), store.get(NAME), store.delete(NAME), store.put_if_absent(NAME, b"secret")):
        with pytest.raises(StoreUnavailable, match=r"s3://nowhere.*AWS_.*GLASSBOX_EVIDENCE_URL") as caught:
            await operation
        assert "secret" not in str(caught.value)


async def test_a_server_that_does_not_answer_is_trouble(monkeypatch: pytest.MonkeyPatch, credentials: S3) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(StoreUnavailable):
        await BucketStore(Objects("s3://away", SETTING)).get(NAME)


@pytest.fixture
async def careless(credentials: S3, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """A server that overwrites whatever the condition."""

    async def agree(request: web.Request) -> web.Response:
        return web.Response(
            headers={"ETag": '"1"'},
            text="<DeleteResult><Deleted><Key>x</Key></Deleted></DeleteResult>" if request.method == "POST" else "",
        )

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", agree)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{runner.addresses[0][1]}")
    yield
    await runner.cleanup()


async def test_a_server_without_conditional_puts_is_refused(careless: None) -> None:
    with pytest.raises(StoreRefused, match="If-None-Match"):
        await Objects("s3://careless", SETTING).check()


async def test_an_object_that_is_too_large_is_not_fetched(credentials: S3) -> None:
    objects = Objects(credentials.bucket("large"), SETTING)
    await objects.create("a", b"12345")
    assert await objects.get("a", at_most=4) is None
    assert await objects.get("a", at_most=5) == b"12345"


async def test_a_bucket_that_comes_back_serves_on(credentials: S3) -> None:
    store = BucketStore(Objects("s3://late", SETTING))
    with pytest.raises(StoreUnavailable):
        await store.get(NAME)
    await asyncio.to_thread(credentials.bucket, "late")
    assert await store.get(NAME) is None
