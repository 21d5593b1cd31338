"""What a validator says of a value, as people read it: no name of a class, no expression, nothing of the value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_BY_TYPE = {
    "missing": "is missing",
    "extra_forbidden": "is not known here",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dict_type": "must be an object",
    "list_type": "must be a list",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
}
_DIGEST = "^[0-9a-f]{64}$"


def reason(error: Mapping[str, Any]) -> str:
    """What is wrong, without the field's name. `error`: one of pydantic's `ValidationError.errors()`."""
    kind = error["type"]
    if kind == "string_pattern_mismatch":
        is_digest = error.get("ctx", {}).get("pattern") == _DIGEST
        return "must be 64 hexadecimal digits (0-9, a-f)" if is_digest else "is not of the form that its schema names"
    said = str(error["msg"]).removeprefix("Value error, ")
    return _BY_TYPE.get(kind) or said.replace("Input should be", "must be", 1)
