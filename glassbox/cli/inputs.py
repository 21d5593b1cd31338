"""Recorded answers from a file: JSON lines as they are, or CSV with its columns mapped to request fields."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from glassbox.cli.errors import CommandError

_LISTS = ("retrieved_passages", "source_documents", "retrieved_entities", "chunk_scores")
"""Fields whose cell may be a JSON list; a plain cell is one item, and several columns may feed one field."""
_NESTED = ("metadata", "model", "label", "labels")
_CELL_MAX = 16 * 1024 * 1024

Line = tuple[int, bytes]
"""Line number in the file, counted from 1, and the request's bytes."""


def read_lines(path: Path, mapping: Sequence[str] = (), also: Collection[str] = ()) -> Iterator[Line]:
    """The requests of a JSON lines or CSV file; `-` is standard input, read as JSON lines.

    `mapping`: `COLUMN=FIELD` each, for CSV; `also`: its columns that are kept under their own name, if they are there.
    JSON lines are handed on byte for byte, blank ones left out. Raises `CommandError` for a mapping or a CSV that
    cannot be used, OSError where the file cannot be read.
    """
    if path.suffix.lower() in (".csv", ".tsv"):
        yield from _csv(path, _columns(mapping), also)
        return
    if mapping:
        raise CommandError("--map is for CSV files (.csv, .tsv): the lines of any other file are sent as they are")
    if str(path) == "-":
        yield from _json_lines(sys.stdin.buffer)
        return
    with path.open("rb") as file:
        yield from _json_lines(file)


def _json_lines(file: Any) -> Iterator[Line]:
    for number, line in enumerate(file, 1):
        raw = line.rstrip(b"\r\n")
        if raw.strip():
            yield number, raw


def _columns(mapping: Sequence[str]) -> dict[str, str]:
    from glassbox.contract.policy import nearest
    from glassbox.contract.request import EvaluationRequest

    known = [name for name in EvaluationRequest.model_fields if name not in _NESTED] + ["label"]
    columns = {}
    for item in mapping:
        column, equals, field = item.partition("=")
        if not (column and equals and field):
            raise CommandError(f"--map {item}: must be COLUMN=FIELD, such as --map question=query")
        base, _, inner = field.partition(".")
        if not (inner and base in _NESTED) and field not in known:
            raise CommandError(f"--map {item}: a request has no field {field!r}{nearest(field, known)}")
        columns[column] = field
    return columns


def _csv(path: Path, columns: Mapping[str, str], also: Collection[str]) -> Iterator[Line]:
    from glassbox.contract.request import EvaluationRequest

    csv.field_size_limit(_CELL_MAX)
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, delimiter=delimiter, strict=True)
            header = rows.fieldnames or []
            absent = [column for column in columns if column not in header]
            if absent:
                raise CommandError(f"{path} has no column {absent[0]!r}; it has {', '.join(header) or 'none'}")
            own = {name: name for name in header if name in EvaluationRequest.model_fields or name == "label"}
            fields = own | dict(columns)
            for row in rows:
                kept = {name: row[name] for name in also if row.get(name)}
                yield rows.line_num, json.dumps(kept | _request(row, fields), ensure_ascii=False).encode()
    except csv.Error as error:
        raise CommandError(f"{path} is not CSV: {error}") from None
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not UTF-8 text (byte {error.start})") from None


def _request(row: Mapping[str, str | None], fields: Mapping[str, str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for column, field in fields.items():
        cell = row.get(column)
        if not cell:
            continue
        base, _, inner = field.partition(".")
        if base in _LISTS:
            made.setdefault(base, []).extend(_items(cell, float if base == "chunk_scores" else str))
        elif inner:
            made.setdefault(base, {})[inner] = cell
        else:
            made[base] = cell
    if "retrieved_passages" in fields.values():
        made.setdefault("retrieved_passages", [])  # an empty cell: nothing was retrieved
    return made


def _items(cell: str, convert: Callable[[str], Any]) -> list[Any]:
    if cell.lstrip().startswith("["):
        try:
            value = json.loads(cell)
        except ValueError:
            value = None
        if isinstance(value, list):
            return value
    try:
        return [convert(cell)]
    except ValueError:
        return [cell]  # the contract's check names the field


def evaluation_id_of(raw: bytes, id_key: Callable[[], bytes]) -> str | None:
    """The id under which the pipeline will judge a request; None where it breaks the contract.

    `id_key` is asked only for a request that has no id of its own.
    """
    from glassbox.contract.canonical import CanonicalError, strict_loads
    from glassbox.contract.request import MAX_BODY, ContractError, read_request

    if len(raw) > MAX_BODY:
        return None
    try:
        value = strict_loads(raw)
        named = value.get("policy") if isinstance(value, dict) else None
        # Which policies there are is for intake to say: it may run with another configuration.
        request = read_request(value, [named] if isinstance(named, str) else []).request
        return request.evaluation_id or request.derived_id(id_key())
    except (CanonicalError, ContractError):
        return None
