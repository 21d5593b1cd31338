"""Bodies of exports: both encodings say the same, and no body is worse than refused."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbox.gateway.otlp import decoding
from glassbox.gateway.otlp.decoding import JSON, PROTOBUF, Malformed, Span, TooMany, inflate, spans
from glassbox.gateway.otlp.traces import judged, node
from tests.gateway.otlp import exports
from tests.gateway.otlp.exports import export, span
from tests.gateway.otlp.wire import binary, field


@pytest.mark.parametrize("made", [exports.langchain(), exports.otel(as_json=False), exports.openllmetry()])
def test_both_encodings_say_the_same(made: list[dict[str, Any]]) -> None:
    body = export(made)
    read = list(spans(body, JSON))
    assert read == list(spans(binary(body), PROTOBUF))
    assert len([each for each in read if each]) == len(made)


def test_what_the_door_needs_is_read() -> None:
    remote = span(1, 2, {"session.id": "s", "http.url": "not read"}, flags=0x301, droppedAttributesCount=1)
    body = export([remote, span(3, None, status={"code": 2, "message": "text"})])
    for kind, each in ((JSON, body), (PROTOBUF, binary(body))):
        first, second = spans(each, kind)
        assert isinstance(first, Span)
        assert isinstance(second, Span)
        assert (first.parent_id, first.remote_parent, first.cut) == (exports.ident(2), True, True)
        assert first.attributes == {"session.id": "s"}
        assert first.resource == {"service.name": "library"}
        assert (second.parent_id, second.remote_parent, second.failed) == ("", False, True)


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
@pytest.mark.parametrize("change", [{"traceId": "00"}, {"traceId": "0" * 32}, {"spanId": ""}, {"parentSpanId": "abcd"}])
def test_a_span_without_proper_ids_is_counted_and_the_others_are_read(kind: str, change: dict[str, str]) -> None:
    body = export([{**span(1, 2), **change}, span(2, None)])
    read = list(spans(body if kind == JSON else binary(body), kind))
    assert [each is None for each in read] == [True, False]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"nul",
        b"\xff\xfe",
        b'{"resourceSpans": {}}',
        b'{"resourceSpans": [1]}',
        b'{"resourceSpans": [{"resource": 1}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": 1}]}]}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": "soon"}]}]}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": 1e400}]}]}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": -1}]}]}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "\\ud800"}]}]}]}',
        b'{"resourceSpans":' + b"[" * 100_000,
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [{"key": "gen_ai.x", "value": '
        + b'{"arrayValue": {"values": [' * 90
        + b"]}}" * 90
        + b"}]}]}]}]}",
    ],
)
def test_what_is_no_export_is_malformed_in_json(body: bytes) -> None:
    with pytest.raises(Malformed):
        list(spans(body, JSON))


@pytest.mark.parametrize(
    "body",
    [
        b"\xff" * 20,
        b"\x0a",
        b"\x0a\x05abc",
        b"\x0b",
        b"\x09abc",
        field(1, field(2, field(2, field(5, b"\xff\xfe")))),  # a span's name that is not UTF-8
        field(1, field(2, field(2, b"\x0a\xff\xff\xff\xff\x0f"))),
    ],
)
def test_what_is_no_export_is_malformed_in_protobuf(body: bytes) -> None:
    with pytest.raises(Malformed):
        list(spans(body, PROTOBUF))


@given(st.binary(max_size=200))
def test_no_body_is_worse_than_malformed(body: bytes) -> None:
    for kind in (JSON, PROTOBUF):
        with suppress(Malformed):
            list(spans(body, kind))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
)
VALUES = st.text(max_size=9) | st.booleans() | st.lists(st.text(max_size=5), max_size=2) | ANYTHING.map(json.dumps)
KNOWN = [*exports.langchain(), *exports.otel(as_json=True), *exports.openllmetry(), *exports.openllmetry_langchain()]
NAMES = st.sampled_from(
    [
        *sorted({pair["key"] for each in KNOWN for pair in each["attributes"]}),
        *("gen_ai.choice", "gen_ai.user.message", "gen_ai.completion", "db.query.result", "gen_ai.prompt.0.content"),
        "retrieval.documents.99999999999999999999.document.score",
    ]
)
FIELDS = st.dictionaries(NAMES, VALUES, max_size=6)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(1, 5), st.none() | st.integers(1, 5), FIELDS, FIELDS), max_size=6))
def test_no_span_is_worse_than_not_judged(made: list[tuple[int, int | None, dict[str, Any], dict[str, Any]]]) -> None:
    built = [
        span(number, parent, fields, events=[(name, events) for name in events], endTimeUnixNano=str(2**64 - 1))
        for number, parent, fields, events in made
    ]
    nodes = [node(each) for each in spans(export(built), JSON) if each is not None]
    judged({each.span_id: each for each in nodes})


def test_what_is_small_and_becomes_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MAX_SPANS", 1000)
    spans_, scopes, resources = field(2, b"") * 1000, field(2, b"") * 1001, field(1, b"") * 1001
    for body in (field(1, field(2, spans_)), field(1, scopes), resources):
        with pytest.raises(TooMany):
            list(spans(body, PROTOBUF))
    with pytest.raises(TooMany):
        list(spans(b'{"resourceSpans": [%s{}]}' % (b"{}," * 1000), JSON))


def test_gzip() -> None:
    assert inflate(gzip.compress(b"one") + gzip.compress(b"two"), 6) == b"onetwo"
    with pytest.raises(TooMany):
        inflate(gzip.compress(bytes(7)), 6)
    with pytest.raises(TooMany):
        inflate(gzip.compress(bytes(10_000_000)), 1024)
    for damaged in (b"no gzip", gzip.compress(b"one")[:-9], gzip.compress(b"one") + b"more"):
        with pytest.raises(Malformed):
            inflate(damaged, 100)


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_responses(kind: str) -> None:
    assert decoding.response(0, "", kind) in (b"", b"{}")
    said = decoding.response(2, "why", kind)
    assert b"why" in said
    if kind == JSON:
        assert json.loads(said) == {"partialSuccess": {"rejectedSpans": "2", "errorMessage": "why"}}
