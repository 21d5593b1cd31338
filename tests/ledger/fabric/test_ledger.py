"""What the ledger on Fabric does beyond the suite of all ledgers: batches, policies, anchors and events."""

import asyncio
from pathlib import Path

import pytest

from glassbox.contract.record import reference_record
from ledger.checkpoint import Checkpoint, Signer
from ledger.fabric.errors import Conflict, Permanent
from ledger.fabric.ledger import FabricLedger
from ledger.fabric.proposal import Prepared
from ledger.port import (
    LedgerRefused,
    LedgerUnavailable,
    Receipt,
    Refused,
    UnknownPolicy,
    UnknownReference,
)
from tests.ledger.fabric.network import TestNetwork
from tests.ledger.fabric.opened import opened, pending, results, transactions, valid
from tests.ledger.fabric.peer.faults import Call
from tests.ledger.records import CREATED_AT, POLICY, scorecard

# Batches


async def test_many_records_are_transactions_of_a_hundred(network: TestNetwork, tmp_path: Path) -> None:
    records = [scorecard(f"e-{n:03}") for n in range(250)]
    async with opened(network, tmp_path) as ledger:
        answered = await ledger.append(records)
        assert results(answered) == ["created"] * 250
        assert [a.record for a in answered if isinstance(a, Receipt)] == records
        assert len(transactions(answered)) == 3
        assert valid(network) == 1 + 3
        again = await ledger.append(records)
        assert results(again) == ["exists"] * 250
        assert [a.proof for a in again if isinstance(a, Receipt)] == [
            a.proof for a in answered if isinstance(a, Receipt)
        ]
    assert await pending(tmp_path) == []


async def test_what_exists_already_is_not_submitted(network: TestNetwork, tmp_path: Path) -> None:
    async with opened(network, tmp_path) as ledger:
        await ledger.append([scorecard("e")])
        height = network.channel.ledger.height
        assert results(await ledger.append([scorecard("e"), scorecard("e", score="0.500000")])) == [
            "exists",
            "conflict",
        ]
        assert network.channel.ledger.height == height


async def test_only_what_is_new_of_a_batch_is_in_the_new_transaction(network: TestNetwork, tmp_path: Path) -> None:
    async with opened(network, tmp_path) as ledger:
        (first,) = await ledger.append([scorecard("a")])
        old, new, other = await ledger.append([scorecard("a"), scorecard("b"), scorecard("a", score="0.100000")])
        assert results([old, new, other]) == ["exists", "created", "conflict"]
        assert isinstance(first, Receipt)
        assert isinstance(old, Receipt)
        assert isinstance(other, Receipt)
        assert (old.proof, other.proof, other.record) == (first.proof, first.proof, scorecard("a"))
        assert len(transactions([old, new])) == 2


async def test_runs_and_reviews_go_one_by_one_beside_scorecards(network: TestNetwork, tmp_path: Path) -> None:
    run, review = (reference_record(kind, "cd" * 32, CREATED_AT) for kind in ("run", "review"))
    async with opened(network, tmp_path) as ledger:
        answered = await ledger.append([run, scorecard("a"), review, scorecard("b")])
        assert results(answered) == ["created"] * 4
        assert len(transactions(answered)) == 3
        assert results(await ledger.append([run, run])) == ["exists", "exists"]


async def test_a_record_that_spoils_a_batch_does_not_hold_up_its_neighbours(
    network: TestNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should chaincode and client ever disagree on what can be read at all."""
    async with opened(network, tmp_path) as ledger:
        endorse = ledger.gateway.endorse

        async def spoilt(function: str, *args: str) -> Prepared:
            if '"spoils"' in args[0]:
                raise Permanent("Endorse", "peer", "ABORTED", "INVALID_BATCH: not what it should be")
            return await endorse(function, *args)

        monkeypatch.setattr(ledger.gateway, "endorse", spoilt)
        records = [scorecard(f"e-{n}") for n in range(7)]
        answered = await ledger.append([*records[:3], scorecard("spoils"), *records[3:]])
        assert answered[3] == Refused("spoils", "record", "not what it should be")
        assert results(answered) == ["created"] * 3 + ["refused"] + ["created"] * 4


async def test_what_is_not_in_the_form_of_a_record_is_in_no_transaction(
    network: TestNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction keeps its input, what the chaincode refused of it too."""
    secret = "what the customer asked"
    async with opened(network, tmp_path) as ledger:
        endorse, sent = ledger.gateway.endorse, list[str]()

        async def overheard(function: str, *args: str) -> Prepared:
            sent.extend(args)
            return await endorse(function, *args)

        monkeypatch.setattr(ledger.gateway, "endorse", overheard)
        run = reference_record("run", "cd" * 32, CREATED_AT)
        answered = await ledger.append(
            [
                scorecard("e-1"),
                {**scorecard("e-2"), "query": secret},
                {**scorecard("e-3"), "reasons": [secret]},
                {**scorecard("e-4"), "kind": secret},
                {**scorecard("e-5"), "supersedes": "e-5"},
                {**run, "note": secret},
                scorecard("e-6"),
            ]
        )
    assert results(answered) == ["created", *["refused"] * 5, "created"]
    assert [answer.field for answer in answered if isinstance(answer, Refused)] == [
        "query",
        "reasons[0]",
        "kind",
        "supersedes",
        "note",
    ]
    blocks = b"".join(block.SerializeToString() for block in network.channel.ledger.blocks)
    assert b"e-6" in blocks
    assert secret.encode() not in blocks
    assert len(sent) == 1
    assert secret not in sent[0]


async def test_nothing_is_written_where_one_of_many_transactions_lacks_its_policy(
    network: TestNetwork, tmp_path: Path
) -> None:
    unknown = scorecard("unknown", policy_digest="ab" * 32)
    async with opened(network, tmp_path, batch=2) as ledger:
        before = valid(network)
        with pytest.raises(UnknownPolicy):
            await ledger.append([*(scorecard(f"e-{n}") for n in range(6)), unknown])
        first, later = scorecard("first"), {**unknown, "supersedes": "first"}
        with pytest.raises(UnknownPolicy):  # the second would only be endorsed once the first stands
            await ledger.append([first, later])
        with pytest.raises(UnknownReference) as caught:
            await ledger.append([*(scorecard(f"e-{n}") for n in range(6)), scorecard("l", supersedes="nobody")])
        assert (caught.value.evaluation_id, caught.value.reference) == ("l", "nobody")
        assert valid(network) == before


async def test_records_of_one_append_may_build_on_each_other(network: TestNetwork, tmp_path: Path) -> None:
    chain = [scorecard("a"), scorecard("b", supersedes="a"), scorecard("c", supersedes="b")]
    review = reference_record("review", "ef" * 32, CREATED_AT, refers_to="c")
    async with opened(network, tmp_path) as ledger:
        assert results(await ledger.append([*chain, review])) == ["created"] * 4


async def test_at_most_so_many_transactions_are_on_their_way(
    network: TestNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(network, tmp_path, batch=1, in_flight=3) as ledger:
        submit, now, most = ledger.gateway.submit, 0, 0

        async def counted(tx_id: str, envelope: bytes) -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await submit(tx_id, envelope)
            await asyncio.sleep(0.01)
            now -= 1

        monkeypatch.setattr(ledger.gateway, "submit", counted)
        assert results(await ledger.append([scorecard(f"e-{n}") for n in range(12)])) == ["created"] * 12
        assert most == 3


# Others at work


async def test_two_writers_of_the_same_records_agree(network: TestNetwork, tmp_path: Path) -> None:
    records = [scorecard(f"e-{n}") for n in range(20)]
    (tmp_path / "other").mkdir()
    async with opened(network, tmp_path, batch=5) as one, opened(network, tmp_path / "other", batch=4) as two:
        first, second = await asyncio.gather(one.append(records), two.append(records))
        assert sorted(results(first) + results(second)) == ["created"] * 20 + ["exists"] * 20
        assert [a.proof for a in first if isinstance(a, Receipt)] == [a.proof for a in second if isinstance(a, Receipt)]


async def test_appends_beside_each_other_do_not_overtake(network: TestNetwork, tmp_path: Path) -> None:
    async with opened(network, tmp_path) as ledger:
        answered = await asyncio.gather(*(ledger.append([scorecard("e"), scorecard(f"e-{n}")]) for n in range(5)))
        assert sorted(r for a in answered for r in results(a)) == ["created"] * 6 + ["exists"] * 4
        codes = [one.code for block in network.channel.ledger.committed for one in block]
        assert set(codes) == {0}  # so nobody had to try again


async def test_what_was_overtaken_is_endorsed_again(network: TestNetwork, tmp_path: Path) -> None:
    network.orderer_faults.conflicts = 2
    async with opened(network, tmp_path) as ledger:
        assert results(await ledger.append([scorecard("e")])) == ["created"]
    assert network.orderer_faults.conflicts == 0


async def test_what_is_overtaken_for_ever_is_trouble(network: TestNetwork, tmp_path: Path) -> None:
    network.orderer_faults.conflicts = 1_000
    async with opened(network, tmp_path) as ledger:
        with pytest.raises(LedgerUnavailable, match=r"MVCC_READ_CONFLICT.*other writers"):
            await ledger.append([scorecard("e")])
        network.orderer_faults.conflicts = 0
        assert results(await ledger.append([scorecard("e")])) == ["created"]
    assert await pending(tmp_path) == []


async def test_an_envelope_that_is_ordered_twice_counts_once(network: TestNetwork, tmp_path: Path) -> None:
    network.orderer_faults.order_twice = True
    async with opened(network, tmp_path) as ledger:
        before = valid(network)
        assert results(await ledger.append([scorecard("e")])) == ["created"]
        assert valid(network) == before + 1


async def test_a_policy_is_registered_by_an_admin_and_found_by_anybody(fabric: TestNetwork, tmp_path: Path) -> None:
    async with opened(fabric, tmp_path) as writer, opened(fabric, tmp_path, user="Admin") as admin:
        with pytest.raises(LedgerUnavailable, match=r"FORBIDDEN: .*use an identity that may do that"):
            await writer.register_policy(POLICY.document, CREATED_AT)
        made = await admin.register_policy(POLICY.document, CREATED_AT)
        found = await writer.register_policy(POLICY.document, "2027-01-01T00:00:00.000Z")
        assert (made.result, found.result) == ("created", "exists")
        assert made.proof == found.proof


async def test_a_policy_that_only_the_chaincode_refuses_is_refused(
    fabric: TestNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(fabric, tmp_path, user="Admin") as admin:

        async def refuse(*_: str) -> Prepared:
            raise Permanent("Endorse", "peer", "ABORTED", "INVALID_POLICY: policy.judges: at least one")

        monkeypatch.setattr(admin.gateway, "endorse", refuse)
        with pytest.raises(LedgerRefused) as caught:
            await admin.register_policy(POLICY.document, CREATED_AT)
        assert (caught.value.field, caught.value.rule) == ("policy.judges", "at least one")


async def test_no_place_for_what_is_on_its_way_is_trouble_before_anything_is_sent(
    network: TestNetwork, tmp_path: Path
) -> None:
    before = valid(network)
    async with opened(network, tmp_path / "nowhere") as ledger:
        with pytest.raises(LedgerUnavailable, match="transactions on their way"):
            await ledger.append([scorecard("e")])
        assert await ledger.read("e") is None  # reading needs no place
    assert valid(network) == before


# Reading, anchors, events


async def test_ids_are_found_by_prefix(network: TestNetwork, tmp_path: Path) -> None:
    async with opened(network, tmp_path) as ledger:
        await ledger.append([scorecard(name) for name in ("b-1", "a-1", "a-3", "a-2")])
        assert await ledger.find("a-", 2) == ["a-1", "a-2"]
        assert await ledger.find("a-", 10) == ["a-1", "a-2", "a-3"]
        assert await ledger.find("no id begins so", 10) == []
        assert await ledger.find("c", 10) == []


def note(signer: Signer, size: int, root: bytes = bytes(32)) -> str:
    return signer.sign(Checkpoint(signer.name, size, root))


async def test_checkpoints_are_anchored_and_only_grow(network: TestNetwork, tmp_path: Path) -> None:
    signer = Signer("log.example/one", bytes(32))
    async with opened(network, tmp_path) as ledger:
        assert await ledger.anchored(signer.name) is None
        assert await ledger.anchor(note(signer, 5)) == "created"
        assert await ledger.anchor(note(signer, 5)) == "exists"
        assert await ledger.anchor(note(signer, 9)) == "created"
        assert await ledger.anchored(signer.name) == note(signer, 9)
        for wrong, rule in ((note(signer, 7), "sizes only grow"), (note(signer, 9, b"x" * 32), "another root")):
            with pytest.raises(LedgerRefused, match=rule):
                await ledger.anchor(wrong)
        with pytest.raises(LedgerRefused, match="signature lines"):
            await ledger.anchor("log.example/one\n5\n")
        assert await ledger.anchored(signer.name) == note(signer, 9)


async def test_an_origin_belongs_to_who_anchored_it_first(fabric_of_two: TestNetwork, tmp_path: Path) -> None:
    signer = Signer("log.example/one", bytes(32))
    async with opened(fabric_of_two, tmp_path) as ledger:
        await ledger.anchor(note(signer, 5))
    other = FabricLedger(fabric_of_two.profile(org=2), tmp_path / "other.sqlite3")
    with pytest.raises(LedgerUnavailable, match=r"FORBIDDEN: the origin .* is anchored by Org1MSP"):
        await other.anchor(note(signer, 6))
    await other.close()


async def test_events_tell_what_was_written_and_go_on_where_they_were_left(
    network: TestNetwork, tmp_path: Path
) -> None:
    async with opened(network, tmp_path) as ledger:
        (first,) = await ledger.append([scorecard("a")])
        events = ledger.events()
        registered, written = await anext(events), await anext(events)
        await events.aclose()
        assert isinstance(first, Receipt)
        assert registered.function == "RegisterPolicy"
        assert (written.function, written.evaluation_ids) == ("CommitScorecards", ("a",))
        assert written.position == (first.proof["block_number"], first.proof["tx_id"])
        later = ledger.events(written.position)
        coming = asyncio.create_task(anext(later))
        await ledger.append([scorecard("b"), scorecard("a"), scorecard("c")])
        assert (await coming).evaluation_ids == ("b", "c")
        await later.aclose()


async def test_events_that_no_peer_goes_on_with_are_trouble(network: TestNetwork, tmp_path: Path) -> None:
    network.faults.unavailable = {Call.CHAINCODE_EVENTS}
    async with opened(network, tmp_path) as ledger:
        with pytest.raises(LedgerUnavailable, match="ChaincodeEvents at the Fabric peer"):
            await anext(ledger.events())


async def test_a_reading_waits_for_an_endorser_that_is_a_block_behind(
    network: TestNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(network, tmp_path) as ledger:
        await ledger.append([scorecard("e")])
        endorse, behind = ledger.gateway.endorse, iter([True, True])

        async def late(function: str, *args: str) -> Prepared:
            if next(behind, False):
                raise Conflict("Endorse", "peer", "ABORTED", "ProposalResponsePayloads do not match")
            return await endorse(function, *args)

        monkeypatch.setattr(ledger.gateway, "endorse", late)
        proven = await ledger.prove("e")
    assert proven is not None
    assert "reading" in proven.proof


async def test_a_proof_has_the_transaction_only_where_it_is_asked_for(network: TestNetwork, tmp_path: Path) -> None:
    async with opened(network, tmp_path) as ledger:
        (made,) = await ledger.append([scorecard("e")])
        asked = await ledger.prove("e")
        assert isinstance(made, Receipt)
        assert asked is not None
        assert set(made.proof) == {"channel", "chaincode", "tx_id", "block_number"}
        assert made.proof.items() < asked.proof.items()
        assert "transaction" in asked.proof
