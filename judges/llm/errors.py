"""What can go wrong at an endpoint, as one typed error whose text never quotes what was asked or answered."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from pydantic import ValidationError

from judges.port import JudgeError


class EndpointError(JudgeError):
    """A call failed. `retry_after_s`: the wait the endpoint asked for, in seconds; `final`: asking again is useless."""

    def __init__(
        self, cause: str, detail: str = "", *, retry_after_s: float | None = None, final: bool = False
    ) -> None:
        super().__init__(cause, detail)
        self.retry_after_s, self.final = retry_after_s, final


class UnsupportedParameter(EndpointError):
    """The endpoint does not take `parameter` (one of `dialect.PARAMETERS`); without it, it may answer."""

    def __init__(self, status: int, parameter: str) -> None:
        super().__init__("refused", f"HTTP {status}: the endpoint does not take {parameter}", final=True)
        self.parameter = parameter


def status_error(status: int, headers: Mapping[str, str]) -> EndpointError:
    """The typed error of an HTTP status from 300 up. Never reads the body, which may repeat the prompt."""
    match status:
        case 429:
            return EndpointError("rate_limited", "HTTP 429: lower the concurrency", retry_after_s=retry_after(headers))
        case _ if status < 400:
            return EndpointError("unavailable", f"HTTP {status}: the endpoint's base URL has moved", final=True)
        case 401 | 403:
            return EndpointError("unavailable", f"HTTP {status}: check the endpoint's API key", final=True)
        case 404:
            return EndpointError(
                "model_missing", "HTTP 404: check the endpoint's base URL and the model's name", final=True
            )
        case 408 | 409 | 425:
            return EndpointError("unavailable", f"HTTP {status}", retry_after_s=retry_after(headers))
        case _ if status < 500:
            return EndpointError(
                "refused",
                f"HTTP {status}: the endpoint does not take this request (too long, or filtered?)",
                final=True,
            )
        case _:
            return EndpointError("unavailable", f"HTTP {status}", retry_after_s=retry_after(headers))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by `retry-after-ms` or `Retry-After` (RFC 9110 §10.2.3: seconds or a date, here measured from
    the response's own Date); None where neither is there or can be read. Never negative."""
    try:
        if text := headers.get("retry-after-ms"):
            return _wait(float(text) / 1000)
        if text := headers.get("retry-after"):
            if text.strip().replace(".", "", 1).isdigit():
                return _wait(float(text))
            return _wait((parsedate_to_datetime(text) - parsedate_to_datetime(headers["date"])).total_seconds())
    except (ValueError, KeyError, TypeError):
        pass
    return None


def _wait(seconds: float) -> float | None:
    return max(seconds, 0.0) if seconds == seconds and seconds != float("inf") else None


def shape_error(error: ValidationError) -> EndpointError:
    """The model's output does not have the schema's shape; names the place and the rule, never the value."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    known = first["loc"][:-1] if first["type"] == "extra_forbidden" else first["loc"]
    place = ".".join(str(step) for step in known) or "the output"
    return EndpointError("malformed_output", f"{place}: {first['type']}")
