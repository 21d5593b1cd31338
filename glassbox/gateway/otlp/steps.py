"""From a span to the step of an application that it records: one table for OpenTelemetry's GenAI conventions (the
current ones, those before, OpenLLMetry's) and OpenInference. docs/gateway.md shows it to users.

https://github.com/open-telemetry/semantic-conventions-genai,
https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from glassbox.gateway.otlp.decoding import Span
from glassbox.gateway.otlp.texts import ANSWER, QUESTION, Message, last, messages, of_chain, plain, structure

Kind = Literal["llm", "application", "retriever", "reranker", "tool", "judge", "other"]
"""`application`: a chain, agent or workflow. `judge`: an evaluator or guardrail, whose calls are no answers."""

_OPENINFERENCE: dict[str, Kind] = {
    "LLM": "llm",
    "CHAIN": "application",
    "AGENT": "application",
    "RETRIEVER": "retriever",
    "RERANKER": "reranker",
    "TOOL": "tool",
    "EVALUATOR": "judge",
    "GUARDRAIL": "judge",
}
_OPERATIONS: dict[str, Kind] = {
    "chat": "llm",
    "generate_content": "llm",
    "text_completion": "llm",
    "invoke_agent": "application",
    "invoke_workflow": "application",
    "retrieval": "retriever",
    "execute_tool": "tool",
}
_TRACELOOP: dict[str, Kind] = {
    "workflow": "application",
    "agent": "application",
    "tool": "tool",
    "chat": "llm",
    "completion": "llm",
    "rerank": "reranker",
}
_OUTPUTS = ("gen_ai.output.messages", "gen_ai.completion", "llm.output_messages.", "llm.choices.")
_RESULT = "db.query.result"
"""OpenLLMetry's event of a vector database, one a document."""

OVERHEAD = 512
"""Bytes that a step takes in memory beyond its texts, about."""


@dataclass(frozen=True)
class Passage:
    """A retrieved document as the retriever gave it; `text` is empty where it was not recorded."""

    text: str
    id: str | None = None
    score: float | None = None
    document_id: str | None = None


@dataclass(frozen=True)
class Step:
    """What a span says. `passages`: None where a retriever's are not recorded. `labels`: session_id, user_id,
    service_name and policy, where the span names them."""

    kind: Kind
    query: str
    answer: str
    passages: tuple[Passage, ...] | None
    provider: str
    model: str
    cut: bool
    labels: Mapping[str, str]

    @property
    def size(self) -> int:
        """Bytes of it in memory, about."""
        texts = [self.query, self.answer, *(passage.text for passage in self.passages or ())]
        return OVERHEAD * (1 + len(self.passages or ())) + sum(map(sys.getsizeof, texts))


def step(span: Span) -> Step | None:
    """None where the span is not about generative AI."""
    found = {**_of_events(span.events), **span.attributes}
    kind = _kind(found, span.events)
    if kind is None:
        return None
    query, answer = _said(kind, found)
    return Step(
        kind,
        query,
        answer,
        _passages(kind, found, span.events),
        _first(found, "gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system").lower(),
        _first(
            found,
            *("gen_ai.response.model", "llm.response.model_name", "gen_ai.request.model", "llm.model_name"),
            "llm.request.model_name",
        ),
        span.cut,
        _labels(found, span.resource),
    )


def _kind(found: Mapping[str, Any], events: Iterable[tuple[str, Any]]) -> Kind | None:
    if kind := plain(found.get("openinference.span.kind")):
        return _OPENINFERENCE.get(kind.upper(), "other")
    operation = plain(found.get("gen_ai.operation.name"))
    if operation in _OPERATIONS:
        return _OPERATIONS[operation]
    if any(name == _RESULT for name, _ in events) or _documents_of_task(found) is not None:
        return "retriever"
    for name in ("traceloop.span.kind", "llm.request.type"):
        if (kind := plain(found.get(name))) in _TRACELOOP:
            return _TRACELOOP[kind]
    if not operation and any(name.startswith(("gen_ai.prompt", "gen_ai.completion")) for name in found):
        return "llm"
    return "other" if any(name.startswith(("gen_ai.", "traceloop.", "llm.")) for name in found) else None


def _said(kind: Kind, found: Mapping[str, Any]) -> tuple[str, str]:
    """The question and the answer."""
    if kind not in ("llm", "application", "retriever", "reranker"):
        return "", ""
    asked = _first(found, "gen_ai.retrieval.query.text", "reranker.query") or last(_inputs(found), "user")
    query = asked or _chain(found, "input.value", "traceloop.entity.input", names=QUESTION, role="user")
    if kind in ("retriever", "reranker"):
        return query, ""
    answer = _output(found)
    if not answer and not any(
        name.startswith(_OUTPUTS) for name in found
    ):  # where they only call tools, nothing is said
        answer = _chain(found, "output.value", "traceloop.entity.output", names=ANSWER, role="assistant")
    return query, answer


def _inputs(found: Mapping[str, Any]) -> list[Message]:
    for name in ("gen_ai.input.messages", "gen_ai.prompt"):
        if said := messages(found.get(name)):
            return said
    if text := plain(found.get("gen_ai.prompt")):
        return [Message("", text)]
    for prefix in ("gen_ai.prompt", "llm.input_messages"):
        if said := messages(list(_indexed(found, prefix))):
            return said
    prompts = found.get("llm.prompts")
    listed = prompts if isinstance(prompts, list) else [each.get("text") for each in _indexed(found, "llm.prompts")]
    return [Message("", text) for text in map(plain, listed) if text]


def _output(found: Mapping[str, Any]) -> str:
    """The first choice that has a text."""
    choices = messages(found.get("gen_ai.output.messages")) or messages(found.get("gen_ai.completion"))
    for prefix in ("gen_ai.completion", "llm.output_messages", "llm.choices"):
        choices = choices or messages(list(_indexed(found, prefix)))
    return choices[0].text if choices else plain(structure(found.get("gen_ai.completion")))


def _chain(found: Mapping[str, Any], *attributes: str, names: tuple[str, ...], role: str) -> str:
    return next(filter(None, (of_chain(found.get(each), names, role) for each in attributes)), "")


def _passages(
    kind: Kind, found: Mapping[str, Any], events: Iterable[tuple[str, Mapping[str, Any]]]
) -> tuple[Passage, ...] | None:
    """The documents, in their order; empty where there were none, None where nothing says what there was."""
    if kind not in ("retriever", "reranker"):
        return None
    prefix = "retrieval.documents" if kind == "retriever" else "reranker.output_documents"
    listed: Any = list(_indexed(found, prefix)) or structure(found.get("gen_ai.retrieval.documents"))
    if listed is None:
        listed = _documents_of_task(found)
    if listed is None:
        listed = [_without(f"{_RESULT}.", fields) for name, fields in events if name == _RESULT] or None
    if listed is None and plain(found.get("output.value")):
        listed = []  # the retriever's output is there, and no document in it
    if not isinstance(listed, list):
        return None
    return tuple(_passage(item) for item in listed if isinstance(item, Mapping | str))


def _documents_of_task(found: Mapping[str, Any]) -> list[Any] | None:
    """OpenLLMetry's task that is a LangChain retriever."""
    output = found.get("traceloop.entity.output")
    if found.get("traceloop.span.kind") != "task" or not isinstance(output, str) or '"documents"' not in output:
        return None
    told = structure(output)
    documents = told.get("documents") if isinstance(told, Mapping) else None
    return documents if isinstance(documents, list) else None


def _passage(item: Mapping[str, Any] | str) -> Passage:
    if isinstance(item, str):
        return Passage(plain(item))
    text = next(filter(None, (plain(item.get(name)) for name in ("content", "page_content", "text", "document"))), "")
    about = structure(item.get("metadata"))
    source = [about.get(name) for name in ("document_id", "doc_id", "source")] if isinstance(about, Mapping) else []
    return Passage(text, _name(item.get("id")), _score(item.get("score")), next(filter(None, map(_name, source)), None))


def _score(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) > sys.float_info.max:
        return None
    return None if math.isnan(value) else float(value)


def _name(value: Any) -> str | None:
    """An id as the contract takes it."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return text if 0 < len(text) <= 256 else None


def _of_events(events: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """What was recorded as events of the span, under the names of the attributes: whole inputs and outputs, or (the
    conventions up to 1.36) a message an event."""
    found: dict[str, Any] = {}
    asked: list[dict[str, Any]] = []
    answered: list[dict[str, Any]] = []
    for name, fields in events:
        words, body = name.split("."), structure(fields.get("gen_ai.event.content"))
        told = {**(body if isinstance(body, Mapping) else {}), **fields}
        if name == "gen_ai.choice":
            message = structure(told.get("message"))
            answered.append(
                dict(message) if isinstance(message, Mapping) else {"content": message or told.get("content")}
            )
        elif len(words) == 3 and words[::2] == ["gen_ai", "message"]:
            asked.append({"role": words[1], "content": structure(told.get("content"))})
        elif name.startswith("gen_ai."):
            found.update(fields)
    whole = {"gen_ai.input.messages": asked, "gen_ai.output.messages": answered}
    return {**{name: said for name, said in whole.items() if said}, **found}


def _indexed(found: Mapping[str, Any], prefix: str) -> Iterator[dict[str, Any]]:
    """Objects that are flattened as `PREFIX.N.…`, in order of N; of the rest of a name its last word counts
    (`message.content` is `content`), but for the parts of a message, which are objects of their own."""
    made: dict[int, dict[str, Any]] = {}
    for name, value in found.items():
        if not name.startswith(f"{prefix}."):
            continue
        number, _, rest = name[len(prefix) + 1 :].partition(".")
        if not (number.isascii() and number.isdigit()) or not rest:
            continue
        fields = made.setdefault(int(number[:9]), {})
        if rest.startswith("message.contents."):
            fields.setdefault("contents", {})[rest.removeprefix("message.")] = value
        elif ".tool_calls." not in f".{rest}":
            fields[rest.rpartition(".")[2]] = value
    for _, fields in sorted(made.items()):
        if parts := fields.pop("contents", None):
            fields["parts"] = list(_indexed(parts, "contents"))
        yield fields


def _without(prefix: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in fields.items()}


def _labels(found: Mapping[str, Any], resource: Mapping[str, Any]) -> dict[str, str]:
    named = {
        "session_id": _first(
            found, "gen_ai.conversation.id", "session.id", "traceloop.association.properties.session_id"
        ),
        "user_id": _first(found, "user.id", "traceloop.association.properties.user_id"),
        "service_name": _first(resource, "service.name"),
        "policy": _first(found, "glassbox.policy") or _first(resource, "glassbox.policy"),
    }
    return {name: text for name, text in named.items() if 0 < len(text) <= 256}


def _first(found: Mapping[str, Any], *names: str) -> str:
    return next(filter(None, (plain(found.get(name)) for name in names)), "")
