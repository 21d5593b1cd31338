"""A trace in pieces: whatever order its spans come in, and however often, it is the same request."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbox.gateway.callers import Caller
from glassbox.gateway.otlp.decoding import JSON, spans
from glassbox.gateway.otlp.holding import Full, Holding, Patience
from glassbox.gateway.otlp.traces import Node, Whole, judged, node, whole
from tests.gateway.otlp import exports
from tests.gateway.otlp.exports import TRACE, export, ident, span

CALLER = Caller("key:1", "acme", frozenset({"submit"}))
KEY = ("acme", TRACE)
PATIENCE = Patience(settle=10, quiet=120, longest=900)


def nodes(made: list[dict[str, Any]]) -> list[Node]:
    return [node(each) for each in spans(export(made), JSON) if each is not None]


def named(made: list[Node]) -> dict[str, Node]:
    return {each.span_id: each for each in made}


WHOLE = [named(nodes(made)) for made in (exports.langchain(), exports.llama_index(), exports.openllmetry())]


@given(st.sampled_from(WHOLE).flatmap(lambda trace: st.permutations(list(trace.values()))))
def test_the_order_of_spans_says_nothing(made: list[Node]) -> None:
    assert judged(named(made)) == judged(named(sorted(made, key=lambda each: each.span_id)))


@given(st.sampled_from(WHOLE), st.data())
def test_a_trace_is_whole_when_its_root_has_come_and_not_before(trace: dict[str, Node], data: st.DataObject) -> None:
    """Children come before their parents: as instrumentations send them."""
    made = list(trace.values())
    count = data.draw(st.integers(1, len(made)))
    state = whole(named(made[:count]))
    assert (state is Whole.WHOLE) == (count == len(made))


@pytest.mark.parametrize(
    ("made", "state"),
    [
        ([span(2, 1, {"gen_ai.operation.name": "chat"})], Whole.PART),
        ([span(2, 1, {"gen_ai.operation.name": "chat"}, flags=0x301)], Whole.PERHAPS),
        ([span(2, 1, {"gen_ai.operation.name": "chat"}, flags=0x101)], Whole.PART),
        ([span(1, None, {"gen_ai.operation.name": "chat"})], Whole.WHOLE),
        ([span(1, None, {"gen_ai.operation.name": "invoke_agent"})], Whole.PERHAPS),
        ([span(1, None, {"gen_ai.operation.name": "chat"}), span(3, 2)], Whole.PERHAPS),
        ([span(1, None), span(2, 1)], Whole.WHOLE),
        ([span(1, 2, {"gen_ai.operation.name": "chat"}), span(2, 1)], Whole.WHOLE),
    ],
    ids=["child", "entry", "child-with-flags", "root", "no-model-yet", "orphan", "nothing-to-judge", "circle"],
)
def test_how_much_of_a_trace_is_there(made: list[dict[str, Any]], state: Whole) -> None:
    assert whole(named(nodes(made))) is state


def test_parents_in_a_circle_and_a_trace_as_deep_as_it_is_long() -> None:
    (answer,) = nodes(exports.otel_of_events())
    circle = named([replace(answer, span_id=ident(n), parent_id=ident(n % 3 + 1)) for n in (1, 2, 3)])
    assert judged(circle) is not None
    itself = replace(answer, parent_id=answer.span_id)
    assert judged({itself.span_id: itself}) is not None
    deep = named([replace(answer, span_id=ident(n), parent_id=ident(n - 1) if n > 1 else "") for n in range(1, 3_000)])
    assert sys.getrecursionlimit() < len(deep)
    assert judged(deep) is not None


def test_absurd_times_are_only_an_order() -> None:
    found = judged(named([replace(each, start=2**64 - 1, end=0) for each in nodes(exports.langchain())]))
    assert found is not None
    assert not isinstance(found, str)


def test_a_trace_is_held_until_nothing_more_of_it_comes() -> None:
    holding = Holding(10_000_000, PATIENCE)
    retrieved, *rest = nodes(exports.langchain())
    holding.hold({KEY: named([retrieved])}, CALLER, now=0)
    holding.hold({KEY: named(rest[:2])}, CALLER, now=100)
    assert list(holding.due(219)) == []
    ((key, held),) = holding.due(220)
    assert (key, set(held.spans)) == (KEY, {each.span_id for each in (retrieved, *rest[:2])})
    assert list(holding.due(500)) == [], "it is told once"
    holding.again(KEY, at=505)
    assert len(list(holding.due(505))) == 1
    holding.drop(KEY, concluded=True)
    assert (len(holding), holding.size, holding.is_concluded(KEY), holding.next_due()) == (0, 0, True, None)


def test_a_root_shortens_the_wait_and_nothing_lengthens_it_for_ever() -> None:
    holding = Holding(10_000_000, PATIENCE)
    made = nodes(exports.langchain())
    holding.hold({KEY: named(made[:1])}, CALLER, now=0)
    holding.hold({KEY: named(made[-1:])}, CALLER, now=1)
    assert [key for key, _ in holding.due(11)] == [KEY]
    holding = Holding(10_000_000, PATIENCE)
    for n in range(1000):
        holding.hold({KEY: named([replace(made[0], span_id=ident(n + 1))])}, CALLER, now=n)
    assert holding.next_due() is not None
    assert [key for key, _ in holding.due(900)] == [KEY]


def test_a_span_that_comes_twice_counts_once() -> None:
    holding = Holding(10_000_000, PATIENCE)
    made = named(nodes(exports.langchain())[:2])
    holding.hold({KEY: made}, CALLER, now=0)
    size = holding.size
    holding.hold({KEY: made}, CALLER, now=1)
    assert holding.size == size > 0
    other = {name: replace(each, start=1) for name, each in made.items()}
    assert holding.with_held(KEY, other) == made, "the first stays"


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9), st.booleans()), max_size=60))
def test_memory_is_bounded_and_counted(steps: list[tuple[str, int, bool]]) -> None:
    holding = Holding(40_000, PATIENCE)
    made = nodes(exports.langchain())
    for n, (tenant, number, drop) in enumerate(steps):
        key = (tenant, f"{number:032x}")
        if drop:
            holding.drop(key, concluded=False)
            continue
        before = holding.size
        try:
            holding.hold({key: named([made[n % len(made)]])}, CALLER, now=n)
        except Full:
            assert holding.size == before
        assert holding.size == sum(each.size for _, held in holding.all() for each in held.spans.values()) <= 40_000
        mine = sum(held.size for (whose, _), held in holding.all() if whose == tenant)
        assert mine <= 10_000, "a tenant has a quarter"
