"""`POST /v1/traces`, as OpenAPI describes it."""

from typing import Annotated, Any

from fastapi import Depends, FastAPI
from starlette.requests import Request
from starlette.responses import Response

from glassbox.gateway.callers import Caller, Gatekeeper
from glassbox.gateway.openapi import problems
from glassbox.gateway.otlp.decoding import JSON, PROTOBUF
from glassbox.gateway.otlp.door import TracesDoor

PATH = "/v1/traces"

_SPEC = "https://opentelemetry.io/docs/specs/otlp/"
_REQUEST: dict[str, Any] = {
    "type": "object",
    "properties": {"resourceSpans": {"type": ["array", "null"], "items": {"type": "object"}}},
    "externalDocs": {"description": "ExportTraceServiceRequest", "url": _SPEC},
}
_RESPONSE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "partialSuccess": {
            "type": "object",
            "properties": {
                "rejectedSpans": {"type": "string", "pattern": "^[0-9]+$"},
                "errorMessage": {"type": "string", "description": "Which traces were not judged, and what they lack."},
            },
            "additionalProperties": False,
        }
    },
    "additionalProperties": False,
    "externalDocs": {"description": "ExportTraceServiceResponse", "url": _SPEC},
}
_BINARY = {"type": "string", "format": "binary"}


def add_traces(app: FastAPI, door: TracesDoor, gate: Gatekeeper) -> None:
    """Serve the door for OpenTelemetry's exporters."""

    @app.post(
        PATH,
        response_class=Response,
        responses={
            200: {"content": {PROTOBUF: {"schema": _BINARY}, JSON: {"schema": _RESPONSE}}},
            **problems("submit", "export", "broker"),
        },
        openapi_extra={
            "requestBody": {
                "required": True,
                "description": "Spans, as they are or with `Content-Encoding: gzip`; up to 8 MiB when inflated.",
                "content": {PROTOBUF: {"schema": _BINARY}, JSON: {"schema": _REQUEST}},
            }
        },
    )
    async def traces(request: Request, caller: Annotated[Caller, Depends(gate.needs("submit"))]) -> Response:
        """Take spans by OTLP: each trace that holds an answer becomes an evaluation request. 200 means that the broker
        has those of the traces that were whole; of others more is waited for."""
        return await door.answer(request, caller)
