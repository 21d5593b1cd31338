from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streams.acks import LOST_S, Continuity, OrderedAcks, Token


class Log:
    """One partition read by one consumer: remembers what the transport was told to acknowledge."""

    def __init__(self, generation: int = 1) -> None:
        self.acks = OrderedAcks()
        self.acks.assign(generation)
        self.acknowledged: list[int] = []

    def take(self, offset: int, generation: int = 1) -> Token | None:
        return self.acks.take("topic", 0, offset, generation, lambda: self.acknowledged.append(offset))

    @property
    def position(self) -> int | None:
        return self.acks.positions().get(("topic", 0))


@given(st.permutations(range(12)), st.integers(0, 12))
def test_a_position_never_passes_open_work(order: list[int], done: int) -> None:
    log = Log()
    tokens = [log.take(offset) for offset in range(12)]
    finished: set[int] = set()
    for offset in order[:done]:
        token = tokens[offset]
        assert token is not None
        log.acks.release(token)
        finished.add(offset)
        prefix = next(n for n in range(13) if n not in finished)
        assert log.acknowledged == list(range(prefix))
        assert log.position == (prefix or None)
    assert log.acks.open_tokens() == 12 - len(log.acknowledged)


def test_partitions_do_not_wait_for_each_other() -> None:
    acks = OrderedAcks()
    acks.assign(1)
    slow = acks.take("topic", 0, 7, 1, lambda: None)
    quick = acks.take("topic", 1, 3, 1, lambda: None)
    assert slow is not None
    assert quick is not None
    acks.release(quick)
    assert acks.positions() == {("topic", 1): 4}


def test_while_partitions_are_given_up_nothing_more_is_taken_and_what_ends_counts() -> None:
    log = Log()
    token = log.take(0)
    assert token is not None
    log.acks.close()
    assert token.live()
    assert not token.may_begin()
    assert log.take(1) is None
    log.acks.release(token)
    assert log.position == 1
    log.acks.assign(2)
    assert log.take(1, generation=2) is not None


def test_tokens_of_an_ended_assignment_change_nothing() -> None:
    log = Log()
    token = log.take(0)
    assert token is not None
    assert token.live()
    log.acks.revoke()
    assert not token.live()
    log.acks.release(token)
    assert (log.acknowledged, log.position, log.acks.open_tokens()) == ([], None, 0)


def test_an_event_fetched_by_an_older_assignment_gets_no_token() -> None:
    log = Log(generation=5)
    assert log.take(0, generation=4) is None
    log.acks.revoke()
    assert log.take(0, generation=5) is None  # between two assignments
    log.acks.assign(6)
    assert log.take(0, generation=5) is None
    assert log.take(0, generation=6) is not None


def test_the_first_event_of_a_new_assignment_may_come_before_its_announcement() -> None:
    log = Log(generation=5)
    log.acks.revoke()
    token = log.take(0, generation=6)
    log.acks.assign(6)
    assert token is not None
    assert token.live()


def test_releasing_twice_counts_once() -> None:
    log = Log()
    first, second = log.take(0), log.take(1)
    assert first is not None
    assert second is not None
    log.acks.release(first)
    log.acks.release(first)
    assert log.acknowledged == [0]
    log.acks.release(second)
    assert log.acknowledged == [0, 1]
    assert log.acks.released == 2


@given(st.integers(0, 50), st.lists(st.integers(1, 3), max_size=20))
def test_a_gap_is_seen_wherever_it_is(committed: int, steps: list[int]) -> None:
    """Events come with these steps from the committed one on: a step above 1 leaves something out."""
    continuity, expected, offset = Continuity(), committed, committed - 1
    for step in steps:
        offset += step
        missing = continuity.first_missing(("results", 0), offset, 1, committed)
        assert missing == (expected if offset > expected else None)
        expected = offset + 1


def test_each_assignment_begins_where_the_group_stands() -> None:
    continuity, where = Continuity(), ("results", 0)
    assert continuity.first_missing(where, 7, 1, None) is None, "a group without a position begins anywhere"
    assert continuity.first_missing(where, 8, 1, None) is None
    assert continuity.first_missing(where, 7, 1, None) is None, "what comes again is not a gap"
    assert continuity.first_missing(where, 9, 1, None) is None
    assert continuity.first_missing(where, 4, 2, 4) is None
    assert continuity.first_missing(where, 12, 3, 5) == 5
    assert continuity.first_missing(("results", 1), 0, 3, None) is None


def test_the_last_events_of_a_partition_are_missed_after_a_while() -> None:
    continuity, where, other = Continuity(), ("results", 0), ("results", 1)
    assert continuity.never_came({where: 9}, 1, {}, 0.0) is None, "a group without a position begins anywhere"
    assert continuity.never_came({where: 9}, 1, {}, LOST_S) is None

    continuity.first_missing(where, 4, 1, 4)
    read = {where: 7, other: 3}
    assert continuity.never_came(read, 1, {where: 4, other: 3}, 10.0) is None
    assert continuity.never_came(read, 1, {where: 4, other: 3}, 10.0 + LOST_S) == (where, 5)

    continuity.first_missing(where, 5, 1, 4)
    assert continuity.never_came(read, 1, {where: 4, other: 3}, 20.0) is None, "one has come: it goes on"
    assert continuity.never_came({}, 1, {where: 4, other: 3}, 19.0 + LOST_S) is None, "something is on its way"
    assert continuity.never_came(read, 1, {where: 4, other: 3}, 21.0 + LOST_S) is None
    assert continuity.never_came(read, 2, {where: 7, other: 2}, 40.0) is None, "an assignment begins anew"
    assert continuity.never_came(read, 2, {where: 7, other: 2}, 40.0 + LOST_S) == (other, 2)
