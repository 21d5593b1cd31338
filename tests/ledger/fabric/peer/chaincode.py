"""The peer's side of chaincode as a service: one stream to the chaincode process, over which transactions run."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Iterator

import grpc
from fabric_protos.peer.chaincode_pb2 import ChaincodeID, ChaincodeInput
from fabric_protos.peer.chaincode_shim_pb2 import ChaincodeMessage
from fabric_protos.peer.chaincode_shim_pb2_grpc import ChaincodeStub
from fabric_protos.peer.proposal_pb2 import SignedProposal

from tests.ledger.fabric.peer.simulation import Simulation, SimulationError

MESSAGE_LIMIT = 100 << 20
CHANNEL_OPTIONS = [("grpc.max_receive_message_length", MESSAGE_LIMIT), ("grpc.max_send_message_length", MESSAGE_LIMIT)]
Kind = ChaincodeMessage.Type


class ChaincodeFailure(Exception):
    """The chaincode did not run to an answer: it is down, went away, took too long, or its stub failed."""


class ChaincodeClient:
    """Runs transactions in a chaincode process; connects when first used, and again after the process came back.

    `package_id`: the name under which the process must register. `timeout`: seconds a transaction may take.
    """

    def __init__(self, address: str, package_id: str, *, timeout: float = 30.0, dial_timeout: float = 1.0) -> None:
        self._address, self._package_id = address, package_id
        self._timeout, self._dial_timeout = timeout, dial_timeout
        self._connecting = threading.Lock()
        self._stream: _Stream | None = None

    def execute(
        self, simulation: Simulation, channel: str, transaction_id: str, call: ChaincodeInput, signed: SignedProposal
    ) -> ChaincodeMessage:
        """The chaincode's COMPLETED message. Raises ChaincodeFailure."""
        request = ChaincodeMessage(
            type=Kind.TRANSACTION,
            payload=call.SerializeToString(),
            txid=transaction_id,
            channel_id=channel,
            proposal=signed,
        )
        answer = self._connected().run(simulation, request, self._timeout)
        if answer.type == Kind.ERROR:
            raise ChaincodeFailure(f"transaction returned with failure: {answer.payload.decode()}")
        return answer

    def close(self) -> None:
        with self._connecting:
            if self._stream is not None:
                self._stream.close()

    def _connected(self) -> _Stream:
        with self._connecting:
            if self._stream is None or self._stream.ended.is_set():
                self._stream = _Stream(self._address, self._package_id, self._dial_timeout)
            return self._stream


class _Stream:
    """One Connect stream. A thread reads what the chaincode asks, and answers from the running simulations."""

    def __init__(self, address: str, package_id: str, dial_timeout: float) -> None:
        self.ended = threading.Event()
        self._package_id = package_id
        self._requests: queue.SimpleQueue[ChaincodeMessage | None] = queue.SimpleQueue()
        self._registered: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._running: dict[str, tuple[Simulation, queue.SimpleQueue[ChaincodeMessage | None]]] = {}
        self._channel = grpc.insecure_channel(address, CHANNEL_OPTIONS)
        try:
            _check_listening(address)
            grpc.channel_ready_future(self._channel).result(dial_timeout)
        except (OSError, grpc.FutureTimeoutError):
            self._channel.close()
            refused = f"transport: error while dialing: dial tcp {address}: connect: connection refused"
            raise ChaincodeFailure(
                f"could not launch chaincode {package_id}: connection to {package_id} failed: error cannot create "
                f"connection for {package_id}: error creating grpc connection to {address}: failed to create new "
                f'connection: connection error: desc = "{refused}"'
            ) from None
        messages = ChaincodeStub(self._channel).Connect(iter(self._requests.get, None))
        threading.Thread(target=self._serve, args=(messages,), name=f"chaincode-{package_id}", daemon=True).start()
        if refusal := self._registered.get(timeout=5):
            raise ChaincodeFailure(f"could not launch chaincode {package_id}: {refusal}")

    def run(self, simulation: Simulation, request: ChaincodeMessage, timeout: float) -> ChaincodeMessage:
        answers: queue.SimpleQueue[ChaincodeMessage | None] = queue.SimpleQueue()
        self._running[request.txid] = simulation, answers
        self._requests.put(request)
        if self.ended.is_set():  # it may have ended before the simulation was among the running
            answers.put(None)
        try:
            answer = answers.get(timeout=timeout)
        except queue.Empty:
            raise ChaincodeFailure("error sending: timeout expired while executing transaction") from None
        finally:
            self._running.pop(request.txid, None)
        if answer is None:
            raise ChaincodeFailure("error sending: chaincode stream terminated")
        return answer

    def close(self) -> None:
        self._requests.put(None)
        self._channel.close()

    def _serve(self, messages: Iterator[ChaincodeMessage]) -> None:
        try:
            for message in messages:
                if not self._handle(message):
                    break
        except (grpc.RpcError, ValueError):  # the process went away; or this side closed the channel
            pass
        finally:
            self.ended.set()
            self._registered.put("chaincode stream terminated")
            for _, answers in list(self._running.values()):
                answers.put(None)
            self.close()

    def _handle(self, message: ChaincodeMessage) -> bool:
        """Whether the stream goes on."""
        if message.type == Kind.REGISTER:
            name = ChaincodeID.FromString(message.payload).name
            if name != self._package_id:
                self._registered.put(f"chaincode registered as {name}")
                return False
            self._requests.put(ChaincodeMessage(type=Kind.REGISTERED))
            self._requests.put(ChaincodeMessage(type=Kind.READY))
            self._registered.put("")
        elif message.txid in self._running:
            simulation, answers = self._running[message.txid]
            if message.type in (Kind.COMPLETED, Kind.ERROR):
                answers.put(message)
            else:
                self._requests.put(_reply(simulation, message))
        return True


def _check_listening(address: str) -> None:
    """Raises OSError at once where nobody listens; gRPC would try again until the time is up."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host, int(port)), timeout=1).close()


def _reply(simulation: Simulation, message: ChaincodeMessage) -> ChaincodeMessage:
    try:
        kind, payload = Kind.RESPONSE, simulation.handle(message)
    except SimulationError as error:
        name = Kind.Name(message.type)
        kind, payload = Kind.ERROR, f"{name} failed: transaction ID: {message.txid}: {error}".encode()
    return ChaincodeMessage(type=kind, payload=payload, txid=message.txid, channel_id=message.channel_id)
