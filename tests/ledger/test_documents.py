"""Referenced texts: read from the named places alone, and only what the request names."""

from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbox.contract.documents import DocumentRules
from glassbox.contract.request import ContractError, TaskInput, TextReference, read_request
from ledger.documents import StoredDocuments
from ledger.port import DocumentChanged, DocumentMissing, StoreUnavailable
from tests.ledger.s3 import S3

pytestmark = pytest.mark.timeout(180)  # an S3 may take its time to start

TEXT = "Der Fährmann ☂ kommt.\n" * 100


@pytest.fixture(params=["folder", "bucket"])
def location(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "folder":
        return f"file://{tmp_path}/documents/"
    server: S3 = request.getfixturevalue("s3")
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return server.bucket("documents") + f"/{tmp_path.name.replace('[', '').replace(']', '')}/"


def asked(*references: TextReference) -> TaskInput:
    return TaskInput.model_validate(
        {"answer": "a", "retrieved_passages": [{"text": "here"}, *({"id": "p", "reference": r} for r in references)]}
    )


async def test_a_text_comes_back_in_its_place(location: str) -> None:
    documents = StoredDocuments(DocumentRules((location,)))
    reference = await documents.put(TEXT.encode())
    assert await documents.put(TEXT.encode()) == reference
    read = await documents.read(asked(reference))
    assert [(p.id, p.text) for p in read.retrieved_passages or ()] == [(None, "here"), ("p", TEXT)]
    assert read.answer == "a"


async def test_what_is_not_there_or_not_the_same_is_told_apart(location: str) -> None:
    documents = StoredDocuments(DocumentRules((location,)))
    reference = await documents.put(TEXT.encode())
    absent = reference.model_copy(update={"uri": location + "absent"})
    with pytest.raises(DocumentMissing, match="put it back"):
        await documents.read(asked(reference, absent))
    for other in ({"sha256": "ab" * 32}, {"size": reference.size - 1}):
        with pytest.raises(DocumentChanged) as caught:
            await documents.read(asked(reference.model_copy(update=other)))
        assert "Fährmann" not in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a\0b"])
async def test_what_is_no_text_is_not_read(location: str, content: bytes) -> None:
    documents = StoredDocuments(DocumentRules((location,)))
    with pytest.raises(DocumentChanged):
        await documents.read(asked(await documents.put(content)))


async def test_the_limits_hold_whatever_the_request_says(location: str) -> None:
    reference = await StoredDocuments(DocumentRules((location,))).put(b"x" * 100)
    small = StoredDocuments(DocumentRules((location,), document_max=99))
    with pytest.raises(DocumentMissing):
        await small.read(asked(reference))
    with pytest.raises(DocumentMissing):
        await small.read(asked(reference.model_copy(update={"size": 1})))
    other = await StoredDocuments(DocumentRules((location,))).put(b"y" * 100)
    with pytest.raises(DocumentMissing, match="over 199 bytes"):
        await StoredDocuments(DocumentRules((location,), request_max=199)).read(asked(reference, other))


async def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"key")
    documents = StoredDocuments(DocumentRules((f"file://{tmp_path}/documents/",)))
    await documents.put(b"x")
    (tmp_path / "documents" / "link").symlink_to(secret)
    reference = TextReference(
        uri=f"file://{tmp_path}/documents/link", sha256=sha256(b"key").hexdigest(), size=len(b"key")
    )
    with pytest.raises(DocumentMissing, match="link"):
        await documents.read(asked(reference))


async def test_a_place_that_does_not_answer_is_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    reference = TextReference(uri="s3://away/x", sha256="ab" * 32, size=1)
    with pytest.raises(StoreUnavailable, match="GLASSBOX_DOCUMENTS_URL"):
        await StoredDocuments(DocumentRules(("s3://away/",))).read(asked(reference))


RULES = DocumentRules(("s3://docs/below/", "file:///data/documents/"), document_max=10, request_max=15)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://docs/below/",
        "s3://docs/other/a",
        "s3://docs/below/../other/a",
        "s3://docs/below/a/./b",
        "s3://docs/below//a",
        "s3://docs/below/%2e%2e/a",
        "s3://docs/below/a?versionId=1",
        "s3://docs.evil/below/a",
        "file:///data/documents/../../etc/passwd",
        "file:///data/documents/.hidden",
        "file:///data/documents/a\nb",
        "file:///data/documents/a\n",
        "http://169.254.169.254/latest",
        "/data/documents/a",
    ],
)
def test_nothing_outside_is_ever_named(uri: str) -> None:
    assert RULES.located(uri) is None


@given(st.text(max_size=40))
def test_what_is_located_stays_below(rest: str) -> None:
    found = RULES.located("file:///data/documents/" + rest)
    if found is not None:
        assert (Path("/data/documents") / found[1]).resolve().is_relative_to("/data/documents")


def with_sizes(*sizes: int, uri: str = "s3://docs/below/a") -> object:
    given = [{"reference": {"uri": uri, "sha256": "ab" * 32, "size": size}} for size in sizes]
    return {"query": "q", "answer": "a", "retrieved_passages": [], "source_documents": given}


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (with_sizes(1, uri="s3://elsewhere/a"), "source_documents[0].reference.uri"),
        (with_sizes(10, 11), "source_documents[1].reference.size"),
        (with_sizes(10, 5, 1), "source_documents[2].reference.size"),
    ],
)
def test_intake_refuses_what_would_never_be_read(value: object, field: str) -> None:
    with pytest.raises(ContractError) as caught:
        RULES.check(read_request(value, []).request)
    assert caught.value.field == field


def test_the_canonical_request_keeps_the_reference_so_that_its_digest_covers_the_text() -> None:
    request = read_request(with_sizes(10, 5), []).request
    RULES.check(request)
    assert request.canonical().count(b'{"reference":{"sha256":"' + b"ab" * 32) == 2
    assert b'"text"' not in request.canonical()
