"""What people say of scorecards, as the catalogue has it."""

from __future__ import annotations

from typing import Any

from glassbox.catalogue.database import Database
from glassbox.catalogue.reviews import ReviewSpan, Tally
from glassbox.catalogue.writing import DAY_MS, forget, prune
from tests.catalogue.stories import NOW, receipt, review, review_receipt
from tests.catalogue.test_catalogue import told

OTHER = f"{2:064x}"


def test_a_review_is_committed_once_its_receipt_is_there(database: Database) -> None:
    catalogue = told(database, [review_receipt("e")])
    assert catalogue.reviews("acme", "e") == [], "what was said is not known yet"
    catalogue = told(database, [review("e", 1, at=NOW + 200, agrees=False)])
    told(database, [review("e")])
    found = [(row["agrees"], row["committed"], row["created_at"]) for row in catalogue.reviews("acme", "e")]
    assert found == [(True, True, NOW + 100), (False, False, NOW + 200)]
    assert catalogue.reviews("other", "e") == []


def test_the_newest_review_of_a_reviewer_counts(database: Database) -> None:
    wrong: dict[str, Any] = {"agrees": False}
    catalogue = told(
        database,
        [
            *(review("a"), review("a", 1, at=NOW + 200, **wrong), review("a", 2, reviewer=OTHER)),
            *(review("b"), review("b", 1, part="answer_relevancy", met=None)),
            review("a", tenant="other"),
        ],
    )
    one, two, three = catalogue.tallies(ReviewSpan("acme"))
    assert one == Tally("semantic_faithfulness", "answer_relevancy", None, True, "ab" * 32, 1)
    assert {(each.agrees, each.n) for each in (two, three)} == {(True, 2), (False, 1)}
    (before,) = catalogue.tallies(ReviewSpan("acme", NOW + 150, NOW + 201))
    assert (before.agrees, before.n) == (False, 1)
    assert catalogue.tallies(ReviewSpan("acme", until=NOW)) == []
    assert catalogue.reviewed(ReviewSpan("acme"), "", 10) == ["a", "b"]
    assert catalogue.reviewed(ReviewSpan("acme"), "", 1) == ["a"]
    assert catalogue.reviewed(ReviewSpan("acme", NOW + 150), "a", 10) == []


def test_reviews_leave_with_their_evaluation(database: Database) -> None:
    catalogue = told(database, [receipt("e"), review("e"), review_receipt("e"), review("e", 1)])
    forget(database, open_only=True)
    assert len(catalogue.reviews("acme", "e")) == 1, "an embedded log has gone with the other"
    assert prune(database, NOW + 40 * DAY_MS, 30 * DAY_MS, 30 * DAY_MS) == 1
    assert catalogue.reviews("acme", "e") == []
