"""Who is called back, by what the topics said; on both databases."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import delete, insert

from glassbox.catalogue import schema
from glassbox.catalogue.callbacks import COMMITTED, DEAD_LETTER, CallbackQueue, Due, rows_of, settle
from glassbox.catalogue.database import Database
from glassbox.catalogue.reading import Catalogue
from glassbox.catalogue.writing import DAY_MS, forget, prune, write
from streams.ports import Record
from streams.topics import SCORECARDS
from tests.catalogue.stories import PROJECTION, letter, receipt, request

NOW = time.time_ns() // 1_000_000
URL = "https://user:pass@hooks.example.com:8443/take?token=secret"


@pytest.fixture
def queue(database: Database) -> Iterator[CallbackQueue]:
    yield CallbackQueue(database)
    with database.writing() as connection:
        connection.execute(delete(schema.callbacks))


def told(database: Database, *records: Record) -> None:
    write(database, PROJECTION.changes(records))


def asked(name: str, offset: int = 1, url: str = URL, tenant: str = "acme", at: int = NOW) -> Record:
    return request(name, tenant, at, callback_url=url, offset=offset)


def refused(name: str, offset: int, tenant: str = "acme", number: int = 0) -> Record:
    made = letter(name, tenant=tenant, offset=number)
    where: Mapping[str, bytes] = {"source_partition": b"0", "source_offset": str(offset).encode()}
    return replace(made, headers={**made.headers, **where})


def taken(queue: CallbackQueue, now: int | None = None, limit: int = 100, busy: tuple[str, ...] = ()) -> list[Due]:
    return queue.take(now or time.time_ns() // 1_000_000, limit, busy, per_host=3)


def states(database: Database, name: str, tenant: str = "acme") -> list[dict[str, Any]]:
    found = Catalogue(database).detail(tenant, name)
    assert found is not None
    return [dict(row) for row in found.callbacks]


def test_who_asked_is_told_of_the_record_once_it_is_there(database: Database, queue: CallbackQueue) -> None:
    told(database, asked("e"))
    assert queue.pending() == (0, None)
    told(database, receipt("e", tenant="other"))
    assert taken(queue) == [], "another tenant's evaluation"
    told(database, receipt("e"))
    (due,) = taken(queue)
    assert (due.tenant, due.evaluation_id, due.url, due.event) == ("acme", "e", URL, COMMITTED)
    assert (due.host, due.attempts) == ("hooks.example.com:8443", 1)
    queue.end(due, "200", delivered=True)
    told(database, asked("e"), receipt("e"))  # read again
    assert queue.pending() == (0, None)
    (row,) = states(database, "e")
    assert (row["delivered"], row["result"], row["due_at"]) == (True, "200", None)


@pytest.mark.parametrize("seed", range(4))
def test_each_request_is_told_its_own_end_in_any_order(database: Database, queue: CallbackQueue, seed: int) -> None:
    story = [
        *(asked("e", 1), asked("e", 2, "https://b/"), asked("e", 3, "https://c/"), receipt("e")),
        *(refused("e", 3), refused("other", 4, "b", 1), asked("other", 4, "https://b/", "b"), receipt("other")),
        *(letter("card", topic=SCORECARDS, offset=2), asked("card", 5), asked("open", 6)),
    ]
    random.Random(seed).shuffle(story)
    for one in story:
        told(database, one)
    found = sorted((due.evaluation_id, due.tenant, due.url, due.event) for due in taken(queue))
    assert found == [
        ("card", "acme", URL, DEAD_LETTER),
        ("e", "acme", "https://b/", COMMITTED),
        ("e", "acme", "https://c/", DEAD_LETTER),
        ("e", "acme", URL, COMMITTED),
        ("other", "b", "https://b/", DEAD_LETTER),
    ]
    assert [row["event"] for row in states(database, "open")] == [None]


def test_a_refusal_that_is_found_late_is_told_after_the_record(database: Database, queue: CallbackQueue) -> None:
    told(database, receipt("e"), asked("e", 9))
    (due,) = taken(queue)
    told(database, refused("e", 9))
    queue.end(due, "200", delivered=True)  # of the word before, which is not this one
    (again,) = taken(queue)
    assert (due.event, again.event, again.attempts) == (COMMITTED, DEAD_LETTER, 1)


def test_what_was_taken_and_not_ended_is_anybodys_again(database: Database, queue: CallbackQueue) -> None:
    told(database, asked("e"), receipt("e"))
    (first,) = taken(queue)
    assert taken(queue) == []
    (second,) = taken(queue, first.due_at)
    assert (second.key, second.attempts) == (first.key, 2)
    queue.end(first, "timeout", delivered=False)  # too late: it is another's
    assert queue.pending() == (1, second.due_at)
    queue.put_off(second, "503", second.due_at + 5000)
    assert queue.pending() == (1, second.due_at + 5000)


def test_one_host_leaves_room_for_others(database: Database, queue: CallbackQueue) -> None:
    slow = [record for n in range(20) for record in (asked(f"s{n}", n, "https://slow/"), receipt(f"s{n}"))]
    told(database, *slow, asked("q", 50, "https://quick/"), receipt("q"))
    first = taken(queue, limit=4)
    assert [due.host for due in first].count("slow") == 3
    second = taken(queue, limit=4, busy=("slow",) * 3)
    assert {due.host for due in first + second} == {"slow", "quick"}
    assert len(first + second) == 4


def test_two_processes_take_different_ones(database: Database, queue: CallbackQueue) -> None:
    told(database, *(each for n in range(6) for each in (asked(f"e{n}", n, f"https://h{n}/"), receipt(f"e{n}"))))
    other = CallbackQueue(database)
    found = [due.key for _ in range(3) for each in (queue, other) for due in taken(each, limit=1)]
    assert len(found) == len(set(found)) == 6


def test_a_catalogue_that_is_made_anew_tells_nobody_twice(database: Database, queue: CallbackQueue) -> None:
    story = [asked("done"), receipt("done"), asked("due", 2), receipt("due"), asked("old", 3, at=NOW - 9 * DAY_MS)]
    told(database, *story, receipt("old"))
    for due in taken(queue):
        if due.evaluation_id == "done":
            queue.end(due, "200", delivered=True)
    forget(database, open_only=False)
    told(database, *story)
    assert queue.pending()[0] == 1
    assert prune(database, NOW + 9 * DAY_MS, None, DAY_MS) == 0
    assert (len(states(database, "done")), len(states(database, "due"))) == (0, 1)


def test_a_log_that_is_gone_takes_with_it_who_waits_and_not_who_is_due(
    database: Database, queue: CallbackQueue
) -> None:
    told(database, asked("open"), asked("done", 2), receipt("done"))
    forget(database, open_only=True)
    assert queue.pending()[0] == 1
    told(database, asked("open", 1, at=NOW + 5), receipt("open"))  # at the same place on the new log
    assert queue.pending()[0] == 2


def test_no_secret_of_an_address_is_a_host(database: Database, queue: CallbackQueue) -> None:
    for offset, url in enumerate(("https://[::1", "nonsense", "https://h:99999/", URL)):
        told(database, asked("e", offset, url), receipt("e"))
    assert {row["host"] for row in states(database, "e")} == {"", "hooks.example.com:8443"}


def test_a_request_and_its_end_that_come_at_the_same_moment_meet(database: Database, queue: CallbackQueue) -> None:
    """Neither transaction sees what the other has not committed."""
    came = PROJECTION.changes([asked("e")])
    with ThreadPoolExecutor(1) as other:
        with database.writing() as connection:
            (row,) = rows_of(came.callbacks, 0)
            connection.execute(insert(schema.callbacks).values(row))
            settle(connection, [("acme", "e")], NOW)
            writing = other.submit(told, database, receipt("e"))
            wait([writing], timeout=1)  # where nothing held it back it would be through by now
        writing.result()
    assert queue.pending()[0] == 1
