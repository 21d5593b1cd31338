"""The ordering service: who may send, and in which blocks transactions are committed."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass

from fabric_protos.common.common_pb2 import (
    BAD_REQUEST,
    FORBIDDEN,
    SERVICE_UNAVAILABLE,
    SUCCESS,
    ChannelHeader,
    Envelope,
    Payload,
    SignatureHeader,
)
from fabric_protos.orderer.ab_pb2 import BroadcastResponse
from google.protobuf.message import DecodeError

from tests.ledger.fabric.peer.faults import OrdererFaults
from tests.ledger.fabric.peer.ledger import Ledger
from tests.ledger.fabric.peer.msp import WRITERS, Membership
from tests.ledger.fabric.peer.policy import unsatisfied
from tests.ledger.fabric.peer.validation import Validator


@dataclass(frozen=True)
class BatchSize:
    """When a block is cut: so many seconds after its first transaction, or with so many transactions."""

    timeout: float = 0.02
    messages: int = 100


ENDPOINT = "127.0.0.1:7050"
"""Where an orderer listens that runs by itself; named in what is said when it is down."""


class Orderer:
    """Takes envelopes in one order, and commits them block by block on a thread of its own. `taken`: how many."""

    def __init__(
        self,
        ledger: Ledger,
        membership: Membership,
        validator: Validator,
        faults: OrdererFaults,
        batches: BatchSize,
    ) -> None:
        self._ledger, self._membership, self._validator = ledger, membership, validator
        self.faults, self._batches = faults, batches
        self.taken = 0
        self._pending: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._cutter = threading.Thread(target=self._cut_blocks, name="orderer", daemon=True)
        self._cutter.start()

    def broadcast(self, envelope: Envelope) -> BroadcastResponse:
        """Checks the sender against the channel's writers and puts the envelope in line."""
        if self.faults.leaderless or self.faults.down:  # to who calls on a peer's port it cannot be gone
            return BroadcastResponse(status=SERVICE_UNAVAILABLE, info="no Raft leader")
        try:
            header = Payload.FromString(envelope.payload).header
            channel = ChannelHeader.FromString(header.channel_header).channel_id
            creator = SignatureHeader.FromString(header.signature_header).creator
        except DecodeError as error:
            return BroadcastResponse(status=BAD_REQUEST, info=f"could not determine channel ID: {error}")
        if channel != self._ledger.channel:
            return BroadcastResponse(
                status=BAD_REQUEST,
                info="channel creation request not allowed because the orderer system channel is not defined",
            )
        if self._membership.expired(creator):
            return BroadcastResponse(status=BAD_REQUEST, info="broadcast client identity expired")
        if not self._membership.satisfied(creator, envelope.signature, envelope.payload, WRITERS):
            return BroadcastResponse(status=FORBIDDEN, info=f"{unsatisfied('Writers')}: permission denied")
        for _ in range(2 if self.faults.order_twice else 1):
            self._pending.put(envelope.SerializeToString())
            self.taken += 1
        return BroadcastResponse(status=SUCCESS)

    def close(self) -> None:
        self._closed.set()
        self._pending.put(None)
        self._cutter.join()

    def _cut_blocks(self) -> None:
        while (first := self._pending.get()) is not None:
            batch = [first, *self._fill(self._batches.messages - 1)]
            self._closed.wait(self.faults.delay)
            while not self.faults.commits.wait(0.05):
                if self._closed.is_set():
                    return
            self._ledger.commit(batch, self._validator.validate)

    def _fill(self, room: int) -> list[bytes]:
        batch: list[bytes] = []
        end = time.monotonic() + self._batches.timeout
        while len(batch) < room and (left := end - time.monotonic()) > 0:
            try:
                envelope = self._pending.get(timeout=left)
            except queue.Empty:
                break
            if envelope is None:
                self._pending.put(None)
                break
            batch.append(envelope)
        return batch
