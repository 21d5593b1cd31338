"""Two ledgers hold the same, whatever happens between them; a difference is said aloud."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from glassbox.contract.record import reference_record
from ledger.both import Both, LedgersDiffer
from ledger.checkpoint import Signer
from ledger.merkle_log import MerkleLog
from ledger.port import AppendResult, LedgerUnavailable, Receipt, Record, Refused, UnknownPolicy
from tests.ledger.records import CREATED_AT, POLICY, scorecard

LATER = "2027-01-01T00:00:00.000Z"


class Flaky:
    """A ledger called `name` that is away for a while, or refuses an id."""

    def __init__(self, folder: Path, name: str) -> None:
        self.log = MerkleLog.committer(folder / name, Signer(f"log.example/{name}", bytes(32)))
        self.name = name
        self.away = False
        self.refuses: str | None = None
        self.closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)

    async def append(self, records: Sequence[Record]) -> list[AppendResult]:
        if self.away:
            raise LedgerUnavailable(f"{self.name} is away")
        kept = [record for record in records if record["evaluation_id"] != self.refuses]
        results = await self.log.append(kept)
        return [*results, *[Refused(self.refuses, "trust", "no")] * (len(records) - len(kept))]

    async def close(self) -> None:
        self.closed = True
        await self.log.close()
        if self.away:
            raise LedgerUnavailable(f"{self.name} is away")


@pytest.fixture
async def first(tmp_path: Path) -> AsyncIterator[Flaky]:
    made = Flaky(tmp_path, "one")
    yield made
    await made.log.close()


@pytest.fixture
async def second(tmp_path: Path) -> AsyncIterator[Flaky]:
    made = Flaky(tmp_path, "two")
    yield made
    await made.log.close()


@pytest.fixture
async def both(first: Flaky, second: Flaky) -> Both:
    made = Both(first, second)
    await made.register_policy(POLICY.document, CREATED_AT)
    return made


async def test_what_is_appended_stands_in_both_and_the_first_answers(both: Both, first: Flaky, second: Flaky) -> None:
    records = [scorecard("a"), {**scorecard("bad"), "trust": "0.999999"}, scorecard("b"), scorecard("a")]
    made, refused, _, again = await both.append(records)
    assert isinstance(made, Receipt)
    assert isinstance(again, Receipt)
    assert isinstance(refused, Refused)
    assert (made.result, again.result) == ("created", "exists")
    assert made.proof["origin"] == "log.example/one"
    for ledger in (first, second):
        assert await ledger.read("a") == records[0]
        assert await ledger.read("b") == records[2]
        assert await ledger.read("bad") is None
    assert both.name == "one,two"
    assert both.place == "log.example/one and log.example/two"


async def test_a_crash_between_the_two_is_mended_by_the_same_again(both: Both, first: Flaky, second: Flaky) -> None:
    second.away = True
    with pytest.raises(LedgerUnavailable, match="two is away"):
        await both.append([scorecard("a"), scorecard("b")])
    assert await first.read("a") is not None
    assert await both.read("a") == scorecard("a"), "the first holds it already"
    second.away = False
    results = await both.append([scorecard("b"), scorecard("c"), scorecard("a")])
    assert [result.result for result in results if isinstance(result, Receipt)] == ["exists", "created", "exists"]
    assert [await second.read(name) for name in "abc"] == [scorecard(name) for name in "abc"]


async def test_what_conflicts_in_the_first_leaves_the_second_with_what_stands(both: Both, second: Flaky) -> None:
    await both.append([scorecard("a")])
    (conflict,) = await both.append([scorecard("a", score="0.500000")])
    assert isinstance(conflict, Receipt)
    assert conflict.result == "conflict"
    assert await second.read("a") == scorecard("a")


async def test_a_policy_stands_in_both_with_the_time_of_the_first(both: Both, second: Flaky) -> None:
    again = await both.register_policy(POLICY.document, LATER)
    assert again.result == "exists"
    standing = await second.read(f"policy:{POLICY.digest}")
    assert standing is not None
    assert standing["created_at"] == CREATED_AT
    assert await both.policy(POLICY.digest) == POLICY.document
    assert await both.policy("00" * 32) is None


async def test_policies_registered_at_different_times_are_no_difference(first: Flaky, second: Flaky) -> None:
    await second.register_policy(POLICY.document, LATER)
    await first.register_policy(POLICY.document, CREATED_AT)
    both = Both(first, second)
    standing = await both.read(f"policy:{POLICY.digest}")
    assert standing is not None
    assert standing["created_at"] == CREATED_AT
    assert await both.append([scorecard("a")])


async def test_a_second_ledger_that_was_added_later_gets_what_is_cited(first: Flaky, second: Flaky) -> None:
    await first.register_policy(POLICY.document, CREATED_AT)
    await first.append([scorecard("a"), scorecard("b", supersedes="a")])
    both = Both(first, second)
    review = reference_record("review", "cd" * 32, CREATED_AT, refers_to="b")
    (receipt,) = await both.append([review])
    assert isinstance(receipt, Receipt)
    assert receipt.result == "created"
    for name in ("a", "b", f"review:{'cd' * 32}", f"policy:{POLICY.digest}"):
        assert await second.read(name) == await first.read(name), name


async def test_a_cited_policy_goes_with_its_content(first: Flaky, second: Flaky) -> None:
    await first.register_policy(POLICY.document, CREATED_AT)
    review = reference_record("review", "cd" * 32, CREATED_AT, refers_to=f"policy:{POLICY.digest}")
    assert await Both(first, second).append([review])
    assert await second.policy(POLICY.digest) == POLICY.document


async def test_a_policy_that_is_on_neither_is_trouble_before_anything_is_written(both: Both, second: Flaky) -> None:
    with pytest.raises(UnknownPolicy):
        await both.append([scorecard("a"), scorecard("b", policy_digest="ab" * 32)])
    assert await both.read("a") is None
    assert await second.read("a") is None


async def test_a_ledger_that_forgets_what_it_was_given_is_trouble_and_no_endless_loop(
    first: Flaky, second: Flaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forget(records: Sequence[Record]) -> list[AppendResult]:
        raise UnknownPolicy(POLICY.digest)

    both = Both(first, second)
    await both.register_policy(POLICY.document, CREATED_AT)
    monkeypatch.setattr(second, "append", forget)
    with pytest.raises(UnknownPolicy):
        await both.append([scorecard("a")])


async def test_another_record_in_the_second_is_said_aloud(both: Both, second: Flaky) -> None:
    await second.append([scorecard("a", score="0.500000")])
    with pytest.raises(LedgersDiffer, match=r"differ about a: one has the record [0-9a-f]{12}…, two has") as caught:
        await both.append([scorecard("b"), scorecard("a")])
    assert caught.value.evaluation_id == "a"
    for ask in (both.read, both.prove):
        with pytest.raises(LedgersDiffer):
            await ask("a")


async def test_what_the_second_refuses_is_said_aloud(both: Both, second: Flaky) -> None:
    second.refuses = "a"
    with pytest.raises(LedgersDiffer, match=r"about a: it stands in one, and two refuses it \(trust: no\)"):
        await both.append([scorecard("a")])


async def test_what_stands_in_the_second_alone_is_found(both: Both, first: Flaky, second: Flaky) -> None:
    await second.append([scorecard("only-two"), scorecard("z")])
    await first.append([scorecard("only-one")])
    receipt = await both.prove("only-two")
    assert receipt is not None
    assert receipt.proof["origin"] == "log.example/two"
    assert await both.read("only-two") == scorecard("only-two")
    assert await both.find("only", 10) == ["only-one", "only-two"]
    assert await both.find("only", 1) == ["only-one"]
    assert await both.prove("nobody") is None
    assert await both.read("nobody") is None


async def test_both_are_closed_even_if_one_does_not_close_well(first: Flaky, second: Flaky) -> None:
    both = Both(first, second)
    second.away = True
    with pytest.raises(LedgerUnavailable):
        await both.close()
    assert first.closed
    assert second.closed
