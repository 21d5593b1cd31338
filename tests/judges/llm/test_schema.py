from typing import Literal

import pytest

from judges.llm.errors import EndpointError
from judges.llm.schema import Output, parse, response_format


class Item(Output):
    title: str
    verdict: Literal[0, 1] = 0


class Basket(Output):
    default: list[Item]


def test_a_strict_schema_requires_everything_and_allows_nothing_else():
    sent = response_format(Basket)
    assert sent["json_schema"]["name"] == "Basket"
    assert sent["json_schema"]["strict"] is True
    schema = sent["json_schema"]["schema"]
    assert schema["required"] == ["default"]  # a property of that name is no keyword
    assert schema["additionalProperties"] is False
    item = schema["$defs"]["Item"]
    assert item["required"] == ["title", "verdict"]
    assert item["additionalProperties"] is False
    assert item["properties"]["verdict"] == {"enum": [0, 1], "type": "integer"}
    assert response_format(Basket) is sent


@pytest.mark.parametrize("form", ["{}", "\n{} "])
def test_parse_reads_what_fits(form):
    text = form.replace("{}", '{"default": [{"title": "a ```b", "verdict": 1}]}')
    assert parse(text, Basket).default == [Item(title="a ```b", verdict=1)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I'm sorry.",
        '```json\n{"default": []}\n```',
        'Sure:\n```json\n{"default": []}\n```',
        '```json\n{"default": []}\n```\n```json\n{"default": []}\n```',
        '```json {"default": []}```',
        'Here it is: {"default": []}',
        '{"default": []',
        '{"default": [], "default": []}',
        '{"default": [], "more": 1}',
        "{}",
        "[]",
        "null",
        '{"default": [{"title": "a", "verdict": 2}]}',
        '{"default": [{"title": "a", "verdict": -1}]}',
        '{"default": [{"title": "a", "verdict": "1"}]}',
        '{"default": [{"title": 5, "verdict": 1}]}',
        '{"default": [{"title": "\\ud800", "verdict": 1}]}',
        '{"default": [{"title": "a", "verdict": NaN}]}',
    ],
)
def test_parse_refuses_everything_else(text):
    with pytest.raises(EndpointError) as caught:
        parse(text, Basket)
    assert caught.value.cause == "malformed_output"
