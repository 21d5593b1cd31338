"""The calls to a Fabric network's gateway peers: each with a deadline, and with the next peer where one fails.

What is sent is made in `proposal`, what a failure means is said in `errors`; here is only the sending.
"""

import asyncio
import os
import random
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ledger.fabric import proposal
from ledger.fabric.errors import (
    Configuration,
    GatewayError,
    Retry,
    Step,
    Unknown,
    classify,
    error_details,
    invalidity,
    trailing_status,
)
from ledger.fabric.identity import Signer, expires
from ledger.fabric.profile import Peer, Profile
from ledger.fabric.proposal import EnvelopeError, Position, Prepared
from ledger.fabric.protos import gateway  # first: it says what to install where gRPC is absent too

# isort: split
import grpc
from fabric_protos.gateway.gateway_pb2_grpc import GatewayStub

_LARGEST = 100 * 1024 * 1024
"""Bytes of a message, as peers have it (core.yaml, peer.maxRecvMsgSize)."""

_OPTIONS = [
    ("grpc.max_send_message_length", _LARGEST),
    ("grpc.max_receive_message_length", _LARGEST),
    ("grpc.keepalive_time_ms", 120_000),  # peers hang up on clients that ping more often than once a minute
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5_000),  # a peer that is back is found within seconds
]
_TRIES = 2
"""At least, also where there is one peer: a connection may have died unnoticed."""


@dataclass(frozen=True)
class Deadlines:
    """Seconds a step may take. `known`: for a transaction to turn out committed before it is submitted again."""

    evaluate: float = 10
    endorse: float = 30
    submit: float = 15
    commit: float = 60
    known: float = 5


@dataclass(frozen=True)
class Event:
    """A chaincode event of a valid transaction. `position`: what `Gateway.events` goes on behind."""

    position: Position
    name: str
    payload: bytes


class Gateway:
    """Calls a profile's chaincode as its signer. Every method may raise GatewayError."""

    def __init__(self, profile: Profile, deadlines: Deadlines | None = None) -> None:
        self.profile = profile
        self.deadlines = deadlines or Deadlines()
        self._connections: dict[int, tuple[Any, GatewayStub]] = {}
        self._preferred = 0

    async def evaluate(self, function: str, *args: str, chaincode: str | None = None) -> bytes:
        """What a function answers now, on one peer; nothing is written."""
        proposed = self._propose(chaincode or self.profile.chaincode, function, args)
        request = gateway.EvaluateRequest(
            transaction_id=proposed.tx_id, channel_id=proposed.channel, proposed_transaction=proposed.signed
        )
        _, response = await self._call("Evaluate", request, self.deadlines.evaluate)
        return bytes(response.result.payload)

    async def endorse(self, function: str, *args: str) -> Prepared:
        """The transaction in which enough peers say what the function answers, signed and ready to be submitted."""
        proposed = self._propose(self.profile.chaincode, function, args)
        request = gateway.EndorseRequest(
            transaction_id=proposed.tx_id, channel_id=proposed.channel, proposed_transaction=proposed.signed
        )
        peer, response = await self._call("Endorse", request, self.deadlines.endorse)
        try:
            return proposal.prepare(self.profile.signer, proposed, response.prepared_transaction)
        except EnvelopeError as error:
            reason = f"the peer answered with a transaction that was not asked for: {error}"
            raise Configuration("Endorse", peer.endpoint, "OK", reason, "do not trust this peer; use another") from None

    async def submit(self, tx_id: str, envelope: bytes) -> None:
        """Hand a signed envelope to the orderer. It may be handed over again: it counts once."""
        request = gateway.SubmitRequest(transaction_id=tx_id, channel_id=self.profile.channel)
        request.prepared_transaction.ParseFromString(envelope)
        await self._call("Submit", request, self.deadlines.submit)

    async def commit_status(self, tx_id: str, patience: float | None = None) -> int:
        """Wait until a transaction is in a block, and return the block's number where it is valid.

        Raises Unknown when it is in none after `patience` seconds (by default the deadline `commit`), Conflict or
        Invalid when it is marked so.
        """
        request = proposal.status_request(self.profile.signer, self.profile.channel, tx_id)
        peer, response = await self._call("CommitStatus", request, patience or self.deadlines.commit)
        invalid = invalidity(peer.endpoint, tx_id, response.result)
        if invalid is not None:
            raise invalid
        return int(response.block_number)

    async def events(self, after: Position | None = None) -> AsyncGenerator[Event, None]:
        """The chaincode's events behind a position (or all), without end; across peers that go away. GatewayError
        is raised when none can go on: ask again behind the last one received."""
        failures = 0
        while True:
            number = self._preferred
            peer = self.profile.peers[number]
            request = proposal.events_request(self.profile.signer, self.profile.channel, self.profile.chaincode, after)
            call = self._stub(number).ChaincodeEvents(request)
            failure: GatewayError
            try:
                async for response in call:
                    failures = 0
                    for event in response.events:
                        after = (int(response.block_number), str(event.tx_id))
                        yield Event(after, str(event.event_name), bytes(event.payload))
                failure = Retry("ChaincodeEvents", peer.endpoint, "OK", "the peer ended the stream")
            except grpc.aio.AioRpcError as error:
                failure = self._failure("ChaincodeEvents", peer, error)
            finally:
                call.cancel()
            failures += 1
            if not isinstance(failure, Retry) or failures >= self._tries():
                raise failure
            self._prefer_next(number)
            await _pause()

    async def close(self) -> None:
        for channel, _ in self._connections.values():
            await channel.close()
        self._connections.clear()

    def _propose(self, chaincode: str, function: str, args: tuple[str, ...]) -> proposal.Proposal:
        return proposal.propose(
            self.profile.signer,
            self.profile.channel,
            chaincode,
            function,
            args,
            nonce=os.urandom(proposal.NONCE_SIZE),
            time_ns=time.time_ns(),
        )

    async def _call(self, step: Step, request: Any, deadline: float) -> tuple[Peer, Any]:
        """The answer of the first peer that gives one, and which that was."""
        first: GatewayError | None = None
        for n in range(self._tries()):
            number = self._preferred
            peer = self.profile.peers[number]
            try:
                return peer, await getattr(self._stub(number), step)(request, timeout=deadline)
            except grpc.aio.AioRpcError as error:
                failure = self._failure(step, peer, error)
            if isinstance(failure, Retry | Configuration | Unknown):
                self._prefer_next(number)
            if not isinstance(failure, Retry | Configuration):
                raise failure
            first = first or failure
            if n + 1 >= len(self.profile.peers):
                if isinstance(first, Configuration):
                    break
                await _pause()
        assert first is not None
        raise first

    def _tries(self) -> int:
        return max(_TRIES, len(self.profile.peers))

    def _prefer_next(self, failed: int) -> None:
        if self._preferred == failed:  # otherwise a call beside this one has moved on already
            self._preferred = (failed + 1) % len(self.profile.peers)

    def _failure(self, step: Step, peer: Peer, error: Any) -> GatewayError:
        details = error_details(trailing_status(error.trailing_metadata()))
        failure = classify(step, peer.endpoint, error.code().name, error.details() or "", details)
        return or_expired(failure, self.profile.signer)

    def _stub(self, number: int) -> Any:
        # Made at the first call: gRPC binds a channel to the event loop that runs.
        if number not in self._connections:
            channel = _channel(self.profile.peers[number], self.profile)
            self._connections[number] = channel, GatewayStub(channel)
        return self._connections[number][1]


def or_expired(failure: GatewayError, signer: Signer) -> GatewayError:
    """What peers say of an expired certificate is that they do not know its issuer: say what it is."""
    until = expires(signer)
    if not isinstance(failure, Configuration) or until > datetime.now(UTC):
        return failure
    return type(failure)(
        failure.step,
        failure.peer,
        failure.code,
        f"this client's certificate expired at {until:%Y-%m-%d %H:%M} UTC",
        f"have {signer.msp_id} issue a new one, put it in its place and start again",
    )


def _channel(peer: Peer, profile: Profile) -> Any:
    if peer.tls_ca is None:
        return grpc.aio.insecure_channel(peer.endpoint, options=_OPTIONS)
    client = profile.client_tls
    credentials = grpc.ssl_channel_credentials(
        peer.tls_ca, None if client is None else client.key, None if client is None else client.certificate
    )
    alias = [] if peer.host_alias is None else [("grpc.ssl_target_name_override", peer.host_alias)]
    return grpc.aio.secure_channel(peer.endpoint, credentials, options=[*_OPTIONS, *alias])


async def _pause() -> None:
    await asyncio.sleep(random.uniform(0.1, 0.3))  # noqa: S311 — jitter, not a secret
