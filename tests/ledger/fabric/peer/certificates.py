"""Certificate authorities of Fabric organisations, and the certificates that they issue."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

ATTRIBUTES = x509.ObjectIdentifier("1.2.3.4.5.6.7.8.1")
"""The extension in which Fabric CA puts attributes, as JSON {"attrs": {name: value}}."""


@dataclass(frozen=True)
class KeyPair:
    """A certificate with its ECDSA P-256 key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


@dataclass(frozen=True)
class Authority:
    """A self-signed root that issues leaf certificates."""

    root: KeyPair

    @classmethod
    def create(cls, common_name: str) -> Authority:
        return cls(_certify(common_name, issuer=None))

    def issue(
        self,
        common_name: str,
        unit: str | None = None,
        *,
        attributes: Mapping[str, str] | None = None,
        hosts: Sequence[str] = (),
        expired: bool = False,
    ) -> KeyPair:
        """A certificate for a year from now, or one whose time ran out a minute ago.

        `unit`: the organisational unit that gives Fabric's node role, client | admin | peer.
        `hosts`: names and addresses a TLS server is reached by.
        """
        return _certify(
            common_name, issuer=self.root, unit=unit, attributes=attributes or {}, hosts=hosts, expired=expired
        )


def _certify(
    common_name: str,
    *,
    issuer: KeyPair | None,
    unit: str | None = None,
    attributes: Mapping[str, str] | None = None,
    hosts: Sequence[str] = (),
    expired: bool = False,
) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(common_name, unit)
    signing_key = issuer.key if issuer else key
    now = dt.datetime.now(dt.UTC)
    # Not before the issuer's own: Fabric checks the chain as of a certificate's first second.
    start = issuer.certificate.not_valid_before_utc if issuer else now - dt.timedelta(minutes=5)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(now - dt.timedelta(minutes=1) if expired else now + dt.timedelta(days=365))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(_key_usage(authority=issuer is None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if issuer:
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key())
        builder = builder.add_extension(identifier, critical=False)
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(h) for h in hosts]), critical=False)
    if attributes:
        value = json.dumps({"attrs": dict(attributes)}).encode()
        builder = builder.add_extension(x509.UnrecognizedExtension(ATTRIBUTES, value), critical=False)
    return KeyPair(builder.sign(signing_key, hashes.SHA256()), key)


def _name(common_name: str, unit: str | None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COUNTRY_NAME, "US")]
    if unit:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit))
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
