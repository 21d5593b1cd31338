"""One suite for both databases: what the topics said, as readers find it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Select, select, text

from glassbox.catalogue import schema
from glassbox.catalogue.database import Database
from glassbox.catalogue.errors import CatalogueError
from glassbox.catalogue.projection import Unreadable, known_path
from glassbox.catalogue.reading import Catalogue, CursorError, Detail, Filter, page_statement
from glassbox.catalogue.states import Changes
from glassbox.catalogue.writing import DAY_MS, forget, prune, write
from streams.ports import Record
from streams.topics import RESULTS, SCORECARDS
from tests.catalogue.stories import (
    NOW,
    POLICY,
    PROJECTION,
    SECRET,
    announcement,
    card,
    judged,
    letter,
    message,
    note,
    policy,
    receipt,
    record,
    request,
    review,
    review_receipt,
)

STORY: list[Record] = [
    policy(),
    *(request("done"), announcement("done"), judged("done", "grounding"), card("done"), receipt("done")),
    receipt("done", at=NOW + 70, size=9),  # of a repeated request
    card("done", at=NOW + 29, faithfulness="0.500000"),  # another card of the id: the receipt decides
    *(request("done", tenant="other", offset=1), letter("done", tenant="other", offset=1)),
    *(request("open", at=NOW + 1, offset=2), announcement("open"), judged("open", "grounding", failed=True)),
    *(judged("open", "structure", run="run-0", failed=True), announcement("open", at=NOW + 15, intake_run="run-2")),
    *(request("waiting", tenant=None, offset=3), request("refused", offset=4)),
    *(letter("refused", "contract", offset=2, field="metadata.the patient", detail="must be text"), note(1)),
    *(letter("task", "bad_task", topic=SCORECARDS, offset=3), card("scored", tenant=None)),
    *(review("done"), review_receipt("done"), review("done", 1, agrees=False), review_receipt("done", 2)),
    review("done", 1, at=NOW + 101),  # another entry with this digest: the first stands
]


def told(database: Database, records: Sequence[Record]) -> Catalogue:
    write(database, PROJECTION.changes(records))
    return Catalogue(database)


def rows(database: Database) -> dict[str, Any]:
    """What stands in every table; of the feed, which evaluations."""
    with database.reading() as connection:
        found = {
            table.name: sorted(map(repr, connection.execute(select(table)))) for table in schema.metadata.sorted_tables
        }
        found["feed"] = sorted(map(repr, connection.execute(select(schema.feed.c.tenant, schema.feed.c.evaluation_id))))
    return found


def detail(catalogue: Catalogue, name: str, tenant: str = "acme") -> Detail:
    found = catalogue.detail(tenant, name)
    assert found is not None
    return found


def test_the_states_of_an_evaluation(database: Database) -> None:
    catalogue = told(database, [])
    assert catalogue.detail("acme", "e") is None
    assert detail(told(database, [request("e")]), "e").state == "accepted"
    judging = detail(told(database, [announcement("e"), judged("e", "grounding")]), "e")
    assert (judging.state, judging.announced_at) == ("judging", NOW + 10)
    assert set(judging.missing) == {"calibration", "relevance", "structure", "terminology"}
    scored = detail(told(database, [card("e")]), "e")
    assert (scored.state, scored.card and scored.card["proof"]) == ("scored", None)
    committed = detail(told(database, [receipt("e")]), "e")
    assert committed.state == "committed"
    assert committed.card is not None
    assert '"tree_size": 8' in committed.card["proof"]


def test_a_dead_letter_ends_an_evaluation_that_has_no_record(database: Database) -> None:
    catalogue = told(database, [request("e"), letter("e", "contract", field="policy", detail="is not configured")])
    dead = detail(catalogue, "e")
    assert (dead.state, dead.letters[0]["reason"], dead.letters[0]["field"]) == ("dead_letter", "contract", "policy")
    assert detail(told(database, [note(0)]), "e").state == "accepted", "it was redriven"
    assert detail(told(database, [letter("e", offset=5), receipt("e")]), "e").state == "committed"
    diagnosis = letter("f", "bad_result", offset=6, topic=RESULTS)
    assert detail(told(database, [request("f"), diagnosis]), "f").state == "accepted"


def test_tenants_do_not_see_each_other(database: Database) -> None:
    catalogue = told(database, STORY)
    assert detail(catalogue, "done").state == "committed"
    assert detail(catalogue, "done").letters == []
    other = detail(catalogue, "done", "other")
    assert (other.state, other.card) == ("accepted", None), "its letter was redriven"
    assert catalogue.detail("", "done") is None
    assert [item.row["evaluation_id"] for item in catalogue.page("other", Filter(), None, 10).items] == ["done"]
    assert detail(catalogue, "waiting", "").state == "accepted"


def test_the_card_with_the_receipts_digest_is_shown(database: Database) -> None:
    catalogue = told(database, [card("e", faithfulness="0.500000")])
    assert detail(catalogue, "e").row["outcome"] == "fail"  # type: ignore[index]
    catalogue = told(database, [receipt("e"), card("e", at=NOW + 1, faithfulness="0.500000")])
    shown = detail(catalogue, "e")
    assert shown.row is not None
    assert shown.row["outcome"] == "pass"
    assert shown.card is not None
    assert shown.card["record_digest"] == shown.row["record_digest"]
    below = catalogue.page("acme", Filter(judge="semantic_faithfulness", below=900_000), None, 10)
    assert below.items == [], "the score of a card that does not stand counts for nothing"


def test_no_text_of_an_evaluation_is_in_any_table(database: Database) -> None:
    told(database, STORY)
    assert SECRET not in repr(rows(database))
    assert "patient" not in repr(rows(database))


@pytest.mark.timeout(180)
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), doubled=st.lists(st.integers(0, len(STORY) - 1), max_size=15))
def test_any_order_and_any_repetition_gives_the_same_rows(database: Database, seed: int, doubled: list[int]) -> None:
    forget(database, open_only=False)
    told(database, STORY)
    wanted = rows(database)
    forget(database, open_only=False)
    choice = random.Random(seed)
    mixed = [*STORY, *(STORY[n] for n in doubled)]
    choice.shuffle(mixed)
    while mixed:
        size = choice.randint(1, 6)
        told(database, mixed[:size])
        mixed = mixed[size:]
    assert rows(database) == wanted


@settings(max_examples=30)
@given(st.permutations(STORY), st.integers(0, len(STORY)))
def test_changes_merge_in_any_order(order: list[Record], cut: int) -> None:
    made = Changes()
    for part in (order[cut:], order[:cut], order[cut:]):
        made.add(PROJECTION.changes(part))
    assert made == PROJECTION.changes(STORY)


def test_pages_hold_every_evaluation_once(database: Database) -> None:
    names = [f"e{n:02}" for n in range(25)]
    catalogue = told(database, [receipt(name, changes={"requested_at": NOW + n // 3}) for n, name in enumerate(names)])
    seen, cursor, pages = [], None, 0
    while True:
        page = catalogue.page("acme", Filter(), cursor, 7)
        seen += [item.row["evaluation_id"] for item in page.items]
        pages, cursor = pages + 1, page.cursor
        if cursor is None:
            break
    assert (seen, pages) == (names[::-1], 4)


def test_filters(database: Database) -> None:
    made = [
        receipt("a", model="m1", faithfulness="0.500000"),
        receipt("b", model="m2", at=NOW + 41, changes={"requested_at": NOW + 5, "session": "33" * 32}),
        receipt("c", model="m1", at=NOW + 42, faithfulness="0.200000", changes={"requested_at": NOW + 9}),
        request("d", at=NOW + 20),
    ]
    catalogue = told(database, made)

    def found(**wanted: Any) -> str:
        return "".join(item.row["evaluation_id"] for item in catalogue.page("acme", Filter(**wanted), None, 10).items)

    assert found() == "dcba"
    assert found(outcome="fail") == "ca"
    assert found(model="m1") == "ca"
    assert found(model="m1", provider="other") == ""
    assert found(session="33" * 32) == "b"
    assert found(since=NOW + 5, until=NOW + 20) == "cb"
    assert found(judge="semantic_faithfulness", below=950_000) == "ca", "the lowest score first"
    assert found(judge="semantic_faithfulness", below=600_000, model="m1", since=NOW + 1) == "c"
    one = catalogue.page("acme", Filter(judge="semantic_faithfulness"), None, 1)
    two = catalogue.page("acme", Filter(judge="semantic_faithfulness"), one.cursor, 10)
    assert [item.row["evaluation_id"] for item in (*one.items, *two.items)] == ["c", "a", "b"]
    for order in ("oldest", "lowest_trust", "highest_trust"):
        first = catalogue.page("acme", Filter(order=order), None, 1)
        rest = catalogue.page("acme", Filter(order=order), first.cursor, 10)
        names = "".join(item.row["evaluation_id"] for item in (*first.items, *rest.items))
        assert names == {"oldest": "abcd", "lowest_trust": "cab", "highest_trust": "bac"}[order]
    assert found(order="highest_trust", outcome="fail") == "ac"
    for cursor in ("", "!", "W10", "bnVsbA", one.cursor, first.cursor, "a" * 3000):
        with pytest.raises(CursorError):
            catalogue.page("acme", Filter(), cursor, 1)


def test_a_follower_sees_each_committed_evaluation_once(database: Database) -> None:
    catalogue = told(database, [receipt("a"), card("x")])
    start = catalogue.newest_seq()
    told(database, [receipt("b"), receipt("a", at=NOW + 90), receipt("c", tenant="other")])
    (first,) = catalogue.committed_since("acme", start, 10)
    assert first[1].row["evaluation_id"] == "b"
    assert catalogue.committed_since("acme", first[0], 10) == []
    assert len(catalogue.committed_since("acme", 0, 10)) == 2
    assert len(catalogue.committed_since("acme", 0, 1)) == 1


def test_a_summary_names_the_part_to_look_at_first(database: Database) -> None:
    catalogue = told(
        database, [receipt("a", faithfulness="0.500000", terminology="0.100000"), receipt("b"), request("c")]
    )

    def weakest() -> set[Any]:
        items = catalogue.page("acme", Filter(), None, 10).items
        return {(item.row["evaluation_id"], item.weakest and item.weakest["part"]) for item in items}

    assert weakest() == {("c", None), ("b", None), ("a", "faithfulness")}
    assert catalogue.committed_since("acme", 0, 1)[0][1].policy is None
    told(database, [policy()])
    (_, committed) = catalogue.committed_since("acme", 0, 1)[0]
    assert committed.policy == POLICY.document


def test_policy_and_checkpoint(database: Database) -> None:
    catalogue = told(database, [])
    assert (catalogue.policy(POLICY.digest), catalogue.checkpoint()) == (None, None)
    told(database, [policy(), receipt("a", size=9), receipt("b", size=8)])
    assert (catalogue.policy(POLICY.digest), catalogue.checkpoint()) == (POLICY.document, "log\n9\n")


def test_what_says_nothing_is_passed_over_and_counted(database: Database) -> None:
    bad: list[Record] = []
    wrong = [
        message(RESULTS, b"{", at=NOW),
        message(RESULTS, None, at=NOW),
        message(SCORECARDS, {"type": "scorecard", "tenant": None, "record": {"kind": "scorecard"}}, at=NOW),
        message(SCORECARDS, {"type": "scorecard", "tenant": "\0", "record": record("e")}, at=NOW),
    ]
    assert PROJECTION.changes(wrong, bad.append) == Changes()
    assert bad == wrong
    broken = request("e", answer=" ")
    assert PROJECTION.changes([broken], bad.append) == Changes(), "its dead letter says what was wrong"
    assert bad == wrong


def test_a_path_keeps_the_contracts_own_names() -> None:
    assert known_path("chunk_scores[2]") == "chunk_scores[2]"
    assert known_path("metadata.John") == "metadata"
    assert known_path("retrieved_passages[3].text") == "retrieved_passages[3]"
    assert known_path("john.metadata") == known_path("") == known_path("John") == ""
    assert issubclass(Unreadable, ValueError)


def test_retention(database: Database) -> None:
    day = DAY_MS
    old, new = NOW, NOW + 40 * day
    catalogue = told(
        database,
        [
            *(receipt("old"), announcement("old"), judged("old", "grounding"), letter("old"), note(0)),
            *(receipt("new", changes={"requested_at": new}), letter("new", at=new, offset=1)),
        ],
    )
    assert prune(database, old + 31 * day, None, 30 * day) == 0
    assert detail(catalogue, "old").letters == []
    assert catalogue.page("acme", Filter(), None, 10).cursor is None
    assert prune(database, new, 39 * day, 30 * day) == 1
    assert catalogue.detail("acme", "old") is None
    kept = rows(database)
    assert [len(kept[name]) for name in ("evaluations", "cards", "feed", "announcements", "answers")] == [1, 1, 1, 0, 0]
    assert len(kept["scores"]) == 3
    assert detail(catalogue, "new").letters


def test_what_was_on_its_way_is_forgotten_with_its_log(database: Database) -> None:
    catalogue = told(database, STORY)
    forget(database, open_only=True)
    assert detail(catalogue, "done").state == "committed"
    assert detail(catalogue, "scored", "").state == "scored"
    assert catalogue.detail("acme", "open") is None


PLANS = {
    "evaluations_by_time": Filter(),
    "evaluations_by_outcome": Filter(outcome="fail"),
    "evaluations_by_model": Filter(model="m1"),
    "evaluations_by_session": Filter(session="33" * 32),
    "evaluations_by_trust": Filter(order="lowest_trust"),
    "evaluations_by_outcome_and_trust": Filter(order="highest_trust", outcome="fail"),
    "scores_by_score": Filter(judge="semantic_faithfulness", below=900_000),
}


@pytest.mark.parametrize("index", PLANS)
@pytest.mark.parametrize("after", [None, (NOW + 50, "e1")])
def test_a_page_is_read_along_an_index(database: Database, index: str, after: tuple[int, str] | None) -> None:
    rare = {"model": "m1", "faithfulness": "0.500000", "changes": {"session": "33" * 32}}
    common = [receipt(f"e{n}", model="m2", changes={"requested_at": NOW + n}) for n in range(60)]
    told(database, [*common, receipt("rare", **rare)])
    steps = plan(database, PLANS[index], after)
    assert index in steps
    assert "SORT" not in steps.upper()
    assert "TEMP B-TREE" not in steps


def plan(database: Database, wanted: Filter, after: tuple[int, str] | None) -> str:
    return explained(database, page_statement("acme", wanted, after, 50))


def explained(database: Database, statement: Select[Any]) -> str:
    """The database's own words for how it answers."""
    compiled = statement.compile(database.engine, compile_kwargs={"literal_binds": True})
    with database.reading() as connection:
        if not database.sqlite:  # a handful of rows is read quicker without an index
            connection.execute(text("ANALYZE"))
            connection.execute(text("SET LOCAL enable_seqscan = off"))
            connection.execute(text("SET LOCAL enable_bitmapscan = off"))
            connection.execute(text("SET LOCAL enable_sort = off"))  # or sorts them by another index's rows
        explain = "EXPLAIN QUERY PLAN " if database.sqlite else "EXPLAIN "
        return "\n".join(str(row) for row in connection.exec_driver_sql(explain + str(compiled).replace("%", "%%")))


def test_migrations_make_the_tables_of_the_schema(database: Database) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    assert database.is_current()
    database.migrate()  # nothing to do
    with database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []


@pytest.mark.parametrize("url", ["mysql://h/d", "nonsense", "sqlite+nothing:///x"])
def test_another_database_is_refused(url: str) -> None:
    with pytest.raises(CatalogueError, match="GLASSBOX_CATALOGUE_URL must be"):
        Database(url)


def test_a_password_is_not_shown() -> None:
    database = Database("postgresql://user:sesame@127.0.0.1:1/none?connect_timeout=2")
    assert "sesame" not in database.place
    with pytest.raises(CatalogueError) as raised, database.reading():
        pass
    assert "sesame" not in str(raised.value)
    assert raised.value.__cause__ is None
