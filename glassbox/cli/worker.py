"""`glassbox worker ROLE`: one role's process, wired from the settings."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassbox import logs
from glassbox.cli import health
from glassbox.cli.errors import AGAIN, UNABLE, explained, say
from glassbox.cli.wiring import own_judges, own_kinds
from glassbox.contract.policy import nearest
from glassbox.contract.verdict import KINDS
from glassbox.settings import Settings, SettingsError
from streams.roles import DOORS, ROLES, roles

if TYPE_CHECKING:
    from judges.port import Case, Judge, Judgement
    from ledger.evidence import EvidenceVault
    from ledger.port import Ledger
    from ledger.store import ObjectStore
    from streams.faust_app import Role
    from streams.reading import Consumer

log = logging.getLogger("glassbox.worker")

STALL_MARGIN_S = 120.0
"""Beyond the longest deadline: nothing acknowledged for so long while something is open means stuck."""


def worker(
    role: Annotated[
        str,
        typer.Argument(
            help=f"One of: {', '.join((*ROLES, *DOORS))}; or the kind of a judge of your own that a policy uses.",
            show_default=False,
        ),
    ],
) -> None:
    """Run one role until SIGTERM, which drains within a few seconds.

    Exit 2 if it cannot run with these settings, 3 if it is to be started again: no broker answered, or what was open
    could not be sent.

    Example: GLASSBOX_BROKER=kafka:9092 glassbox worker grounding
    """
    settings = Settings.load()
    if role not in (*ROLES, *DOORS):
        known = (*roles(own_kinds(settings.policies().values())), *DOORS)
        if role not in known:
            raise typer.BadParameter(f"{role!r} is no role{nearest(role, known)}; roles: {', '.join(known)}")
    logs.configure(settings.log_level, settings.log_format, role=role)
    sys.exit(exit_code(_door(role)(settings) if role in DOORS else RoleProcess(role, settings).run()))


def exit_code(run: Coroutine[Any, Any, int]) -> int:
    """That of a role's process: its own, or 3 with a sentence where no broker answered."""
    from streams.clients import NoBroker

    try:
        return asyncio.run(run)
    except NoBroker as error:
        say(str(error))
        return AGAIN


def _door(role: str) -> Callable[[Settings], Coroutine[Any, Any, int]]:
    if role == "catalogue":
        from glassbox.cli.catalogue import run_catalogue

        return run_catalogue
    from glassbox.cli.gateway import run_gateway

    return run_gateway


class RoleProcess:
    """A role with its ports. What a role waits for (a ledger in use, say) is its `trouble`: alive, but not ready."""

    def __init__(self, role: str, settings: Settings) -> None:
        self.role, self._settings = role, settings
        self._trouble: str | None = "starting"
        self._loading: asyncio.Task[Judge] | None = None

    async def run(self) -> int:
        from judges.registry import QUICK
        from ledger.evidence import EvidenceVault
        from streams.access import access
        from streams.acks import OrderedAcks
        from streams.admin import check_topics
        from streams.faust_app import FaustOutbox, Role, make_app
        from streams.reading import InFlight

        role, settings = self.role, self._settings
        broker, policies = settings.broker(), settings.policies()
        own = own_kinds(policies.values())
        needs = access(own)[role]
        for difference in await asyncio.to_thread(check_topics, broker, needs.topics, production=settings.production):
            log.warning("%s", difference)
        acks, in_flight = OrderedAcks(), InFlight()
        stall_s = max(float(policy.deadline_s) for policy in policies.values()) + STALL_MARGIN_S

        def live() -> str | None:
            if acks.open_tokens() and acks.stalled_s() > stall_s:
                return f"{acks.open_tokens()} messages are open and none was finished for {acks.stalled_s():.0f} s"
            return None

        def ready() -> str | None:
            if self._loading is not None and not self._loading.done():
                return "the judge's libraries are loading"
            return self._trouble or process.waits_for()

        async with AsyncExitStack() as resources:
            await health.serve(settings, role, live, ready, resources)
            vault = EvidenceVault(await self._store())
            resources.push_async_callback(vault.close)
            # a judgement is long: small polls leave the rest to other workers of the kind
            on_models = role == "structure" and (settings.entity_model or settings.relation_model)
            slow = role in (*KINDS, *own) and (role not in QUICK or on_models)
            data_dir = settings.make_data_dir() / "faust"
            most = 16 if slow else 500 if needs.lanes == 1 else 128  # what the queue of a lane has room for
            app = make_app(needs.group, broker, data_dir, max_poll_records=most)
            outbox = FaustOutbox(app, broker.partitions)
            process = Role(app, outbox, needs.works_on, acks, in_flight)
            process.consume(await self._consumer(process, vault, resources))
            self._trouble = None
            return await process.run()

    async def _consumer(self, process: Role, vault: EvidenceVault, resources: AsyncExitStack) -> Consumer:
        from glassbox.cli.stores import documents
        from judges.agreement import with_agreement
        from judges.port import NEEDS
        from judges.run import answer
        from streams import metrics
        from streams.admission import Admission
        from streams.backlog import KafkaBacklog
        from streams.committer import CommitQueue, Committer
        from streams.faust_app import FaustClosedIds, FaustNotes
        from streams.intake import Intake
        from streams.joiner import Join
        from streams.lanes import request_lanes, task_lanes
        from streams.note_files import STARTS, FileNotes
        from streams.reading import JoinConsumer
        from streams.registrations import LoggedRegistrations
        from streams.shares import Shares
        from streams.spending import Gate, KafkaMeter
        from streams.tracing import observed
        from streams.worker import Worker

        settings, acks, in_flight, spawn = self._settings, process.acks, process.in_flight, process.in_flight.spawn
        if self.role == "intake":
            policies = settings.policies()
            own = {kind: entry.needs for kind, entry in own_judges(policies.values()).items()}
            backlog = KafkaBacklog(settings.broker(), dict.fromkeys(k for p in policies.values() for k in p.kinds()))
            resources.push_async_callback(backlog.close)
            resources.callback(asyncio.create_task(backlog.measure()).cancel)
            admission = Admission(backlog)
            needs, rules = {**NEEDS, **own}, settings.documents()
            spending, meter, key = settings.spending(), None, settings.id_key()
            if spending.budget is not None:
                metrics.BUDGET.set(spending.budget.tokens_per_day)
                meter = KafkaMeter(settings.broker())
                resources.push_async_callback(meter.close)
            gate = Gate(spending, key, meter)
            shares = Shares(settings.tenant_rate, settings.tenant_burst, settings.broker().partitions)
            intake = Intake(
                process.outbox, vault, policies, settings.policy, needs, key, admission, shares, rules, gate
            )
            handle = observed("intake", intake.handle, from_producer=True)
            return request_lanes(handle, acks, in_flight, settings.worker_pool)
        if self.role == "join":
            closed = FaustClosedIds(process.app, process.outbox, settings.broker().partitions)
            return JoinConsumer(Join(process.outbox, closed, acks, spawn))
        if self.role == "committer":
            ledger = await self._ledger(resources)
            registrations = LoggedRegistrations(settings.broker())
            committer = Committer(ledger, vault, process.outbox, acks.release, self._hear, registrations.find)
            return CommitQueue(committer, spawn)
        cards = settings.cards()
        # large libraries load while the consumer group forms; no task is answered before
        loading = asyncio.create_task(self.judge(resources))
        self._loading = loading
        loading.add_done_callback(self._loaded)

        async def judged(case: Case) -> Judgement:
            return with_agreement(await answer(await asyncio.shield(loading), case), case, cards)

        handler = Worker(self.role, judged, process.outbox, vault, documents(settings), spending=settings.spending())
        handle, give_up = (observed(f"judge {self.role}", each) for each in (handler.handle, handler.give_up))
        notes = FileNotes(settings.data_dir / STARTS) if settings.broker().embedded else FaustNotes(process.app, acks)
        return task_lanes(self.role, handle, give_up, acks, in_flight, settings.worker_pool, notes)

    def _loaded(self, loading: asyncio.Task[Judge]) -> None:
        error = None if loading.cancelled() else loading.exception()
        if error is not None:
            known = explained(error) if isinstance(error, Exception) else None
            say(known or f"the {self.role} judge cannot start: {type(error).__name__}: {error}")
            os._exit(UNABLE)  # nothing was acknowledged, and no restart would mend it

    async def judge(self, resources: AsyncExitStack) -> Judge:
        """The judge of this worker kind, with its client of the model endpoint where it asks one."""
        from glassbox.cli.wiring import ASKS_A_MODEL, make_judge
        from streams import metrics

        own, client = self.role not in KINDS, None
        if own:
            await asyncio.to_thread(own_judges, self._settings.policies().values(), self.role)
        if own or self.role in ASKS_A_MODEL:
            from judges.llm import EndpointClient

            try:
                client = EndpointClient(self._settings.endpoint(), self._settings.id_key())
                resources.push_async_callback(client.close)
                metrics.watch_endpoint(self.role, client.stats)
            except SettingsError:
                if not (own or self._settings.sentence_model):  # the judge says itself whether it needs the endpoint
                    raise
        judge = await asyncio.to_thread(make_judge, self.role, client, self._settings.models())
        resources.push_async_callback(judge.close)
        return judge

    async def _ledger(self, resources: AsyncExitStack) -> Ledger:
        """The ledger, once it is free. Raises as `open_committer`."""
        from glassbox.cli.ledgers import open_committer

        ledger, anchoring = await open_committer(self._settings, self._hear)
        resources.push_async_callback(ledger.close)
        if anchoring is not None:
            task = asyncio.create_task(anchoring.run())
            resources.callback(task.cancel)
        return ledger

    async def _store(self) -> ObjectStore:
        """The evidence store, once it answers."""
        from glassbox.cli.stores import evidence_store_to_write
        from ledger.port import StoreUnavailable

        while True:
            try:
                return await evidence_store_to_write(self._settings)
            except StoreUnavailable as error:
                self._hear(str(error))
                await asyncio.sleep(1.0)

    def _hear(self, trouble: str | None) -> None:
        if trouble != self._trouble and trouble is not None:
            log.warning("%s", trouble)
        self._trouble = trouble
