"""Strict JSON Schemas from pydantic models, in the dialect that OpenAI-compatible servers enforce."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from glassbox.contract.canonical import CanonicalError, strict_loads
from judges.llm.errors import EndpointError, shape_error


class Output(BaseModel):
    """Base of what a model is asked to return: nothing but the named fields, each of exactly its type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


M = TypeVar("M", bound=Output)


@cache
def response_format(schema: type[Output]) -> dict[str, Any]:
    """The `response_format` that makes a server hold its output to `schema`: every property required, no others,
    no defaults. The class's name is the schema's name. The result is shared: do not change it."""
    return {
        "type": "json_schema",
        "json_schema": {"name": schema.__name__, "strict": True, "schema": _strict(schema.model_json_schema())},
    }


def _strict(node: Any, *, names: bool = False) -> Any:
    """`names`: the keys of `node` are the user's own (properties, definitions), not schema keywords."""
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {key: _strict(item) for key, item in node.items()}
    made = {
        key: _strict(item, names=key in ("properties", "$defs"))
        for key, item in node.items()
        if key not in ("default", "title")
    }
    if made.get("type") == "object":
        made |= {"additionalProperties": False, "required": list(made.get("properties", {}))}
    return made


def parse(text: str, schema: type[M]) -> M:
    """The model's output as `schema`. Raises `EndpointError` (malformed_output) for anything else: a Markdown fence or
    prose around it, duplicated keys, numbers that are not finite, missing or extra fields, other types. A model that
    was held to the schema gives none of these, and one that was not may have done worse unseen."""
    try:
        return schema.model_validate(strict_loads(text.encode()))
    except (CanonicalError, UnicodeEncodeError):
        # CanonicalError may name a key that the model chose, so its text stays out.
        raise EndpointError("malformed_output", "the output is not strict JSON") from None
    except ValidationError as error:
        raise shape_error(error) from None
