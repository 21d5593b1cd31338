"""What each instrumentation's trace becomes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from glassbox.contract.request import read_request
from glassbox.gateway.otlp.decoding import JSON, spans
from glassbox.gateway.otlp.traces import LACKS, Found, judged, node
from tests.gateway.otlp import exports
from tests.gateway.otlp.exports import ANSWER, PASSAGES, QUESTION, TRACE, SpanKind, export, ident, openinference, span


def concluded(made: Sequence[dict[str, Any]], **resource: Any) -> Found | str | None:
    found = [node(each) for each in spans(export(made, resource), JSON) if each is not None]
    return judged({each.span_id: each for each in found})


def request(made: Sequence[dict[str, Any]], **resource: Any) -> dict[str, Any]:
    found = concluded(made, **resource)
    assert isinstance(found, Found), found
    read_request(json.loads(json.dumps(found.request)), ["direct"])
    return dict(found.request)


GPT = {"provider": "openai", "name": "gpt-4o-mini"}
IN_PDF = [{"text": text, "document_id": "history.pdf"} for text in PASSAGES]


@pytest.mark.parametrize(
    ("made", "passages", "model", "session", "answered"),
    [
        (exports.langchain(), IN_PDF, GPT, "thread-7", 1),
        (
            exports.llama_index(reranked=False),
            [
                {"text": PASSAGES[0], "id": "node-0", "score": 0.83, "document_id": "doc-9"},
                {"text": PASSAGES[1], "id": "node-1", "score": 0.41, "document_id": "doc-9"},
            ],
            {**GPT, "name": "gpt-4o"},
            None,
            1,
        ),
        (
            exports.llama_index(),
            [{"text": PASSAGES[0], "id": "node-0", "score": 7.5}],
            {**GPT, "name": "gpt-4o"},
            None,
            1,
        ),
        *(
            (
                exports.otel(as_json=as_json),
                [
                    {"text": PASSAGES[0], "id": "doc_0", "score": 0.9},
                    {"text": PASSAGES[1], "id": "doc_1", "score": 0.8},
                ],
                {"provider": "azure.ai.openai", "name": "gpt-4-0613"},
                "conv_5j66",
                5,
            )
            for as_json in (True, False)
        ),
        *(
            (made, [], {"provider": "openai", "name": "gpt-4"}, None, 1)
            for made in (exports.otel_of_events(), exports.otel_of_two_events(), exports.otel_of_details())
        ),
        (
            exports.openllmetry(),
            [{**fields, "id": f"id-{n}"} for n, fields in enumerate(IN_PDF)],
            {"provider": "openai", "name": "gpt-4o-2024-08-06"},
            "thread-7",
            1,
        ),
        (exports.openllmetry_langchain(), IN_PDF, {"provider": "openai", "name": "gpt-4o"}, None, 1),
    ],
    ids=[
        *("langchain", "llama-index", "llama-index-reranked", "otel-json", "otel-structured", "otel-message-events"),
        *("otel-two-events", "otel-details-event", "openllmetry", "openllmetry-langchain"),
    ],
)
def test_a_trace_becomes_a_request(
    made: list[dict[str, Any]], passages: list[Any], model: dict[str, str], session: str | None, answered: int
) -> None:
    found = request(made)
    assert (found["query"], found["answer"]) == (QUESTION, ANSWER)
    assert found["retrieved_passages"] == passages
    assert (found["model"], found.get("session_id")) == (model, session)
    told = {"trace_id": TRACE, "span_id": ident(answered), "service_name": "library"}
    assert {name: found["metadata"][name] for name in told} == told
    concluded_ = concluded(made)
    assert isinstance(concluded_, Found)
    assert concluded_.root == ident(1)


def llm(asked: str, said: str, **more: Any) -> dict[str, Any]:
    return {
        **openinference(SpanKind.LLM, None, None),
        **exports.said("llm.input_messages", ("user", asked)),
        **exports.said("llm.output_messages", ("assistant", said)),
        **exports.MODEL,
        **more,
    }


def retriever(asked: str, texts: list[str]) -> dict[str, Any]:
    return openinference(SpanKind.RETRIEVER, asked, None, **exports.documents("retrieval.documents", texts))


def test_a_prompt_that_carries_the_passages_gives_way_to_what_the_retriever_was_asked() -> None:
    found = [span(2, 1, retriever("the first program", PASSAGES), seconds=(1, 2)), span(1, None)]
    asked = request([*found, span(3, 1, llm(exports.PROMPT, ANSWER), seconds=(3, 4))])
    assert asked["query"] == "the first program"
    asked = request([*found, span(3, 1, llm("And who wrote it?", ANSWER), seconds=(3, 4))])
    assert asked["query"] == "And who wrote it?"


def test_the_last_list_before_the_answer_counts_and_what_a_retriever_asks_itself_does_not() -> None:
    found = request(
        [
            span(2, 1, retriever("first", ["one"]), seconds=(1, 2)),
            span(4, 3, retriever("inner", ["inner"]), seconds=(2, 4)),
            span(5, 3, llm("Which words?", "these words"), seconds=(2, 3)),
            span(3, 1, retriever("second", ["two"]), seconds=(2, 4)),
            span(6, 1, llm(QUESTION, ANSWER), seconds=(4, 6)),
            span(7, 1, retriever("for next time", ["three"]), seconds=(7, 8)),
            span(8, 1, openinference(SpanKind.EVALUATOR, QUESTION, "good"), seconds=(7, 9)),
            span(9, 8, llm("Is it good?", "Yes."), seconds=(7, 9)),
            span(1, None),
        ]
    )
    assert (found["answer"], found["retrieved_passages"]) == (ANSWER, [{"text": "two"}])


def test_an_answer_of_many_calls_is_the_outermost_chains() -> None:
    agent = openinference(
        SpanKind.AGENT, json.dumps({"messages": [{"type": "human", "data": {"content": QUESTION}}]}), ANSWER
    )
    found = request(
        [
            span(3, 2, llm("search", "I shall look.", **{"llm.model_name": "small"}), seconds=(1, 2)),
            span(4, 2, llm("answer", ANSWER), seconds=(3, 4)),
            span(5, 2, llm("a title", "Ada", **{"llm.model_name": "small"}), seconds=(5, 6)),
            span(2, 1, agent, seconds=(1, 7)),
            span(1, None),
        ]
    )
    assert (found["query"], found["answer"], found["model"]["name"]) == (QUESTION, ANSWER, "gpt-4o-mini")


@pytest.mark.parametrize(
    "said", [{"status": "done"}, {"a": "one", "b": "two"}, ["one", "two"], [{"text": "one"}, {"text": "two"}]]
)
def test_a_chain_of_which_it_is_not_clear_what_it_said_leaves_the_answer_to_its_model(said: Any) -> None:
    chain = openinference(SpanKind.CHAIN, json.dumps({"user": "u-1"}), json.dumps(said))
    found = request([span(2, 1, llm(QUESTION, ANSWER), seconds=(1, 2)), span(1, None, chain)])
    assert (found["query"], found["answer"]) == (QUESTION, ANSWER)


def test_what_is_prepared_for_retrieval_is_no_answer() -> None:
    """As openinference-instrumentation-llama-index records how an index is made."""
    cut = openinference(SpanKind.CHAIN, json.dumps({"text": PASSAGES[0], "metadata_str": ""}), json.dumps(PASSAGES[:1]))
    nodes = openinference(
        SpanKind.CHAIN, json.dumps({"nodes": ["<Document>"]}), json.dumps(["<TextNode>", "<TextNode>"])
    )
    embedded = openinference(SpanKind.EMBEDDING, json.dumps({"text": PASSAGES[0]}), None)
    assert isinstance(concluded([span(2, 1, cut), span(3, 1, embedded), span(1, None, nodes)]), str)


def test_a_chain_whose_model_is_not_traced_is_enough() -> None:
    chain = openinference(SpanKind.CHAIN, QUESTION, ANSWER)
    assert request([span(2, 1, retriever(QUESTION, PASSAGES)), span(1, None, chain)])["answer"] == ANSWER


def test_a_retriever_that_found_nothing_is_not_one_that_was_not_recorded() -> None:
    empty = openinference(SpanKind.RETRIEVER, QUESTION, json.dumps({"documents": []}))
    answer = span(3, 1, llm(QUESTION, ANSWER), seconds=(3, 4))
    assert request([span(2, 1, empty, seconds=(1, 2)), answer, span(1, None)])["retrieved_passages"] == []
    masked = openinference(SpanKind.RETRIEVER, QUESTION, "__REDACTED__")
    assert concluded([span(2, 1, masked, seconds=(1, 2)), answer, span(1, None)]) == "documents_not_recorded"


def test_the_policy_may_be_named_by_the_resource() -> None:
    made = [span(1, None, llm(QUESTION, ANSWER))]
    assert "policy" not in request(made)
    assert request(made, **{"glassbox.policy": "direct"})["policy"] == "direct"


@pytest.mark.parametrize(
    ("made", "lack"),
    [
        ([span(1, None, {"http.request.method": "GET"})], None),
        ([span(1, None, retriever(QUESTION, PASSAGES))], "no_answer"),
        ([span(1, None, {"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "e"})], "no_answer"),
        (exports.otel(as_json=True, captured=False), "content_not_recorded"),
        ([span(1, None, openinference(SpanKind.LLM, "__REDACTED__", "__REDACTED__"))], "content_not_recorded"),
        ([span(1, None, llm(QUESTION, ANSWER), status={"code": 2})], "no_answer"),
        ([span(1, None, {**openinference(SpanKind.LLM, None, ANSWER)})], "question_not_recorded"),
        ([span(1, None, llm(QUESTION, ANSWER), droppedAttributesCount=3)], "attributes_dropped"),
        (
            [
                span(
                    2,
                    1,
                    {
                        "gen_ai.operation.name": "retrieval",
                        "gen_ai.retrieval.documents": '[{"id": "doc_1", "score": 1}]',
                    },
                    seconds=(1, 2),
                ),
                span(1, None, llm(QUESTION, ANSWER)),
            ],
            "documents_not_recorded",
        ),
    ],
)
def test_what_a_trace_lacks_has_a_name(made: list[dict[str, Any]], lack: str | None) -> None:
    found = concluded(made)
    assert found == lack
    assert lack is None or LACKS[lack]


def test_a_call_of_a_tool_is_no_answer() -> None:
    only_calls = {
        **openinference(SpanKind.LLM, None, "assistant: None"),
        **exports.said("llm.input_messages", ("user", QUESTION)),
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "search",
    }
    assert concluded([span(1, None, only_calls)]) == "no_answer"
