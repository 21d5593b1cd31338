"""What a request may ask for: whom it may name, and what its receiver is told (as OpenAPI has it)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import APIRouter, Header
from starlette.responses import Response
from starlette.routing import BaseRoute

from glassbox.gateway.callbacks.addresses import CallbackRules, NotAllowed
from glassbox.gateway.callbacks.keys import CallbackKeys
from glassbox.gateway.callbacks.messages import CallbackMessage
from glassbox.gateway.private_file import KeysError
from glassbox.gateway.problems import Problem

_FIELD = "callback_url"


@dataclass(frozen=True)
class Callbacks:
    """`keys`: by what is signed. As it stands, nobody is called back."""

    rules: CallbackRules = field(default_factory=CallbackRules)
    keys: CallbackKeys | None = None

    @property
    def offered(self) -> bool:
        return bool(self.rules.hosts) and self.keys is not None

    def check(self, url: str, tenant: str | None) -> None:
        """Raises `Problem` for an address that would not be called: better now than when nobody looks any more."""
        if not self.offered or self.keys is None:
            raise Problem("contract", "this gateway calls nobody back; ask for the state", field=_FIELD)
        try:
            self.rules.target(url)
            secrets = self.keys.secrets(tenant)
        except NotAllowed as error:
            raise Problem("contract", str(error), field=_FIELD) from None
        except KeysError:
            raise Problem("failed", "the keys cannot be read; the operator finds the reason in the log") from None
        if not secrets:
            raise Problem("contract", "this tenant has no secret to sign by: ask the operator for one", field=_FIELD)


def described() -> list[BaseRoute]:
    """The callback of a request, for the OpenAPI document."""
    router = APIRouter()

    @router.post("{$request.body#/callback_url}", name="callback", response_class=Response)
    def callback(
        body: CallbackMessage,
        webhook_id: Annotated[str, Header(description="The same whenever the same is sent again.")],
        webhook_timestamp: Annotated[int, Header(description="When this attempt was made, seconds since 1970.")],
        webhook_signature: Annotated[
            str, Header(description="`v1,` and HMAC-SHA256 of `ID.TIMESTAMP.BODY` in base64; of each secret one.")
        ],
    ) -> None:
        """The request has come to its end. Any 2xx takes it in; after anything else it is sent again, except after
        410."""

    return router.routes
