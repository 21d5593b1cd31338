"""The OpenAPI document: what FastAPI derives from the routes, with the contract's own schemas in it."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from glassbox.contract.schemas import schemas
from glassbox.gateway.accepting import Rules
from glassbox.gateway.problems import CODES, MEDIA_TYPE, SCHEMA
from glassbox.gateway.shapes import LineOutcome

_PROBLEMS = {
    "submit": (
        *("unauthenticated", "forbidden", "invalid_parameter", "too_busy", "rate_limited"),
        *("failed", "provider_unavailable"),
    ),
    "read": (
        *("unauthenticated", "forbidden", "invalid_parameter", "too_busy", "rate_limited"),
        *("failed", "catalogue_unavailable", "provider_unavailable"),
    ),
    "body": ("slow_body", "id_reused", "too_large", "unsupported_media_type", "contract"),
    "content": ("slow_body", "too_large", "unsupported_media_type", "contract"),
    "broker": ("broker_unavailable",),
    "batch": ("unsupported_media_type", "slow_body"),
    "export": ("malformed", "slow_body", "too_large", "unsupported_media_type"),
    "list": (),
    "one": ("not_found",),
    "proof": ("not_committed", "ledger_unavailable"),
    "evidence": ("not_committed", "no_evidence", "store_unavailable"),
    "case": ("case_exists",),
    "comparison": ("no_comparison",),
    "checkpoint": ("not_found",),
    "events": (),
}


def problems(*about: str) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route: the problems that it may answer with."""
    found: dict[int | str, dict[str, Any]] = {}
    for name in about:
        for code in _PROBLEMS[name]:
            status, title = CODES[code]
            known = found.setdefault(
                status, {"description": "", "content": {MEDIA_TYPE: {"schema": {"$ref": _ref("Problem")}}}}
            )
            known["description"] = "; ".join(filter(None, (known["description"], title)))
    return found


def json_body(model: type[BaseModel]) -> dict[str, Any]:
    """The `openapi_extra` of a route whose JSON body is read as this model."""
    schema = model.model_json_schema()
    inner = _inlined(schema, schema.pop("$defs", {}))
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": inner}}}}


def _inlined(schema: Any, definitions: dict[str, Any]) -> Any:
    """With what it refers to in its place."""
    if isinstance(schema, list):
        return [_inlined(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _inlined(each, definitions) for name, each in schema.items() if name != "$ref"}
    if "$ref" in schema:
        return {**_inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions), **found}
    return found


def document(app: FastAPI, rules: Rules, is_open: bool) -> dict[str, Any]:
    """The whole document, made once."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title,
            version="1",
            summary="Evaluations in, scorecards and proofs out.",
            routes=app.routes,
        )
        _fill(made, rules, is_open)
        app.openapi_schema = made
    return app.openapi_schema


def _fill(made: dict[str, Any], rules: Rules, is_open: bool) -> None:
    parts = made.setdefault("components", {}).setdefault("schemas", {})
    parts["Problem"] = SCHEMA
    parts["LineOutcome"] = LineOutcome.model_json_schema(ref_template=_ref("{model}"))
    _adopt(parts, "EvaluationRequest", "request")
    _adopt(parts, "Record", "record")
    request = parts["EvaluationRequest"]["properties"]
    if not rules.callbacks.offered:
        del request["callback_url"]
    if is_open is False:
        del request["tenant"]
    request["policy"] = {**request["policy"], "anyOf": [{"enum": sorted(rules.policies)}, {"type": "null"}]}
    for name in ("HTTPValidationError", "ValidationError"):
        parts.pop(name, None)
    for path in made["paths"].values():
        for operation in path.values():
            _finish(operation)
    for name in ("Evaluation", "EvaluationStatus"):
        if name in parts:
            card = parts[name]["properties"]
            card["scorecard"] = {"anyOf": [{"$ref": _ref("ScorecardRecord")}, {"type": "null"}]}


def _finish(operation: dict[str, Any]) -> None:
    for callback in operation.get("callbacks", {}).values():
        for address in callback.values():
            address["post"]["responses"].pop("422", None)  # what receivers answer is theirs
    kind = operation.pop("x-body", None)
    if kind == "application/json":
        operation["requestBody"] = {
            "required": True,
            "content": {kind: {"schema": {"$ref": _ref("EvaluationRequest")}}},
        }
    elif kind is not None:
        lines = "One `EvaluationRequest` a line, the answer one `LineOutcome` a line."
        operation["requestBody"] = {
            "required": True,
            "description": lines,
            "content": {kind: {"schema": {"type": "string", "format": "binary"}}},
        }
    derived = operation["responses"].get("422")
    if derived and "application/json" in derived.get("content", {}):
        derived["content"] = {MEDIA_TYPE: {"schema": {"$ref": _ref("Problem")}}}
    for status, response in operation["responses"].items():
        if status in ("429", "503"):
            response["headers"] = {"Retry-After": {"required": True, "schema": {"type": "integer"}}}
        if status == "202":
            response["headers"] = {"Location": {"required": True, "schema": {"type": "string"}}}


def _adopt(parts: dict[str, Any], name: str, file: str) -> None:
    """One of the published schemas, its definitions beside it."""
    text = json.dumps(schemas()[f"{file}.json"]).replace("#/$defs/", _ref(""))
    schema = json.loads(text)
    for inner, definition in schema.pop("$defs", {}).items():
        parts[inner] = definition
    parts[name] = {key: value for key, value in schema.items() if not key.startswith("$")}


def _ref(name: str) -> str:
    return f"#/components/schemas/{name}"
