"""Replies of other people's systems: what they may leave out, and what is no reply."""

import json
from typing import Any

import pytest

from glassbox.replay.systems.port import InvocationFailed, environment_secrets
from glassbox.replay.systems.wire import question_line, read_reply
from glassbox.replay.trace import Retrieved


def reply(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def test_the_least_that_is_an_answer() -> None:
    made = read_reply(reply(answer="At nine."))
    assert (made.answer, made.citations, made.retrieved, made.usage, made.model) == ("At nine.", (), None, None, None)


def test_all_that_can_be_said() -> None:
    made = read_reply(
        reply(
            id=7,
            answer="At nine [a].",
            citations=[{"document": "b", "start": 0, "end": 2}],
            retrieved=["a", {"document": "b", "score": 1}],
            usage={"prompt_tokens": 3, "completion_tokens": 2, "provenance": "api"},
            model="m",
            parameters={"top": 2},
        ),
        7,
    )
    assert made.answer == "At nine [a]."
    assert made.retrieved == (Retrieved(document="a"), Retrieved(document="b", score=1.0))
    assert [each.document for each in made.citations] == ["b"]


def test_markers_of_retrieved_documents_are_citations_where_none_are_given() -> None:
    made = read_reply(reply(answer="At nine [a]. As ever [sic].", retrieved=["a"]))
    assert made.answer == "At nine. As ever [sic]."
    assert [(each.document, each.start, each.end) for each in made.citations] == [("a", 0, 8)]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "not JSON"),
        (b"Sure! {", "not JSON"),
        (b"\xff", "not UTF-8"),
        (b'{"answer": "a", "answer": "b"}', "answer: duplicated key"),
        (b'{"answer": NaN}', "answer: a number that is not finite"),
        (b'{"answer": "a\\u0000"}', "answer: NUL"),
        (b'{"answer": "\\ud800"}', "answer: lone surrogate"),
        (b'["a"]', "not a JSON object"),
        (reply(), "id: is not that"),
        (reply(id=6, answer="a"), "id: is not that"),
        (reply(id="7", answer="a"), "id: is not that"),
        (reply(id=7), "answer: Field required"),
        (reply(id=7, answer=None), "answer: Input should be a valid string"),
        (reply(id=7, answer="a", sources=[]), "sources: Extra inputs"),
        (reply(id=7, answer="a", citations=[{"document": "d", "start": 0, "end": 2}]), "does not lie inside"),
        (reply(id=7, answer="a", retrieved="doc"), "retrieved: "),
        (reply(id=7, answer="a", retrieved=[3]), "retrieved.0: "),
        (reply(id=7, error="bad"), "object"),
        (reply(id=7, error={"type": "tired"}), "type: "),
        (reply(id=7, error={"retry_after_s": -1}), "retry_after_s: "),
    ],
)
def test_what_is_no_reply_is_malformed(raw: bytes, said: str) -> None:
    with pytest.raises(InvocationFailed) as caught:
        read_reply(raw, 7)
    assert caught.value.type == "malformed_output"
    assert said in caught.value.message


def test_a_system_may_say_why_it_has_no_answer() -> None:
    with pytest.raises(InvocationFailed) as caught:
        read_reply(reply(error={"type": "rate_limited", "message": "later\n please", "retry_after_s": 2.5}))
    assert (caught.value.type, caught.value.message, caught.value.retry_after) == ("rate_limited", "later please", 2.5)
    with pytest.raises(InvocationFailed) as caught:
        read_reply(reply(error={"message": "x" * 10_000}))
    assert (caught.value.type, len(caught.value.message)) == ("exception", 200)


def test_a_question_is_one_line() -> None:
    line = question_line(3, 'a\nb\u2028"c"')
    assert line.count(b"\n") == 1
    assert json.loads(line) == {"id": 3, "question": 'a\nb\u2028"c"'}


def test_values_named_like_keys_are_secrets() -> None:
    environment = {
        "OPENAI_API_KEY": "sk-12345678",
        "db_password": "hunter2hunter2",
        "TOKEN": "short",
        "HOME": "/home/x",
    }
    assert environment_secrets(environment) == {"sk-12345678", "hunter2hunter2"}
