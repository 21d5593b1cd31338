"""From a body to an acknowledged message of `glassbox.requests`."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from glassbox.contract.canonical import CanonicalError, strict_loads
from glassbox.contract.documents import DocumentRules
from glassbox.contract.request import MAX_BODY, ContractError, EvaluationRequest, keyed_digest, read_request
from glassbox.gateway import metrics
from glassbox.gateway.callbacks.asking import Callbacks
from glassbox.gateway.callers import Caller
from glassbox.gateway.limits import CLOSE
from glassbox.gateway.problems import Problem
from streams import tracing
from streams.ports import TooLarge
from streams.publishing import NotAcknowledged, QueueFull
from streams.topics import REQUESTS, Topic

_REMEMBERED = 10_000
MAX_IDEMPOTENCY_KEY = 255


@dataclass(frozen=True)
class Admitted:
    """A valid request as it goes to the topic. `content`: the keyed digest of what is to be judged. `named_by`: what
    its id comes from, the field or the header."""

    evaluation_id: str
    tenant: str | None
    value: bytes
    content: str
    supersedes: str | None
    named_by: str

    @property
    def headers(self) -> dict[str, str]:
        return {"tenant": self.tenant} if self.tenant is not None else {}


@dataclass(frozen=True)
class Rules:
    """What requests are checked by: the policies' names, which texts they may refer to, the secret under which ids are
    derived, and whom they may have called back."""

    policies: frozenset[str]
    documents: DocumentRules
    id_key: bytes = field(repr=False)
    callbacks: Callbacks = field(default_factory=Callbacks)

    def admit(self, raw: bytes, caller: Caller, idempotency_key: str | None = None) -> Admitted:
        """The request in a body, with the caller's tenant and its id. Raises `Problem`."""
        try:
            value = strict_loads(raw)
            if isinstance(value, dict):
                self._set_tenant(value, caller)
            request = read_request(value, self.policies).request
            self.documents.check(request)
            content = keyed_digest(self.id_key, request.canonical())
        except (ContractError, CanonicalError) as error:
            raise Problem("contract", error.reason, field=error.field or "body") from None
        if request.callback_url is not None:
            self.callbacks.check(request.callback_url, request.tenant)
        name = request.evaluation_id or self._named_by(idempotency_key, request) or content
        value["evaluation_id"] = name
        made = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        if len(made) > MAX_BODY:
            raise Problem("too_large", f"{len(made)} bytes with its id and tenant; at most {MAX_BODY}", field="body")
        by_header = request.evaluation_id is None and idempotency_key is not None
        named_by = "Idempotency-Key" if by_header else "evaluation_id"
        return Admitted(name, request.tenant, made, content, request.supersedes, named_by)

    def _set_tenant(self, value: dict[str, object], caller: Caller) -> None:
        if caller.tenant is None:
            return
        if value.get("tenant") not in (None, caller.tenant):
            raise ContractError("tenant", "is that of the credentials; leave it out")
        value["tenant"] = caller.tenant

    def _named_by(self, idempotency_key: str | None, request: EvaluationRequest) -> str | None:
        if idempotency_key is None:
            return None
        told = json.dumps(["idempotency", request.tenant, idempotency_key]).encode()
        return keyed_digest(self.id_key, told)


Send = Callable[[Topic, bytes, bytes, Mapping[str, str]], Awaitable[None]]
Committed = Callable[[str, str], Awaitable[bool]]
"""Whether a tenant has an evaluation with a record under this id."""


async def deliver(send: Send, topic: Topic, key: bytes, value: bytes, headers: Mapping[str, str]) -> None:
    """Send a message; returns once the broker has it. Raises `Problem`."""
    try:
        await send(topic, key, value, headers)
    except QueueFull:
        raise Problem("too_busy", "as much waits for the broker as may; try again", headers=CLOSE) from None
    except NotAcknowledged as error:
        raise Problem(
            "broker_unavailable",
            f"the request was not accepted: the broker has not acknowledged it ({error}); sending it again is safe",
        ) from None
    except TooLarge:
        raise Problem("too_large", "the broker takes no message of this size", field="body") from None


class Acceptor:
    """Accepted is what the broker has acknowledged, and nothing else."""

    def __init__(self, rules: Rules, send: Send, committed: Committed) -> None:
        self._rules, self._send, self._committed = rules, send, committed
        self._recent: OrderedDict[tuple[str, str], tuple[str, int]] = OrderedDict()

    async def accept(
        self,
        raw: bytes,
        caller: Caller,
        idempotency_key: str | None = None,
        carrier: tracing.Carrier | None = None,
    ) -> Admitted:
        """A request that the broker has. `carrier`: the trace that it belongs to, by default that
        of the work at hand. Raises `Problem`."""
        admitted = self._rules.admit(raw, caller, idempotency_key)
        key = admitted.tenant or "", admitted.evaluation_id
        known = self._recent.get(key)
        if known is not None and known[0] != admitted.content:
            raise Problem("id_reused", "send another content under another name", field=admitted.named_by)
        if admitted.supersedes is not None and not await self._committed(key[0], admitted.supersedes):
            raise Problem("contract", "names no evaluation of yours that has a record", field="supersedes")
        started = time.monotonic()
        headers = {**(tracing.headers() if carrier is None else carrier), **admitted.headers}
        await deliver(self._send, REQUESTS, admitted.evaluation_id.encode(), admitted.value, headers)
        metrics.PRODUCE_SECONDS.observe(time.monotonic() - started)
        metrics.ACCEPTED.inc()
        self._recent[key] = admitted.content, time.time_ns() // 1_000_000
        if len(self._recent) > _REMEMBERED:
            self._recent.popitem(last=False)
        return admitted

    def accepted_at(self, tenant: str, evaluation_id: str) -> int | None:
        """When this process accepted it, ms; the catalogue may be some moments behind. None where it did not, or has
        accepted many since."""
        known = self._recent.get((tenant, evaluation_id))
        return known[1] if known else None
