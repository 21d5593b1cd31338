"""Evidence is sealed by the salt, the salt lies in one object, and erasing that object ends everything."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from glassbox.contract.canonical import canonical, sha256_hex
from judges.port import ResponseCache
from ledger.evidence import EvidenceVault, StoreDamaged, owner
from ledger.port import StoredRequest, Tombstone, salted_digest
from ledger.store import FolderStore

pytestmark = pytest.mark.timeout(180)  # an S3 may take its time to start

ID = "eval:1"
REQUEST = canonical({"query": "Who wrote Дубровский?", "answer": 'Pushkin \U0001f600 \\ " \u2028', "n": 0.1})
EVIDENCE = canonical({"claims": ["the answer's text"]})
AT = 1_769_851_800_000
ERASED = "2026-01-31T09:30:00.000Z"


def files(root: Path, pattern: str = "*") -> list[Path]:
    return [path for path in root.rglob(pattern) if path.is_file()]


@pytest.fixture
async def folder_vault(tmp_path: Path) -> AsyncIterator[EvidenceVault]:
    made = EvidenceVault(FolderStore(tmp_path))
    yield made
    await made.close()


@pytest.fixture(params=["folder_vault", "bucket"])
def vault(request: pytest.FixtureRequest) -> EvidenceVault:
    made = request.getfixturevalue(request.param)
    return made if isinstance(made, EvidenceVault) else EvidenceVault(made)


async def put(vault: EvidenceVault, evaluation_id: str = ID) -> StoredRequest:
    stored = await vault.put_request(evaluation_id, REQUEST, AT)
    assert isinstance(stored, StoredRequest)
    return stored


async def test_the_first_request_and_its_salt_stand(vault: EvidenceVault) -> None:
    first = await vault.put_request(ID, REQUEST, AT, "https://example.com/hook")
    again = await vault.put_request(ID, canonical({"other": 1}), AT + 1)
    assert first == again == await vault.request(ID)
    assert isinstance(first, StoredRequest)
    assert first.request == REQUEST
    assert first.requested_at == AT
    assert first.callback_url == "https://example.com/hook"
    assert len(first.salt) == 32
    assert first.digest == sha256_hex(first.salt + REQUEST) == salted_digest(first.salt, REQUEST)


async def test_of_two_intakes_at_once_both_go_by_one_salt(vault: EvidenceVault) -> None:
    stored = await asyncio.gather(*(put(vault) for _ in range(8)))
    assert len({request.salt for request in stored}) == 1


async def test_two_evaluations_of_one_request_share_nothing(vault: EvidenceVault) -> None:
    one, other = await put(vault, "a"), await put(vault, "b")
    assert one.salt != other.salt
    assert one.digest != other.digest


async def test_an_unknown_id_has_nothing(vault: EvidenceVault) -> None:
    assert await vault.request("nobody") is None
    assert await vault.receipt("nobody") is None
    assert await vault.evidence("nobody", "grounding", "00" * 32, bytes(32)) is None
    assert await vault.cache("nobody", bytes(32)).get("key") is None


async def test_sealed_things_come_back(vault: EvidenceVault) -> None:
    salt = (await put(vault)).salt
    digest = await vault.put_evidence(ID, "grounding", EVIDENCE, salt)
    assert digest == sha256_hex(salt + EVIDENCE)
    assert await vault.put_evidence(ID, "grounding", EVIDENCE, salt) == digest
    assert await vault.evidence(ID, "grounding", digest, salt) == EVIDENCE
    raw = await vault.put_raw(ID, b"\x00not json", salt)
    assert raw == sha256_hex(b"\x00not json")
    assert await vault.raw(ID, raw, salt) == b"\x00not json"
    await vault.put_receipt(ID, {"result": "created"})
    await vault.put_receipt(ID, {"result": "exists"})
    assert await vault.receipt(ID) == {"result": "created"}


async def test_the_cache_is_the_judges_and_keeps_the_first_answer(vault: EvidenceVault) -> None:
    cache: ResponseCache = vault.cache(ID, (await put(vault)).salt)
    await cache.put("ab" * 32, b"first")
    await cache.put("ab" * 32, b"second")
    assert await cache.get("ab" * 32) == b"first"


async def test_only_request_and_receipt_are_readable_on_disk(folder_vault: EvidenceVault, tmp_path: Path) -> None:
    salt = (await put(folder_vault)).salt
    await folder_vault.put_evidence(ID, "grounding", EVIDENCE, salt)
    await folder_vault.put_raw(ID, EVIDENCE, salt)
    await folder_vault.cache(ID, salt).put("key", EVIDENCE)
    await folder_vault.put_receipt(ID, {"result": "created"})
    contents = {path.name.split(",")[0]: path.read_bytes() for path in files(tmp_path)}
    assert contents.keys() == {"request", "receipt", "evidence", "raw", "cache"}
    assert [name for name, content in contents.items() if b"claims" in content] == []
    assert [name for name, content in contents.items() if salt.hex().encode() in content] == ["request"]
    assert ID not in "".join(map(str, files(tmp_path)))


async def test_what_was_changed_or_moved_is_damaged_never_wrong(folder_vault: EvidenceVault, tmp_path: Path) -> None:
    salt = (await put(folder_vault)).salt
    digest = await folder_vault.put_evidence(ID, "grounding", EVIDENCE, salt)
    (file,) = files(tmp_path, "evidence*")
    whole = file.read_bytes()
    for broken in (b"", whole[:20], whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1])):
        file.write_bytes(broken)
        with pytest.raises(StoreDamaged, match="restore"):
            await folder_vault.evidence(ID, "grounding", digest, salt)
    file.with_name(f"evidence,grounding,{'00' * 32}").write_bytes(whole)
    with pytest.raises(StoreDamaged):
        await folder_vault.evidence(ID, "grounding", "00" * 32, salt)
    file.write_bytes(whole)
    with pytest.raises(StoreDamaged):
        await folder_vault.evidence(ID, "grounding", digest, bytes(32))
    assert await folder_vault.evidence(ID, "grounding", digest, salt) == EVIDENCE


WRONG_TYPES = b'{"callback_url":null,"request":1,"requested_at":"","salt":""}'


@pytest.mark.parametrize("broken", [b"", b"[]", b"{}", WRONG_TYPES])
async def test_a_damaged_request_is_named_as_such(folder_vault: EvidenceVault, tmp_path: Path, broken: bytes) -> None:
    await put(folder_vault)
    (file,) = files(tmp_path, "request")
    file.write_bytes(broken)
    with pytest.raises(StoreDamaged, match=r"request of eval:1 is damaged"):
        await folder_vault.request(ID)


async def test_erasing_leaves_tombstone_and_receipt_and_cannot_be_undone(
    folder_vault: EvidenceVault, tmp_path: Path
) -> None:
    salt = (await put(folder_vault)).salt
    other = await put(folder_vault, "other")
    await folder_vault.put_evidence(ID, "grounding", EVIDENCE, salt)
    await folder_vault.put_raw(ID, b"raw", salt)
    await folder_vault.cache(ID, salt).put("key", b"value")
    await folder_vault.put_receipt(ID, {"result": "created"})
    await folder_vault.erase(ID, ERASED)
    await folder_vault.erase(ID, "2027-01-01T00:00:00.000Z")
    assert await folder_vault.request(ID) == Tombstone(ERASED)
    assert await folder_vault.put_request(ID, REQUEST, AT) == Tombstone(ERASED)
    assert await folder_vault.receipt(ID) == {"result": "created"}
    folder = tmp_path / owner(ID)[:2] / owner(ID)
    assert sorted(path.name for path in folder.iterdir()) == ["receipt", "request"]
    assert salt.hex().encode() not in (folder / "request").read_bytes()
    assert await folder_vault.request("other") == other


async def test_erasing_what_never_came_keeps_it_out(vault: EvidenceVault) -> None:
    await vault.erase("never", ERASED)
    assert await vault.put_request("never", REQUEST, AT) == Tombstone(ERASED)


def test_a_salt_does_not_show_in_logs() -> None:
    assert (b"\xab" * 32).hex() not in repr(StoredRequest(b"the answer", b"\xab" * 32, AT))
    assert "the answer" not in repr(StoredRequest(b"the answer", b"\xab" * 32, AT))
