"""The vectors of the format's first implementation (golang.org/x/mod/sumdb/note), then every way to break a note."""

import base64
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import checkpoint
from ledger.checkpoint import Checkpoint, CheckpointError, KeyFormatError, Signature, Signer, VerifierKey

SKEY = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
VKEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
QUOTE = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
SIGNED_QUOTE = "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="

LOG = Signer("log.example/one", bytes(32))
HEAD = Checkpoint("log.example/one", 7, bytes(range(32)))
NOTE = LOG.sign(HEAD)


def test_keys_and_signatures_are_those_of_the_reference() -> None:
    signer = Signer.parse(SKEY)
    assert str(signer.verifier) == VKEY
    assert signer.secret() == SKEY
    key = VerifierKey.parse(VKEY)
    data = base64.b64decode(SIGNED_QUOTE)
    assert data[:4] == key.key_id
    assert key.verify(Signature(key.name, data[:4], data[4:]), QUOTE)
    assert not key.verify(Signature(key.name, data[:4], data[4:]), QUOTE + "!")


def test_a_signed_checkpoint_reads_back_and_verifies() -> None:
    signed = checkpoint.parse(NOTE)
    assert signed.checkpoint == HEAD
    assert checkpoint.verify(signed, [LOG.verifier]) == LOG.verifier
    assert NOTE.startswith(f"log.example/one\n7\n{base64.b64encode(HEAD.root).decode()}\n\n— log.example/one ")


def test_the_empty_tree_and_extension_lines_are_legal() -> None:
    assert checkpoint.parse(LOG.sign(Checkpoint(LOG.name, 0, bytes(32)))).checkpoint.size == 0
    assert checkpoint.parse(NOTE.replace("\n\n—", "\nextension\n\n—")).checkpoint == HEAD


@given(st.integers(0, len(NOTE) - 1), st.characters(codec="utf-8"))
def test_no_character_of_a_note_can_be_changed(position: int, other: str) -> None:
    changed = NOTE[:position] + other + NOTE[position + 1 :]
    if changed == NOTE:
        return
    with pytest.raises(CheckpointError):
        checkpoint.verify(checkpoint.parse(changed), [LOG.verifier])


@pytest.mark.parametrize(
    ("note", "reason"),
    [
        ("", "no signature lines"),
        (NOTE.rstrip("\n"), "no signature lines"),
        (HEAD.text(), "no signature lines"),
        (NOTE.replace("\n7\n", "\n"), "fewer than three lines"),
        (NOTE.replace("\n7\n", "\n07\n"), "not a decimal number"),
        (NOTE.replace("\n7\n", "\n-7\n"), "not a decimal number"),
        (NOTE.replace("\n7\n", "\n٧\n"), "not a decimal number"),
        (NOTE.replace("\n7\n", "\n7\r\n"), "control characters"),
        (NOTE.replace("AAEC", "AAE"), "base64 of 32 bytes"),
        (NOTE.replace("— log", "- log"), "malformed signature line"),
        (NOTE + "— other AAAA\n", "malformed signature line"),
        ("\n" + NOTE.partition("\n")[2], "names no log"),
        (NOTE.replace("\n\n—", "\n\nextension\n\n—"), "empty line"),
        ("x" * (checkpoint.MAX_NOTE + 1), "longer than"),
    ],
)
def test_malformed_notes_are_refused_with_a_reason(note: str, reason: str) -> None:
    with pytest.raises(CheckpointError, match=reason):
        checkpoint.parse(note)


def test_a_stranger_may_sign_beside_the_log_but_not_instead_of_it() -> None:
    stranger = Signer.generate("witness.example")
    line = Signer("log.example/one", b"\x01" * 32).sign(HEAD).partition("\n\n")[2]
    signed = checkpoint.parse(NOTE + line)
    assert checkpoint.verify(signed, [LOG.verifier]) == LOG.verifier
    with pytest.raises(CheckpointError, match=r"signed by log\.example/one\+.*whom you did not name"):
        checkpoint.verify(checkpoint.parse(NOTE), [stranger.verifier])
    with pytest.raises(CheckpointError, match="whom you did not name"):
        checkpoint.verify(checkpoint.parse(NOTE), [])


def test_the_key_of_another_log_does_not_speak_for_this_one() -> None:
    other = Signer.generate("log.example/two")
    with pytest.raises(CheckpointError, match="does not sign for the log"):
        other.sign(HEAD)
    forged = other.sign(Checkpoint(other.name, 7, HEAD.root)).replace("log.example/two\n7", "log.example/one\n7")
    with pytest.raises(CheckpointError, match="does not verify"):
        checkpoint.verify(checkpoint.parse(forged), [other.verifier])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "NAME.HASH.BASE64"),
        ("log", "NAME.HASH.BASE64"),
        (VKEY[:-4], "NAME.HASH.BASE64"),
        (VKEY.replace("Peter", "Pete"), "hash does not match"),
        (VKEY.replace("c74f20a3", "c74f20a4"), "hash does not match"),
        (VKEY.replace("+ARpc", "+AhpC"), "only Ed25519"),
    ],
)
def test_damaged_verifier_keys_are_refused(text: str, reason: str) -> None:
    with pytest.raises(KeyFormatError, match=reason):
        VerifierKey.parse(text)


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\nb", "a\u2003b"])
def test_a_name_that_would_break_the_format_is_refused(name: str) -> None:
    with pytest.raises(KeyFormatError, match="log's name"):
        Signer.generate(name)


def test_a_key_file_is_private_and_made_once(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "ledger.key"
    made = checkpoint.create_key_file(path, "log.example/one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert checkpoint.load_key_file(path).secret() == made.secret()
    assert checkpoint.create_key_file(path, "log.example/one").secret() == made.secret()
    assert [file.name for file in path.parent.iterdir()] == ["ledger.key"]


def test_a_key_file_open_to_everybody_or_damaged_is_refused_without_showing_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.key"
    secret = checkpoint.create_key_file(path, "log.example/one").secret()
    path.chmod(0o644)
    with pytest.raises(KeyFormatError, match="chmod 600"):
        checkpoint.load_key_file(path)
    path.chmod(0o600)
    for content in (b"", secret[12:].encode(), secret.replace("+KEY+log", "+KEY+lag").encode(), b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(KeyFormatError, match="holds no signing key") as caught:
            checkpoint.load_key_file(path)
        assert secret[-20:] not in str(caught.value)
