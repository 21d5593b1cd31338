"""What a judge is: one kind's answer to one evaluation, with a verdict for each of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from glassbox.contract.request import JudgeInput
from glassbox.contract.verdict import FAILED, Failed, NotApplicable, Scored

if TYPE_CHECKING:
    from judges.llm import EndpointClient

NEEDS: Mapping[str, frozenset[str]] = {
    "relevance": frozenset(("query", "retrieved_passages", "reference_answer", "chunk_scores", "model")),
    "calibration": frozenset(("query", "retrieved_passages", "chunk_scores", "retrieved_entities")),
    "grounding": frozenset(("query", "answer", "retrieved_passages", "source_documents", "model")),
    "terminology": frozenset(("answer", "retrieved_passages", "source_documents")),
    "structure": frozenset(("query", "answer", "retrieved_passages", "source_documents")),
}
"""Worker kind -> the `JudgeInput` fields that its judge reads. Here, so that intake knows them without a judge."""


class ResponseCache(Protocol):
    """Where a model's answers are kept, so that judging the same evaluation again pays for nothing twice."""

    async def get(self, key: str) -> bytes | None: ...

    async def put(self, key: str, value: bytes) -> None: ...


@dataclass(frozen=True)
class Case:
    """What a judge sees of one evaluation.

    `settings`: part name -> that part's settings in the policy; only the enabled parts of this kind are there.
    `deadline`: `time.monotonic()` seconds by which the answer must be there.
    """

    evaluation_id: str
    input: JudgeInput
    settings: Mapping[str, Mapping[str, Any]]
    deadline: float
    cache: ResponseCache | None = None


@dataclass(frozen=True)
class Judgement:
    """Exactly one verdict for each part in `Case.settings`, and what a person needs to see why.

    `evidence` is JSON without NaN; `raw` are raw model outputs, cited in the evidence by their SHA-256.
    """

    verdicts: tuple[Scored | NotApplicable | Failed, ...]
    evidence: dict[str, Any]
    raw: tuple[bytes, ...] = field(default=())


class Judge(Protocol):
    """One worker kind. `needs` names the `JudgeInput` fields that it reads; nothing else is sent to it."""

    kind: str
    needs: frozenset[str]

    async def judge(self, case: Case) -> Judgement:
        """Judge one case. Raises `JudgeError` where no part could be judged; anything else is a crash."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Models:
    """Which models run in this process: each NAME, NAME@REVISION (of a hub) or a folder; None: what the product does
    without. `entity`, `relation`: those of the structure judge. `device`: as `judges.device.choose` takes it."""

    sentence: str | None = None
    entity: str | None = None
    relation: str | None = None
    device: str = "auto"


@dataclass(frozen=True)
class JudgeContext:
    """What a judge is made of. It outlives the judge: its maker closes what is in it."""

    endpoint: EndpointClient | None = None
    models: Models = Models()

    @property
    def client(self) -> EndpointClient:
        """The client of the model endpoint, shared by the judges of a process. Raises `JudgeError` where no endpoint
        is known."""
        if self.endpoint is None:
            raise JudgeError(
                "model_missing", "no model endpoint is known: set GLASSBOX_LLM_BASE_URL, or run `glassbox up`"
            )
        return self.endpoint


class JudgeError(Exception):
    """No part could be judged. `cause` is one of `FAILED`; `detail` never quotes the evaluation."""

    def __init__(self, cause: str, detail: str = "") -> None:
        if cause not in FAILED:
            raise ValueError(f"unknown cause {cause!r}")
        self.cause, self.detail = cause, detail
        super().__init__(f"{cause}: {detail}" if detail else cause)
