"""Calls to gateway peers: what each step does, what its failures are, and where the next peer takes over."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from glassbox.contract.canonical import canonical, strict_loads
from ledger.fabric.errors import Configuration, GatewayError, Invalid, Permanent, Retry, Unknown
from ledger.fabric.gateway import Deadlines, Gateway
from ledger.fabric.profile import Peer, Profile
from ledger.fabric.proposal import Prepared
from tests.ledger.fabric.network import TestNetwork
from tests.ledger.fabric.peer.faults import Call, Tamper
from tests.ledger.records import CREATED_AT, POLICY


@asynccontextmanager
async def opened(profile: Profile, deadlines: Deadlines | None = None) -> AsyncIterator[Gateway]:
    gateway = Gateway(profile, deadlines)
    try:
        yield gateway
    finally:
        await gateway.close()


async def endorsed(gateway: Gateway) -> Prepared:
    return await gateway.endorse("RegisterPolicy", canonical(POLICY.document).decode(), CREATED_AT)


async def committed(gateway: Gateway) -> tuple[Prepared, int]:
    prepared = await endorsed(gateway)
    await gateway.submit(prepared.tx_id, prepared.envelope)
    return prepared, await gateway.commit_status(prepared.tx_id)


async def test_a_transaction_from_proposal_to_block(fabric: TestNetwork) -> None:
    async with opened(fabric.profile("Admin")) as gateway:
        prepared, block = await committed(gateway)
        assert strict_loads(prepared.result)["result"] == "created"
        assert block == await gateway.commit_status(prepared.tx_id)
        assert strict_loads(await gateway.evaluate("ReadPolicy", POLICY.digest)) == POLICY.document


async def test_an_envelope_that_is_submitted_twice_counts_once(fabric: TestNetwork) -> None:
    async with opened(fabric.profile("Admin")) as gateway:
        prepared, block = await committed(gateway)
        await gateway.submit(prepared.tx_id, prepared.envelope)
        assert await gateway.commit_status(prepared.tx_id) == block


async def test_whoever_signs_will_do(fabric: TestNetwork) -> None:
    """The seam for keys that stay in a token (PKCS#11)."""
    real = fabric.profile("Admin").signer

    class Token:
        msp_id, certificate = real.msp_id, real.certificate
        asked = 0

        def sign(self, message: bytes) -> bytes:
            self.asked += 1
            return real.sign(message)

    token = Token()
    async with opened(replace(fabric.profile("Admin"), signer=token)) as gateway:
        await committed(gateway)
    assert token.asked == 3  # proposal, envelope, question for the status


STEPS: dict[Call, Callable[[Gateway], Any]] = {
    Call.EVALUATE: lambda gateway: gateway.evaluate("ReadPolicy", POLICY.digest),
    Call.ENDORSE: endorsed,
    Call.SUBMIT: committed,
    Call.COMMIT_STATUS: lambda gateway: gateway.commit_status("ab" * 32),
    Call.CHAINCODE_EVENTS: lambda gateway: anext(gateway.events()),
}


@pytest.mark.parametrize("step", Call)
async def test_a_step_that_is_unavailable_names_step_and_peer(fabric: TestNetwork, step: Call) -> None:
    fabric.faults.unavailable = {step}
    async with opened(fabric.profile("Admin")) as gateway:
        with pytest.raises(Retry, match=rf"{step.value} at the Fabric peer {fabric.endpoint}: .*UNAVAILABLE"):
            await STEPS[step](gateway)


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (Call.EVALUATE, Retry),
        (Call.ENDORSE, Retry),
        (Call.SUBMIT, Unknown),
        (Call.COMMIT_STATUS, Unknown),
    ],
)
async def test_a_step_that_never_answers_ends_at_its_deadline(
    fabric: TestNetwork, step: Call, kind: type[GatewayError]
) -> None:
    fabric.faults.silent = {step}
    deadlines = replace(Deadlines(), **{"commit" if step is Call.COMMIT_STATUS else step.value.lower(): 0.3})
    async with opened(fabric.profile("Admin"), deadlines) as gateway:
        with pytest.raises(kind, match="DEADLINE_EXCEEDED"):
            await STEPS[step](gateway)


@pytest.mark.parametrize("step", Call)
async def test_the_next_peer_takes_over_at_each_step(fabric_of_two: TestNetwork, step: Call) -> None:
    async with opened(fabric_of_two.profile("Admin")) as gateway:
        prepared, _ = await committed(gateway)
        fabric_of_two.faults.unavailable = {step}
        gateway._preferred = 0
        match step:
            case Call.COMMIT_STATUS:
                assert await gateway.commit_status(prepared.tx_id) > 0
            case Call.SUBMIT:
                await gateway.submit(prepared.tx_id, prepared.envelope)
            case _:
                assert await STEPS[step](gateway)
        assert gateway._preferred == 1  # and stays with the one that answers


async def test_the_next_peer_takes_over_from_one_that_is_gone(fabric_of_two: TestNetwork) -> None:
    fabric_of_two.peers[0].stop()
    async with opened(fabric_of_two.profile("Admin")) as gateway:
        assert await gateway.evaluate("ReadPolicy", POLICY.digest) == b"null"


async def test_a_peer_that_is_back_is_found_again(fabric: TestNetwork) -> None:
    async with opened(fabric.profile("Admin")) as gateway:
        fabric.peers[0].stop()
        with pytest.raises(Retry):
            await gateway.evaluate("ReadPolicy", POLICY.digest)
        fabric.peers[0].start()
        async with asyncio.timeout(20):
            while True:
                try:
                    assert await gateway.evaluate("ReadPolicy", POLICY.digest) == b"null"
                    break
                except Retry:
                    await asyncio.sleep(0.1)


@pytest.mark.parametrize("step", [Call.EVALUATE, Call.ENDORSE, Call.COMMIT_STATUS, Call.CHAINCODE_EVENTS])
async def test_a_wrong_channel_is_for_somebody_to_mend(fabric: TestNetwork, step: Call) -> None:
    async with opened(replace(fabric.profile("Admin"), channel="nowhere")) as gateway:
        with pytest.raises(Configuration, match=r"nowhere.*check the names of channel and chaincode"):
            await STEPS[step](gateway)


@pytest.mark.parametrize("step", [Call.EVALUATE, Call.ENDORSE])
async def test_a_missing_chaincode_is_for_somebody_to_mend(fabric: TestNetwork, step: Call) -> None:
    async with opened(replace(fabric.profile("Admin"), chaincode="nothing")) as gateway:
        with pytest.raises(Configuration, match=r"nothing.*check the names of channel and chaincode"):
            await STEPS[step](gateway)


async def test_an_expired_certificate_is_said_to_be_one_by_the_orderer(fabric: TestNetwork) -> None:
    name = fabric.enrol("Expired", expired=True)
    async with opened(fabric.profile(name)) as gateway:
        with pytest.raises(Configuration, match=r"certificate expired at \d.* UTC.*have Org1MSP issue a new one"):
            await STEPS[Call.SUBMIT](gateway)


async def test_a_stranger_is_told_so(fabric: TestNetwork, fabric_of_two: TestNetwork) -> None:
    stranger = fabric_of_two.profile("Admin", org=2).signer
    async with opened(replace(fabric.profile(), signer=stranger)) as gateway:
        with pytest.raises(Configuration, match="does not know this client's organisation"):
            await endorsed(gateway)


async def test_a_certificate_without_a_role_may_do_nothing(fabric: TestNetwork) -> None:
    async with opened(fabric.profile(fabric.enrol("Nobody", None))) as gateway:
        with pytest.raises(Configuration, match="check this client's certificate"):
            await endorsed(gateway)


async def test_a_role_that_does_not_suffice_is_named(fabric: TestNetwork) -> None:
    async with opened(fabric.profile("User1")) as gateway:
        with pytest.raises(Configuration, match=r"FORBIDDEN: .*use an identity that may do that"):
            await endorsed(gateway)


async def test_another_ca_or_host_is_no_connection(fabric: TestNetwork, fabric_of_two: TestNetwork) -> None:
    profile = fabric.profile()
    other_ca = fabric_of_two.profile().peers[0].tls_ca
    for peer in (Peer(fabric.endpoint, other_ca), Peer(fabric.endpoint, profile.peers[0].tls_ca, "elsewhere.example")):
        async with opened(replace(profile, peers=(peer,))) as gateway:
            with pytest.raises(Configuration, match=r"TLS fails; check the CA certificate and host name"):
                await gateway.evaluate("ReadPolicy", POLICY.digest)
    alias = Peer(fabric.endpoint, profile.peers[0].tls_ca, "peer0.org1.example.com")
    async with opened(replace(profile, peers=(alias,))) as gateway:
        assert await gateway.evaluate("ReadPolicy", POLICY.digest) == b"null"


async def test_peers_that_ask_for_a_tls_certificate_get_one(chaincode_binary: Path, tmp_path: Path) -> None:
    with TestNetwork(chaincode_binary, tmp_path, mutual_tls=True) as network:
        async with opened(network.profile()) as gateway:
            assert await gateway.evaluate("ReadPolicy", POLICY.digest) == b"null"
        async with opened(replace(network.profile(), client_tls=None)) as gateway:
            with pytest.raises(GatewayError, match="Evaluate at the Fabric peer"):
                await gateway.evaluate("ReadPolicy", POLICY.digest)


async def test_a_transaction_that_was_not_asked_for_is_not_signed(fabric: TestNetwork) -> None:
    fabric.faults.tamper = Tamper.TRANSACTION_ID
    async with opened(fabric.profile("Admin")) as gateway:
        with pytest.raises(Configuration, match=r"not asked for: it is the transaction .*do not trust this peer"):
            await endorsed(gateway)


async def test_writes_that_nobody_endorsed_are_invalid(fabric: TestNetwork) -> None:
    fabric.faults.tamper = Tamper.WRITES
    async with opened(fabric.profile("Admin")) as gateway:
        with pytest.raises(Invalid, match="ENDORSEMENT_POLICY_FAILURE"):
            await committed(gateway)


async def test_what_the_chaincode_refuses_is_permanent(fabric: TestNetwork) -> None:
    async with opened(fabric.profile()) as gateway:
        with pytest.raises(Permanent, match="INVALID_BATCH: ") as caught:
            await gateway.endorse("CommitScorecards", "{}")
        assert caught.value.reason.startswith("INVALID_BATCH: ")


async def test_the_chaincode_may_die_and_come_back(fabric: TestNetwork) -> None:
    async with opened(fabric.profile("Admin")) as gateway:
        fabric.chaincode.kill()
        with pytest.raises(Retry, match="check that the peer, its orderer and the chaincode run"):
            await endorsed(gateway)
        fabric.chaincode.start()
        await committed(gateway)


async def test_an_orderer_that_is_down_is_trouble(fabric: TestNetwork) -> None:
    fabric.orderer_faults.down = True
    async with opened(fabric.profile("Admin")) as gateway:
        with pytest.raises(Retry, match="Submit at the Fabric peer"):
            await committed(gateway)


async def test_events_go_on_behind_the_last_one_also_at_another_peer(fabric_of_two: TestNetwork) -> None:
    async with opened(fabric_of_two.profile("Admin")) as gateway:
        policies = [{**POLICY.document, "name": f"policy-{n}"} for n in range(3)]
        made = []
        for policy in policies:
            prepared = await gateway.endorse("RegisterPolicy", canonical(policy).decode(), CREATED_AT)
            await gateway.submit(prepared.tx_id, prepared.envelope)
            made.append((await gateway.commit_status(prepared.tx_id), prepared.tx_id))
        events = gateway.events()
        first = await anext(events)
        assert (first.position, first.name) == (made[0], "RegisterPolicy")
        fabric_of_two.peers[0].stop()
        assert [(await anext(events)).position for _ in range(2)] == made[1:]
        await events.aclose()
        again = gateway.events(made[1])
        assert (await anext(again)).position == made[2]
        await again.aclose()
