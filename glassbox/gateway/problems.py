"""Errors over HTTP as RFC 9457 has them: `application/problem+json`, with a code that programs can rely on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from glassbox.contract.reasons import reason
from glassbox.gateway import metrics
from glassbox.gateway.forms import SENTENCES

MEDIA_TYPE = "application/problem+json"

CODES: dict[str, tuple[int, str]] = {
    "malformed": (400, "The request cannot be read"),
    "unauthenticated": (401, "No valid credentials"),
    "forbidden": (403, "Not allowed to these credentials"),
    "not_found": (404, "Nothing is known under this name"),
    "no_evidence": (404, "The texts of this evaluation are not here"),
    "method_not_allowed": (405, "This address does not take that method"),
    "slow_body": (408, "The body came too slowly"),
    "id_reused": (409, "This id was used before, for another content"),
    "not_committed": (409, "There is no record yet"),
    "case_exists": (409, "The suite has this case, with another expectation"),
    "no_comparison": (409, "These runs cannot be compared"),
    "too_large": (413, "The body is too large"),
    "unsupported_media_type": (415, "The body is of another type"),
    "contract": (422, "The request breaks the contract"),
    "invalid_parameter": (422, "A parameter cannot be used"),
    "too_busy": (429, "Too many requests at once"),
    "rate_limited": (429, "This key has used up its rate"),
    "failed": (500, "The gateway failed"),
    "broker_unavailable": (503, "The broker does not take requests"),
    "catalogue_unavailable": (503, "The catalogue does not answer"),
    "provider_unavailable": (503, "The identity provider does not answer"),
    "ledger_unavailable": (503, "The ledger does not answer"),
    "store_unavailable": (503, "The evidence store does not answer"),
}
"""Code -> status and title. `type` is `urn:glassbox:problem:CODE`."""
for _code in CODES:  # a rate cannot see the first of a series that was not there before
    metrics.REJECTED.labels(reason=_code)

RETRY_AFTER_S = 5


def sentence(error: Mapping[str, Any]) -> str:
    """What is wrong with a parameter or a field of a body. `error`: one of pydantic's `errors()`."""
    return SENTENCES.get(error.get("ctx", {}).get("pattern", "")) or reason(error)


class Problem(Exception):
    """What is wrong, for the client. `detail` never quotes what a request says; `field`: the path that is wrong."""

    def __init__(self, code: str, detail: str, *, field: str = "", headers: Mapping[str, str] | None = None) -> None:
        self.code, self.detail, self.field = code, detail, field
        self.status, self.title = CODES[code]
        self.headers = dict(headers or {})
        if self.status in (429, 503):
            self.headers.setdefault("Retry-After", str(RETRY_AFTER_S if self.status == 503 else 1))
        if self.status == 401:
            self.headers.setdefault("WWW-Authenticate", "Bearer")
        super().__init__(detail)

    def body(self) -> dict[str, Any]:
        """The members of the problem."""
        named = {
            "type": f"urn:glassbox:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "field": self.field,
        }
        return {name: value for name, value in named.items() if value != ""}

    def response(self) -> Response:
        """The answer, counted among what was not accepted."""
        metrics.REJECTED.labels(reason=self.code).inc()
        content = json.dumps(self.body(), ensure_ascii=False).encode("utf-8", "replace")
        return Response(content, self.status, self.headers, MEDIA_TYPE)


def of_status(status: int, headers: Mapping[str, str] | None) -> Problem:
    """The problem for a status that the web framework came to by itself."""
    for code, (its, title) in CODES.items():
        if its == status:
            return Problem(code, f"{title}.", headers=headers)
    made = Problem("malformed", f"{HTTPStatus(status).phrase}.", headers=headers)
    made.status = status
    return made


SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "enum": [f"urn:glassbox:problem:{code}" for code in CODES]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong and what to do; never quotes the evaluation."},
        "field": {"type": "string", "description": "The path in the request that is wrong."},
    },
    "additionalProperties": False,
}
"""JSON Schema of a problem."""
