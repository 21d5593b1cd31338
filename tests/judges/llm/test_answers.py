import base64
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.llm.answers import Usage, joined, read_chat, read_embeddings, vectors_from
from judges.llm.errors import EndpointError


def chat(message, finish="stop", **more):
    return json.dumps({"choices": [{"message": message, "finish_reason": finish}], **more}).encode()


def embeddings(*rows, **more):
    return json.dumps({"data": [{"index": n, "embedding": row} for n, row in rows], **more}).encode()


def packed(*numbers):
    return base64.b64encode(np.asarray(numbers, dtype="<f4").tobytes()).decode()


def cause_of(call, *arguments):
    with pytest.raises(EndpointError) as caught:
        call(*arguments)
    return caught.value.cause


def test_a_chat_answer_with_reported_usage():
    body = chat({"content": "hi"}, model="served-1", usage={"prompt_tokens": 5, "completion_tokens": 2})
    answer = read_chat(body, "asked", 100)
    assert (answer.model, answer.raw, answer.text()) == ("served-1", b"hi", "hi")
    assert answer.usage == Usage(5, 2, "api")


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 0}, {"prompt_tokens": "many"}])
def test_usage_is_estimated_at_four_characters_a_token(usage):
    answer = read_chat(chat({"content": "hello"}, usage=usage), "asked", 101)
    assert answer.model == "asked"
    assert answer.usage == Usage(26, 2, "estimated")


def test_a_cut_or_refused_answer_has_no_text():
    assert cause_of(read_chat(chat({"content": "{"}, "length"), "m", 1).text) == "truncated"
    assert cause_of(read_chat(chat({"content": "{}"}, "content_filter"), "m", 1).text) == "refused"
    assert cause_of(read_chat(chat({"content": None, "refusal": "no"}), "m", 1).text) == "refused"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"null",
        b"{}",
        b'{"choices": []}',
        chat({"content": None}),
        chat({"content": ["x"]}),
        chat({}),
        chat({"content": "\ud800"}),
    ],
)
def test_a_response_that_is_no_chat_completion(body):
    assert cause_of(read_chat, body, "m", 1) == "malformed_output"


def test_vectors_come_in_the_order_of_the_texts_from_base64_or_numbers():
    answer = read_embeddings(embeddings((1, [3, 4]), (0, packed(1, 2))), "m", ["a", "b"])
    assert vectors_from(answer.raw, 2).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"{}",
        embeddings((0, packed(1, 2))),
        embeddings((0, packed(1, 2)), (0, packed(1, 2))),
        embeddings((0, packed(1, 2)), (2, packed(1, 2))),
        embeddings((0, packed(1, 2)), (1, packed(1, 2)), (2, packed(1, 2))),
        embeddings((0, packed(1, 2)), (1, packed(1, 2, 3))),
        embeddings((0, "no base64!"), (1, packed(1, 2))),
        embeddings((0, None), (1, packed(1, 2))),
    ],
)
def test_vectors_that_do_not_answer_the_texts(body):
    assert cause_of(read_embeddings, body, "m", ["a", "b"]) == "bad_embedding"


@pytest.mark.parametrize("row", [(0, 0), (float("nan"), 1), (float("inf"), 1)])
def test_a_vector_without_a_direction(row):
    raw = np.asarray([row, (1, 1)], dtype="<f4").tobytes()
    assert cause_of(vectors_from, raw, 2) == "bad_embedding"
    assert cause_of(vectors_from, b"", 1) == "bad_embedding"


@settings(deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_joined_batches_are_one_answer(sizes):
    parts = [
        read_embeddings(embeddings(*((n, [n + 1, 1]) for n in range(size))), "m", ["abcd"] * size) for size in sizes
    ]
    whole = joined(parts, sizes)
    assert vectors_from(whole.raw, sum(sizes)).shape == (sum(sizes), 2)
    assert whole.usage == Usage(sum(sizes), 0, "estimated")


def test_batches_of_different_lengths_are_not_joined():
    parts = [read_embeddings(embeddings((0, row)), "m", ["a"]) for row in ([1, 2], [1, 2, 3])]
    assert cause_of(joined, parts, [1, 1]) == "bad_embedding"
