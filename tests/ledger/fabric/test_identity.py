"""Identities from folders and wallets, and signatures that peers take."""

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from ledger.fabric.identity import FileSigner, ProfileError, expires, low_s
from ledger.port import LedgerError
from tests.ledger.fabric.peer.certificates import Authority
from tests.ledger.fabric.peer.organization import Organization

N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
AUTHORITY = Authority.create("ca.org1.example.com")
USER = AUTHORITY.issue("User1@org1.example.com", "client")
SIGNER = FileSigner("Org1MSP", USER.certificate_pem, USER.key)


@given(st.binary(max_size=200))
def test_a_signature_verifies_and_has_the_low_s(message: bytes) -> None:
    signature = SIGNER.sign(message)
    USER.key.public_key().verify(signature, message, ec.ECDSA(hashes.SHA256()))
    assert decode_dss_signature(signature)[1] <= N // 2


@given(st.integers(1, N - 1), st.integers(1, N - 1))
def test_the_low_s_is_of_both_signatures(r: int, s: int) -> None:
    assert low_s(encode_dss_signature(r, s)) == low_s(encode_dss_signature(r, N - s))


def test_an_msp_folder_is_an_identity(tmp_path: Path) -> None:
    organization = Organization.create(1, tmp_path)
    signer = FileSigner.from_msp_folder("Org1MSP", organization.msp_folder("User1"))
    assert signer.msp_id == "Org1MSP"
    signer.key.public_key().verify(signer.sign(b"x"), b"x", ec.ECDSA(hashes.SHA256()))
    assert "ECPrivateKey" not in repr(signer)
    assert expires(signer).year >= 2026


def test_the_key_that_belongs_to_the_certificate_is_found_among_others(tmp_path: Path) -> None:
    msp = Organization.create(1, tmp_path).msp_folder("User1")
    (msp / "keystore" / "a_sk").write_bytes(AUTHORITY.issue("other").key_pem)
    FileSigner.from_msp_folder("Org1MSP", msp)


def test_a_wallet_file_is_an_identity(tmp_path: Path) -> None:
    path = tmp_path / "appUser.id"
    credentials = {"certificate": USER.certificate_pem.decode(), "privateKey": USER.key_pem.decode()}
    path.write_text(json.dumps({"credentials": credentials, "mspId": "Org1MSP", "type": "X.509", "version": 1}))
    signer = FileSigner.from_wallet_file(path)
    assert (signer.msp_id, signer.certificate) == ("Org1MSP", USER.certificate_pem)
    USER.key.public_key().verify(signer.sign(b"x"), b"x", ec.ECDSA(hashes.SHA256()))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"mspId": "A"}', '{"mspId": "A", "credentials": {"certificate": 1}}']
)
def test_another_file_is_no_wallet(tmp_path: Path, text: str) -> None:
    path = tmp_path / "appUser.id"
    path.write_text(text)
    with pytest.raises(ProfileError, match=r"appUser\.id is no X\.509 identity of a Fabric wallet"):
        FileSigner.from_wallet_file(path)


def ed25519_key() -> bytes:
    return ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def other_curve() -> bytes:
    return ec.generate_private_key(ec.SECP384R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("signcerts", None, r"signcerts cannot be read: No such file"),
        ("signcerts", {}, r"signcerts holds 0 certificates"),
        ("signcerts", {"a": USER.certificate_pem, "b": USER.certificate_pem}, r"signcerts holds 2 certificates"),
        ("signcerts", {"a": b"x"}, r"the certificate .*signcerts/a is not PEM"),
        ("keystore", None, r"keystore cannot be read"),
        ("keystore", {}, r"no private key for the certificate .*cert\.pem"),
        ("keystore", {"k": AUTHORITY.issue("x").key_pem}, r"no private key for the certificate .*cert\.pem"),
        ("keystore", {"k": b"x"}, r"keystore/k is not a private key"),
        ("keystore", {"k": ed25519_key()}, r"keystore/k is not ECDSA P-256"),
        ("keystore", {"k": other_curve()}, r"keystore/k is not ECDSA P-256"),
    ],
)
def test_what_is_wrong_in_a_folder_is_said_by_name(
    tmp_path: Path, name: str, content: dict[str, bytes] | None, sentence: str
) -> None:
    msp = Organization.create(1, tmp_path).msp_folder("User1")
    for file in (msp / name).iterdir():
        file.unlink()
    if content is None:
        (msp / name).rmdir()
    for file_name, data in (content or {}).items():
        (msp / name / file_name).write_bytes(data)
    with pytest.raises(ProfileError, match=sentence) as caught:
        FileSigner.from_msp_folder("Org1MSP", msp)
    assert isinstance(caught.value, LedgerError)
    assert "PRIVATE" not in str(caught.value)
