"""Suites: those that are shipped, those that people bring, and every way in which one cannot be used."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from glassbox.replay.suite import Suite, SuiteError, load_suite, shipped

CORPUS = [
    {"id": "boats", "title": "Boats", "text": "The ferry leaves at nine."},
    {"id": "fares", "text": "A child pays half."},
]
CASES: list[dict[str, Any]] = [
    {"id": "time", "question": "When does it leave?", "keywords": [["nine", "9"]], "relevant": ["boats"]},
    {"id": "none", "question": "Who steers it?", "answerable": False},
]


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def written(folder: Path, cases: bytes | None = None, corpus: bytes | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "suite.jsonl").write_bytes(lines(*CASES) if cases is None else cases)
    (folder / "corpus.jsonl").write_bytes(lines(*CORPUS) if corpus is None else corpus)
    return folder


def csv(folder: Path, text: str, name: str = "cases.csv", **columns: str) -> Suite:
    (folder / name).write_text(text)
    return load_suite(folder / name, written(folder) / "corpus.jsonl", columns)


def test_the_shipped_suite_is_as_it_is_announced() -> None:
    assert shipped() == ["tidewell"]
    suite = load_suite("tidewell")
    cases = suite.cases.values()
    assert (len(cases), len(suite.corpus)) == (26, 12)
    assert sum(case.answerable for case in cases) == 22
    assert sum(len(case.relevant) == 2 for case in cases) == 2
    assert all(case.keywords and case.relevant for case in cases if case.answerable)


def test_digests_are_those_of_the_bytes(tmp_path: Path) -> None:
    suite = load_suite(written(tmp_path / "ferry"))
    assert suite.name == "ferry"
    assert suite.digest == sha256((tmp_path / "ferry/suite.jsonl").read_bytes()).hexdigest()
    assert suite.corpus_digest == sha256((tmp_path / "ferry/corpus.jsonl").read_bytes()).hexdigest()
    assert list(suite.cases) == ["time", "none"]
    assert suite.cases["time"].keywords == (("nine", "9"),)


def test_a_bom_crlf_and_blank_lines_are_read(tmp_path: Path) -> None:
    plain = load_suite(written(tmp_path / "a"))
    raw = b"\xef\xbb\xbf" + lines(*CASES).replace(b"\n", b"\r\n\r\n")
    other = load_suite(written(tmp_path / "b", raw, b"\xef\xbb\xbf" + lines(*CORPUS).replace(b"\n", b"\r\n")))
    assert (other.cases, other.corpus) == (plain.cases, plain.corpus)
    assert other.digest != plain.digest, "a digest is of the bytes, not of what they say"


def test_a_line_separator_inside_a_text_ends_no_line(tmp_path: Path) -> None:
    question = "One\u2028two\u0085three\x0bfour?"
    raw = json.dumps({"id": "a", "question": question}, ensure_ascii=False).encode()
    assert load_suite(written(tmp_path / "s", raw)).cases["a"].question == question


CASE = CASES[0]


@pytest.mark.parametrize(
    ("raw", "line", "field", "reason"),
    [
        (lines(*CASES, CASE), 3, "id", "'time' stands in line 1 too"),
        (lines(CASE | {"relevant": ["boots"]}), 1, "relevant", "has no document 'boots'"),
        (lines(CASE | {"relevant": ["boats", "boats"]}), 1, "", "relevant: a document is named twice"),
        (b"", 0, "", "has no case"),
        (b"\n \r\n", 0, "", "has no case"),
        (lines(CASES[1], CASE | {"id": "a b"}), 2, "id", "should match pattern"),
        (lines(CASE | {"question": " ?"}), 1, "question", "has no letter or digit"),
        (lines({"id": "a"}), 1, "question", "required"),
        (lines(CASE | {"keyword": ["nine"]}), 1, "keyword", "Extra inputs"),
        (lines(CASE | {"keywords": [["nine", ""]]}), 1, "keywords.0.1", "has no letter or digit"),
        (lines(CASE | {"keywords": [[]]}), 1, "keywords.0", "at least 1"),
        (lines(CASE | {"answerable": False}), 1, "", "an unanswerable case has no keywords"),
        (lines(CASES[1] | {"relevant": ["boats"]}), 1, "", "an unanswerable case has no keywords"),
        (lines(["time"]), 1, "", "valid dictionary"),
        (lines(CASE)[:-20], 1, "", "not JSON"),
        (b'{"id": "a", "question": "b", "tags": NaN}', 1, "tags", "not finite"),
        (b'{"id": "a", "id": "b", "question": "c"}', 1, "id", "duplicated key"),
        (b'{"id": "a", "question": "\xff"}', 1, "", "not UTF-8"),
        (b'{"id": "a", "question": "a\\ud800"}', 1, "question", "lone surrogate"),
    ],
)
def test_a_bad_line_is_named_with_its_field(tmp_path: Path, raw: bytes, line: int, field: str, reason: str) -> None:
    with pytest.raises(SuiteError) as caught:
        load_suite(written(tmp_path / "s", raw))
    error = caught.value
    assert (error.file, error.line, error.field) == (str(tmp_path / "s/suite.jsonl"), line, field)
    assert reason in error.reason
    assert str(error).startswith(error.file)


@pytest.mark.parametrize(
    ("raw", "line", "field", "reason"),
    [
        (b"", 0, "", "has no document"),
        (lines(*CORPUS, CORPUS[0]), 3, "id", "stands in line 1 too"),
        (lines({"id": "boats", "text": "..."}), 1, "text", "has no letter or digit"),
    ],
)
def test_a_bad_corpus_is_named(tmp_path: Path, raw: bytes, line: int, field: str, reason: str) -> None:
    with pytest.raises(SuiteError, match=reason) as caught:
        load_suite(written(tmp_path / "s", corpus=raw))
    assert (caught.value.file, caught.value.line, caught.value.field) == (
        str(tmp_path / "s/corpus.jsonl"), line, field,
    )  # fmt: skip


def test_csv_with_named_columns_says_the_same_as_json(tmp_path: Path) -> None:
    text = (
        "\ufeffFrage,id,keywords,docs,answerable,note\r\n"
        '"When does it leave?",time,nine|9,boats,,x\r\n'
        "Who steers it?,none,,,false,\r\n"
    )
    suite = csv(tmp_path, text, question="Frage", relevant="docs")
    assert suite.cases == load_suite(written(tmp_path / "s")).cases
    assert suite.name == "cases"
    tabbed = csv(tmp_path, text.replace(",", "\t"), "cases.tsv", question="Frage", relevant="docs")
    assert tabbed.cases == suite.cases


def test_several_values_in_a_cell(tmp_path: Path) -> None:
    case = csv(tmp_path, "id,question,keywords,relevant,tags\na,b,one|1 ; two,fares;boats,x; y\n").cases["a"]
    assert (case.keywords, case.relevant, case.tags) == ((("one", "1"), ("two",)), ("fares", "boats"), ("x", "y"))


@pytest.mark.parametrize(
    ("text", "columns", "line", "reason"),
    [
        ("id,question\na,b\nc\n", {}, 3, "fewer cells than"),
        ('id,question,tags\na,"b\nc",d\na,b\n', {}, 4, "fewer cells than"),
        ("id,question,Keywords\na,b,c\n", {}, 1, "keywords: the column 'Keywords' is no field; is it 'keywords'"),
        ("id,question,keyword\na,b,c\n", {}, 1, "the column 'keyword' is no field"),
        ("id,question, Relevant\na,b,c\n", {}, 1, "is it 'relevant'. Rename it, or name it with --map"),
        ("id;question;keywords\na;b;c\n", {}, 1, "its cells are parted by ';'"),
        ("id\tquestion\na\tb\n", {}, 1, "its cells are parted by tabs"),
        ("id,question\na,b,c\n", {}, 2, "more cells than"),
        ('id,question\na,"b\nc"\na,d\n', {}, 4, "stands in line 2 too"),
        ('id,question\na,"b\n', {}, 2, "unexpected end"),
        ("id,id,question\na,a,b\n", {}, 1, "the column 'id' stands there twice"),
        ("id,question\na,b\n", {"query": "question"}, 1, "has no field 'query'"),
        ("id,question\na,b\n", {"question": "questions"}, 1, "no column 'questions'; did you mean 'question'"),
        ("id,question,answerable\na,b,perhaps\n", {}, 2, "valid boolean"),
        ("", {}, 0, "has no case"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, text: str, columns: dict[str, str], line: int, reason: str) -> None:
    with pytest.raises(SuiteError, match=reason) as caught:
        csv(tmp_path, text, **columns)
    assert caught.value.line == line


def test_a_column_that_is_nobodys_is_left_out(tmp_path: Path) -> None:
    case = csv(tmp_path, "id,question,Keywords,answer,note\na,b,c,d,e\n", keywords="Keywords").cases["a"]
    assert case.keywords == (("c",),)
    assert csv(tmp_path, "id,question,Frage\na,b,c\n", question="Frage").cases["a"].question == "c"


def test_csv_that_is_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("id,question\na,Größe?".encode("latin-1"))
    with pytest.raises(SuiteError, match="not UTF-8 at byte 16"):
        load_suite(tmp_path / "a.csv", written(tmp_path) / "corpus.jsonl")


def test_what_cannot_be_found_or_combined(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match=r"tidewel: no such file, folder or shipped suite \(tidewell\)"):
        load_suite("tidewel")
    path = written(tmp_path) / "suite.jsonl"
    with pytest.raises(SuiteError, match="needs its corpus"):
        load_suite(path)
    with pytest.raises(SuiteError, match="only be named for CSV"):
        load_suite(path, tmp_path / "corpus.jsonl", {"id": "name"})
    (tmp_path / "corpus.jsonl").unlink()
    with pytest.raises(FileNotFoundError):
        load_suite(tmp_path)
