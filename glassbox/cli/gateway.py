"""`glassbox worker gateway`: the way in and out over HTTP."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from glassbox.cli import health
from glassbox.cli.errors import CommandError

if TYPE_CHECKING:
    from glassbox.catalogue.database import Database
    from glassbox.gateway.callers import Gatekeeper
    from glassbox.gateway.proofs import Prove
    from glassbox.settings import Settings

log = logging.getLogger("glassbox.gateway")

_LOOK_S = 5.0


async def run_gateway(settings: Settings) -> int:
    """Serve until SIGTERM; every request that was accepted is in the broker by then."""
    from glassbox.catalogue.database import Database
    from glassbox.catalogue.reading import Catalogue
    from glassbox.cli.stores import evidence_store
    from glassbox.dossier.archive import Shelf
    from glassbox.gateway.accepting import Rules
    from glassbox.gateway.app import make_app
    from glassbox.gateway.callbacks.asking import Callbacks
    from glassbox.gateway.callbacks.keys import CallbackKeyFile, CallbackKeys
    from glassbox.gateway.limits import Limits
    from glassbox.gateway.parts import Parts
    from glassbox.gateway.server import Server
    from streams.access import access
    from streams.admin import check_topics
    from streams.publishing import AcknowledgedProducer

    broker, needs = settings.broker(), access()["gateway"]
    gatekeeper = gatekeeper_of(settings)
    for difference in await asyncio.to_thread(check_topics, broker, needs.topics, production=settings.production):
        log.warning("%s", difference)
    limits = Limits(
        settings.gateway_max_bytes, settings.gateway_max_requests, trace_quiet_s=settings.gateway_trace_wait_s
    )
    callbacks = Callbacks(settings.callback_rules(), CallbackKeys(CallbackKeyFile(settings.callback_keys_path)))
    rules = Rules(frozenset(settings.policies()), settings.documents(), settings.id_key(), callbacks)
    async with AsyncExitStack() as resources:
        database = Database(settings.catalogue)
        resources.callback(database.close)
        producer = AcknowledgedProducer(broker)
        resources.push_async_callback(asyncio.to_thread, producer.close)
        shelf = Shelf(evidence_store(settings))
        resources.push_async_callback(shelf.close)
        parts = Parts(
            rules,
            producer.send,
            Catalogue(database),
            shelf,
            gatekeeper,
            limits,
            settings.spending(),
            settings.suites_path,
            settings.runs_path,
            await resources.enter_async_context(_ledger(settings)),
            lambda: server.should_exit,
        )
        who = "anybody on this machine" if gatekeeper.is_open else "who has a key or token"

        def listening(port: int) -> None:
            log.info("the gateway listens on http://%s:%d for %s", settings.gateway_host, port, who)

        app = make_app(parts)
        resources.push_async_callback(app.state.traces.conclude)
        server = Server(app, settings.gateway_host, settings.gateway_port, limits, listening)
        state = State(database)

        def ready() -> str | None:
            if server.should_exit:
                return "stopping"
            if producer.trouble is not None:
                return f"the broker does not acknowledge: {producer.trouble}"
            return state.trouble or (None if server.started else "starting")

        await health.serve(settings, "gateway", lambda: None, ready, resources)
        looking = asyncio.create_task(state.look())
        resources.callback(looking.cancel)
        for number in (signal.SIGTERM, signal.SIGINT):
            # uvicorn's own handlers stand while it serves; it then raises the signal again, which must not end this
            # process before what is on its way to the broker is there
            signal.signal(number, lambda *_: None)
        try:
            await server.serve()
        except SystemExit:  # uvicorn's way to say that it cannot listen
            raise CommandError(
                f"{settings.gateway_host}:{settings.gateway_port} cannot be listened on; set GLASSBOX_GATEWAY_HOST and "
                "GLASSBOX_GATEWAY_PORT to an address that is free"
            ) from None
    return 0


def gatekeeper_of(settings: Settings) -> Gatekeeper:
    """Who is let in. Raises `CommandError` where nobody is asked and other machines could come."""
    from glassbox.gateway.callers import Gatekeeper
    from glassbox.gateway.keys import KeyFile, KeyRing
    from glassbox.gateway.oidc import Provider, TokenVerifier

    file, tokens = KeyFile(settings.api_keys_path), None
    if settings.oidc_issuer is not None and settings.oidc_audience is not None:
        tokens = TokenVerifier(
            Provider(
                settings.oidc_issuer,
                settings.oidc_audience,
                settings.oidc_jwks_url,
                settings.oidc_tenant_claim,
                settings.oidc_scope_claim,
            )
        )
    # a file that is named or was made is asked, also when its last key is gone
    gatekeeper = Gatekeeper(KeyRing(file, required=settings.api_keys_file is not None), tokens)
    if gatekeeper.is_open and not is_loopback(settings.gateway_host):
        raise CommandError(
            f"GLASSBOX_GATEWAY_HOST is {settings.gateway_host}, which other machines reach, and nobody would be asked "
            "who they are: make a key with `glassbox keys create`, or set GLASSBOX_OIDC_ISSUER and "
            "GLASSBOX_OIDC_AUDIENCE, or listen on 127.0.0.1"
        )
    file.read()  # a damaged file is told now
    return gatekeeper


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@asynccontextmanager
async def _ledger(settings: Settings) -> AsyncIterator[Prove | None]:
    """Proofs from the ledger itself, where the published receipts are not Merkle's, which are whole."""
    if settings.ledgers[0] == "merkle":
        yield None
        return
    from glassbox.cli.ledgers import open_reader

    ledger = open_reader(settings)
    try:
        yield ledger.prove
    finally:
        await ledger.close()


class State:
    """Whether the catalogue can be read: it is made by `glassbox worker catalogue`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.trouble: str | None = "starting"

    async def look(self) -> None:
        from glassbox.catalogue.errors import CatalogueUnavailable

        while True:
            try:
                current = await asyncio.to_thread(self._database.is_current)
                trouble = None if current else "the catalogue's tables are not there yet: `glassbox worker catalogue`"
            except CatalogueUnavailable as error:
                trouble = str(error)
            if trouble not in (None, self.trouble):
                log.warning("%s", trouble)
            self.trouble = trouble
            await asyncio.sleep(_LOOK_S if trouble is None else 0.5)
