"""Requests from files: JSON lines untouched, CSV by its mapping, ids as the pipeline derives them."""

import json
from pathlib import Path

import pytest

from glassbox.cli.errors import CommandError
from glassbox.cli.inputs import evaluation_id_of, read_lines
from glassbox.contract.request import parse_request

REQUEST = b'{"query": "q", "answer": "a", "retrieved_passages": []}'


def test_json_lines_are_handed_on_byte_for_byte(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"b": 1,  "a" : "\xc3\xa9"}\r\n\n  \nnot json\n\xff\xfe')
    assert list(read_lines(file)) == [(1, b'{"b": 1,  "a" : "\xc3\xa9"}'), (4, b"not json"), (5, b"\xff\xfe")]


def test_csv_with_mapped_columns(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(
        "question,answer,p1,p2,scores,who,ok\n"
        '"Why?\nReally?",Because,First passage,,"[0.9]",gpt,1\n'
        'When?,Now,"[""x"", ""y""]",z,"[3, 2, 1]",,no\n'
    )
    mapping = [
        *("question=query", "p1=retrieved_passages", "p2=retrieved_passages"),
        *("scores=chunk_scores", "who=metadata.author", "ok=label.supported"),
    ]
    lines = [json.loads(raw) for _, raw in read_lines(file, mapping)]
    assert lines == [
        {
            "answer": "Because",
            "query": "Why?\nReally?",
            "retrieved_passages": ["First passage"],
            "chunk_scores": [0.9],
            "metadata": {"author": "gpt"},
            "label": {"supported": "1"},
        },
        {
            "answer": "Now",
            "query": "When?",
            "retrieved_passages": ["x", "y", "z"],
            "chunk_scores": [3, 2, 1],
            "label": {"supported": "no"},
        },
    ]
    assert parse_request(json.dumps(lines[0]).encode(), []).request.metadata == {"author": "gpt"}


def test_csv_columns_kept_under_their_own_name(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("query,fine,note\nq,yes,n\nr,,n\n")
    assert [json.loads(raw) for _, raw in read_lines(file, (), ["fine", "absent"])] == [
        {"query": "q", "fine": "yes"},
        {"query": "r"},
    ]


def test_csv_without_passages_says_that_nothing_was_retrieved(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("query,answer,retrieved_passages\nq,a,\n")
    assert [json.loads(raw) for _, raw in read_lines(file)] == [{"query": "q", "answer": "a", "retrieved_passages": []}]


@pytest.mark.parametrize(
    ("name", "content", "mapping", "says"),
    [
        ("a.csv", "x\n1\n", ["y=query"], "has no column 'y'; it has x"),
        ("a.csv", "x\n1\n", ["x=qeury"], "no field 'qeury'; did you mean 'query'?"),
        ("a.csv", "x\n1\n", ["x"], "must be COLUMN=FIELD"),
        ("a.csv", 'x\n"1"2\n', ["x=query"], "is not CSV"),
        ("a.jsonl", "{}", ["x=query"], "--map is for CSV"),
    ],
)
def test_unusable_input_is_a_sentence(tmp_path: Path, name: str, content: str, mapping: list[str], says: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(CommandError) as error:
        list(read_lines(tmp_path / name, mapping))
    assert says in str(error.value)


def test_id_is_the_requests_own_else_derived() -> None:
    def no_key() -> bytes:
        raise AssertionError("the key is not needed")

    own = (
        b'{"evaluation_id": "e-1", "query": "q", "answer": "a", "retrieved_passages": [], "policy": "of another host"}'
    )
    assert evaluation_id_of(own, no_key) == "e-1"
    assert evaluation_id_of(REQUEST, lambda: b"key") == parse_request(REQUEST, []).request.derived_id(b"key")


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{", b'{"query": "q"}', b'{"query": "\\ud800"}', b"null", b" " * 2_000_000]
)
def test_id_of_what_breaks_the_contract_is_none(raw: bytes) -> None:
    assert evaluation_id_of(raw, lambda: b"key") is None
