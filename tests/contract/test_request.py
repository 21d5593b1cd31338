"""The input contract: what is refused, with which field and reason, and what a request's content is."""

import hmac
import json
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbox.contract.request import (
    MAX_BODY,
    ContractError,
    EvaluationRequest,
    TaskInput,
    parse_request,
    read_request,
)

SOUND: dict[str, Any] = {
    "query": "When did the bridge open?",
    "answer": "It opened in 1894.",
    "retrieved_passages": ["Tower Bridge opened in 1894.", {"text": "It spans the Thames.", "id": "p2"}],
}
KEY = b"k" * 32


def parse(document: Any = None, **changes: Any) -> EvaluationRequest:
    value = {**SOUND, **changes} if document is None else document
    return parse_request(json.dumps(value).encode(), ["default", "rag"]).request


def refusal(raw: bytes | None) -> ContractError:
    with pytest.raises(ContractError) as caught:
        parse_request(raw, ["default", "rag"])
    return caught.value


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in SOUND.items() if key != name}).encode()


REFERENCE = {"uri": "s3://docs/a", "sha256": "ab" * 32, "size": 3}


def with_(**changes: Any) -> bytes:
    return json.dumps({**SOUND, **changes}).encode()


def raw_with(name: str, written: str) -> bytes:
    return json.dumps({**SOUND, name: "@"}).replace('"@"', written).encode()


SCORED = [{"text": "a", "score": 0.5}, {"text": "b", "score": 0.25}]
BAD = {
    "null value": (None, "body", "is null"),
    "empty": (b"", "body", "is empty"),
    "not json": (b"query=x", "body", "not JSON"),
    "not utf-8": (b'{"query":"\xff"}', "body", "not UTF-8"),
    "a list": (b"[]", "body", "must be a JSON object"),
    "a string": (b'"x"', "body", "must be a JSON object"),
    "null": (b"null", "body", "must be a JSON object"),
    "no query": (without("query"), "query", "is missing"),
    "no answer": (without("answer"), "answer", "is missing"),
    "no passages": (without("retrieved_passages"), "retrieved_passages", "is missing"),
    "null query": (with_(query=None), "query", "string"),
    "null passages": (with_(retrieved_passages=None), "retrieved_passages", "list"),
    "blank query": (with_(query=" \t\n"), "query", "must not be blank"),
    "empty answer": (with_(answer=""), "answer", "must not be blank"),
    "invisible answer": (with_(answer=" \u200b \ufeff"), "answer", "must not be blank"),
    "query a number": (with_(query=3), "query", "string"),
    "passages a string": (with_(retrieved_passages="x"), "retrieved_passages", "list"),
    "a passage a number": (with_(retrieved_passages=["x", 3]), "retrieved_passages[1]", "an object or a string"),
    "a passage without text": (
        with_(retrieved_passages=[{"id": "p"}]),
        "retrieved_passages[0]",
        "either text or reference",
    ),
    "text and reference": (
        with_(retrieved_passages=[{"text": "a", "reference": REFERENCE}]),
        "retrieved_passages[0]",
        "either text or reference",
    ),
    "a digest in capitals": (
        with_(source_documents=[{"reference": {**REFERENCE, "sha256": "AB" * 32}}]),
        "source_documents[0].reference.sha256",
        "64 hexadecimal digits",
    ),
    "1001 passages": (with_(retrieved_passages=["x"] * 1001), "retrieved_passages", "1000 items"),
    "scores too few": (with_(chunk_scores=[0.5]), "chunk_scores", "one number a passage: 1 for 2"),
    "scores too many": (with_(chunk_scores=[1, 2, 3]), "chunk_scores", "3 for 2"),
    "score NaN": (raw_with("chunk_scores", "[0.5, NaN]"), "chunk_scores[1]", "not finite"),
    "score infinite": (raw_with("chunk_scores", "[1e999, 1]"), "chunk_scores[0]", "not finite"),
    "score a string": (with_(chunk_scores=["0.5", 1]), "chunk_scores[0]", "number"),
    "score true": (with_(chunk_scores=[0.5, True]), "chunk_scores[1]", "number"),
    "score null": (with_(chunk_scores=[0.5, None]), "chunk_scores[1]", "number"),
    "score given twice": (
        with_(retrieved_passages=SCORED, chunk_scores=[0.5, 0.75]),
        "chunk_scores[1]",
        "differs from retrieved_passages[1].score",
    ),
    "lone surrogate": (raw_with("answer", '"\\ud800"'), "answer", "lone surrogate"),
    "surrogate in a passage": (raw_with("retrieved_passages", '["\\udc00"]'), "retrieved_passages[0]", "surrogate"),
    "surrogate key": (b'{"\\ud800":1}', "body", "lone surrogate"),
    "nul": (raw_with("query", '"a\\u0000b"'), "query", "NUL"),
    "duplicated key": (b'{"query":"a","query":"b"}', "query", "duplicated key"),
    "too deep": (raw_with("extra", "[" * 40 + "]" * 40), "extra", "nested deeper than 32"),
    "huge integer": (raw_with("extra", "12345678901234567891"), "extra", "2^53"),
    "too large": (with_(answer="x" * 5_000_000), "body", f"at most {MAX_BODY}"),
    "unknown major": (with_(schema_version="2"), "schema_version", "unknown major"),
    "version a number": (with_(schema_version=1), "schema_version", "string"),
    "unknown policy": (with_(policy="strict"), "policy", "configured: default, rag"),
    "reserved id": (with_(evaluation_id="run:1"), "evaluation_id", "must not begin with run:, review:, policy:"),
    "long id": (with_(evaluation_id="x" * 129), "evaluation_id", "1 to 128"),
    "empty id": (with_(evaluation_id=""), "evaluation_id", "1 to 128"),
    "id with a space": (with_(evaluation_id="a b"), "evaluation_id", "1 to 128"),
    "id with a newline": (with_(evaluation_id="a\n"), "evaluation_id", "1 to 128"),
    "supersedes no id": (with_(supersedes="ü"), "supersedes", "1 to 128"),
    "half a model": (with_(model={"provider": "x"}), "model.name", "is missing"),
    "metadata not text": (with_(metadata={"run": 3}), "metadata.run", "string"),
    "17 metadata": (with_(metadata={str(n): "" for n in range(17)}), "metadata", "16 items"),
    "entities a string": (with_(retrieved_entities="Thames"), "retrieved_entities", "list"),
    "documents a string": (with_(source_documents="text"), "source_documents", "list"),
}


@pytest.mark.parametrize(("raw", "field", "reason"), BAD.values(), ids=BAD)
def test_refused_with_field_and_reason(raw: bytes | None, field: str, reason: str) -> None:
    error = refusal(raw)
    assert error.field.startswith(field)
    assert reason in error.reason
    assert str(error) == f"{error.field}: {error.reason}"


def test_a_refusal_quotes_no_content() -> None:
    secret = "the answer's own words"
    for raw in (
        with_(query={"text": secret}),
        with_(policy=secret),
        with_(chunk_scores=[secret, 1]),
        with_(evaluation_id=secret),
        with_(schema_version=secret),
        with_(retrieved_passages=secret),
        with_(model=secret),
        b'{"query": "' + secret.encode() + b'" x}',
    ):
        assert secret not in str(refusal(raw))


def test_a_path_of_a_long_key_fits_a_header() -> None:
    assert len(refusal(with_(metadata={"k" * 100_000: "v"})).field) < 200


def test_only_passages_may_be_empty() -> None:
    assert parse(retrieved_passages=[]).retrieved_passages == []
    assert parse(retrieved_passages=["x"] * 1000).retrieved_passages[999].text == "x"


def test_body_of_exactly_the_limit() -> None:
    room = MAX_BODY - len(with_(answer="x")) + 1
    raw = with_(answer="x" * room)
    assert len(raw) == MAX_BODY
    assert parse_request(raw, []).request.answer == "x" * room
    assert refusal(with_(answer="x" * (room + 1))).field == "body"


def test_a_string_stands_for_an_object() -> None:
    plain = parse(retrieved_passages=["a"], source_documents=["b"])
    assert plain == parse(retrieved_passages=[{"text": "a"}], source_documents=[{"text": "b"}])
    assert json.loads(plain.canonical())["retrieved_passages"] == [{"text": "a"}]


OPTIONAL = [name for name, field in EvaluationRequest.model_fields.items() if not field.is_required()]


@pytest.mark.parametrize("name", OPTIONAL)
def test_null_is_absent(name: str) -> None:
    assert parse(**{name: None}).canonical() == parse().canonical()


def test_nested_null_is_absent() -> None:
    passages = [{"text": "a", "id": None, "score": None, "document_id": None}]
    assert parse(retrieved_passages=passages).canonical() == parse(retrieved_passages=["a"]).canonical()


def test_unknown_fields_are_left_out_and_named() -> None:
    parsed = parse_request(with_(temperature=0.7, Query="x"), [])
    assert parsed.unknown == ("Query", "temperature")
    assert parsed.request.canonical() == parse().canonical()


def test_scores_wherever_they_were_given() -> None:
    assert parse().scores() is None
    assert parse(retrieved_passages=[]).scores() is None
    assert parse(chunk_scores=[3, -1.5]).scores() == [3.0, -1.5]
    assert parse(retrieved_passages=SCORED).scores() == [0.5, 0.25]
    assert parse(retrieved_passages=SCORED, chunk_scores=[0.5, 0.25]).scores() == [0.5, 0.25]
    assert parse(retrieved_passages=[SCORED[0], {"text": "b"}]).scores() is None
    assert parse(retrieved_passages=[SCORED[0], {"text": "b"}], chunk_scores=[0.5, 9]).scores() == [0.5, 9.0]


def test_a_judge_sees_what_it_needs() -> None:
    request = parse(retrieved_passages=SCORED, reference_answer="1894", evaluation_id="e1")
    seen = request.judge_input(["answer", "chunk_scores"])
    assert seen == TaskInput(answer=SOUND["answer"], chunk_scores=[0.5, 0.25])
    assert TaskInput.model_validate_json(seen.model_dump_json()) == seen


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
optional_fields = st.fixed_dictionaries(
    {},
    optional={
        "session_id": words,
        "model": st.fixed_dictionaries({"provider": words, "name": words}),
        "retrieved_entities": st.lists(words, max_size=3),
        "chunk_scores": st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2),
        "source_documents": st.lists(words | st.fixed_dictionaries({"text": words, "id": words}), max_size=2),
        "metadata": st.dictionaries(words, words, max_size=4),
        "schema_version": st.sampled_from(["1", "1.0", "1.7"]),
    },
)


@given(optional_fields, st.randoms(use_true_random=False))
def test_canonical_is_stable_under_key_order_and_round_trip(fields: dict[str, Any], chance: random.Random) -> None:
    request = parse(**fields)
    items = list({**SOUND, **fields}.items())
    chance.shuffle(items)
    assert parse(dict(items)).canonical() == request.canonical()
    again = parse_request(request.canonical(), []).request
    assert again == request
    assert again.canonical() == request.canonical()


def test_what_is_not_content_changes_no_digest() -> None:
    plain = parse().canonical()
    assert parse(evaluation_id="e1", callback_url="https://example.org/hook").canonical() == plain
    content: dict[str, Any] = {
        "tenant": "t",
        "supersedes": "e0",
        "policy": "rag",
        "metadata": {},
        "chunk_scores": [1, 2],
    }
    for name, value in content.items():
        assert parse(**{name: value}).canonical() != plain


def test_text_is_stored_as_it_came() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    assert parse(answer=composed).canonical() != parse(answer=decomposed).canonical()
    assert parse(answer=f" {composed}\n").answer == f" {composed}\n"


def test_integers_and_floats_are_one_number() -> None:
    assert parse(chunk_scores=[1, -0.0]).canonical() == parse(chunk_scores=[1.0, 0]).canonical()


@pytest.mark.parametrize("identifier", ["a", "x" * 128, "A-Z.0_9:", "runner:1", "my-run:1", "policy"])
def test_ids(identifier: str) -> None:
    assert parse(evaluation_id=identifier).evaluation_id == identifier


def test_derived_id() -> None:
    request = parse()
    assert request.derived_id(KEY) == hmac.new(KEY, request.canonical(), "sha256").hexdigest()
    assert request.derived_id(KEY) == parse(evaluation_id="other").derived_id(KEY)
    assert request.derived_id(KEY) != request.derived_id(b"other" * 8)
    assert request.derived_id(KEY) != parse(tenant="t").derived_id(KEY), "tenants do not share evaluations"
    parse(evaluation_id=request.derived_id(KEY))


def test_read_request_is_as_strict_on_python_values() -> None:
    assert read_request(SOUND, []).request == parse()
    with pytest.raises(ContractError, match=r"chunk_scores\[0\]: must be a finite number"):
        read_request({**SOUND, "chunk_scores": [math.nan, 1.0]}, [])
    with pytest.raises(ContractError, match="body: must be a JSON object"):
        read_request([SOUND], [])
