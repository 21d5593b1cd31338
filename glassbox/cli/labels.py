"""What people said of recorded answers: yes or no for each part, wherever it stands in a line."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glassbox.cli.errors import CommandError
from glassbox.cli.inputs import Line

_YES, _NO = ("true", "1", "yes"), ("false", "0", "no")
_OLD_PATHS = ("label.supported", "label")
"""Where the faithfulness label of a file without `labels` is looked for."""


@dataclass(frozen=True)
class Labelled:
    """A line with at least one label; `labels`: part -> whether people say yes."""

    line: Line
    labels: Mapping[str, bool]


def label_paths(options: Sequence[str], known: Collection[str]) -> dict[str, str]:
    """Part -> where its label stands, from `PART=PATH` each. Raises `CommandError`."""
    paths: dict[str, str] = {}
    for option in options:
        part, equals, path = option.partition("=")
        if not (part and equals and path):
            raise CommandError(f"--label {option}: must be PART=PATH, such as --label faithfulness=label.supported")
        _check_part(part, known, f"--label {option}")
        paths[part] = path
    return paths


def labelled(lines: Iterable[Line], paths: Mapping[str, str], known: Collection[str]) -> list[Labelled]:
    """The lines that have a label. `paths` as `label_paths` gives; empty: every part under the line's `labels`, or
    faithfulness under `label.supported` or `label`. `known`: the parts there are.

    Raises `CommandError` for a line that is no JSON object or a label that is neither yes nor no, naming line and
    field.
    """
    found = []
    for number, raw in lines:
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise CommandError(f"line {number}: is not a JSON object, so it has no labels")
        labels = {}
        for part, path in (paths or _own_paths(value, number, known)).items():
            label = _truth(_at(value, path), f"line {number}: {path}")
            if label is not None:
                labels[part] = label
        if labels:
            found.append(Labelled((number, raw), labels))
    return found


def _own_paths(value: Mapping[str, Any], number: int, known: Collection[str]) -> dict[str, str]:
    labels = value.get("labels")
    if labels is None:
        old = value.get("label")
        return {"faithfulness": _OLD_PATHS[0 if isinstance(old, dict) else 1]}
    if not isinstance(labels, dict):
        raise CommandError(f'line {number}: labels must be an object such as {{"faithfulness": true}}')
    for part in labels:
        _check_part(part, known, f"line {number}: labels")
    return {part: f"labels.{part}" for part in labels}


def _check_part(part: str, known: Collection[str], where: str) -> None:
    from glassbox.contract.policy import nearest
    from glassbox.dossier.reasons import printable

    if part not in known:
        raise CommandError(f"{where}: no part is called {printable(part)!r}{nearest(part, known)}")


def _at(value: Any, path: str) -> Any:
    """What stands at a dotted path; a key that is the whole path comes first. None where nothing does."""
    if isinstance(value, dict) and path in value:
        return value[path]
    key, dot, rest = path.partition(".")
    return _at(value[key], rest) if dot and isinstance(value, dict) and key in value else None


def _truth(value: Any, where: str) -> bool | None:
    if value is None or value == "":
        return None
    word = str(value).strip().lower() if isinstance(value, str | int) else ""
    if word not in _YES + _NO:
        raise CommandError(f"{where}: must be true or false (or 1, 0, yes, no)")
    return word in _YES
