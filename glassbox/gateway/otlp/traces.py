"""From the steps of a trace to the one evaluation request that it makes, or to what it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from glassbox.gateway.otlp.decoding import Span
from glassbox.gateway.otlp.steps import OVERHEAD, Passage, Step, step

LACKS = {
    "no_answer": "no LLM, chain or agent span that gives an answer",
    "content_not_recorded": (
        "the spans hold no question and answer; switch their recording on "
        "(OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY with "
        "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental, TRACELOOP_TRACE_CONTENT=true, or "
        "OPENINFERENCE_HIDE_INPUTS and _OUTPUTS unset); log events are not read"
    ),
    "question_not_recorded": "an answer, but no question that it answers",
    "documents_not_recorded": (
        "a retriever whose documents' texts are not recorded; record them as retrieval.documents.N.document.content "
        "or with content in gen_ai.retrieval.documents"
    ),
    "attributes_dropped": ("the SDK dropped attributes of a span that counts; raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"),
    "too_many_spans": "more spans in one trace than may be",
}
"""Why a trace is not judged, by reason, with what is missing or to do."""


@dataclass(frozen=True)
class Node:
    """A span in its trace, without what is not read. Ids and times as `decoding.Span` has them; `step`: None where it
    is not about generative AI."""

    trace_id: str
    span_id: str
    parent_id: str
    remote_parent: bool
    start: int
    end: int
    failed: bool
    step: Step | None

    @property
    def size(self) -> int:
        """Bytes of it in memory, about."""
        return OVERHEAD + (self.step.size if self.step else 0)


def node(span: Span) -> Node:
    return Node(
        span.trace_id,
        span.span_id,
        span.parent_id,
        span.remote_parent,
        span.start,
        span.end,
        span.failed,
        step(span),
    )


class Whole(Enum):
    """How much of a trace is there. A sender exports spans as they end, so children come before their parents."""

    WHOLE = "its root and every parent that a span names"
    PERHAPS = "a root, or the entry into this process, but what else belongs to it may be under way"
    PART = "a parent that this process will still send is missing"


Spans = Mapping[str, Node]
"""The spans of one trace by their ids."""


def whole(spans: Spans) -> Whole:
    """By the parents that spans name; and by whether an LLM's span is there, as what is not there cannot be known."""
    tops = [each for each in spans.values() if each.parent_id not in spans]
    if any(each.parent_id and not each.remote_parent for each in tops):
        rooted = any(not each.parent_id for each in tops)
        return Whole.PERHAPS if rooted else Whole.PART
    if any(each.parent_id for each in tops):
        return Whole.PERHAPS
    steps = [each.step for each in spans.values() if each.step is not None]
    settled = not steps or any(each.kind == "llm" for each in steps)
    return Whole.WHOLE if settled else Whole.PERHAPS


@dataclass(frozen=True)
class Found:
    """The request as the contract has it, less id and tenant. `answered`: the span of the answer. `root`: the topmost
    span, which the results are linked to."""

    request: Mapping[str, Any]
    answered: str
    root: str


def judged(spans: Spans) -> Found | str | None:
    """The request; or the reason of `LACKS` that there is none; None where nothing is about generative AI."""
    tree = _Tree(spans)
    if not tree.steps:
        return None
    answered = tree.answered()
    if answered is None:
        speakers = [each.step for each in tree.steps if each.step.kind in ("llm", "application")]
        if any(each.cut for each in speakers):
            return "attributes_dropped"
        silent = speakers and not any(each.query or each.answer for each in speakers)
        return "content_not_recorded" if silent else "no_answer"
    passages = tree.passages(answered)
    query = _query(answered.step, passages)
    if not query:
        return "question_not_recorded"
    read = [answered, *([passages] if passages else [])]
    if any(each.step.cut for each in read):
        return "attributes_dropped"
    given = passages.step.passages if passages else ()
    texts = [each for each in given or () if each.text]
    if given is None or (given and not texts):
        return "documents_not_recorded"
    root = tree.root()
    labels = tree.labels()
    about = {"trace_id": root.trace_id, "span_id": answered.span_id}
    about.update({name: labels[name] for name in ("service_name", "user_id") if name in labels})
    request = {
        "query": query,
        "answer": answered.step.answer,
        "retrieved_passages": [_passage(each) for each in texts],
        "model": tree.model(answered),
        "session_id": labels.get("session_id"),
        "policy": labels.get("policy"),
        "metadata": about,
    }
    made = {name: value for name, value in request.items() if value is not None}
    return Found(made, answered.span_id, root.span_id)


@dataclass(frozen=True)
class _Place:
    """A step with what is above it. `chain`: the outermost application step around it that has a question and an answer
    (itself, perhaps). `inside`: the kinds of the steps around it."""

    node: Node
    step: Step
    chain: Node | None
    inside: frozenset[str]

    @property
    def span_id(self) -> str:
        return self.node.span_id

    @property
    def failed(self) -> bool:
        return self.node.failed


_NO_ANSWER_IN = frozenset({"retriever", "reranker", "tool", "judge"})
"""A model that is called inside of these does not answer the user."""


class _Tree:
    """A trace, from the top; where parents go round in a circle, the circle is cut open at any place."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans
        self._above: dict[str, tuple[Node | None, frozenset[str]]] = {}
        self.steps = [_Place(each, each.step, *self._around(each)) for each in spans.values() if each.step is not None]

    def _around(self, node: Node) -> tuple[Node | None, frozenset[str]]:
        """(chain, inside) of a span; without recursion, as a trace may be as deep as it is long."""
        path: list[Node] = []
        at: Node | None = node
        on_path: set[str] = set()
        while at is not None and at.span_id not in self._above and at.span_id not in on_path:
            path.append(at)
            on_path.add(at.span_id)
            at = self._spans.get(at.parent_id)
        for each in reversed(path):
            parent = self._spans.get(each.parent_id)
            chain, inside = self._above.get(each.parent_id, (None, frozenset()))
            if parent is not None and parent.step is not None and parent.step.kind not in inside:
                inside = inside | {parent.step.kind}
            if chain is None and each.step is not None and _is_answered_chain(each):
                chain = each
            self._above[each.span_id] = chain, inside
        return self._above[node.span_id]

    def answered(self) -> _Place | None:
        """Where the answer is: the outermost chain around the last model that said something; that model itself where
        there is none. Where no model's span says anything, the last chain that no other step is around."""
        models = [each for each in self._models() if each.step.answer]
        if models:
            last = max(models, key=_end)
            return self._place(last.chain) if last.chain is not None else last
        chains = [each for each in self.steps if each.chain is each.node and not each.inside]
        return max(chains, key=_end, default=None)

    def passages(self, answered: _Place) -> _Place | None:
        """The list of documents that the answer was written from: the last one before it ended."""
        lists = [
            each
            for each in self.steps
            if each.step.kind in ("retriever", "reranker")
            and not each.failed
            and "judge" not in each.inside
            and not each.inside & {"retriever"}
            and each.node.start <= answered.node.end
        ]
        return max(lists, key=_end, default=None)

    def model(self, answered: _Place) -> dict[str, str] | None:
        """The model whose answer this is: the last that said just this, or else the last in the same chain."""
        models = [each for each in self._models() if each.step.model]
        same = [each for each in models if each.step.answer == answered.step.answer]
        around = [each for each in models if answered.node in (each.chain, each.node)]
        last = max(same or around, key=_end, default=None)
        if last is None or len(last.step.model) > 256:
            return None
        return {"provider": last.step.provider[:256] or "unknown", "name": last.step.model}

    def root(self) -> Node:
        """The topmost span that is there; the earliest, where there are several."""
        nodes = self._spans.values()
        tops = [each for each in nodes if each.parent_id not in self._spans]
        return min(tops or nodes, key=lambda each: (bool(each.parent_id), each.start, each.span_id))

    def labels(self) -> dict[str, str]:
        """Session, user, service and policy: of the earliest span that names one."""
        found: dict[str, str] = {}
        for each in sorted(self.steps, key=lambda each: (each.node.start, each.span_id)):
            found = {**each.step.labels, **found}
        return found

    def _models(self) -> Iterable[_Place]:
        return (
            each
            for each in self.steps
            if each.step.kind == "llm" and not each.failed and not each.inside & _NO_ANSWER_IN
        )

    def _place(self, node: Node) -> _Place:
        return next(each for each in self.steps if each.node is node)


def _end(place: _Place) -> tuple[int, int, str]:
    """Spans that end together: the outer began first, and is the later one."""
    return place.node.end, -place.node.start, place.span_id


def _is_answered_chain(node: Node) -> bool:
    found = node.step
    return found is not None and found.kind == "application" and bool(found.query and found.answer) and not node.failed


def _query(answered: Step, passages: _Place | None) -> str:
    """The question; where a prompt carries the passages with it, what the retriever was asked."""
    if passages is None or answered.kind == "application" or not passages.step.query:
        return answered.query
    carried = any(each.text and each.text in answered.query for each in passages.step.passages or ())
    return passages.step.query if carried or not answered.query else answered.query


def _passage(given: Passage) -> dict[str, Any]:
    fields = {"text": given.text, "id": given.id, "score": given.score, "document_id": given.document_id}
    return {name: value for name, value in fields.items() if value is not None}
