"""The OpenAPI document is true: schemathesis calls every operation by it, with all of its checks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig

from glassbox.gateway.limits import Limits
from tests.catalogue.stories import announcement, letter, policy, receipt, request
from tests.gateway.parts import RULES, Door, door
from tests.gateway.receiver import offering

pytestmark = pytest.mark.timeout(600)

CONFIG = SchemathesisConfig.from_dict(
    {
        "checks": {
            "positive_data_acceptance": {
                # 422 too: what no schema can say (as many scores as passages, a cursor that was given, `below` with
                # `judge`) is refused with it
                "expected-statuses": ["2xx", "401", "403", "404", "409", "422", "429"]
            }
        }
    }
)


@schemathesis.serializer("application/x-ndjson")
def ndjson(_: schemathesis.SerializationContext, value: Any) -> bytes:
    """A body of lines, as it is."""
    return (
        value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else json.dumps(value).encode()
    )


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A door that asks for keys, with an evaluation in every state."""
    folder: Path = tmp_path_factory.mktemp("openapi")
    rules = replace(RULES, callbacks=offering(folder, tenant="acme"))
    with door(folder, keyed=True, limits=Limits(stream_s=0), rules=rules) as made:
        made.told([policy(), receipt("done"), announcement("judging"), request("accepted"), letter("dead")])
        made.told([request("accepted", at=time.time_ns() // 1_000_000, callback_url="https://hooks.example/")])
        yield made


@pytest.fixture(scope="module")
def key(told: Door) -> str:
    return told.key()


@pytest.fixture(scope="module")
def api(told: Door) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_asgi("/openapi.json", told.app, config=CONFIG)


OPERATIONS = [
    ("POST", "/v1/evaluations"),
    ("POST", "/v1/evaluations:batch"),
    ("GET", "/v1/evaluations"),
    ("GET", "/v1/evaluations/{evaluation_id}"),
    ("GET", "/v1/evaluations/{evaluation_id}/proof"),
    ("GET", "/v1/evaluations/{evaluation_id}/evidence"),
    ("GET", "/v1/statistics"),
    ("POST", "/v1/evaluations/{evaluation_id}/reviews"),
    ("GET", "/v1/reviews"),
    ("POST", "/v1/evaluations/{evaluation_id}/case"),
    ("GET", "/v1/suites"),
    ("GET", "/v1/runs"),
    ("GET", "/v1/runs/{base}/comparison/{candidate}"),
    ("GET", "/v1/agreement"),
    ("GET", "/v1/checkpoint"),
    ("GET", "/v1/events"),
    ("POST", "/v1/traces"),
]


def test_these_are_all_operations(api: schemathesis.BaseSchema) -> None:
    found = {(each.ok().method.upper(), each.ok().path) for each in api.get_all_operations()}
    assert found == set(OPERATIONS)


@pytest.mark.parametrize("mode", GenerationMode)
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_every_operation_is_as_it_is_described(
    api: schemathesis.BaseSchema, key: str, method: str, path: str, mode: GenerationMode
) -> None:
    cases = api[path][method].as_strategy(generation_mode=mode)

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=cases)
    def called(case: schemathesis.Case) -> None:
        case.call_and_validate(headers={"Authorization": f"Bearer {key}"})

    try:
        called()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE, "nothing of this operation can be wrong"


async def test_answers_of_each_state_are_as_they_are_described(told: Door, key: str) -> None:
    """What random ids do not hit."""
    document = told.app.openapi()
    described = {
        "$ref": "#/components/schemas/Evaluation",
        "components": document["components"],
    }
    async with told.client(key) as client:
        for name in ("done", "judging", "accepted", "dead"):
            jsonschema.validate((await client.get(f"/v1/evaluations/{name}")).json(), described)


async def test_the_document_says_what_is_configured(told: Door) -> None:
    async with told.client() as client:
        document = (await client.get("/openapi.json")).json()
    parts = document["components"]
    request_schema = parts["schemas"]["EvaluationRequest"]["properties"]
    assert "callback_url" in request_schema
    assert "tenant" not in request_schema, "the key says it"
    assert "offline" in request_schema["policy"]["anyOf"][0]["enum"]
    assert parts["securitySchemes"]["bearer"]["scheme"] == "bearer"
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert operation["security"] == [{"bearer": []}], path
            assert {"401", "403", "429", "500"} <= operation["responses"].keys(), path
            for status, response in operation["responses"].items():
                if status >= "400":
                    assert list(response["content"]) == ["application/problem+json"], (path, status)
