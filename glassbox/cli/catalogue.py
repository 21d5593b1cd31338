"""`glassbox worker catalogue`: keeps the catalogue; and `glassbox catalogue`: makes it anew from the topics."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from itertools import islice
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from glassbox.catalogue.database import Database
    from glassbox.catalogue.projection import Projection
    from glassbox.gateway.callbacks.sending import Sender
    from glassbox.settings import Settings
    from streams.clients import Broker
    from streams.ports import Record
    from streams.topics import Topic

log = logging.getLogger("glassbox.catalogue")
app = typer.Typer(no_args_is_help=True, help="The catalogue: what readers find scorecards in.")

_BATCH = 500
_AGAIN_S = 1.0
_PRUNE_S = 3600.0


@app.callback()
def _group() -> None:
    """With it the one command is a group of its own."""


@app.command()
def rebuild() -> None:
    """Empty the catalogue and fill it from the topics.

    Scorecards, receipts and dead letters suffice; where requests and results are still there, what is on its way is
    found too.

    `glassbox worker catalogue` may run meanwhile: whatever both write is the same.

    Example: glassbox catalogue rebuild
    """
    from glassbox.catalogue.database import Database
    from glassbox.cli.progress import Progress
    from glassbox.settings import Settings

    settings = Settings.load()
    broker, database, read = settings.broker(), Database(settings.catalogue), 0
    try:
        with Progress("messages read", None) as progress:
            for read in refill(broker, database, projection_of(settings)):
                progress.update(read)
        print(f"{database.place}: made anew from {read} messages")
    finally:
        database.close()


def refill(broker: Broker, database: Database, projection: Projection) -> Iterator[int]:
    """Empty the catalogue and fill it from the topics; yields how many messages have been read."""
    from glassbox.catalogue.writing import forget
    from streams.clients import SURE_QUIET_S, read_all

    database.migrate()
    forget(database, open_only=False)
    read = 0
    for topic in _topics():
        messages = iter(read_all(broker, topic, quiet_s=SURE_QUIET_S))
        while some := list(islice(messages, _BATCH)):
            _write(database, projection, _records(some))
            read += len(some)
            yield read


def projection_of(settings: Settings) -> Projection:
    """How these settings read the topics."""
    from glassbox.catalogue.projection import Projection

    key = settings.id_key()
    return Projection(lambda request: request.derived_id(key), frozenset(settings.policies()))


def sender_of(settings: Settings, database: Database) -> Sender:
    """Who calls back those that asked for it."""
    from glassbox.catalogue.callbacks import CallbackQueue
    from glassbox.catalogue.reading import Catalogue
    from glassbox.gateway.callbacks.keys import CallbackKeyFile, CallbackKeys
    from glassbox.gateway.callbacks.sending import Patience, Sender

    keys, patience = CallbackKeys(CallbackKeyFile(settings.callback_keys_path)), Patience(settings.callback_attempts)
    return Sender(CallbackQueue(database), Catalogue(database), keys, settings.callback_rules(), patience)


async def run_catalogue(settings: Settings) -> int:
    """Take in what comes on the topics, and call back who is due, until SIGTERM."""
    from glassbox.catalogue import metrics
    from glassbox.cli import health
    from streams import tracing
    from streams.access import access
    from streams.admin import check_topics
    from streams.follow import Follower

    broker, needs = settings.broker(), access()["catalogue"]
    for difference in await asyncio.to_thread(check_topics, broker, needs.topics, production=settings.production):
        log.warning("%s", difference)
    for topic in needs.reads:  # a rate cannot see the first of a series that was not there before
        metrics.UNREADABLE.labels(topic=topic.name)
    keeper = Keeper(settings)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with AsyncExitStack() as resources:
        follower: Follower | None = None

        def ready() -> str | None:
            return keeper.trouble or (None if follower and follower.joined else "no partitions are assigned yet")

        await health.serve(settings, "catalogue", lambda: None, ready, resources)
        if not await keeper.patiently(keeper.database.migrate, stop):
            return 0
        follower = Follower(broker, needs.group, needs.reads)
        resources.push_async_callback(asyncio.to_thread, follower.close)
        resources.callback(keeper.database.close)
        calling = asyncio.create_task(sender_of(settings, keeper.database).run(stop))

        async def no_more_calls() -> None:
            stop.set()
            await calling

        resources.push_async_callback(no_more_calls)
        pruned_at = 0.0
        while not stop.is_set():
            if calling.done():
                await calling  # it ends only with an error, which is ours too
            batch = await asyncio.to_thread(follower.read, _BATCH, 0.5)
            if batch:
                with tracing.batch("catalogue", batch):
                    taken = await keeper.patiently(lambda: keeper.take(batch), stop)  # noqa: B023 — awaited here
                if not taken:
                    break  # not committed: to be read again
                await asyncio.to_thread(follower.commit)
            if time.monotonic() - pruned_at > _PRUNE_S and await keeper.patiently(keeper.prune, stop):
                pruned_at = time.monotonic()
    return 0


class Keeper:
    """The one who writes. While the database is away it waits, and says so: its readers wait too, the pipeline does
    not."""

    def __init__(self, settings: Settings) -> None:
        from glassbox.catalogue.database import Database

        self.database = Database(settings.catalogue)
        self._projection = projection_of(settings)
        self._retention = settings.catalogue_retention_days
        self.trouble: str | None = "starting"

    def take(self, batch: Sequence[Record]) -> None:
        _write(self.database, self._projection, batch)

    def prune(self) -> None:
        from glassbox.catalogue.writing import DAY_MS, prune
        from streams.topics import DEAD_LETTERS

        assert DEAD_LETTERS.retention_ms is not None
        kept = self._retention * DAY_MS if self._retention is not None else None
        gone = prune(self.database, time.time_ns() // 1_000_000, kept, DEAD_LETTERS.retention_ms)
        if gone:
            log.info("%d evaluations were older than GLASSBOX_CATALOGUE_RETENTION_DAYS and left the catalogue", gone)

    async def patiently(self, work: Callable[[], object], stop: asyncio.Event) -> bool:
        """Do it, again and again while the database does not answer; False where this is to stop before."""
        from glassbox.catalogue.errors import CatalogueUnavailable

        while not stop.is_set():
            try:
                await asyncio.to_thread(work)
            except CatalogueUnavailable as error:
                if str(error) != self.trouble:
                    log.warning("%s", error)
                self.trouble = str(error)
                try:
                    await asyncio.wait_for(stop.wait(), _AGAIN_S)
                except TimeoutError:
                    continue
            else:
                self.trouble = None
                return True
        return False


def _write(database: Database, projection: Projection, records: Sequence[Record]) -> None:
    """One transaction; where the database refuses what some message says, that message alone is passed over."""
    from glassbox.catalogue.errors import CatalogueRefused
    from glassbox.catalogue.writing import write

    try:
        write(database, projection.changes(records, _pass_over))
    except CatalogueRefused as error:
        if len(records) == 1:
            log.warning("%s", error)
            _pass_over(records[0])
            return
        half = len(records) // 2
        for some in (records[:half], records[half:]):
            _write(database, projection, some)


def _pass_over(record: Record) -> None:
    from glassbox.catalogue import metrics

    metrics.UNREADABLE.labels(topic=record.topic).inc()
    log.warning("passed over: %s/%d/%d says nothing to the catalogue", record.topic, record.partition, record.offset)


def _topics() -> tuple[Topic, ...]:
    from streams.access import access

    return access()["catalogue"].reads


def _records(messages: Iterable[Any]) -> list[Record]:
    from streams.follow import record_of

    return [record_of(message) for message in messages]
