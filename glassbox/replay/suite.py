"""A suite: fixed questions over a fixed corpus, with what a right answer needs. Read once, and named by digests."""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from glassbox.contract.canonical import CanonicalError, sha256_hex, strict_loads
from glassbox.contract.policy import nearest

CASES, CORPUS = "suite.jsonl", "corpus.jsonl"
_BOM = "\ufeff".encode()
_NEAR = 0.8
"""How like a field a column has to be to be taken for it: `keyword` is like `keywords`, not `answer` `answerable`."""
_SHIPPED = files("glassbox.replay") / "suites"


class SuiteError(ValueError):
    """A suite that cannot be used: the file, the line (from 1, 0 for the whole file), the field and the reason."""

    def __init__(self, file: str, line: int, field: str, reason: str) -> None:
        self.file, self.line, self.field, self.reason = file, line, field, reason
        where = ", ".join(part for part in (file, f"line {line}" if line else "", field) if part)
        super().__init__(f"{where}: {reason}")


def _said(text: str) -> str:
    if not any(map(str.isalnum, text)):
        raise ValueError("has no letter or digit")
    return text


def _alternatives(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Identifier = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")]
Said = Annotated[str, BeforeValidator(lambda value: _said(value) if isinstance(value, str) else value)]
Keyword = Annotated[tuple[Said, ...], Field(min_length=1), BeforeValidator(_alternatives)]


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Document(_Line):
    """One document of the corpus."""

    id: Identifier
    title: str = ""
    text: Said


class Failing(_Line):
    """A part of a scorecard that failed or missed its target, and why in a few words."""

    judge: str
    part: str
    score: str | None = None
    why: str = ""


class Observed(_Line):
    """The evaluation that a case was made of: what was answered then, and what went wrong. For people: nothing is
    measured by it."""

    evaluation_id: str
    answer: str
    outcome: str
    trust: str | None = None
    reasons: tuple[str, ...] = ()
    failing: tuple[Failing, ...] = ()


class Case(_Line):
    """One question. `keywords`: what a right answer names, each as a tuple of accepted alternatives. `relevant`: ids
    of the documents that hold the answer, the declared truth for retrieval; empty where it is not declared.
    `answerable`: false where the corpus does not say, so that the right answer is to abstain."""

    id: Identifier
    question: Said
    keywords: tuple[Keyword, ...] = ()
    relevant: tuple[Identifier, ...] = ()
    answerable: bool = True
    tags: tuple[str, ...] = ()
    observed: Observed | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Case:
        if not self.answerable and (self.keywords or self.relevant):
            raise ValueError("an unanswerable case has no keywords and no relevant documents")
        if len(set(self.relevant)) < len(self.relevant):
            raise ValueError("relevant: a document is named twice")
        return self


@dataclass(frozen=True)
class Suite:
    """`cases` and `corpus` by id, in the order of their files; the digests are SHA-256 of the files' bytes, hex;
    `columns`: what was named to read a CSV file."""

    name: str
    cases: Mapping[str, Case]
    corpus: Mapping[str, Document]
    digest: str
    corpus_digest: str
    columns: Mapping[str, str] = field(default_factory=dict)


def shipped() -> list[str]:
    """Names of the suites that come with the product."""
    return sorted(entry.name for entry in _SHIPPED.iterdir() if entry.is_dir())


def load_suite(source: str | Path, corpus: Path | None = None, columns: Mapping[str, str] | None = None) -> Suite:
    """A suite by the name of a shipped one, from a folder with `suite.jsonl` and `corpus.jsonl`, or from a JSON lines
    or CSV file with the `corpus` beside it.

    `columns`: case field -> CSV column, where they differ. In CSV a cell of `keywords`, `relevant` or `tags` holds
    several values parted by ";", and alternatives of a keyword by "|". Raises `SuiteError`; OSError where a file
    cannot be read.
    """
    if isinstance(source, str) and source in shipped():
        folder = _SHIPPED / source
        return _suite(source, CASES, (folder / CASES).read_bytes(), CORPUS, (folder / CORPUS).read_bytes(), {})
    path = Path(source)
    if path.is_dir():
        path, corpus = path / CASES, corpus or path / CORPUS
    elif not path.exists():
        raise SuiteError(str(source), 0, "", f"no such file, folder or shipped suite ({', '.join(shipped())})")
    if corpus is None:
        raise SuiteError(str(path), 0, "", "a suite needs its corpus: name the documents' file beside it")
    name = path.parent.resolve().name if path.name == CASES else path.stem
    return _suite(name, str(path), path.read_bytes(), str(corpus), corpus.read_bytes(), columns or {})


def _suite(name: str, file: str, raw: bytes, corpus_file: str, corpus_raw: bytes, columns: Mapping[str, str]) -> Suite:
    corpus = _read(corpus_file, corpus_raw, Document, {})
    cases = _read(file, raw, Case, columns)
    for line, case in cases.values():
        if unknown := next((document for document in case.relevant if document not in corpus), None):
            raise SuiteError(file, line, "relevant", f"{corpus_file} has no document {unknown!r}")
    return Suite(
        name,
        {key: case for key, (_, case) in cases.items()},
        {key: document for key, (_, document) in corpus.items()},
        sha256_hex(raw),
        sha256_hex(corpus_raw),
        columns,
    )


L = TypeVar("L", Case, Document)


def _read(file: str, raw: bytes, model: type[L], columns: Mapping[str, str]) -> dict[str, tuple[int, L]]:
    rows: Callable[[str, bytes, type[L], Mapping[str, str]], Iterator[tuple[int, Any]]]
    rows = _csv if file.lower().endswith((".csv", ".tsv")) else _json_lines
    found: dict[str, tuple[int, L]] = {}
    for line, value in rows(file, raw.removeprefix(_BOM), model, columns):
        try:
            made = model.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            field = ".".join(map(str, first["loc"]))
            raise SuiteError(file, line, field, first["msg"].removeprefix("Value error, ")) from None
        if made.id in found:
            raise SuiteError(file, line, "id", f"{made.id!r} stands in line {found[made.id][0]} too")
        found[made.id] = (line, made)
    if not found:
        raise SuiteError(file, 0, "", f"has no {model.__name__.lower()}")
    return found


def _json_lines(file: str, raw: bytes, _model: type[_Line], columns: Mapping[str, str]) -> Iterator[tuple[int, Any]]:
    if columns:
        raise SuiteError(file, 0, "", "columns can only be named for CSV")
    for number, line in enumerate(raw.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            yield number, strict_loads(line.rstrip(b"\r"))
        except CanonicalError as error:
            raise SuiteError(file, number, error.field, error.reason) from None


def _csv(file: str, raw: bytes, model: type[_Line], columns: Mapping[str, str]) -> Iterator[tuple[int, Any]]:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise SuiteError(file, 0, "", f"not UTF-8 at byte {error.start}") from None
    rows = csv.DictReader(
        io.StringIO(text, newline=""), delimiter="\t" if file.lower().endswith(".tsv") else ",", strict=True
    )
    try:
        names = _names(file, rows.fieldnames or [], model, columns)
        for row in rows:
            # A row may go over several lines: its first is named.
            line = rows.line_num - sum(cell.count("\n") for cell in row.values() if isinstance(cell, str))
            if None in row:
                raise SuiteError(file, line, "", "has more cells than the header has columns")
            if None in row.values():
                raise SuiteError(file, line, "", "has fewer cells than the header has columns")
            yield line, {field: _cell(field, cell) for field, column in names.items() if (cell := row[column] or "")}
    except csv.Error as error:
        raise SuiteError(file, rows.reader.line_num, "", str(error)) from None


def _names(file: str, header: Sequence[str], model: type[_Line], columns: Mapping[str, str]) -> dict[str, str]:
    """Field -> column. A column that is nobody's is left out, unless it is nearly the name of a field without one."""
    fields = [name for name in model.model_fields if name != "observed"]  # which no cell can hold
    if len(header) == 1 and (found := next((each for each in ";\t" if each in header[0]), None)):
        parted = "tabs" if found == "\t" else f"{found!r}"
        raise SuiteError(file, 1, "", f"its cells are parted by {parted}: .csv is read with ',', .tsv with tabs")
    twice = next((column for column in header if header.count(column) > 1), None)
    unknown = next((field for field in columns if field not in fields), None)
    absent = next((column for column in columns.values() if column not in header), None)
    if twice is not None:
        raise SuiteError(file, 1, "", f"the column {twice!r} stands there twice")
    if unknown is not None:
        raise SuiteError(file, 1, "", f"a {model.__name__.lower()} has no field {unknown!r}{nearest(unknown, fields)}")
    if absent is not None:
        raise SuiteError(file, 1, "", f"there is no column {absent!r}{nearest(absent, header)}")
    names = {name: name for name in fields if name in header} | dict(columns)
    free = [name for name in fields if name not in names]
    for column in header:
        near = difflib.get_close_matches(column.strip().lower(), free, n=1, cutoff=_NEAR)
        if near and column not in names.values():
            reason = f"the column {column!r} is no field; is it {near[0]!r}? Rename it, or name it with --map"
            raise SuiteError(file, 1, near[0], reason)
    return names


def _cell(field: str, cell: str) -> Any:
    if field not in ("keywords", "relevant", "tags"):
        return cell
    items = [item.strip() for item in cell.split(";") if item.strip()]
    return [[word.strip() for word in item.split("|")] for item in items] if field == "keywords" else items
