"""Which parameter an endpoint refuses, from the ways in which servers say so, and the request without it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.llm.dialect import PARAMETERS, adapt, asks_the_offline_model, refused_parameter

REFUSALS = [
    # OpenAI's reasoning models
    (
        {
            "error": {
                "message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use"
                " 'max_completion_tokens' instead.",
                "type": "invalid_request_error",
                "param": "max_tokens",
                "code": "unsupported_parameter",
            }
        },
        "max_tokens",
    ),
    (
        {
            "error": {
                "message": "Unsupported value: 'temperature' does not support 0 with this model.",
                "param": "temperature",
                "code": "unsupported_value",
            }
        },
        "temperature",
    ),
    # OpenAI's older models, DeepSeek
    (
        {
            "error": {
                "message": "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this"
                " model.",
                "param": None,
            }
        },
        "response_format",
    ),
    ({"error": {"message": "This response_format type is unavailable now", "param": None}}, "response_format"),
    # Gemini
    (
        [{"error": {"code": 400, "message": 'Invalid JSON payload received. Unknown name "seed": Cannot find field.'}}],
        "seed",
    ),
    # FastAPI: vLLM, Mistral
    (
        {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]},
        "seed",
    ),
    (
        {"object": "error", "message": "unexpected keyword argument 'encoding_format'", "type": "BadRequest"},
        "encoding_format",
    ),
    ({"error": "json_schema is not supported by this model"}, "response_format"),
    # Complaints about a value, or about something else
    (
        {
            "error": {
                "message": "max_tokens is too large: 60000. This model supports at most 16384.",
                "param": "max_tokens",
            }
        },
        None,
    ),
    ({"error": {"message": "This model's maximum context length is 8192 tokens", "param": "messages"}}, None),
    ({"error": {"message": "content filtered"}}, None),
    ({"error": {"message": "x" * 400 + " seed is not supported"}}, None),
    ({"input": {"messages": "temperature is not supported"}}, None),
    ("seed", None),
]


@pytest.mark.parametrize(
    ("said", "is_offline"),
    [
        ({"error": {"message": "m", "param": "response_format", "code": "unknown_schema"}}, True),
        *((said, False) for said, _ in REFUSALS),
        ({"error": {"code": 400}}, False),
    ],
)
def test_the_offline_model_is_told_by_its_code(said, is_offline):
    assert asks_the_offline_model(json.dumps(said).encode()) is is_offline
    assert not asks_the_offline_model(b"{")


@pytest.mark.parametrize(("said", "parameter"), REFUSALS)
def test_the_refused_parameter_is_read_from_what_servers_say(said, parameter):
    assert refused_parameter(json.dumps(said).encode()) == parameter


@given(st.binary(max_size=200))
def test_any_body_can_be_read(body):
    assert refused_parameter(body) in (None, *PARAMETERS)


BODY = {
    "model": "m",
    "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}],
    "temperature": 0.0,
    "seed": 1,
    "max_tokens": 9,
    "response_format": {"type": "json_schema", "json_schema": {"name": "N", "schema": {"type": "object"}}},
}


def test_a_request_that_nothing_is_refused_of_is_itself():
    assert adapt(BODY, ()) == BODY


def test_a_refused_parameter_is_renamed_or_left_out_or_put_into_the_prompt():
    made = adapt(BODY, PARAMETERS)
    assert made.keys() == {"model", "messages", "max_completion_tokens", "response_format"}
    assert made["max_completion_tokens"] == 9
    assert made["response_format"] == {"type": "json_object"}
    system, user = made["messages"]
    assert system["content"].startswith("S\n")
    assert system["content"].endswith('{"type": "object"}')
    assert user == BODY["messages"][1]
    assert BODY["messages"][0]["content"] == "S"
