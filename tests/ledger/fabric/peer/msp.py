"""Membership: whose certificate it is, which role it has, and whether a signature is one that Fabric accepts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.x509.oid import NameOID
from fabric_protos.msp.identities_pb2 import SerializedIdentity
from google.protobuf.message import DecodeError

from tests.ledger.fabric.peer.certificates import KeyPair

P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
NODE_UNITS = frozenset({"client", "admin", "peer", "orderer"})
WRITERS = frozenset({"client", "admin"})
READERS = frozenset({"client", "admin", "peer"})
ENDORSERS = frozenset({"peer"})


class Denied(Exception):
    """An identity that no organisation of the channel vouches for."""


@dataclass(frozen=True)
class Member:
    """A certificate that chains to its organisation's root, whether or not its time has run out.

    `role`: client | admin | peer | orderer, or None where the certificate names no or several node units.
    """

    msp_id: str
    role: str | None
    public_key: ec.EllipticCurvePublicKey
    until: dt.datetime

    @property
    def expired(self) -> bool:
        """Only the doors from outside ask: endorser service, block delivery and orderer, but not the gateway."""
        return self.until < dt.datetime.now(dt.UTC)

    def signed(self, signature: bytes, data: bytes) -> bool:
        """Whether it signed `data` with ECDSA over SHA-256 and a low S, as Fabric demands."""
        try:
            _, s = decode_dss_signature(signature)
            if s > P256_ORDER // 2:
                return False
            self.public_key.verify(signature, data, ec.ECDSA(hashes.SHA256()))
        except (InvalidSignature, ValueError):
            return False
        return True


class Membership:
    """The organisations of a channel, each known by the root of its certificates."""

    def __init__(self, roots: Mapping[str, x509.Certificate]) -> None:
        self._roots = dict(roots)
        self._certificates: dict[bytes, tuple[str, x509.Certificate]] = {}

    @property
    def msp_ids(self) -> tuple[str, ...]:
        return tuple(self._roots)

    def member(self, identity: bytes) -> Member:
        """The member behind a SerializedIdentity; Denied for an unknown organisation or root."""
        if identity not in self._certificates:
            self._certificates[identity] = self._certificate(identity)
        msp_id, certificate = self._certificates[identity]
        units = {
            str(unit.value) for unit in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)
        }
        roles = units & NODE_UNITS
        key = certificate.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        return Member(msp_id, roles.pop() if len(roles) == 1 else None, key, certificate.not_valid_after_utc)

    def expired(self, identity: bytes) -> bool:
        """Whether it is a member whose time has run out."""
        try:
            return self.member(identity).expired
        except Denied:
            return False

    def satisfied(self, identity: bytes, signature: bytes, data: bytes, roles: Collection[str]) -> bool:
        """Whether a member with one of the roles signed the data."""
        return self.signatory(identity, signature, data, roles) is not None

    def signatory(self, identity: bytes, signature: bytes, data: bytes, roles: Collection[str]) -> str | None:
        """The organisation of the member that signed the data in one of the roles."""
        try:
            member = self.member(identity)
        except Denied:
            return None
        return member.msp_id if member.role in roles and member.signed(signature, data) else None

    def _certificate(self, identity: bytes) -> tuple[str, x509.Certificate]:
        try:
            serialized = SerializedIdentity.FromString(identity)
            certificate, root = x509.load_pem_x509_certificate(serialized.id_bytes), self._roots[serialized.mspid]
            certificate.verify_directly_issued_by(root)
            first_second = certificate.not_valid_before_utc + dt.timedelta(seconds=1)
            if not root.not_valid_before_utc <= first_second <= root.not_valid_after_utc:
                raise Denied("the root was not valid at the certificate's first second, as of which Fabric checks it")
        except (DecodeError, KeyError, ValueError, TypeError, InvalidSignature) as error:
            raise Denied("no organisation of the channel issued this certificate") from error
        return serialized.mspid, certificate


class LocalSigner:
    """The identity with which a peer endorses."""

    def __init__(self, msp_id: str, pair: KeyPair) -> None:
        self.msp_id = msp_id
        self.identity = SerializedIdentity(mspid=msp_id, id_bytes=pair.certificate_pem).SerializeToString()
        self._key = pair.key

    def sign(self, data: bytes) -> bytes:
        """DER ECDSA over SHA-256, low S."""
        r, s = decode_dss_signature(self._key.sign(data, ec.ECDSA(hashes.SHA256())))
        return encode_dss_signature(r, min(s, P256_ORDER - s))
