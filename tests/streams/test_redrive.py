"""Rule 24, apart from any broker."""

from __future__ import annotations

import pytest

from glassbox.contract.events import Source
from streams.dead_letters import Reason, bury, headers
from streams.ports import Record
from streams.redrive import MAX_ATTEMPTS, DeadLetter, Note, cases, note_of, obstacle, redriven_headers
from streams.topics import DEAD_LETTERS
from tests.streams.doubles import MemoryOutbox

SOURCE = Source(topic="glassbox.requests", partition=1, offset=7)


def letter(
    offset: int = 0, *, value: bytes | None = b"{}", seen: int = 1_700_000_000_000, **changes: str
) -> DeadLetter:
    made = headers(Reason("contract", "query", "blank"), SOURCE, seen, "e1", None)
    return DeadLetter({**made, **changes}, b"e1", value, 2, offset)


def noted(name: str, action: str, at: str, offset: int = 9) -> DeadLetter:
    note = Note(name, action, at, "ops", "why")  # type: ignore[arg-type]
    return DeadLetter(note.headers(), name.encode(), None, 2, offset)


def test_a_letter_is_open_until_something_was_done_about_it_and_the_first_note_stands() -> None:
    later, first = noted("2/0", "redriven", "2026-01-02"), noted("2/0", "discarded", "2026-01-01", 8)
    (done, open_case) = cases([letter(), letter(1), later, first])
    assert done.note is not None
    assert (done.note.action, done.note.by, done.note.comment) == ("discarded", "ops", "why")
    assert open_case.note is None
    assert "discarded at 2026-01-01" in (obstacle(done) or "")
    assert obstacle(open_case) is None


def test_letters_come_in_the_order_of_being_seen() -> None:
    assert [case.letter.offset for case in cases([letter(5, seen=2), letter(3, seen=1)])] == [3, 5]


def test_a_note_is_no_letter_and_a_letter_no_note() -> None:
    assert note_of(letter().headers) is None
    note = Note("2/0", "redriven", "2026-01-01")
    assert note_of(note.headers()) == note


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (letter(source_topic="glassbox.judge.grounding"), "only requests"),
        (letter(reason="erased"), "no second try"),
        (letter(reason="request_lost"), "no second try"),
        (letter(value=None), "content"),
        (letter(attempt=str(MAX_ATTEMPTS)), "3 times"),
        (letter(attempt="-1"), "3 times"),
        (letter(attempt="9" * 5000), "3 times"),
    ],
)
def test_what_is_never_redriven(case: DeadLetter, why: str) -> None:
    (only,) = cases([case])
    assert why in (obstacle(only) or "")


async def test_a_request_that_dies_again_carries_its_count_and_where_it_first_stood() -> None:
    """The loop guard ends: each round is one letter more, and after the third none is sent."""
    outbox, current, rounds = MemoryOutbox(), letter(), 0
    while obstacle(cases([current])[0]) is None:
        again = {name: text.encode() for name, text in redriven_headers(current).items()}
        await bury(outbox, Record("glassbox.requests", 1, 100 + rounds, b"e1", b"{}", 0, again), Reason("contract"))
        sent = outbox.on(DEAD_LETTERS)[-1]
        current, rounds = DeadLetter(sent.headers, b"e1", sent.value, 2, rounds), rounds + 1
        assert current.headers["original"] == "glassbox.requests/1/7"
    assert rounds == MAX_ATTEMPTS
