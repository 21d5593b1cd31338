"""Whom an auditor trusts on a Fabric channel, and whether a certificate and a signature are by them.

`cryptography` only: no Fabric message and no network. What is checked of a certificate is what Fabric's membership
service checks (msp/mspimplvalidate.go): its chain to a root of the organisation and exactly one role (NodeOU);
and its validity period, which Fabric leaves out where it validates a block. Revocation lists are not asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import verification
from cryptography.x509.oid import NameOID

from glassbox.contract.canonical import showable
from ledger.checkpoint import KeyFormatError
from ledger.merkle import ProofError

_ROLES = frozenset({"admin", "client", "orderer", "peer"})
P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The order n of the group of P-256 (FIPS 186-5; SEC 2, 2.4.2)."""
# Fabric's certificates follow no web profile: a peer has no alternative name, and a root need not name its own key.
_ANY = verification.ExtensionPolicy.permit_all()
_AUTHORITY = _ANY.require_present(x509.BasicConstraints, verification.Criticality.AGNOSTIC, None)


@dataclass(frozen=True)
class Trust:
    """`roots`: MSP id -> PEM files of that organisation's certificate authorities, with at least one root; the
    others are intermediates. `endorsements`: how many of the named organisations must have endorsed; None: all.
    `channel`, `chaincode`: where the record must stand; None: anywhere. `unsigned_validity`: believe whoever made the
    file that the transaction became valid, where too few signed it.

    Raises KeyFormatError for what is no such file or number.
    """

    roots: Mapping[str, Sequence[bytes]]
    endorsements: int | None = None
    channel: str | None = None
    chaincode: str | None = None
    unsigned_validity: bool = False

    def __post_init__(self) -> None:
        if self.endorsements is not None and self.endorsements < 1:
            raise KeyFormatError(f"{self.endorsements} endorsements prove nothing: ask for 1 or more")
        if self.roots and self.required > len(self.roots):
            raise KeyFormatError(
                f"{self.required} endorsements of {len(self.roots)} named organisations cannot be: each counts once; "
                "name more of them with --root, or ask for fewer with --endorsements"
            )
        assert self.authorities is not None  # read now, so that a wrong file is the caller's mistake at once

    @classmethod
    def from_options(
        cls,
        roots: Sequence[str],
        endorsements: int | None = None,
        channel: str | None = None,
        chaincode: str | None = None,
        unsigned_validity: bool = False,
    ) -> "Trust":
        """Of the command's options, each root `MSPID=FILE`; an organisation named twice has both files.

        Raises KeyFormatError and OSError.
        """
        files: dict[str, list[bytes]] = {}
        for text in roots:
            msp_id, equals, file = text.partition("=")
            if not (msp_id and equals and file):
                raise KeyFormatError(f"{showable(text)}: an organisation and its root has the form MSPID=FILE.pem")
            files.setdefault(msp_id, []).append(Path(file).read_bytes())
        return cls(files, endorsements, channel, chaincode, unsigned_validity)

    @property
    def required(self) -> int:
        """How many of the named organisations must have signed."""
        return self.endorsements or len(self.roots)

    @cached_property
    def authorities(self) -> Mapping[str, "Authority"]:
        """By MSP id."""
        return {msp_id: Authority.read(msp_id, files) for msp_id, files in self.roots.items()}


@dataclass(frozen=True)
class Authority:
    """The certificate authorities of one organisation."""

    msp_id: str
    roots: tuple[x509.Certificate, ...]
    intermediates: tuple[x509.Certificate, ...]

    @classmethod
    def read(cls, msp_id: str, files: Sequence[bytes]) -> "Authority":
        """Raises KeyFormatError."""
        try:
            certificates = [found for file in files for found in x509.load_pem_x509_certificates(file)]
            for certificate in certificates:
                if not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
                    raise KeyFormatError(
                        f"{_common_name(certificate)} is no certificate authority: for {msp_id} give its root "
                        "(msp/cacerts of the organisation)"
                    )
        except (ValueError, UnsupportedAlgorithm, x509.ExtensionNotFound) as error:
            if isinstance(error, KeyFormatError):
                raise
            raise KeyFormatError(f"what is given for {msp_id} is no PEM file of certificate authorities") from None
        roots = tuple(found for found in certificates if found.issuer == found.subject)
        if not roots:
            raise KeyFormatError(f"what is given for {msp_id} holds no root (a certificate that its owner issued)")
        return cls(msp_id, roots, tuple(found for found in certificates if found not in roots))

    def check(self, certificate: x509.Certificate, at: datetime) -> None:
        """Check that `certificate` was issued by this organisation and was valid at a time. Raises ProofError."""
        verifier = (
            verification.PolicyBuilder()
            .store(verification.Store(list(self.roots)))
            .time(at)
            .extension_policies(ca_policy=_AUTHORITY, ee_policy=_ANY)
            .build_client_verifier()
        )
        try:
            verifier.verify(certificate, list(self.intermediates))
        except (verification.VerificationError, ValueError) as error:
            # The library's own words go on with a dump of the certificate.
            reason = str(error).partition(" (encountered")[0].removeprefix("validation failed: ")
            if reason.startswith("candidates exhausted"):
                reason = f"not issued by the authorities that you named for {showable(self.msp_id)}"
            raise ProofError(f"{reason} ({at:%Y-%m-%dT%H:%M:%SZ})") from None


@dataclass(frozen=True)
class Identity:
    """An organisation and a certificate that is said to be of it: nothing in it is to be believed before `check`."""

    msp_id: str
    certificate: x509.Certificate

    @classmethod
    def parse(cls, msp_id: str, pem: bytes) -> "Identity":
        """Raises ProofError."""
        try:
            certificate = x509.load_pem_x509_certificate(pem)
            assert certificate.subject is not None  # read now, while an unreadable one is expected
        except (ValueError, UnsupportedAlgorithm):
            raise ProofError(f"the certificate of somebody of {showable(msp_id)} cannot be read") from None
        return cls(msp_id, certificate)

    def __str__(self) -> str:
        return f"{_common_name(self.certificate)} of {showable(self.msp_id)}"

    def check(self, authority: Authority, at: datetime, role: str | None = None) -> None:
        """Check chain, validity period and, if asked, that `role` is this certificate's only one. Raises ProofError."""
        try:
            authority.check(self.certificate, at)
        except ProofError as error:
            raise ProofError(f"the certificate of {self} does not hold: {error}") from None
        units = self.certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)
        roles = _ROLES & {str(unit.value) for unit in units}
        if role is not None and roles != {role}:
            raise ProofError(f"{self} is no {role}: its certificate says {' and '.join(sorted(roles)) or 'nothing'}")

    def verify(self, signature: bytes, message: bytes, what: str) -> None:
        """Check an ECDSA P-256 signature over SHA-256, DER with low S as Fabric asks. Raises ProofError."""
        try:
            key = self.certificate.public_key()
            if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
                raise ProofError(f"the key of {self} is not ECDSA P-256, which is all that is checked here")
            key.verify(signature, message, ECDSA(SHA256()))
            _, s = decode_dss_signature(signature)
        except (InvalidSignature, UnsupportedAlgorithm, ValueError) as error:
            if isinstance(error, ProofError):
                raise
            raise ProofError(f"the signature of {self} over {what} does not verify") from None
        if s > P256_ORDER // 2:
            raise ProofError(f"the signature of {self} over {what} has a high S, which Fabric does not accept")


def _common_name(certificate: x509.Certificate) -> str:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return showable(str(names[0].value)) if names else "somebody"
