"""Which of our requests have been answered: by receipt, by dead letter, in any order of arrival."""

from hypothesis import given
from hypothesis import strategies as st

from glassbox.cli.tracking import Tracker


def record(evaluation_id: str, outcome: str = "pass") -> dict[str, str]:
    return {"evaluation_id": evaluation_id, "outcome": outcome, "trust": "0.900000"}


def test_a_receipt_answers_every_line_of_its_id_and_nobody_elses() -> None:
    tracker = Tracker()
    tracker.sent(1, "a", 10.0)
    tracker.sent(2, "b", 10.0)
    tracker.sent(3, "a", 11.0)
    assert tracker.receipt("z", record("z"), 12.0) == []
    answers = tracker.receipt("a", record("a"), 12.0)
    assert [(answer.line, answer.seconds, answer.outcome) for answer in answers] == [(1, 2.0, "pass"), (3, 1.0, "pass")]
    assert tracker.receipt("a", record("a"), 13.0) == [], "a repeated receipt answers nothing twice"
    assert tracker.unanswered() == [2]


def test_a_dead_letter_is_matched_by_position_whichever_comes_first() -> None:
    tracker = Tracker()
    tracker.sent(1, None, 0.0)
    tracker.sent(2, None, 0.0)
    tracker.delivered(1, (0, 7))
    assert [a.line for a in tracker.dead((0, 7), {"reason": "contract"}, 1.0)] == [1]
    assert tracker.dead((3, 9), {"reason": "contract"}, 2.0) == [], "not known to be ours yet"
    tracker.delivered(2, (3, 9))
    assert tracker.pending == 0
    assert tracker.answers[2].dead == {"reason": "contract"}


def test_one_id_with_two_contents_has_a_receipt_and_a_dead_letter() -> None:
    tracker = Tracker()
    for line, position in ((1, (0, 0)), (2, (0, 1))):
        tracker.sent(line, "a", 0.0)
        tracker.delivered(line, position)
    tracker.dead((0, 1), {"reason": "id_reused"}, 1.0)
    tracker.receipt("a", record("a"), 2.0)
    assert {line: answer.outcome for line, answer in tracker.answers.items()} == {1: "pass", 2: "dead_letter"}


def test_summary_of_nothing_and_of_something() -> None:
    assert Tracker().summary()["p50_s"] is None
    tracker = Tracker()
    for line in range(100):
        tracker.sent(line, str(line), 0.0)
        tracker.receipt(str(line), record(str(line)), float(line + 1))
    summary = tracker.summary()
    assert (summary["p50_s"], summary["p99_s"], summary["seconds"], summary["per_second"]) == (50.0, 99.0, 100.0, 1.0)
    assert summary["outcomes"] == {"pass": 100}


@given(st.permutations([("receipt", 1), ("receipt", 2), ("dead", 3), ("delivered", 3), ("dead", 4), ("delivered", 4)]))
def test_the_order_of_arrival_does_not_matter(events: list[tuple[str, int]]) -> None:
    tracker = Tracker()
    for line in (1, 2):
        tracker.sent(line, f"e{line}", 0.0)
    for line in (3, 4):
        tracker.sent(line, None, 0.0)
    for what, line in events:
        if what == "receipt":
            tracker.receipt(f"e{line}", record(f"e{line}"), 1.0)
        elif what == "dead":
            tracker.dead((0, line), {}, 1.0)
        else:
            tracker.delivered(line, (0, line))
    assert tracker.pending == 0
