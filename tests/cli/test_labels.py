"""People's labels: where they are looked for, which words are yes and no, and that nothing else is taken for either."""

import json
from typing import Any

import pytest

from glassbox.cli.errors import CommandError
from glassbox.cli.inputs import Line
from glassbox.cli.labels import label_paths, labelled

KNOWN = ("faithfulness", "entities", "llm_relevance")


def line(**fields: Any) -> Line:
    return 3, json.dumps(fields).encode()


def labels(paths: dict[str, str], **fields: Any) -> dict[str, bool]:
    found = labelled([line(**fields)], paths, KNOWN)
    return dict(found[0].labels) if found else {}


def test_every_part_under_labels() -> None:
    assert labels({}, labels={"faithfulness": True, "entities": False}) == {"faithfulness": True, "entities": False}
    assert labels({}, labels={"faithfulness": None}, label=True) == {}, "labels come first"


@pytest.mark.parametrize("fields", [{"label": {"supported": True}}, {"label": True}, {"label": "yes"}])
def test_an_old_file_labels_faithfulness(fields: dict[str, Any]) -> None:
    assert labels({}, **fields) == {"faithfulness": True}


@pytest.mark.parametrize(
    "fields", [{}, {"label": {}}, {"label": None}, {"labels": {}}, {"label": {"supported": ""}}, {"other": True}]
)
def test_a_line_without_a_label_is_left_out(fields: dict[str, Any]) -> None:
    assert labels({}, **fields) == {}


def test_labels_elsewhere() -> None:
    paths = label_paths(["faithfulness=judged.by.anna", "entities=names ok"], KNOWN)
    fields = {"judged": {"by": {"anna": False}}, "names ok": "1", "labels": {"llm_relevance": True}}
    assert labels(paths, **fields) == {"faithfulness": False, "entities": True}
    assert labels(label_paths(["faithfulness=a.b"], KNOWN), **{"a.b": True, "a": {"b": False}}) == {
        "faithfulness": True
    }
    assert labels(paths, judged="by hand") == {}


@pytest.mark.parametrize("word", [True, 1, "true", "TRUE", "1", "yes", " Yes "])
def test_yes(word: Any) -> None:
    assert labels({}, labels={"entities": word}) == {"entities": True}


@pytest.mark.parametrize("word", [False, 0, "false", "0", "no", "No"])
def test_no(word: Any) -> None:
    assert labels({}, labels={"entities": word}) == {"entities": False}


@pytest.mark.parametrize("word", [2, -1, 0.5, 1.0, "maybe", "y", "partly", [], {}, [True]])
def test_anything_else_names_line_and_field_and_does_not_quote_it(word: Any) -> None:
    with pytest.raises(CommandError) as error:
        labels({}, labels={"entities": word})
    assert str(error.value) == "line 3: labels.entities: must be true or false (or 1, 0, yes, no)"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"labels": {"entitties": True}}, "line 3: labels: no part is called 'entitties'; did you mean 'entities'?"),
        ({"labels": [True]}, "line 3: labels must be an object"),
    ],
)
def test_labels_that_cannot_be_used(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(CommandError) as error:
        labels({}, **fields)
    assert str(error.value).startswith(says)


@pytest.mark.parametrize("raw", [b"[1]", b"{", b"\xff", b"[" * 100_000])
def test_a_line_that_is_no_object(raw: bytes) -> None:
    with pytest.raises(CommandError, match="line 7: is not a JSON object"):
        labelled([(7, raw)], {}, KNOWN)


@pytest.mark.parametrize(
    ("option", "says"),
    [("faithfulness", "must be PART=PATH"), ("=x", "must be PART=PATH"), ("faith=x", "did you mean 'faithfulness'?")],
)
def test_options_that_cannot_be_used(option: str, says: str) -> None:
    with pytest.raises(CommandError) as error:
        label_paths([option], KNOWN)
    assert says in str(error.value)
