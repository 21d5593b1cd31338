"""The ledger on Fabric when a step fails, a process dies or a setup is wrong: one record in the end."""

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from fabric_protos.common.common_pb2 import Envelope

from ledger.fabric.ledger import FabricLedger
from ledger.fabric.pending import Pending
from ledger.port import (
    LedgerUnavailable,
    Receipt,
)
from tests.ledger.fabric.network import TestNetwork
from tests.ledger.fabric.opened import QUICK, opened, pending, register, results, transactions, valid
from tests.ledger.fabric.peer.faults import Call, Tamper
from tests.ledger.records import POLICY, scorecard


@pytest.mark.parametrize("step", [Call.ENDORSE, Call.SUBMIT, Call.COMMIT_STATUS])
@pytest.mark.parametrize("fault", ["unavailable", "lost_replies", "silent"])
async def test_trouble_at_each_step_ends_in_one_record(
    network: TestNetwork, tmp_path: Path, step: Call, fault: str
) -> None:
    async with opened(network, tmp_path, deadlines=replace(QUICK, endorse=0.5)) as ledger:
        before = valid(network)
        setattr(network.faults, fault, {step})
        late = (step, fault) == (Call.SUBMIT, "silent")  # the peer submits it once the client has given up
        trouble = pytest.raises(LedgerUnavailable, match=f"{step.value} at the Fabric peer {network.endpoint}")
        with nullcontext() if late else trouble:
            assert results(await ledger.append([scorecard("e")])) == ["created"]
        setattr(network.faults, fault, set())
        (answer,) = await ledger.append([scorecard("e")])
        assert isinstance(answer, Receipt)
        assert answer.record == scorecard("e")
        assert valid(network) == before + 1
    assert await pending(tmp_path) == []


async def test_a_slow_commit_is_waited_for(network: TestNetwork, tmp_path: Path) -> None:
    network.orderer_faults.delay = 1.0
    async with opened(network, tmp_path, deadlines=replace(QUICK, commit=0.7)) as ledger:
        before = valid(network)
        assert results(await ledger.append([scorecard("e")])) == ["created"]
        assert valid(network) == before + 1


async def test_a_commit_that_does_not_come_is_trouble_and_then_found(network: TestNetwork, tmp_path: Path) -> None:
    network.orderer_faults.commits.clear()
    async with opened(network, tmp_path, deadlines=QUICK) as ledger:
        with pytest.raises(LedgerUnavailable, match="CommitStatus at the Fabric peer"):
            await ledger.append([scorecard("e")])
        (left,) = await pending(tmp_path)
        assert left.evaluation_ids == ("e",)
        network.orderer_faults.commits.set()
        (answer,) = await ledger.append([scorecard("e")])
        assert isinstance(answer, Receipt)
        assert (answer.result, answer.proof["tx_id"]) == ("exists", left.tx_id)
    assert await pending(tmp_path) == []


async def test_a_crash_behind_submit_is_found_committed(
    network: TestNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network.orderer_faults.commits.clear()
    before = valid(network)
    async with opened(network, tmp_path) as ledger:
        submit, submitted = ledger.gateway.submit, asyncio.Event()

        async def told(tx_id: str, envelope: bytes) -> None:
            await submit(tx_id, envelope)
            submitted.set()

        monkeypatch.setattr(ledger.gateway, "submit", told)
        appending = asyncio.create_task(ledger.append([scorecard("e"), scorecard("f")]))
        await submitted.wait()
        appending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await appending
    (left,) = await pending(tmp_path)
    network.orderer_faults.commits.set()
    async with opened(network, tmp_path) as reopened:
        answered = await reopened.append([scorecard("e"), scorecard("f"), scorecard("g")])
        assert results(answered) == ["exists", "exists", "created"]
        assert transactions(answered)[0] == left.tx_id
    assert valid(network) == before + 2
    assert await pending(tmp_path) == []


async def test_an_append_that_was_cancelled_is_settled_by_the_next(network: TestNetwork, tmp_path: Path) -> None:
    records = [scorecard(f"e-{n}") for n in range(6)]
    network.orderer_faults.commits.clear()
    async with opened(network, tmp_path, batch=1, in_flight=2) as ledger:
        before = valid(network)
        appending = asyncio.create_task(ledger.append(records))
        async with asyncio.timeout(20):
            while not (left := await pending(tmp_path)):
                await asyncio.sleep(0.01)
        appending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await appending
        network.orderer_faults.commits.set()
        answered = await ledger.append(records)
        assert {answer.record["evaluation_id"] for answer in answered if isinstance(answer, Receipt)} == {
            record["evaluation_id"] for record in records
        }
        assert set(transactions(answered)) == {one.tx_id for one in left}
        assert valid(network) == before + 6
    assert await pending(tmp_path) == []


async def test_a_crash_before_submit_sends_the_same_envelope(network: TestNetwork, tmp_path: Path) -> None:
    network.faults.unavailable = {Call.SUBMIT}
    async with opened(network, tmp_path, deadlines=QUICK) as ledger:
        with pytest.raises(LedgerUnavailable):
            await ledger.append([scorecard("e")])
    (left,) = await pending(tmp_path)
    network.faults.unavailable = set()
    async with opened(network, tmp_path, deadlines=QUICK) as reopened:
        (answer,) = await reopened.append([scorecard("e")])
        assert isinstance(answer, Receipt)
        assert answer.proof["tx_id"] == left.tx_id
    assert await pending(tmp_path) == []


async def test_an_envelope_that_the_orderer_will_never_take_is_given_up(network: TestNetwork, tmp_path: Path) -> None:
    """Its certificate has run out meanwhile, say. Were it in a block all the same, its record would exist."""
    network.faults.unavailable = {Call.SUBMIT}
    async with opened(network, tmp_path, deadlines=QUICK) as ledger:
        with pytest.raises(LedgerUnavailable):
            await ledger.append([scorecard("e")])
    network.faults.unavailable = set()
    (left,) = await pending(tmp_path)
    envelope = Envelope.FromString(left.envelope)
    envelope.signature = network.profile().signer.sign(b"something else")
    file = Pending(tmp_path / "pending.sqlite3", "glassbox")
    await file.remove([left.tx_id])
    await file.add([replace(left, envelope=envelope.SerializeToString())])
    await file.close()
    async with opened(network, tmp_path, deadlines=QUICK) as reopened:
        (answer,) = await reopened.append([scorecard("e")])
        assert isinstance(answer, Receipt)
        assert answer.result == "created"
        assert answer.proof["tx_id"] != left.tx_id
    assert await pending(tmp_path) == []


async def test_the_peer_may_be_gone_for_a_while(network: TestNetwork, tmp_path: Path) -> None:
    async with opened(network, tmp_path) as ledger:
        network.peers[0].stop()
        with pytest.raises(LedgerUnavailable, match=f"Endorse at the Fabric peer {network.endpoint}"):
            await ledger.append([scorecard("e")])
        network.peers[0].start()
        async with asyncio.timeout(20):
            while True:
                try:
                    assert results(await ledger.append([scorecard("e")])) == ["created"]
                    break
                except LedgerUnavailable:
                    await asyncio.sleep(0.1)


async def test_another_peer_takes_over_in_the_middle(
    fabric_of_two: TestNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await register(fabric_of_two, tmp_path)
    async with opened(fabric_of_two, tmp_path) as ledger:
        submit = ledger.gateway.submit

        async def cut_off(tx_id: str, envelope: bytes) -> None:
            await submit(tx_id, envelope)
            fabric_of_two.faults.unavailable = set(Call)

        monkeypatch.setattr(ledger.gateway, "submit", cut_off)
        (answer,) = await ledger.append([scorecard("e")])
        assert results([answer]) == ["created"]
        assert await ledger.read("e") == scorecard("e")


# Setup


async def test_a_setup_that_is_wrong_is_trouble_that_says_so_and_no_refusal(
    network: TestNetwork, tmp_path: Path
) -> None:
    profile = network.profile()
    for wrong, sentence in (
        (replace(profile, channel="nowhere"), "nowhere.*check the names of channel and chaincode"),
        (replace(profile, chaincode="nothing"), "nothing.*check the names of channel and chaincode"),
    ):
        ledger = FabricLedger(wrong, tmp_path / "pending.sqlite3")
        for attempt in (ledger.append([scorecard("e")]), ledger.read("e"), ledger.policy(POLICY.digest)):
            with pytest.raises(LedgerUnavailable, match=sentence):
                await attempt
        await ledger.close()


async def test_an_expired_certificate_is_trouble_that_says_so_and_leaves_nothing_behind(
    network: TestNetwork, tmp_path: Path
) -> None:
    async with opened(network, tmp_path, user=network.enrol("Expired", expired=True)) as ledger:
        with pytest.raises(LedgerUnavailable, match=r"certificate expired at \d.* UTC.*have Org1MSP issue a new one"):
            await ledger.append([scorecard("e")])
    assert await pending(tmp_path) == []
    async with opened(network, tmp_path) as renewed:
        assert results(await renewed.append([scorecard("e")])) == ["created"]


async def test_a_peer_that_lies_is_trouble(network: TestNetwork, tmp_path: Path) -> None:
    async with opened(network, tmp_path) as ledger:
        network.faults.tamper = Tamper.TRANSACTION_ID
        with pytest.raises(LedgerUnavailable, match="not asked for"):
            await ledger.append([scorecard("e")])
        network.faults.tamper = Tamper.WRITES
        with pytest.raises(LedgerUnavailable, match="ENDORSEMENT_POLICY_FAILURE"):
            await ledger.append([scorecard("e")])
        network.faults.tamper = None
        assert results(await ledger.append([scorecard("e")])) == ["created"]
