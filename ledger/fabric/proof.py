"""The proof from Fabric, without any I/O: what a processed transaction says, and who vouches for it.

A transaction is nested messages (fabric-protos: peer/transaction.proto, peer/proposal.proto). The sender signs the
envelope's payload. Each endorser signs the proposal response payload: the hash of the proposal (headers and input),
what the chaincode read and wrote, and what it answered. So nothing that is read here can be changed without their
keys, but for the validation code, which a peer adds to the transaction as it stands in its block.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

from fabric_protos.common import common_pb2
from fabric_protos.ledger.rwset import rwset_pb2
from fabric_protos.ledger.rwset.kvrwset import kv_rwset_pb2
from fabric_protos.msp import identities_pb2
from fabric_protos.peer import chaincode_pb2, proposal_pb2, proposal_response_pb2, transaction_pb2
from google.protobuf.message import DecodeError, Message

from glassbox.contract.canonical import CanonicalError, showable, strict_loads
from ledger.fabric.trust import Authority, Identity
from ledger.merkle import ProofError

MAX_TRANSACTION = 100 * 1024 * 1024
"""Longest transaction read, in bytes: the most that Fabric's own gRPC takes."""

MAX_ENDORSEMENTS = 256
"""Most endorsements read: far more than a channel has organisations."""

_OK_BELOW = 400  # shim.ERRORTHRESHOLD: a chaincode that answers more has failed
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_M = TypeVar("_M", bound=Message)


class Endorsement(NamedTuple):
    """Who is said to have endorsed, those bytes as they were signed, and the signature; not checked."""

    endorser: Identity
    identity: bytes
    signature: bytes


@dataclass(frozen=True)
class Transaction:
    """A transaction whose parts belong together. Signatures are checked by `check_sender` and `endorsed`.

    `time`: as the sender wrote it. `signed` is signed by the sender, `response` with their identity by the endorsers.
    Of the chaincode's own namespace, `reads`: key -> number of the block that wrote what was read, None where nothing
    stood; `writes`: key -> value, None for a deletion. `answer`: what the chaincode answered, as JSON.
    """

    channel: str
    chaincode: str
    tx_id: str
    time: datetime
    sender: Identity
    signature: bytes
    signed: bytes
    response: bytes
    reads: Mapping[str, int | None]
    writes: Mapping[str, bytes | None]
    answer: Any
    endorsements: tuple[Endorsement, ...]

    def answers(self) -> list[dict[str, Any]]:
        """What the chaincode answered of each record."""
        answers = self.answer if isinstance(self.answer, list) else [self.answer]
        return [answer for answer in answers if isinstance(answer, dict)]


def read_processed(raw: bytes) -> tuple[Transaction, str]:
    """A protobuf ProcessedTransaction (peer/transaction.proto) as qscc's GetTransactionByID gives it: what it holds,
    and the name of its TxValidationCode. Raises ProofError, as `read`."""
    processed = _parse(transaction_pb2.ProcessedTransaction, _limited(raw), "the processed transaction")
    return _read(processed.transactionEnvelope), _validation(processed.validationCode)


def read(raw: bytes) -> Transaction:
    """A protobuf Envelope (common/common.proto), committed or not.

    Checks what needs no key, as Fabric does before it validates (core/common/validation/msgvalidation.go): one
    action; the id is SHA-256(nonce || creator); the endorsed hash is that of headers and input; one chaincode
    throughout; one write a key. Raises ProofError.
    """
    return _read(_parse(common_pb2.Envelope, _limited(raw), "the envelope"))


def _limited(raw: bytes) -> bytes:
    if len(raw) > MAX_TRANSACTION:
        raise ProofError(f"the transaction is longer than {MAX_TRANSACTION} bytes")
    return raw


def _read(envelope: Any) -> Transaction:
    payload = _parse(common_pb2.Payload, envelope.payload, "its payload")
    header = _parse(common_pb2.ChannelHeader, payload.header.channel_header, "its channel header")
    sender = _parse(common_pb2.SignatureHeader, payload.header.signature_header, "its signature header")
    extension = _parse(proposal_pb2.ChaincodeHeaderExtension, header.extension, "its header extension")
    if header.type != common_pb2.ENDORSER_TRANSACTION:
        raise ProofError("it is no transaction of a chaincode")
    tx_id = sha256(sender.nonce + sender.creator).hexdigest()
    if header.tx_id != tx_id:
        raise ProofError("the transaction id is not the digest of nonce and sender")
    actions = _parse(transaction_pb2.Transaction, payload.data, "its data").actions
    if len(actions) != 1:
        raise ProofError(f"the transaction has {len(actions)} actions where Fabric allows one")
    if actions[0].header != payload.header.signature_header:
        raise ProofError("the action is another sender's than the transaction")
    action = _parse(transaction_pb2.ChaincodeActionPayload, actions[0].payload, "its action")
    response = action.action.proposal_response_payload
    answered = _parse(proposal_response_pb2.ProposalResponsePayload, response, "what was endorsed")
    proposal = payload.header.channel_header + payload.header.signature_header + action.chaincode_proposal_payload
    if answered.proposal_hash != sha256(proposal).digest():
        raise ProofError("what was endorsed answers another proposal than this transaction's")
    result = _parse(proposal_pb2.ChaincodeAction, answered.extension, "the chaincode's result")
    if len(action.action.endorsements) > MAX_ENDORSEMENTS:
        raise ProofError(f"the transaction has more than {MAX_ENDORSEMENTS} endorsements")
    chaincode = extension.chaincode_id.name
    if {result.chaincode_id.name, _invoked(action.chaincode_proposal_payload)} != {chaincode}:
        raise ProofError("the transaction does not name one chaincode throughout")
    if not 0 < result.response.status < _OK_BELOW:
        raise ProofError(f"the chaincode refused: status {result.response.status}")
    reads, writes = _states(result.results, chaincode)
    return Transaction(
        channel=header.channel_id,
        chaincode=chaincode,
        tx_id=tx_id,
        time=_time(header.timestamp.seconds, header.timestamp.nanos),
        sender=_identity(sender.creator, "the sender's identity"),
        signature=envelope.signature,
        signed=envelope.payload,
        response=response,
        reads=reads,
        writes=writes,
        answer=_answer(result.response.payload),
        endorsements=tuple(
            Endorsement(_identity(each.endorser, "an endorser's identity"), each.endorser, each.signature)
            for each in action.action.endorsements
        ),
    )


def check_sender(transaction: Transaction, authorities: Mapping[str, Authority]) -> bool:
    """Check the sender's signature over the transaction; and its certificate, where its organisation is named.

    Returns whether it is named. Raises ProofError.
    """
    sender = transaction.sender
    sender.verify(transaction.signature, transaction.signed, "the transaction")
    authority = authorities.get(sender.msp_id)
    if authority is None:
        return False
    sender.check(authority, transaction.time)
    return True


class Endorsed(NamedTuple):
    """Organisations by MSP id, sorted: those named whose peers endorsed, and those that nobody named (unchecked)."""

    by: list[str]
    unnamed: list[str]


def endorsed(transaction: Transaction, authorities: Mapping[str, Authority]) -> Endorsed:
    """Check every endorsement by an organisation that is named: chain, role peer, signature. An organisation counts
    once, however many of its peers signed. Raises ProofError for one that does not verify.

    Certificates are judged at the transaction's time, which is the sender's word: years later all have expired,
    and there is no better time that does not come from a peer.
    """
    by, unnamed = set(), set()
    for endorser, identity, signature in transaction.endorsements:
        authority = authorities.get(endorser.msp_id)
        if authority is None:
            unnamed.add(endorser.msp_id)
            continue
        endorser.check(authority, transaction.time, role="peer")
        endorser.verify(signature, transaction.response + identity, "the endorsement")
        by.add(endorser.msp_id)
    return Endorsed(sorted(by), sorted(unnamed))


def _parse(message: type[_M], raw: bytes, what: str) -> _M:
    try:
        parsed: _M = message.FromString(raw)
    except DecodeError:
        raise ProofError(f"{what} is no protobuf {message.DESCRIPTOR.name}") from None
    return parsed


def _identity(raw: bytes, what: str) -> Identity:
    serialized = _parse(identities_pb2.SerializedIdentity, raw, what)
    return Identity.parse(serialized.mspid, serialized.id_bytes)


def _invoked(proposal_payload: bytes) -> str:
    """The chaincode that the input is for."""
    payload = _parse(proposal_pb2.ChaincodeProposalPayload, proposal_payload, "its input")
    invocation = _parse(chaincode_pb2.ChaincodeInvocationSpec, payload.input, "its invocation")
    return str(invocation.chaincode_spec.chaincode_id.name)


def _states(results: bytes, chaincode: str) -> tuple[dict[str, int | None], dict[str, bytes | None]]:
    """(reads, writes) of a `Transaction`."""
    reads: dict[str, int | None] = {}
    writes: dict[str, bytes | None] = {}
    sets = _parse(rwset_pb2.TxReadWriteSet, results, "the read-write set").ns_rwset
    own = [each.rwset for each in sets if each.namespace == chaincode]
    if len(own) > 1:
        raise ProofError(f"the chaincode {showable(chaincode)} has more than one read-write set")
    for raw in own:
        states = _parse(kv_rwset_pb2.KVRWSet, raw, "the chaincode's read-write set")
        for each in states.reads:
            reads[each.key] = each.version.block_num if each.HasField("version") else None
        for write in states.writes:
            if write.key in writes:
                raise ProofError(f"{showable(write.key)} is written twice")
            writes[write.key] = None if write.is_delete else write.value
    return reads, writes


def _answer(raw: bytes) -> Any:
    try:
        return strict_loads(raw)
    except CanonicalError:
        raise ProofError("what the chaincode answered is not JSON") from None


def _time(seconds: int, nanos: int) -> datetime:
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise ProofError("the transaction's time is none") from None


def _validation(code: int) -> str:
    values = transaction_pb2.TxValidationCode.DESCRIPTOR.values_by_number
    return str(values[code].name) if code in values else f"code {code}"
