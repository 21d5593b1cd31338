"""Signed checkpoints: what a log says about itself, in the C2SP formats other tools read too.

A checkpoint (c2sp.org/tlog-checkpoint) is three lines, origin, tree size and base64 root; it travels as a signed
note (c2sp.org/signed-note) with Ed25519 signatures (type 0x01). A log's key is named like its origin. Keys are
text: a verifier key `NAME+HASH+BASE64`, which is public, and a signing key `PRIVATE+KEY+NAME+HASH+BASE64`, which
lives in a file of mode 600. Standard library and `cryptography` only.
"""

import base64
import binascii
import os
import re
import secrets
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ledger.merkle import HASH_SIZE

MAX_NOTE = 64 * 1024
"""Longest signed note read, in characters: room for far more than the 16 signatures a reader must accept."""

_ED25519 = b"\x01"
_DECIMAL = re.compile("0|[1-9][0-9]{0,18}")


class CheckpointError(ValueError):
    """A checkpoint that is malformed, or that nobody named has signed."""


class KeyFormatError(ValueError):
    """A key that cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class Checkpoint:
    """The head of a log: `size` leaves with the 32-byte `root`, in the log called `origin`."""

    origin: str
    size: int
    root: bytes

    def text(self) -> str:
        return f"{self.origin}\n{self.size}\n{_encode(self.root)}\n"


@dataclass(frozen=True)
class Signature:
    name: str
    key_id: bytes
    value: bytes

    @property
    def signer(self) -> str:
        """The key as people see it: NAME+HASH."""
        return f"{self.name}+{self.key_id.hex()}"


@dataclass(frozen=True)
class SignedCheckpoint:
    """A parsed note. Nothing in it is to be believed before `verify`."""

    checkpoint: Checkpoint
    text: str
    signatures: tuple[Signature, ...]

    @property
    def signers(self) -> str:
        return ", ".join(signature.signer for signature in self.signatures)


@dataclass(frozen=True)
class VerifierKey:
    """The public half of a log's key; `str()` gives its vkey text."""

    name: str
    public: bytes

    @classmethod
    def parse(cls, text: str) -> "VerifierKey":
        """Read `NAME+HASH+BASE64`. Raises KeyFormatError."""
        return cls(*_parse_key(text, "a verifier key"))

    @property
    def key_id(self) -> bytes:
        return sha256(self.name.encode() + b"\n" + _ED25519 + self.public).digest()[:4]

    @property
    def label(self) -> str:
        return f"{self.name}+{self.key_id.hex()}"

    def __str__(self) -> str:
        return f"{self.label}+{_encode(_ED25519 + self.public)}"

    def verify(self, signature: Signature, text: str) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature.value, text.encode())
        except InvalidSignature:
            return False
        return True


class Signer:
    """The private half of a log's key."""

    def __init__(self, name: str, seed: bytes) -> None:
        _check_name(name)
        self.name = name
        self._seed = seed
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.verifier = VerifierKey(name, self._key.public_key().public_bytes_raw())

    @classmethod
    def generate(cls, name: str) -> "Signer":
        """A new key for the log `name`: not empty, without spaces, control characters and "+"."""
        return cls(name, secrets.token_bytes(32))

    @classmethod
    def parse(cls, text: str) -> "Signer":
        """Read `PRIVATE+KEY+NAME+HASH+BASE64`. Raises KeyFormatError, which never repeats the key."""
        prefix, marker, rest = text.partition("PRIVATE+KEY+")
        if prefix or not marker:
            raise KeyFormatError("a signing key begins with PRIVATE+KEY+")
        name, key_hash, data = _split_key(rest, "a signing key")
        signer = cls(name, data)
        if signer.verifier.key_id.hex() != key_hash:
            raise KeyFormatError(f"the signing key of {name} is damaged: its hash does not match")
        return signer

    def sign(self, checkpoint: Checkpoint) -> str:
        """The signed note of `checkpoint`, which must be of the log this key is named after."""
        if checkpoint.origin != self.name:
            raise CheckpointError(f"the key {self.name} does not sign for the log {checkpoint.origin}")
        text = checkpoint.text()
        signature = _encode(self.verifier.key_id + self._key.sign(text.encode()))
        return f"{text}\n— {self.name} {signature}\n"

    def secret(self) -> str:
        return f"PRIVATE+KEY+{self.verifier.label}+{_encode(_ED25519 + self._seed)}"


def parse(note: str) -> SignedCheckpoint:
    """Read a signed checkpoint. Raises CheckpointError; says nothing about who may have signed it."""
    if len(note) > MAX_NOTE:
        raise CheckpointError(f"the checkpoint is longer than {MAX_NOTE} characters")
    if any(char < " " and char != "\n" for char in note):
        raise CheckpointError("the checkpoint has control characters")
    text, blank, tail = note.rpartition("\n\n")
    if not blank or not tail.endswith("\n"):
        raise CheckpointError("the checkpoint has no signature lines")
    text += "\n"
    lines = text.split("\n")[:-1]
    if len(lines) < 3:
        raise CheckpointError("the checkpoint has fewer than three lines")
    origin, size, root, *extensions = lines
    if not origin:
        raise CheckpointError("the checkpoint names no log")
    if not _DECIMAL.fullmatch(size):
        raise CheckpointError("the checkpoint's tree size is not a decimal number")
    if "" in extensions:
        raise CheckpointError("the checkpoint has an empty line")
    decoded = _decode(root)
    if decoded is None or len(decoded) != HASH_SIZE:
        raise CheckpointError("the checkpoint's root is not the base64 of 32 bytes")
    signatures = tuple(_parse_signature(line) for line in tail.split("\n")[:-1])
    return SignedCheckpoint(Checkpoint(origin, int(size), decoded), text, signatures)


def verify(signed: SignedCheckpoint, keys: Iterable[VerifierKey]) -> VerifierKey:
    """The first of `keys` that signed, once every signature by one of them has been checked.

    A signature by a key that is not among them is ignored, as the format asks. Raises CheckpointError when a
    signature does not verify, when none is by a key named, or when the key is another log's.
    """
    by_id = {(key.name, key.key_id): key for key in keys}
    signed_by = []
    for signature in signed.signatures:
        key = by_id.get((signature.name, signature.key_id))
        if key is None:
            continue
        if not key.verify(signature, signed.text):
            raise CheckpointError(f"the signature of {key.label} does not verify")
        if key.name != signed.checkpoint.origin:
            raise CheckpointError(f"the key {key.label} is not that of the log {signed.checkpoint.origin}")
        signed_by.append(key)
    if not signed_by:
        raise CheckpointError(f"signed by {signed.signers}, whom you did not name")
    return signed_by[0]


def create_key_file(path: Path, name: str) -> Signer:
    """Make a new key for the log `name` in a file of mode 600 and return it.

    If the file is there already (another process was faster) its key is returned instead. Raises OSError.
    """
    signer = Signer.generate(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written under another name and linked, so that nobody ever reads half a key.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(signer.secret() + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    except FileExistsError:
        return load_key_file(path)
    finally:
        temporary.unlink()
    return signer


def load_key_file(path: Path) -> Signer:
    """Read a signing key. Raises KeyFormatError (damaged, or open to everybody on the machine) and OSError."""
    # Group access is left alone: Kubernetes mounts secrets readable by the pod's group.
    if stat.S_IMODE(path.stat().st_mode) & stat.S_IRWXO:
        raise KeyFormatError(f"everybody on this machine may use the signing key {path}: chmod 600 {path}")
    try:
        return Signer.parse(path.read_text(encoding="utf-8").strip())
    except ValueError as error:
        reason = error if isinstance(error, KeyFormatError) else "it is not text"
        raise KeyFormatError(f"{path} holds no signing key ({reason}): restore it from a backup") from None


def _parse_signature(line: str) -> Signature:
    dash, _, rest = line.partition(" ")
    name, _, encoded = rest.partition(" ")
    data = _decode(encoded)
    if dash != "—" or not name or data is None or len(data) < 5:
        raise CheckpointError("the checkpoint has a malformed signature line")
    return Signature(name, data[:4], data[4:])


def _parse_key(text: str, what: str) -> tuple[str, bytes]:
    name, key_hash, public = _split_key(text, what)
    if VerifierKey(name, public).key_id.hex() != key_hash:
        raise KeyFormatError(f"{what} of {name} is damaged: its hash does not match")
    return name, public


def _split_key(text: str, what: str) -> tuple[str, str, bytes]:
    """(name, hash, the 32 bytes behind the type byte) of `NAME+HASH+BASE64`."""
    name, _, rest = text.partition("+")
    key_hash, _, encoded = rest.partition("+")
    data = _decode(encoded)
    if not name or data is None or len(data) != 33:
        raise KeyFormatError(f"{what} has the form NAME+HASH+BASE64, with 33 bytes in the last")
    if data[:1] != _ED25519:
        raise KeyFormatError(f"{what} of {name} is of type {data[0]:#04x}: only Ed25519 (0x01) is known here")
    return name, key_hash, data[1:]


def _check_name(name: str) -> None:
    if not name or any(char.isspace() or char < " " or char == "+" for char in name):
        raise KeyFormatError("a log's name is not empty and has no spaces, control characters or '+'")


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(text: str) -> bytes | None:
    """Strict base64: exactly one text stands for some bytes, so that no changed character goes unnoticed."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if _encode(data) == text else None
