"""Which model is asked, where, and within which limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from judges.lexical import CHAT_MODEL

EMBEDDING_BATCH = 32
"""Texts in one embeddings call: the smallest limit among the servers in use (text-embeddings-inference)."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible endpoint. Its answers depend on `model`, `embedding_model`, `temperature` and
    `max_tokens`; the other fields say only how it is reached.

    `base_url` ends where `/chat/completions` is appended, usually in `/v1`. `concurrency` bounds the calls in
    flight, `call_limit_s` is the time one call may take, in seconds. Raises ValueError for a limit out of range.
    """

    base_url: str
    model: str
    embedding_model: str
    api_key: str = field(repr=False)
    concurrency: int = 64
    call_limit_s: float = 60.0
    temperature: float = 0.0
    max_tokens: int = 2048

    def __post_init__(self) -> None:
        if urlsplit(self.base_url).scheme not in ("http", "https"):
            raise ValueError("base_url: an http or https address such as http://127.0.0.1:8000/v1 is needed")
        for name in ("concurrency", "call_limit_s", "max_tokens"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: must be above 0")
        if not 0 <= self.temperature <= 2:
            raise ValueError("temperature: must be from 0 to 2")

    def parameters(self) -> dict[str, str | int]:
        """What of the settings an answer depends on beside the model, for the method of a verdict."""
        return {"temperature": f"{self.temperature:g}", "max_tokens": self.max_tokens}

    @property
    def family(self) -> str:
        """The method family of what this endpoint judges: `lexical` for the offline model, else `llm`."""
        return "lexical" if self.model == CHAT_MODEL else "llm"


def environment_proxy(base_url: str) -> str | None:
    """The proxy that the environment names for `base_url`, if any; never one for this machine itself."""
    url = urlsplit(base_url)
    host = url.hostname or ""
    if host == "localhost" or _loopback(host) or proxy_bypass(host):
        return None
    proxies = getproxies()
    return proxies.get(url.scheme) or proxies.get("all")


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
