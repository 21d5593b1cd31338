"""Organisations with certificates, and transactions as a peer hands them out: honest by default, each lie a field."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from fabric_protos.common import common_pb2
from fabric_protos.ledger.rwset import rwset_pb2
from fabric_protos.ledger.rwset.kvrwset import kv_rwset_pb2
from fabric_protos.msp import identities_pb2
from fabric_protos.peer import chaincode_pb2, proposal_pb2, proposal_response_pb2, transaction_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from glassbox.contract.canonical import canonical
from glassbox.contract.record import record_bytes

NOW = datetime(2026, 1, 31, 9, 30, 2, tzinfo=UTC)
CHANNEL, CHAINCODE = "glassbox", "scorecards"
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


@dataclass(frozen=True)
class Member:
    """Somebody of an organisation, with a key."""

    msp_id: str
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    high_s: bool = False

    @property
    def identity(self) -> bytes:
        pem = self.certificate.public_bytes(Encoding.PEM)
        return identities_pb2.SerializedIdentity(mspid=self.msp_id, id_bytes=pem).SerializeToString()

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def sign(self, message: bytes) -> bytes:
        signature = self.key.sign(message, ec.ECDSA(SHA256()))
        if not isinstance(self.key.curve, ec.SECP256R1):
            return signature
        r, s = decode_dss_signature(signature)
        return encode_dss_signature(r, max(s, _ORDER - s) if self.high_s else min(s, _ORDER - s))


def issue(
    msp_id: str,
    name: str,
    issuer: Member | None = None,
    roles: Sequence[str] = (),
    *,
    authority: bool = False,
    start: datetime = NOW - timedelta(days=1),
    days: int = 365,
    curve: ec.EllipticCurve | None = None,
) -> Member:
    """A certificate as cryptogen makes them; without an issuer a root."""
    key = ec.generate_private_key(curve or ec.SECP256R1())
    authority = authority or issuer is None
    units = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role) for role in roles]
    subject = x509.Name([*units, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    certificate = builder.sign(issuer.key if issuer else key, SHA256())
    return Member(msp_id, certificate, key)


class Organisation:
    """A root with a peer and a client."""

    def __init__(self, msp_id: str) -> None:
        self.msp_id = msp_id
        self.root = issue(msp_id, f"ca.{msp_id}")
        self.peer = issue(msp_id, f"peer0.{msp_id}", self.root, ["peer"])
        self.client = issue(msp_id, f"User1@{msp_id}", self.root, ["client"])


@dataclass(frozen=True)
class Draft:
    """A transaction that commits `records`; whatever is not None replaces what would be true."""

    records: Sequence[dict[str, Any]]
    sender: Member
    endorsers: Sequence[Member]
    channel: str = CHANNEL
    chaincode: str = CHAINCODE
    time: Timestamp = field(default_factory=lambda: Timestamp(seconds=int(NOW.timestamp())))
    header_type: int = common_pb2.ENDORSER_TRANSACTION
    tx_id: str | None = None
    proposal_hash: bytes | None = None
    action_header: bytes | None = None
    actions: int = 1
    invoked: str | None = None
    answered_by: str | None = None
    answer: bytes | None = None
    status: int = 200
    writes: Sequence[tuple[str, str, bytes, bool]] | None = None
    """(namespace, key, value, is_delete)"""
    reads: Mapping[str, int | None] = field(default_factory=dict)
    """key -> number of the block that wrote what was read"""
    validation: int = transaction_pb2.VALID
    envelope_signature: bytes | None = None

    @property
    def creator(self) -> bytes:
        return self.sender.identity

    @property
    def true_id(self) -> str:
        return sha256(self._nonce + self.creator).hexdigest()

    _nonce = bytes(range(24))

    def processed(self) -> bytes:
        """The ProcessedTransaction."""
        return transaction_pb2.ProcessedTransaction(
            transactionEnvelope=self._envelope(), validationCode=self.validation
        ).SerializeToString()

    def envelope(self) -> bytes:
        """The Envelope, as it is before it is submitted."""
        return self._envelope().SerializeToString()

    def _envelope(self) -> common_pb2.Envelope:
        chaincode = chaincode_pb2.ChaincodeID(name=self.chaincode)
        channel_header = common_pb2.ChannelHeader(
            type=self.header_type,
            tx_id=self.tx_id or self.true_id,
            channel_id=self.channel,
            timestamp=self.time,
            extension=proposal_pb2.ChaincodeHeaderExtension(chaincode_id=chaincode).SerializeToString(),
        ).SerializeToString()
        signature_header = common_pb2.SignatureHeader(creator=self.creator, nonce=self._nonce).SerializeToString()
        action = transaction_pb2.TransactionAction(
            header=signature_header if self.action_header is None else self.action_header,
            payload=self._action(channel_header + signature_header),
        )
        payload = common_pb2.Payload(
            header=common_pb2.Header(channel_header=channel_header, signature_header=signature_header),
            data=transaction_pb2.Transaction(actions=[action] * self.actions).SerializeToString(),
        ).SerializeToString()
        signature = self.sender.sign(payload) if self.envelope_signature is None else self.envelope_signature
        return common_pb2.Envelope(payload=payload, signature=signature)

    def _action(self, headers: bytes) -> bytes:
        spec = chaincode_pb2.ChaincodeSpec(
            chaincode_id=chaincode_pb2.ChaincodeID(name=self.invoked or self.chaincode),
            input=chaincode_pb2.ChaincodeInput(args=[b"CommitScorecards", canonical(list(self.records))]),
        )
        proposal = proposal_pb2.ChaincodeProposalPayload(
            input=chaincode_pb2.ChaincodeInvocationSpec(chaincode_spec=spec).SerializeToString()
        ).SerializeToString()
        true = [{"evaluation_id": record["evaluation_id"], "result": "created"} for record in self.records]
        result = proposal_pb2.ChaincodeAction(
            results=self._results(),
            response=proposal_response_pb2.Response(
                status=self.status, payload=canonical(true) if self.answer is None else self.answer
            ),
            chaincode_id=chaincode_pb2.ChaincodeID(name=self.answered_by or self.chaincode, version="1.0"),
        )
        endorsed = proposal_response_pb2.ProposalResponsePayload(
            proposal_hash=sha256(headers + proposal).digest() if self.proposal_hash is None else self.proposal_hash,
            extension=result.SerializeToString(),
        ).SerializeToString()
        endorsements = [
            proposal_response_pb2.Endorsement(endorser=peer.identity, signature=peer.sign(endorsed + peer.identity))
            for peer in self.endorsers
        ]
        return transaction_pb2.ChaincodeActionPayload(
            chaincode_proposal_payload=proposal,
            action=transaction_pb2.ChaincodeEndorsedAction(
                proposal_response_payload=endorsed, endorsements=endorsements
            ),
        ).SerializeToString()

    def _results(self) -> bytes:
        true = [
            (self.chaincode, f"record/{record['evaluation_id']}", record_bytes(record), False)
            for record in self.records
        ]
        writes = [("_lifecycle", "x", b"", False), *true] if self.writes is None else self.writes
        return rwset_pb2.TxReadWriteSet(
            ns_rwset=[
                rwset_pb2.NsReadWriteSet(
                    namespace=namespace,
                    rwset=kv_rwset_pb2.KVRWSet(
                        reads=[_read(key, block) for key, block in self.reads.items() if namespace == self.chaincode],
                        writes=[
                            kv_rwset_pb2.KVWrite(key=key, value=value, is_delete=is_delete)
                            for space, key, value, is_delete in writes
                            if space == namespace
                        ],
                    ).SerializeToString(),
                )
                for namespace in dict.fromkeys([*([self.chaincode] if self.reads else []), *(w[0] for w in writes)])
            ]
        ).SerializeToString()


def _read(key: str, block: int | None) -> kv_rwset_pb2.KVRead:
    return kv_rwset_pb2.KVRead(key=key, version=None if block is None else kv_rwset_pb2.Version(block_num=block))
