"""The input contract: what a producer hands over, checked so that a mistake names its field and its reason."""

from __future__ import annotations

import hmac
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from glassbox.contract.canonical import CanonicalError, canonical, showable, strict_loads
from glassbox.contract.reasons import reason
from glassbox.contract.record import RESERVED_PREFIXES

MAX_BODY = 1024 * 1024
"""Largest request, in bytes."""
MAX_PASSAGES = 1000
SUPPORTED_MAJOR = "1"

_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"


class ContractError(ValueError):
    """A request that cannot be judged. `field` is a path such as `chunk_scores[2]`; neither part quotes content."""

    def __init__(self, field: str, reason: str) -> None:
        self.field, self.reason = showable(field), reason
        super().__init__(f"{self.field}: {reason}")


class _Input(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


def _not_blank(text: str) -> str:
    if all(c.isspace() or c in _INVISIBLE for c in text):
        raise ValueError("must not be blank")
    return text


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


def _as_object(value: Any) -> Any:
    if not isinstance(value, str | dict | GivenDocument):
        raise ValueError("must be an object or a string")
    return {"text": value} if isinstance(value, str) else value


Text = Annotated[str, Field(min_length=1), BeforeValidator(lambda v: _not_blank(v) if isinstance(v, str) else v)]
Name = Annotated[str, Field(min_length=1, max_length=256)]
Score = Annotated[float, BeforeValidator(lambda v: _finite(v) if isinstance(v, float) else v)]


class Document(_Input):
    """A source document as judges read it."""

    id: Name | None = None
    text: str


class Passage(Document):
    """A retrieved passage; `score` is the retriever's, on any scale, higher is better unless the policy says not."""

    score: Score | None = None
    document_id: Name | None = None


class TextReference(_Input):
    """Where a text lies that does not travel with the request: its object, the SHA-256 of its bytes (hexadecimal), and
    their number."""

    uri: Annotated[str, Field(min_length=1, max_length=1024)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    size: Annotated[int, Field(ge=0)]


class GivenDocument(_Input):
    """A source document as a producer gives it: its text, or a reference to it. A plain string stands for
    `{"text": …}`."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["text"], "properties": {"text": {"type": "string"}}},
                {"required": ["reference"], "properties": {"reference": {"type": "object"}}},
            ]
        }
    )

    id: Name | None = None
    text: str | None = None
    reference: TextReference | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> GivenDocument:
        if (self.text is None) == (self.reference is None):
            raise ValueError("must have either text or reference")
        return self

    def _read(self, texts: Mapping[TextReference, str]) -> dict[str, Any]:
        """The fields of the document that judges read."""
        fields = self.model_dump(exclude={"reference"})
        return fields if self.reference is None else {**fields, "text": texts[self.reference]}


class GivenPassage(GivenDocument):
    """A retrieved passage as a producer gives it; `score` as in `Passage`."""

    score: Score | None = None
    document_id: Name | None = None


class Model(_Input):
    """The model that wrote the answer."""

    provider: Name
    name: Name


class EvaluationRequest(_Input):
    """One answer to judge (DESIGN: the input contract)."""

    query: Text
    answer: Text
    retrieved_passages: Annotated[
        list[Annotated[GivenPassage, BeforeValidator(_as_object)]], Field(max_length=MAX_PASSAGES)
    ]
    evaluation_id: str | None = None
    session_id: Name | None = None
    model: Model | None = None
    retrieval_strategy: Name | None = None
    reference_answer: Text | None = None
    retrieved_entities: list[Name] | None = None
    chunk_scores: list[Score] | None = None
    source_documents: list[Annotated[GivenDocument, BeforeValidator(_as_object)]] | None = None
    policy: Name | None = None
    metadata: Annotated[dict[Name, str], Field(max_length=16)] | None = None
    tenant: Name | None = None
    supersedes: str | None = None
    callback_url: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    schema_version: str | None = None

    @field_validator("evaluation_id", "supersedes")
    @classmethod
    def _identifier(cls, value: str | None) -> str | None:
        if value is not None and not _ID.fullmatch(value):
            raise ValueError("must be 1 to 128 characters of A-Z a-z 0-9 . _ : -")
        if value is not None and value.startswith(RESERVED_PREFIXES):
            raise ValueError(f"must not begin with {', '.join(RESERVED_PREFIXES)}")
        return value

    @field_validator("schema_version")
    @classmethod
    def _version(cls, value: str | None) -> str | None:
        if value is not None and value.split(".")[0] != SUPPORTED_MAJOR:
            raise ValueError(f"unknown major version; this pipeline reads {SUPPORTED_MAJOR}")
        return value

    def canonical(self) -> bytes:
        """RFC 8785 bytes of the request's content: known fields that are there, without the id and the call-back."""
        fields = self.model_dump(mode="json", exclude_none=True, exclude={"evaluation_id", "callback_url"})
        return canonical(fields)

    def derived_id(self, key: bytes) -> str:
        """HMAC-SHA256 of the canonical request under the id key: the same content twice is one evaluation, and
        nobody without the key can guess content from an id."""
        return keyed_digest(key, self.canonical())

    def scores(self) -> list[float] | None:
        """The retriever's scores aligned with the passages, wherever they were given; None unless all are there."""
        if self.chunk_scores is not None:
            return self.chunk_scores
        scores = [p.score for p in self.retrieved_passages]
        return [s for s in scores if s is not None] if scores and None not in scores else None

    def judge_input(self, needs: Collection[str]) -> TaskInput:
        """Only the fields that a judge declares it needs."""
        values = {name: getattr(self, name) for name in needs if name != "chunk_scores"}
        if "chunk_scores" in needs:
            values["chunk_scores"] = self.scores()
        return TaskInput(**values)

    def references(self) -> Iterator[tuple[str, TextReference]]:
        """(field, reference) of every text that does not travel with the request."""
        for field in ("retrieved_passages", "source_documents"):
            for n, given in enumerate(getattr(self, field) or ()):
                if given.reference is not None:
                    yield f"{field}[{n}].reference", given.reference


class _Texts(_Input):
    """The request fields that judges read, each optional: a task carries only what its kind needs.

    `chunk_scores` is aligned with `retrieved_passages`, wherever the producer put the scores.
    """

    query: str | None = None
    answer: str | None = None
    reference_answer: str | None = None
    retrieved_entities: list[str] | None = None
    chunk_scores: list[float] | None = None
    model: Model | None = None


class JudgeInput(_Texts):
    """What a judge reads."""

    retrieved_passages: list[Passage] | None = None
    source_documents: list[Document] | None = None


class TaskInput(_Texts):
    """What a judge is to read, before references are followed."""

    retrieved_passages: list[GivenPassage] | None = None
    source_documents: list[GivenDocument] | None = None

    def references(self) -> set[TextReference]:
        every = (*(self.retrieved_passages or ()), *(self.source_documents or ()))
        return {given.reference for given in every if given.reference is not None}

    def read(self, texts: Mapping[TextReference, str]) -> JudgeInput:
        """With the text of every reference."""
        values = {name: getattr(self, name) for name in _Texts.model_fields}
        passages, documents = self.retrieved_passages, self.source_documents
        if passages is not None:
            values["retrieved_passages"] = [Passage(**given._read(texts)) for given in passages]
        if documents is not None:
            values["source_documents"] = [Document(**given._read(texts)) for given in documents]
        return JudgeInput(**values)


@dataclass(frozen=True)
class ParsedRequest:
    """A valid request and the names of the unknown top-level fields that were left out."""

    request: EvaluationRequest
    unknown: tuple[str, ...]


def keyed_digest(key: bytes, data: bytes) -> str:
    """HMAC-SHA256, hexadecimal: how ids are derived and how session ids stand on the ledger."""
    return hmac.new(key, data, "sha256").hexdigest()


def parse_request(raw: bytes | None, policies: Iterable[str]) -> ParsedRequest:
    """Read one request. `policies`: the configured names. Raises `ContractError` naming field and reason."""
    if not raw:
        raise ContractError("body", "is empty" if raw is not None else "is null")
    if len(raw) > MAX_BODY:
        raise ContractError("body", f"{len(raw)} bytes; at most {MAX_BODY} (larger documents by claim check)")
    try:
        value = strict_loads(raw)
    except CanonicalError as error:
        raise ContractError(error.field or "body", error.reason) from None
    return read_request(value, policies)


def read_request(value: Any, policies: Iterable[str]) -> ParsedRequest:
    """As `parse_request`, from a JSON value that was read strictly. A null optional field counts as absent."""
    if not isinstance(value, dict):
        raise ContractError("body", "must be a JSON object")
    known = EvaluationRequest.model_fields
    present = {
        name: item for name, item in value.items() if name in known and (item is not None or known[name].is_required())
    }
    try:
        request = EvaluationRequest.model_validate(present)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ContractError(_path(first["loc"]), reason(first)) from None
    _check_scores(request)
    names = sorted(policies)
    if request.policy is not None and request.policy not in names:
        raise ContractError("policy", f"is not configured; configured: {', '.join(names)}")
    return ParsedRequest(request, tuple(sorted(name for name in value if name not in known)))


def _check_scores(request: EvaluationRequest) -> None:
    passages, scores = request.retrieved_passages, request.chunk_scores
    if scores is None:
        return
    if len(scores) != len(passages):
        raise ContractError("chunk_scores", f"must have one number a passage: {len(scores)} for {len(passages)}")
    for n, (passage, score) in enumerate(zip(passages, scores, strict=True)):
        if passage.score is not None and passage.score != score:
            raise ContractError(f"chunk_scores[{n}]", f"differs from retrieved_passages[{n}].score")


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path or "body"
