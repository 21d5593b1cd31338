import pytest
from pydantic import ValidationError

from judges.llm.errors import retry_after, shape_error, status_error
from judges.llm.schema import Output


@pytest.mark.parametrize(
    ("status", "cause", "final"),
    [
        (301, "unavailable", True),
        (400, "refused", True),
        (401, "unavailable", True),
        (403, "unavailable", True),
        (404, "model_missing", True),
        (408, "unavailable", False),
        (422, "refused", True),
        (429, "rate_limited", False),
        (500, "unavailable", False),
        (503, "unavailable", False),
    ],
)
def test_every_status_has_a_cause(status, cause, final):
    error = status_error(status, {"retry-after": "7"})
    assert (error.cause, error.final) == (cause, final)
    assert error.retry_after_s == (None if final else 7)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3),
        ({"retry-after": " 1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Mon, 01 Jan 2024 00:00:30 GMT", "date": "Mon, 01 Jan 2024 00:00:10 GMT"}, 20),
        ({"retry-after": "Mon, 01 Jan 2024 00:00:00 GMT", "date": "Mon, 01 Jan 2024 00:00:10 GMT"}, 0),
        ({"retry-after": "Mon, 01 Jan 2024 00:00:30 GMT"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "nan"}, None),
        ({"retry-after-ms": "inf"}, None),
    ],
)
def test_retry_after(headers, seconds):
    assert retry_after(headers) == seconds


def test_a_shape_error_names_the_place_and_never_the_value():
    class Thing(Output):
        name: str

    with pytest.raises(ValidationError) as caught:
        Thing.model_validate({"name": 7, "secret-key": "secret-value"})
    first = shape_error(caught.value)
    assert first.cause == "malformed_output"
    assert "name: string_type" in str(first)
    with pytest.raises(ValidationError) as caught:
        Thing.model_validate({"name": "x", "secret-key": "secret-value"})
    assert "secret" not in str(shape_error(caught.value))
