"""What a client may do to a Fabric network, rightly and wrongly: the same for a test peer and for a real one.

Each scenario answers what came of its steps: a result, or an error's class, step and status code. These must be equal;
the sentences that come with an error are the network's own, and are kept apart.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from fabric_protos.common.common_pb2 import ChannelHeader, Envelope, Header, Payload, SignatureHeader
from fabric_protos.peer.proposal_pb2 import Proposal, SignedProposal
from fabric_protos.peer.transaction_pb2 import ChaincodeActionPayload, Transaction

from ledger.fabric import proposal
from ledger.fabric.errors import GatewayError
from ledger.fabric.gateway import Deadlines, Gateway
from ledger.fabric.identity import FileSigner, Signer, low_s
from ledger.fabric.profile import Profile
from tests.ledger.fabric.peer.certificates import Authority
from tests.ledger.records import CREATED_AT, POLICY, scorecard

_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
NOBODY = "ab" * 32


class World(Protocol):
    """A network of one organisation with an empty ledger, whose processes can be stopped and started again."""

    def profile(self, user: str = "User1") -> Profile: ...

    def enrol(
        self, name: str, unit: str | None = "client", *, attributes: dict[str, str] | None = None, expired: bool = False
    ) -> str: ...

    def stop(self, process: str) -> None:
        """orderer or chaincode1. Called in the main thread: a child of the test network lives as long as the thread
        that started it."""
        ...

    def start(self, process: str) -> None: ...


@dataclass(frozen=True)
class Seen:
    """What came of a step: `what` is compared, `text` is the network's own sentence."""

    what: str
    text: str = ""


@dataclass(frozen=True)
class Crooked:
    """Signs by a rule of its own."""

    honest: Signer
    rule: Callable[[Signer, bytes], bytes]
    claimed: str | None = None

    @property
    def msp_id(self) -> str:
        return self.claimed or self.honest.msp_id

    @property
    def certificate(self) -> bytes:
        return self.honest.certificate

    def sign(self, message: bytes) -> bytes:
        return self.rule(self.honest, message)


class Client(Gateway):
    """A gateway client that may choose its nonce and edit the headers of what it proposes."""

    nonce: bytes | None = None
    edit: Callable[[ChannelHeader, SignatureHeader], None] | None = None

    def _propose(self, chaincode: str, function: str, args: tuple[str, ...]) -> proposal.Proposal:
        honest = super()._propose(chaincode, function, args)
        if self.nonce is not None:
            honest = proposal.propose(
                self.profile.signer, self.profile.channel, chaincode, function, args, nonce=self.nonce, time_ns=10**18
            )
        if self.edit is None:
            return honest
        raw = Proposal.FromString(honest.signed.proposal_bytes)
        channel = ChannelHeader.FromString(honest.channel_header)
        signature = SignatureHeader.FromString(honest.signature_header)
        self.edit(channel, signature)
        headers = channel.SerializeToString(), signature.SerializeToString()
        raw.header = Header(channel_header=headers[0], signature_header=headers[1]).SerializeToString()
        message = raw.SerializeToString()
        signed = SignedProposal(proposal_bytes=message, signature=self.profile.signer.sign(message))
        return replace(
            honest, tx_id=channel.tx_id, signed=signed, channel_header=headers[0], signature_header=headers[1]
        )


@dataclass
class Stage:
    """Clients of one world, which are closed with it, and what has been seen."""

    world: World
    seen: list[Seen] = field(default_factory=list)
    cleanup: AsyncExitStack = field(default_factory=AsyncExitStack)

    def client(self, user: str = "User1", signer: Signer | None = None, **profile: str) -> Client:
        """`profile`: channel and chaincode, where they are not the network's."""
        there = self.world.profile(user)
        made = Client(replace(there, signer=signer or there.signer, **profile), Deadlines(endorse=20, commit=20))
        self.cleanup.push_async_callback(made.close)
        return made

    async def see(self, work: Awaitable[object]) -> None:
        try:
            found = await work
        except GatewayError as error:
            self.seen.append(Seen(f"{type(error).__name__} {error.step} {error.code}", error.reason))
        else:
            self.seen.append(Seen("done" if found is None else f"{found}"))


async def write(client: Gateway, function: str, *args: str) -> str:
    """Endorse, submit, wait for the block: what the function answered."""
    prepared = await client.endorse(function, *args)
    return await land(client, prepared)


async def land(client: Gateway, prepared: proposal.Prepared, envelope: bytes | None = None) -> str:
    await client.submit(prepared.tx_id, envelope or prepared.envelope)
    await client.commit_status(prepared.tx_id)
    return prepared.result.decode()


def cards(*ids: str, **changes: Any) -> str:
    return json.dumps([scorecard(name, **changes) for name in ids])


Scenario = Callable[[Stage], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    SCENARIOS[function.__name__.replace("_", " ")] = function
    return function


async def register_policy(world: World) -> None:
    """What the scenarios' scorecards need."""
    stage = Stage(world)
    async with stage.cleanup:
        await write(stage.client("Admin"), "RegisterPolicy", json.dumps(POLICY.document), CREATED_AT)


async def play(name: str, world: World) -> list[Seen]:
    stage = Stage(world)
    async with stage.cleanup:
        await SCENARIOS[name](stage)
    return stage.seen


@scenario
async def records_are_created_once(stage: Stage) -> None:
    user = stage.client()
    await stage.see(write(user, "CommitScorecards", cards("once-1", "once-2")))
    await stage.see(write(user, "CommitScorecards", cards("once-1", "once-2")))
    await stage.see(write(user, "CommitScorecards", cards("once-1", score="0.500000")))
    await stage.see(user.evaluate("ListByPrefix", "once-", "10", ""))
    await stage.see(user.evaluate("ReadRecords", '["nobody"]'))


@scenario
async def the_chaincode_refuses(stage: Stage) -> None:
    user = stage.client()
    await stage.see(write(user, "CommitScorecards", "no batch"))
    await stage.see(write(user, "CommitScorecards", "[]"))
    await stage.see(write(user, "CommitScorecards", cards(*(f"many-{n}" for n in range(201)))))
    await stage.see(write(user, "CommitScorecards", cards("bad", trust="0.999999")))
    await stage.see(write(user, "CommitScorecards", cards("bad", policy_digest="ab" * 32)))
    await stage.see(write(user, "CommitScorecards", cards("bad", supersedes="nobody")))
    await stage.see(write(user, "CommitRun", "7"))
    await stage.see(write(user, "NoSuchFunction"))
    await stage.see(write(user, "CommitScorecards"))
    await stage.see(user.evaluate("NoSuchFunction"))


@scenario
async def who_may_register_a_policy(stage: Stage) -> None:
    policy = json.dumps({**POLICY.document, "name": "another"})
    stage.world.enrol("ByAttribute", attributes={"glassbox.role": "admin"})
    stage.world.enrol("NoLonger", "admin", attributes={"glassbox.role": "reader"})
    await stage.see(write(stage.client(), "RegisterPolicy", policy, CREATED_AT))
    await stage.see(write(stage.client("NoLonger"), "RegisterPolicy", policy, CREATED_AT))
    await stage.see(write(stage.client("Admin"), "RegisterPolicy", "7", CREATED_AT))
    await stage.see(write(stage.client("ByAttribute"), "RegisterPolicy", policy, CREATED_AT))
    await stage.see(write(stage.client(), "RegisterPolicy", policy, CREATED_AT))


@scenario
async def who_may_write(stage: Stage) -> None:
    stage.world.enrol("Reader", attributes={"glassbox.role": "reader"})
    stage.world.enrol("Expired", expired=True)
    stage.world.enrol("AsPeer", "peer")
    stage.world.enrol("Roleless", None)
    for user in ("Reader", "Expired", "AsPeer", "Roleless", "Admin"):
        await stage.see(write(stage.client(user), "CommitScorecards", cards(f"by-{user}")))
    await stage.see(stage.client("Reader").evaluate("ListPolicies", "10", ""))
    await stage.see(stage.client("Expired").evaluate("ListByPrefix", "by-", "10", ""))


@scenario
async def strangers(stage: Stage) -> None:
    honest = stage.world.profile().signer
    made = Authority.create("ca.elsewhere").issue("User1@elsewhere", "client")
    stranger = FileSigner("Org1MSP", made.certificate_pem, made.key)
    of_nobody = Crooked(honest, lambda signer, message: signer.sign(message), claimed="Org9MSP")
    for signer in (stranger, of_nobody):
        client = stage.client(signer=signer)
        await stage.see(write(client, "CommitScorecards", cards("strange")))
        await stage.see(client.evaluate("ListByPrefix", "x", "10", ""))
        await stage.see(client.commit_status(NOBODY, 2))


@scenario
async def signatures_that_do_not_hold(stage: Stage) -> None:
    honest = stage.world.profile().signer
    other = Crooked(honest, lambda signer, message: signer.sign(message + b"!"))
    empty = Crooked(honest, lambda signer, message: b"")
    high = Crooked(honest, lambda signer, message: _high_s(signer.sign(message)))
    for signer in (other, empty, high):
        client = stage.client(signer=signer)
        await stage.see(client.endorse("CommitScorecards", cards("forged")))
        await stage.see(client.evaluate("ListByPrefix", "x", "10", ""))
        await stage.see(client.commit_status(NOBODY, 2))


def _high_s(signature: bytes) -> bytes:
    r, s = decode_dss_signature(low_s(signature))
    return encode_dss_signature(r, _P256_ORDER - s)


def _set(**values: object) -> Callable[[ChannelHeader, SignatureHeader], None]:
    def edit(channel: ChannelHeader, signature: SignatureHeader) -> None:
        for name, value in values.items():
            setattr(channel if hasattr(channel, name) else signature, name, value)

    return edit


@scenario
async def headers_that_are_not_in_order(stage: Stage) -> None:
    edits = [
        _set(tx_id="00"),
        _set(tx_id=NOBODY),
        _set(nonce=b""),
        _set(nonce=b"short"),
        _set(creator=b""),
        _set(creator=b"nobody"),
        _set(epoch=3),
        _set(type=0),
        _set(extension=b""),
        _set(channel_id=""),
        _set(channel_id="another"),
    ]
    for edit in edits:
        client = stage.client()
        client.edit = edit
        await stage.see(client.endorse("CommitScorecards", cards("edited")))
        await stage.see(client.evaluate("ListByPrefix", "x", "10", ""))


@scenario
async def a_wrong_channel_or_chaincode(stage: Stage) -> None:
    for client in (stage.client(channel="nowhere"), stage.client(chaincode="nothing"), stage.client(chaincode="")):
        await stage.see(client.endorse("CommitScorecards", cards("lost")))
        await stage.see(client.evaluate("ListByPrefix", "x", "10", ""))
        await stage.see(client.commit_status(NOBODY, 2))
    await stage.see(_first_event(stage.client(channel="nowhere")))


@scenario
async def a_transaction_that_nobody_sent(stage: Stage) -> None:
    await stage.see(stage.client().commit_status(NOBODY, 1.5))


@scenario
async def the_same_transaction_twice(stage: Stage) -> None:
    client = stage.client()
    client.nonce = os.urandom(24)
    first = await client.endorse("CommitScorecards", cards("twice"))
    second = await client.endorse("CommitScorecards", cards("twice"))
    await stage.see(land(client, first))
    await stage.see(land(client, first))
    await stage.see(land(client, second))
    await stage.see(client.endorse("CommitScorecards", cards("twice")))


@scenario
async def what_was_read_has_changed(stage: Stage) -> None:
    client = stage.client()
    first, second = [await client.endorse("CommitScorecards", cards("shared", name)) for name in ("own-1", "own-2")]
    await asyncio.gather(client.submit(first.tx_id, first.envelope), client.submit(second.tx_id, second.envelope))
    outcomes = await asyncio.gather(
        *(client.commit_status(each.tx_id) for each in (first, second)), return_exceptions=True
    )
    (loser,) = [each for each in outcomes if isinstance(each, GatewayError)]
    stage.seen.append(Seen(f"{type(loser).__name__} {loser.code}", loser.reason))
    first, second = [await client.endorse("CommitScorecards", cards("later")) for _ in range(2)]
    await stage.see(land(client, first))
    await stage.see(land(client, second))


@scenario
async def a_list_that_has_grown(stage: Stage) -> None:
    client = stage.client()
    listed = await client.endorse("ListByPrefix", "grown", "10", "")
    await stage.see(write(client, "CommitScorecards", cards("grown")))
    await stage.see(land(client, listed))
    await stage.see(write(client, "ListByPrefix", "grown", "10", ""))


@scenario
async def envelopes_that_were_changed(stage: Stage) -> None:
    client, admin = stage.client(), stage.client("Admin")
    for n, change in enumerate([_unsigned, _signed_by(admin.profile.signer), _other_writes, _unendorsed]):
        prepared = await client.endorse("CommitScorecards", cards(f"changed-{n}"))
        envelope = Envelope.FromString(prepared.envelope)
        change(envelope, client.profile.signer)
        await stage.see(land(client, prepared, envelope.SerializeToString()))


def _unsigned(envelope: Envelope, signer: Signer) -> None:
    envelope.signature = b""


def _signed_by(other: Signer) -> Callable[[Envelope, Signer], None]:
    def change(envelope: Envelope, signer: Signer) -> None:
        envelope.signature = other.sign(envelope.payload)

    return change


def _other_writes(envelope: Envelope, signer: Signer) -> None:
    _edit_action(envelope, signer, lambda action: _swap(action))


def _swap(action: ChaincodeActionPayload) -> None:
    response = bytes(action.action.proposal_response_payload)
    action.action.proposal_response_payload = response.replace(b"created", b"CREATED")


def _unendorsed(envelope: Envelope, signer: Signer) -> None:
    _edit_action(envelope, signer, lambda action: action.action.ClearField("endorsements"))


def _edit_action(envelope: Envelope, signer: Signer, edit: Callable[[ChaincodeActionPayload], None]) -> None:
    payload = Payload.FromString(envelope.payload)
    transaction = Transaction.FromString(payload.data)
    action = ChaincodeActionPayload.FromString(transaction.actions[0].payload)
    edit(action)
    transaction.actions[0].payload = action.SerializeToString()
    payload.data = transaction.SerializeToString()
    envelope.payload = payload.SerializeToString()
    envelope.signature = signer.sign(envelope.payload)


@scenario
async def proofs_from_the_query_chaincode(stage: Stage) -> None:
    client = stage.client()
    prepared = await client.endorse("CommitScorecards", cards("proven"))
    await land(client, prepared)

    async def size(tx_id: str) -> bool:
        channel = client.profile.channel
        return len(await client.evaluate("GetTransactionByID", channel, tx_id, chaincode="qscc")) > 1000

    await stage.see(size(prepared.tx_id))
    await stage.see(size(NOBODY))


@scenario
async def events_in_order_and_again_from_a_position(stage: Stage) -> None:
    client = stage.client()
    for name in ("event-1", "event-2", "event-3"):
        await write(client, "CommitScorecards", cards(name))
    await write(client, "CommitScorecards", cards("event-3"))
    found = await _events(client, None, ["event-1", "event-2", "event-3"])
    stage.seen.append(Seen(str([json.loads(event.payload)["evaluation_ids"] for event in found])))
    rest = await _events(client, found[0].position, ["event-2", "event-3"])
    stage.seen.append(Seen(str([event.name for event in rest])))


async def _events(client: Gateway, after: proposal.Position | None, wanted: Sequence[str]) -> list[Any]:
    found: list[Any] = []
    async with aclosing(client.events(after)) as events, asyncio.timeout(20):
        async for event in events:
            if any(name in event.payload.decode() for name in wanted):
                found.append(event)
            if len(found) == len(wanted):
                return found
    raise AssertionError("the stream ended")


async def _first_event(client: Gateway) -> None:
    async with aclosing(client.events()) as events, asyncio.timeout(5):
        async for _ in events:
            return


@scenario
async def the_chaincode_is_down(stage: Stage) -> None:
    client = stage.client()
    stage.world.stop("chaincode1")
    try:
        await stage.see(client.endorse("CommitScorecards", cards("down")))
        await stage.see(client.evaluate("ListByPrefix", "x", "10", ""))
    finally:
        stage.world.start("chaincode1")
    await stage.see(write(client, "CommitScorecards", cards("down")))


@scenario
async def the_orderer_is_down(stage: Stage) -> None:
    client = stage.client()
    prepared = await client.endorse("CommitScorecards", cards("unordered"))
    stage.world.stop("orderer")
    try:
        await stage.see(land(client, prepared))
        await stage.see(client.evaluate("ListByPrefix", "unordered", "10", ""))
    finally:
        stage.world.start("orderer")
    await stage.see(_until_ordered(client, prepared))


async def _until_ordered(client: Gateway, prepared: proposal.Prepared) -> str:
    """The orderer may still elect itself when it is back."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await land(client, prepared)
            except GatewayError:
                await asyncio.sleep(0.2)


def masked(text: str) -> str:
    """A network's sentence without what differs from one call to the next."""
    for pattern, name in (
        (r"\b[0-9a-f]{64}\b", "HASH"),
        (r"\b[0-9a-f]{20,}\b", "HEX"),
        (r"\d{4}-\d\d-\d\d[T ][0-9:.]+( \+0000 UTC|Z)?", "TIME"),
        (r"127\.0\.0\.1:\d+|localhost:\d+", "ADDRESS"),
        (r"\b[0-9a-f]{8}\b", "TX"),
        (r"scorecards-\d+", "scorecards"),
    ):
        text = re.sub(pattern, name, text)
    return text
