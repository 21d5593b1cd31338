"""Who this client is to a Fabric network: an organisation, a certificate and what signs with its key.

`Signer` is the seam for keys that never leave a token (PKCS#11): anything that signs like it will do.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from ledger.fabric.trust import P256_ORDER
from ledger.port import LedgerError


class ProfileError(LedgerError):
    """A Fabric identity or connection that cannot be used; the message names the variable or file at fault."""


class Signer(Protocol):
    """Signs for one member of an organisation. `certificate`: its X.509 certificate, PEM."""

    @property
    def msp_id(self) -> str: ...

    @property
    def certificate(self) -> bytes: ...

    def sign(self, message: bytes) -> bytes:
        """ECDSA over P-256 and SHA-256 of `message`, DER, with s in the lower half (`low_s`): peers refuse others."""
        ...


@dataclass(frozen=True)
class FileSigner:
    """A key from a file, which belongs to the certificate."""

    msp_id: str
    certificate: bytes
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    def sign(self, message: bytes) -> bytes:
        return low_s(self.key.sign(message, ec.ECDSA(hashes.SHA256())))

    @classmethod
    def from_msp_folder(cls, msp_id: str, folder: Path) -> "FileSigner":
        """The identity in `folder`/signcerts (one certificate) and `folder`/keystore. Raises ProfileError."""
        return cls.from_folders(msp_id, folder / "signcerts", folder / "keystore")

    @classmethod
    def from_folders(cls, msp_id: str, certificates: Path, keys: Path) -> "FileSigner":
        """The one certificate of a folder, with the key among `keys` that belongs to it. Raises ProfileError."""
        found = _files(certificates)
        if len(found) != 1:
            raise ProfileError(f"{certificates} holds {len(found)} certificates: leave the one to be used there")
        (certificate,) = found
        return cls._paired(msp_id, _read(certificate), str(certificate), [(str(p), _read(p)) for p in _files(keys)])

    @classmethod
    def from_wallet_file(cls, path: Path) -> "FileSigner":
        """The identity in a `.id` file, the JSON of the Fabric SDKs' file wallets. Raises ProfileError."""
        try:
            entry = json.loads(_read(path))
            msp_id, credentials = entry["mspId"], entry["credentials"]
            certificate, key = credentials["certificate"].encode(), credentials["privateKey"].encode()
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ProfileError(
                f"{path} is no X.509 identity of a Fabric wallet: it lacks mspId, credentials.certificate or "
                "credentials.privateKey"
            ) from None
        return cls._paired(str(msp_id), certificate, str(path), [(str(path), key)])

    @classmethod
    def _paired(cls, msp_id: str, certificate: bytes, source: str, keys: Iterable[tuple[str, bytes]]) -> "FileSigner":
        public = _certificate(certificate, source).public_key()
        for path, pem in keys:
            key = _private_key(pem, path)
            if key.public_key() == public:
                return cls(msp_id, certificate, key)
        raise ProfileError(
            f"there is no private key for the certificate {source} beside it: copy the one it was made for"
        )


def expires(signer: Signer) -> datetime:
    """Until when (UTC) a signer's certificate is valid. Raises ProfileError."""
    return _certificate(signer.certificate, f"of {signer.msp_id}").not_valid_after_utc


def low_s(signature: bytes) -> bytes:
    """The DER signature with the lower of the two valid s of a P-256 signature."""
    r, s = decode_dss_signature(signature)
    return encode_dss_signature(r, min(s, P256_ORDER - s))


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise ProfileError(f"the folder {folder} cannot be read: {error.strerror}") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ProfileError(f"{path} cannot be read: {error.strerror}") from None


def _certificate(pem: bytes, source: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise ProfileError(f"the certificate {source} is not PEM: copy it again") from None


def _private_key(pem: bytes, source: str) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ProfileError(f"{source} is not a private key in PEM without a password") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ProfileError(f"the private key {source} is not ECDSA P-256, which Fabric clients sign with")
    return key
