"""Traces as instrumentations send them, made small: the names and shapes of attributes are theirs, the texts ours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from openinference.semconv.trace import (
    DocumentAttributes,
    MessageAttributes,
    MessageContentAttributes,
    RerankerAttributes,
    SpanAttributes,
)
from openinference.semconv.trace import OpenInferenceSpanKindValues as SpanKind
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai

TRACE = "0af7651916cd43dd8448eb211c80319c"
QUESTION = "Who wrote the first program?"
ANSWER = "Ada Lovelace wrote it in 1843."
PASSAGES = [
    "Ada Lovelace wrote the first program in 1843, for the Analytical Engine.",
    "Charles Babbage designed the Analytical Engine.",
]
PROMPT = f"Answer from the context.\n{PASSAGES[0]}\n{PASSAGES[1]}\nQuestion: {QUESTION}"


def ident(number: int) -> str:
    return f"{number:016x}"


def value(plain: Any) -> dict[str, Any]:
    match plain:
        case bool():
            return {"boolValue": plain}
        case int():
            return {"intValue": str(plain)}
        case float():
            return {"doubleValue": plain}
        case str():
            return {"stringValue": plain}
        case list():
            return {"arrayValue": {"values": [value(item) for item in plain]}}
        case _:
            return {"kvlistValue": {"values": pairs(plain)}}


def pairs(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": value(item)} for name, item in attributes.items()]


def span(
    number: int,
    parent: int | None,
    attributes: Mapping[str, Any] | None = None,
    *,
    seconds: tuple[float, float] = (0.0, 10.0),
    events: Sequence[tuple[str, Mapping[str, Any]]] = (),
    trace: str = TRACE,
    **more: Any,
) -> dict[str, Any]:
    """One span in OTLP/JSON. `seconds`: from when to when; `more`: further fields."""
    start, end = (1_767_225_600_000_000_000 + round(at * 1e9) for at in seconds)
    return {
        "traceId": trace,
        "spanId": ident(number),
        **({"parentSpanId": ident(parent)} if parent is not None else {}),
        "name": "a span",
        "kind": 1,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(end),
        "attributes": pairs(attributes or {}),
        "events": [{"name": name, "timeUnixNano": str(end), "attributes": pairs(fields)} for name, fields in events],
        **more,
    }


def export(spans: Sequence[Mapping[str, Any]], resource: Mapping[str, Any] | None = None) -> bytes:
    attributes = pairs({"service.name": "library", **(resource or {})})
    scoped = [{"scope": {"name": "some.instrumentation", "version": "1"}, "spans": list(spans)}]
    return json.dumps({"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": scoped}]}).encode()


def openinference(kind: SpanKind, asked: str | None, said: str | None, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {SpanAttributes.OPENINFERENCE_SPAN_KIND: kind.value, **more}
    for name, text in ((SpanAttributes.INPUT_VALUE, asked), (SpanAttributes.OUTPUT_VALUE, said)):
        if text is not None:
            found[name] = text
            if text.startswith(("{", "[")):
                found[name.replace("value", "mime_type")] = "application/json"
    return found


def documents(
    prefix: str, texts: Sequence[str], scores: Sequence[float] | None = None, **metadata: str
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for n, text in enumerate(texts):
        found[f"{prefix}.{n}.{DocumentAttributes.DOCUMENT_CONTENT}"] = text
        if scores is not None:
            found[f"{prefix}.{n}.{DocumentAttributes.DOCUMENT_ID}"] = f"node-{n}"
            found[f"{prefix}.{n}.{DocumentAttributes.DOCUMENT_SCORE}"] = scores[n]
        if metadata:
            found[f"{prefix}.{n}.{DocumentAttributes.DOCUMENT_METADATA}"] = json.dumps(metadata)
    return found


def said(prefix: str, *messages: tuple[str, str]) -> dict[str, Any]:
    found = {}
    for n, (role, text) in enumerate(messages):
        found[f"{prefix}.{n}.{MessageAttributes.MESSAGE_ROLE}"] = role
        found[f"{prefix}.{n}.{MessageAttributes.MESSAGE_CONTENT}"] = text
    return found


MODEL = {SpanAttributes.LLM_MODEL_NAME: "gpt-4o-mini", SpanAttributes.LLM_PROVIDER: "openai"}
SESSION = {SpanAttributes.SESSION_ID: "thread-7", SpanAttributes.USER_ID: "user-1"}


def langchain() -> list[dict[str, Any]]:
    """A chain of LangChain's expression language, as openinference-instrumentation-langchain records it: children
    first, as they end."""
    constructed = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"]}
    prompt = json.dumps({"messages": [[{**constructed, "kwargs": {"content": PROMPT, "type": "human"}}]]})
    return [
        span(
            3,
            2,
            openinference(
                SpanKind.RETRIEVER,
                QUESTION,
                json.dumps({"documents": [{"page_content": text} for text in PASSAGES]}),
                **documents(SpanAttributes.RETRIEVAL_DOCUMENTS, PASSAGES, source="history.pdf"),
                **SESSION,
            ),
            seconds=(1, 2),
        ),
        span(
            2,
            1,
            openinference(SpanKind.CHAIN, QUESTION, json.dumps({"context": "…", "question": QUESTION})),
            seconds=(1, 2),
        ),
        span(
            4,
            1,
            openinference(SpanKind.PROMPT, json.dumps({"context": "…", "question": QUESTION}), prompt),
            seconds=(2, 2),
        ),
        span(
            5,
            1,
            openinference(
                SpanKind.LLM,
                prompt,
                json.dumps({"generations": [[{"text": ANSWER}]], "llm_output": {"model_name": "gpt-4o-mini"}}),
                **said(SpanAttributes.LLM_INPUT_MESSAGES, ("user", PROMPT)),
                **said(SpanAttributes.LLM_OUTPUT_MESSAGES, ("assistant", ANSWER)),
                **MODEL,
            ),
            seconds=(2, 8),
        ),
        span(
            6, 1, openinference(SpanKind.CHAIN, json.dumps({"content": ANSWER, "type": "ai"}), ANSWER), seconds=(8, 9)
        ),
        span(1, None, openinference(SpanKind.CHAIN, QUESTION, ANSWER, **SESSION), seconds=(0, 10)),
    ]


def llama_index(*, reranked: bool = True) -> list[dict[str, Any]]:
    """A query engine, as openinference-instrumentation-llama-index records it."""
    system = f"Context information is below.\n{PASSAGES[0]}"
    reranker = openinference(
        SpanKind.RERANKER,
        QUESTION,
        None,
        **{RerankerAttributes.RERANKER_QUERY: QUESTION, RerankerAttributes.RERANKER_MODEL_NAME: "a-reranker"},
        **documents(RerankerAttributes.RERANKER_INPUT_DOCUMENTS, PASSAGES, [0.83, 0.41]),
        **documents(RerankerAttributes.RERANKER_OUTPUT_DOCUMENTS, PASSAGES[:1], [7.5]),
    )
    retrieved = documents(
        SpanAttributes.RETRIEVAL_DOCUMENTS, PASSAGES, [0.83, 0.41], file_name="a.pdf", document_id="doc-9"
    )
    parts = f"{SpanAttributes.LLM_INPUT_MESSAGES}.1.{MessageAttributes.MESSAGE_CONTENTS}.0"
    return [
        span(
            4,
            3,
            openinference(
                SpanKind.RETRIEVER,
                json.dumps({"query_bundle": {"query_str": QUESTION, "image_path": None}}),
                json.dumps(["<NodeWithScore(node=TextNode(id_=node-0), score=0.83)>"]),
            ),
            seconds=(1, 2),
        ),
        span(3, 2, openinference(SpanKind.RETRIEVER, QUESTION, None, **retrieved), seconds=(1, 2)),
        *([span(5, 2, reranker, seconds=(2, 3))] if reranked else []),
        span(
            7,
            6,
            openinference(
                SpanKind.LLM,
                json.dumps({"messages": [], "kwargs": {}}),
                f"assistant: {ANSWER}",
                **said(SpanAttributes.LLM_INPUT_MESSAGES, ("system", system)),
                **{
                    f"{SpanAttributes.LLM_INPUT_MESSAGES}.1.{MessageAttributes.MESSAGE_ROLE}": "user",
                    f"{parts}.{MessageContentAttributes.MESSAGE_CONTENT_TYPE}": "text",
                    f"{parts}.{MessageContentAttributes.MESSAGE_CONTENT_TEXT}": PROMPT,
                },
                **said(SpanAttributes.LLM_OUTPUT_MESSAGES, ("assistant", ANSWER)),
                **{**MODEL, SpanAttributes.LLM_MODEL_NAME: "gpt-4o"},
            ),
            seconds=(3, 8),
        ),
        span(6, 2, openinference(SpanKind.CHAIN, QUESTION, ANSWER), seconds=(3, 9)),
        span(
            2,
            1,
            openinference(SpanKind.CHAIN, json.dumps({"query_bundle": {"query_str": QUESTION}}), ANSWER),
            seconds=(1, 9),
        ),
        span(1, None, openinference(SpanKind.CHAIN, QUESTION, ANSWER), seconds=(0, 10)),
    ]


def otel_message(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}], **more}


INPUTS = [
    otel_message("system", "You are a librarian."),
    otel_message("user", QUESTION),
    {"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "search", "arguments": {"q": QUESTION}}]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "…"}]},
]
OUTPUTS = [
    {
        "role": "assistant",
        "parts": [{"type": "reasoning", "content": "Babbage?"}, {"type": "text", "content": ANSWER}],
        "finish_reason": "stop",
    }
]
FOUND = [{"id": f"doc_{n}", "score": 0.9 - n / 10, "content": text} for n, text in enumerate(PASSAGES)]


def otel(*, as_json: bool, captured: bool = True) -> list[dict[str, Any]]:
    """By OpenTelemetry's GenAI conventions, an agent that searches and answers. Content is JSON or structure."""

    def recorded(**content: Any) -> dict[str, Any]:
        named = {getattr(gen_ai, name): each for name, each in content.items()} if captured else {}
        return {
            name: json.dumps(each) if as_json and not isinstance(each, str) else each for name, each in named.items()
        }

    common = {gen_ai.GEN_AI_PROVIDER_NAME: "azure.ai.openai", gen_ai.GEN_AI_CONVERSATION_ID: "conv_5j66"}
    chat = {
        **common,
        gen_ai.GEN_AI_OPERATION_NAME: "chat",
        gen_ai.GEN_AI_REQUEST_MODEL: "gpt-4",
        gen_ai.GEN_AI_RESPONSE_MODEL: "gpt-4-0613",
    }
    calls = [{"role": "assistant", "parts": INPUTS[2]["parts"], "finish_reason": "tool_call"}]
    return [
        span(
            2, 1, {**chat, **recorded(GEN_AI_INPUT_MESSAGES=INPUTS[:2], GEN_AI_OUTPUT_MESSAGES=calls)}, seconds=(1, 2)
        ),
        span(
            4,
            3,
            {
                gen_ai.GEN_AI_OPERATION_NAME: "retrieval",
                gen_ai.GEN_AI_DATA_SOURCE_ID: "books",
                **recorded(GEN_AI_RETRIEVAL_QUERY_TEXT=QUESTION, GEN_AI_RETRIEVAL_DOCUMENTS=FOUND),
            },
            seconds=(3, 4),
        ),
        span(3, 1, {gen_ai.GEN_AI_OPERATION_NAME: "execute_tool", gen_ai.GEN_AI_TOOL_NAME: "search"}, seconds=(3, 4)),
        span(5, 1, {**chat, **recorded(GEN_AI_INPUT_MESSAGES=INPUTS, GEN_AI_OUTPUT_MESSAGES=OUTPUTS)}, seconds=(5, 9)),
        span(1, None, {**common, gen_ai.GEN_AI_OPERATION_NAME: "invoke_agent", gen_ai.GEN_AI_AGENT_NAME: "librarian"}),
    ]


OLD_CHAT = {
    gen_ai.GEN_AI_SYSTEM: "openai",
    gen_ai.GEN_AI_OPERATION_NAME: "chat",
    gen_ai.GEN_AI_REQUEST_MODEL: "gpt-4",
}


def otel_of_events() -> list[dict[str, Any]]:
    """The conventions up to 1.36, as events of the span: a message an event."""
    events = [
        ("gen_ai.system.message", {gen_ai.GEN_AI_SYSTEM: "openai", "content": "You are a librarian."}),
        ("gen_ai.user.message", {gen_ai.GEN_AI_SYSTEM: "openai", "content": QUESTION}),
        ("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": json.dumps({"content": ANSWER})}),
    ]
    return [span(1, None, OLD_CHAT, events=events)]


def otel_of_two_events() -> list[dict[str, Any]]:
    """The conventions of 1.27: the prompt and the completion, each an event."""
    asked = [{"role": "system", "content": "You are a librarian."}, {"role": "user", "content": QUESTION}]
    events = [
        ("gen_ai.content.prompt", {gen_ai.GEN_AI_PROMPT: json.dumps(asked)}),
        (
            "gen_ai.content.completion",
            {gen_ai.GEN_AI_COMPLETION: json.dumps([{"role": "assistant", "content": ANSWER}])},
        ),
    ]
    return [span(1, None, OLD_CHAT, events=events)]


def otel_of_details() -> list[dict[str, Any]]:
    """The current conventions, with content in the event that they have for it."""
    details = {gen_ai.GEN_AI_INPUT_MESSAGES: INPUTS[:2], gen_ai.GEN_AI_OUTPUT_MESSAGES: OUTPUTS}
    return [span(1, None, OLD_CHAT, events=[("gen_ai.client.inference.operation.details", details)])]


def openllmetry() -> list[dict[str, Any]]:
    """A workflow of OpenLLMetry's decorators with a vector database and OpenAI, before it took the current names."""
    chat = {
        gen_ai.GEN_AI_SYSTEM: "OpenAI",
        "llm.request.type": "chat",
        gen_ai.GEN_AI_REQUEST_MODEL: "gpt-4o",
        gen_ai.GEN_AI_RESPONSE_MODEL: "gpt-4o-2024-08-06",
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": "You are a librarian.",
        "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.1.content": json.dumps([{"type": "text", "text": PROMPT}]),
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": ANSWER,
        "gen_ai.completion.0.finish_reason": "stop",
        "traceloop.association.properties.session_id": "thread-7",
    }
    results = [
        (
            "db.query.result",
            {
                "db.query.result.id": f"id-{n}",
                "db.query.result.distance": 0.2 + n / 10,
                "db.query.result.metadata": json.dumps({"source": "history.pdf"}),
                "db.query.result.document": text,
            },
        )
        for n, text in enumerate(PASSAGES)
    ]
    return [
        span(2, 1, {"db.system": "chroma", "db.operation": "query"}, events=results, seconds=(1, 2)),
        span(3, 1, chat, seconds=(2, 8)),
        span(
            1,
            None,
            {
                "traceloop.span.kind": "workflow",
                "traceloop.entity.name": "ask",
                "traceloop.entity.input": json.dumps({"args": [QUESTION], "kwargs": {}}),
                "traceloop.entity.output": json.dumps(ANSWER),
            },
        ),
    ]


def openllmetry_langchain() -> list[dict[str, Any]]:
    """LangChain as OpenLLMetry records it now: the retriever is a task whose output holds the documents."""
    found = {
        "documents": [{"page_content": text, "metadata": {"source": "history.pdf"}} for text in PASSAGES],
        "count": 2,
    }
    task = {"traceloop.span.kind": "task", "traceloop.entity.name": "VectorStoreRetriever"}
    asked = {"inputs": {"input": QUESTION, "chat_history": []}, "tags": [], "metadata": {}, "kwargs": {"name": "rag"}}
    return [
        span(
            2,
            1,
            {
                **task,
                "traceloop.entity.input": json.dumps({"query": QUESTION, "tags": [], "metadata": {}}),
                "traceloop.entity.output": json.dumps(found),
            },
            seconds=(1, 2),
        ),
        span(
            3,
            1,
            {
                gen_ai.GEN_AI_OPERATION_NAME: "chat",
                gen_ai.GEN_AI_PROVIDER_NAME: "openai",
                gen_ai.GEN_AI_REQUEST_MODEL: "gpt-4o",
                gen_ai.GEN_AI_INPUT_MESSAGES: json.dumps([otel_message("user", PROMPT)]),
                gen_ai.GEN_AI_OUTPUT_MESSAGES: json.dumps(OUTPUTS),
            },
            seconds=(2, 8),
        ),
        span(
            1,
            None,
            {
                "traceloop.span.kind": "workflow",
                "traceloop.entity.input": json.dumps(asked),
                "traceloop.entity.output": json.dumps({"outputs": {"input": QUESTION, "answer": ANSWER}, "kwargs": {}}),
            },
        ),
    ]
