"""An endpoint that says what it said before: prompts, checks and retries run as they did, no model is asked.

A verdict is recomputed by running its judge on this client. What the model answered comes from the raw outputs that
were kept with the evidence; everything else is made anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from glassbox.contract.canonical import canonical, sha256_hex
from judges.lexical import CHAT_MODEL, EMBEDDING_MODEL
from judges.llm.answers import Answer, Usage
from judges.llm.client import EndpointClient
from judges.llm.endpoint import Endpoint
from judges.llm.errors import EndpointError
from judges.llm.session import EMBEDDINGS, Session
from judges.port import ResponseCache

T = TypeVar("T")

NOT_RECORDED = "no such call is recorded"
"""Detail of the error for a call without a kept answer, and so of the verdict that failed for it."""

_NOWHERE = "http://recorded.invalid/v1"


class RecordedClient(EndpointClient):
    """Answers calls from `calls` (as `Call.evidence` writes them) and the raw `outputs` that they cite by SHA-256.

    A call is known by its prompt's digest and its sample. A chat that no recorded prompt's digest fits is given the
    answers of its step (schema) where exactly one prompt of that step is recorded, and counts in `reworded`: a reader
    without the key of the fences, whose prompts differ in their marks, still sees what the outputs give. A call
    without an answer ends in `EndpointError` (unavailable, NOT_RECORDED); nothing is ever sent.
    """

    def __init__(
        self,
        calls: Iterable[Mapping[str, Any]],
        outputs: Mapping[str, bytes],
        endpoint: Endpoint,
        fence_key: bytes = b"",
    ) -> None:
        super().__init__(endpoint, fence_key)
        self.reworded: set[str] = set()
        self._asked: Counter[str] = Counter()
        self._of_step: dict[str, set[str]] = {}
        self._answers: dict[str, list[dict[int, Answer]]] = {}
        for call in calls:
            if (raw := outputs.get(call["output_digest"])) is not None:
                self._of_step.setdefault(call["schema"], set()).add(call["prompt_digest"])
                sessions = self._answers.setdefault(call["prompt_digest"], [])
                if not sessions or call["sample"] in sessions[-1]:  # each session counts its samples from 0
                    sessions.append({})
                sessions[-1][call["sample"]] = _answer(call, raw)

    def session(self, deadline: float, cache: ResponseCache | None = None) -> Session:
        return _RecordedSession(self, deadline, None)

    async def post(self, path: str, body: Mapping[str, Any], deadline: float) -> bytes:
        raise _not_recorded()

    def answers(self, schema: str, digest: str) -> Mapping[int, Answer]:
        """Sample -> the answer to a prompt that the next session to ask was given; empty where none is kept."""
        if digest not in self._answers:
            of_step = self._of_step.get(schema, ())
            if len(of_step) != 1 or schema == EMBEDDINGS:  # embeddings have no fence
                return {}
            self.reworded.add(digest)
            (digest,) = of_step
        sessions = self._answers[digest]
        self._asked[digest] += 1
        return sessions[min(self._asked[digest], len(sessions)) - 1]


class _RecordedSession(Session):
    def __init__(self, client: RecordedClient, deadline: float, store: ResponseCache | None) -> None:
        super().__init__(client, deadline, store)
        self._recorded, self._kept = client, dict[str, Mapping[int, Answer]]()

    async def _ask(
        self,
        name: str,
        request: Mapping[str, Any],
        draw: Callable[[int, bool], Awaitable[Answer]],
        use: Callable[[Answer], T],
    ) -> T:
        digest = sha256_hex(canonical(request))
        if digest not in self._kept:
            self._kept[digest] = self._recorded.answers(name, digest)
        kept = self._kept[digest]

        async def recorded(sample: int, _cut: bool) -> Answer:
            if sample in kept:
                return kept[sample]
            if self._drawn[digest] in kept:
                # A response that could not be read at all was not kept, and was asked for again as the next sample.
                raise EndpointError("malformed_output", "the response was not kept")
            raise _not_recorded()

        return await super()._ask(name, request, recorded, use)


def recorded_endpoint(calls: Iterable[Mapping[str, Any]], methods: Iterable[Mapping[str, Any]]) -> Endpoint:
    """The endpoint that was asked, as far as answers depend on it. `methods`: those of the verdicts, as JSON; they
    have the settings, and the model where nothing was asked."""
    asked = {call["schema"] == EMBEDDINGS: call.get("asked", call["model"]) for call in calls}
    parameters: dict[str, Any] = {}
    models = []
    for method in methods:
        parameters |= method["parameters"]
        models += [method["model"]] if method["model"] else []
    return Endpoint(
        base_url=_NOWHERE,
        model=asked.get(False) or (models or [CHAT_MODEL])[0],
        embedding_model=asked.get(True) or parameters.get("embedding_model") or (models or [EMBEDDING_MODEL])[0],
        api_key="",
        temperature=float(parameters.get("temperature", 0)),
        max_tokens=int(parameters.get("max_tokens", Endpoint.__dataclass_fields__["max_tokens"].default)),
    )


def _answer(call: Mapping[str, Any], raw: bytes) -> Answer:
    usage = Usage(call["prompt_tokens"], call["completion_tokens"], call["usage_provenance"])
    return Answer(call["model"], raw, call["finish_reason"], usage, tuple(call.get("adapted", ())))


def _not_recorded() -> EndpointError:
    return EndpointError("unavailable", NOT_RECORDED, final=True)
