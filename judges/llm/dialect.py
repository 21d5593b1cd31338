"""What of a request an endpoint takes: parameters that some models refuse are sent in another way, or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from judges.lexical import UNKNOWN_SCHEMA

PARAMETERS = ("max_tokens", "temperature", "seed", "response_format", "encoding_format")
"""What can be adapted. `max_tokens` is sent as `max_completion_tokens`; `response_format` as `json_object`, with the
schema in the prompt; the others are left out. A verdict's method names what was adapted."""

_NAMES = {**{name: name for name in PARAMETERS}, "json_schema": "response_format"}
_NAMED = re.compile(rf"(?<![A-Za-z0-9_])({'|'.join(_NAMES)})(?![A-Za-z0-9_])")
_REFUSED = re.compile(
    r"support|unknown|unrecogni[sz]ed|unexpected|invalid parameter|extra|not permitted|not allowed|unavailable"
    r"|cannot find field|not available|should be|keyword",
    re.IGNORECASE,
)
_TOO_MUCH = re.compile(r"too (?:large|big|long|high)|at most|maximum|exceed|less than|greater than", re.IGNORECASE)
_SAID = frozenset(("message", "msg", "detail", "error", "param", "loc", "errors", "type", "code"))
_MOST = 300  # characters of a message that are looked at: a server that repeats the prompt does so after its own words

SCHEMA_IN_PROMPT = "\n\nReturn one JSON object, and nothing else, that this JSON Schema describes:\n"


def refused_parameter(body: bytes) -> str | None:
    """The parameter, one of `PARAMETERS`, that the body of a 400 or 422 says the endpoint does not take; None where it
    names none, or complains about its value."""
    try:
        said = list(_strings(json.loads(body), ""))
    except (ValueError, RecursionError):
        return None
    text = " ".join(text for _, text in said)
    if _TOO_MUCH.search(text):
        return None
    for key, name in said:
        if key == "param" and (named := _NAMED.match(name)):
            return _NAMES[named[1]]
    named = _NAMED.search(text)
    return _NAMES[named[1]] if named and _REFUSED.search(text) else None


def asks_the_offline_model(body: bytes) -> bool:
    """Whether the body of a 400 is the offline model's, asked for an output that it was not made for."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return False
    error = said.get("error") if isinstance(said, dict) else None
    return isinstance(error, dict) and error.get("code") == UNKNOWN_SCHEMA


def _strings(node: Any, key: str) -> Iterator[tuple[str, str]]:
    """(key, text) of what an error says, in whichever of the shapes that servers use."""
    if isinstance(node, str):
        yield key, node[:_MOST]
    elif isinstance(node, list):
        for item in node[:8]:
            yield from _strings(item, key)
    elif isinstance(node, dict):
        for name, item in node.items():
            if name in _SAID:
                yield from _strings(item, name)


def adapt(body: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The request as an endpoint takes it that refuses the parameters `names`."""
    made = {name: value for name, value in body.items() if name not in names}
    if "max_tokens" in names and "max_tokens" in body:
        made["max_completion_tokens"] = body["max_tokens"]
    if "response_format" in names and "response_format" in body:
        made["response_format"] = {"type": "json_object"}
        schema = json.dumps(body["response_format"]["json_schema"]["schema"], ensure_ascii=False)
        first, *others = body["messages"]
        made["messages"] = [{**first, "content": first["content"] + SCHEMA_IN_PROMPT + schema}, *others]
    return made
