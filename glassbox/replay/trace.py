"""A trace: what a system under test answered to one case, or why it did not. One canonical JSON line each."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AllowInfNan, BaseModel, ConfigDict, Field, ValidationError, model_validator

from glassbox.contract.canonical import CanonicalError, canonical, strict_loads

SCHEMA_VERSION: Literal["1"] = "1"

ErrorType = Literal[
    "exception", "timeout", "rate_limited", "unavailable", "malformed_output", "refused", "truncated", "killed"
]
"""Why a system has not answered."""

Finite = Annotated[float, AllowInfNan(False)]
Count = Annotated[int, Field(ge=0)]


class TraceError(ValueError):
    """A trace that cannot be used; `field` and `reason` never quote it."""

    def __init__(self, field: str, reason: str) -> None:
        self.field, self.reason = field, reason
        super().__init__(f"{field}: {reason}" if field else reason)


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Retrieved(_Message):
    """A document that the system retrieved, best first in the list; `score` on the retriever's own scale."""

    document: str
    score: Finite | None = None


class Citation(_Message):
    """`answer[start:end]`, in characters, rests on `document`."""

    document: str
    start: Count
    end: Count


class Usage(_Message):
    """Tokens; `provenance`: as the API reports them, or estimated at 4 characters a token."""

    prompt_tokens: Count
    completion_tokens: Count
    provenance: Literal["api", "estimated"]


class Invocation(_Message):
    """An answer. `retrieved`: best first, null where the system does not say. `parameters`: what it was run with."""

    answer: str
    citations: tuple[Citation, ...] = ()
    retrieved: tuple[Retrieved, ...] | None = None
    usage: Usage | None = None
    model: str | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _inside(self) -> Invocation:
        for n, citation in enumerate(self.citations):
            if not citation.start < citation.end <= len(self.answer):
                raise ValueError(f"citations[{n}]: does not lie inside the answer")
        return self


class InvocationError(_Message):
    """Why there is no answer; `message` is one sentence without keys or texts."""

    type: ErrorType
    message: str


class Trace(_Message):
    """One case, run once. `case`: its id; `suite`: digest of the suite's file; `repeat` counts from 0, `attempts` from
    1; `duration_ms`: wall time of the last attempt. Exactly one of `invocation` and `error`."""

    schema_version: Literal["1"] = SCHEMA_VERSION
    case: str
    suite: str
    repeat: Count = 0
    attempts: Annotated[int, Field(ge=1)] = 1
    duration_ms: Annotated[Finite, Field(ge=0)]
    invocation: Invocation | None = None
    error: InvocationError | None = None

    @model_validator(mode="after")
    def _either(self) -> Trace:
        if (self.invocation is None) == (self.error is None):
            raise ValueError("needs an invocation or an error, and not both")
        return self

    def line(self) -> bytes:
        """RFC 8785 bytes and a line feed. Raises `TraceError` for what could not be read again: a lone surrogate, a NUL
        character, a number that is not finite, parameters that are no JSON or nested too deep."""
        try:
            made = canonical(self.model_dump())
            canonical(parse_trace(made).model_dump())
        except CanonicalError as error:
            raise TraceError(error.field, error.reason) from None
        return made + b"\n"


def parse_trace(line: bytes) -> Trace:
    """A trace from its line. Raises `TraceError` naming the field."""
    try:
        value = strict_loads(line)
    except CanonicalError as error:
        raise TraceError(error.field, error.reason) from None
    if isinstance(value, dict) and value.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        raise TraceError("schema_version", f"is {value['schema_version']!r:.20}; this build reads {SCHEMA_VERSION!r}")
    try:
        return Trace.model_validate_json(line, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise TraceError(".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")) from None
