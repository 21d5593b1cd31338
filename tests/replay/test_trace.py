"""A trace and its line: what was written is what is read, and nothing else is read."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from glassbox.replay.trace import Citation, Invocation, Retrieved, Trace, TraceError, Usage, parse_trace
from tests.replay.builders import failure, suite, trace

SUITE = suite("a")
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
numbers = st.floats(allow_nan=False, allow_infinity=False)
safe = st.floats(-(2.0**53), 2.0**53)
leaves = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | safe | texts
json_values = leaves | st.lists(leaves, max_size=2) | st.dictionaries(texts, leaves, max_size=2)


@st.composite
def invocations(draw: st.DrawFn) -> Invocation:
    answer = draw(texts)
    starts = draw(st.lists(st.integers(0, len(answer) - 1), max_size=3))
    spans = [(start, draw(st.integers(start + 1, len(answer)))) for start in starts]
    retrieved = st.lists(st.builds(Retrieved, document=texts, score=st.none() | numbers), max_size=3)
    return Invocation(
        answer=answer,
        citations=tuple(Citation(document=draw(texts), start=start, end=end) for start, end in spans),
        retrieved=draw(st.none() | retrieved.map(tuple)),
        usage=draw(
            st.none()
            | st.builds(Usage, prompt_tokens=st.integers(0, 2**40), completion_tokens=st.integers(0, 2**40),
                        provenance=st.sampled_from(["api", "estimated"]))
        ),
        model=draw(st.none() | texts),
        parameters=draw(st.dictionaries(texts, json_values, max_size=2)),
    )  # fmt: skip


traces = st.builds(
    Trace, case=texts, suite=texts, repeat=st.integers(0, 99), attempts=st.integers(1, 9),
    duration_ms=st.floats(0, 1e9), invocation=invocations(),
)  # fmt: skip


@settings(max_examples=50)
@given(traces)
def test_what_is_written_is_read(made: Trace) -> None:
    line = made.line()
    assert line.count(b"\n") == 1
    assert parse_trace(line) == made
    assert parse_trace(line).line() == line


@settings(max_examples=50)
@given(traces, st.data())
def test_a_cut_line_is_never_read(made: Trace, data: st.DataObject) -> None:
    line = made.line()
    with pytest.raises(TraceError):
        parse_trace(line[: data.draw(st.integers(0, len(line) - 2))])


def document(**fields: Any) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(trace("a", SUITE).line())
    return value | fields


ANSWER = document()["invocation"]


@pytest.mark.parametrize(
    ("value", "field", "reason"),
    [
        (document(schema_version="2"), "schema_version", "is '2'; this build reads '1'"),
        (document(schema_version=["1"] * 99), "schema_version", "this build reads"),
        (document(duration_ms="5"), "duration_ms", "valid number"),
        (document(duration_ms=-1), "duration_ms", "greater than or equal to 0"),
        (document(duration_ms=True), "duration_ms", "valid number"),
        (document(attempts=0), "attempts", "greater than or equal to 1"),
        (document(repeat=-1), "repeat", "greater than or equal to 0"),
        (document(note="x"), "note", "Extra inputs"),
        (document(invocation=None), "", "needs an invocation or an error"),
        (document(error={"type": "timeout", "message": ""}), "", "needs an invocation or an error"),
        (document(invocation=None, error={"type": "tired", "message": ""}), "error.type", "Input should be"),
        (document(invocation=ANSWER | {"answer": 5}), "invocation.answer", "valid string"),
        (
            document(invocation=ANSWER | {"citations": [{"document": "doc", "start": 0, "end": 99}]}),
            "invocation", "citations[0]: does not lie inside the answer",
        ),
        (
            document(invocation=ANSWER | {"citations": [{"document": "doc", "start": 2, "end": 2}]}),
            "invocation", "citations[0]: does not lie inside the answer",
        ),
        (
            document(invocation=ANSWER | {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "provenance": "ask"}}),
            "invocation.usage.provenance", "Input should be",
        ),
        ([], "", "should be an object"),
    ],
)  # fmt: skip
def test_what_is_no_trace_is_refused_by_its_field(value: Any, field: str, reason: str) -> None:
    with pytest.raises(TraceError) as caught:
        parse_trace(json.dumps(value).encode())
    assert caught.value.field == field
    assert reason in caught.value.reason


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ["duration_ms", "score"])
def test_a_number_that_is_none_is_refused(number: str, field: str) -> None:
    made = trace("a", SUITE, invocation=Invocation(answer="x", retrieved=(Retrieved(document="doc", score=1.5),)))
    with pytest.raises(TraceError) as caught:
        parse_trace(made.line().replace(f'"{field}":1.5'.encode(), f'"{field}":{number}'.encode()))
    assert caught.value.field.endswith(field)
    assert "not finite" in caught.value.reason
    with pytest.raises(ValidationError):
        trace("a", SUITE, duration_ms=float(number))


@pytest.mark.parametrize(
    "parameters", [{"a": "\0"}, {"a": "\ud800"}, {"a": {1}}, {"a": 2**60}, {"a": 1.5e17}, {"a": float("nan")}]
)
def test_what_could_not_be_read_again_has_no_line(parameters: dict[str, Any]) -> None:
    made = trace("a", SUITE, invocation=Invocation(answer="x", parameters=parameters))
    with pytest.raises(TraceError) as caught:
        made.line()
    assert caught.value.field == "invocation.parameters.a"


def test_a_nul_in_an_answer_has_no_line() -> None:
    with pytest.raises(TraceError, match="NUL"):
        trace("a", SUITE, invocation=Invocation(answer="x\0")).line()


@pytest.mark.parametrize("answer", ["</script><script>alert(1)</script>", "é" * 1_000_000, "a\nb\r\u2028c\x1f"])
def test_any_answer_is_one_line(answer: str) -> None:
    made = trace("a", SUITE, invocation=Invocation(answer=answer))
    assert made.line().count(b"\n") == 1
    assert parse_trace(made.line()) == made


def test_an_error_is_read_back() -> None:
    made = trace("a", SUITE, error=failure(), attempts=3)
    assert parse_trace(made.line()) == made
