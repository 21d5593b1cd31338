"""What a failed call or an invalid transaction means: which of five things to do next. Pure.

Gateway errors carry their reason as text in the details of the gRPC status (gateway.ErrorDetail), under a code that
says little: on Endorse nearly all are ABORTED. So the text decides (seen with Fabric 2.5.16).
"""

import re
from collections.abc import Sequence
from typing import Any, Literal

from ledger.fabric.protos import DecodeError, gateway, rpc, transaction

Step = Literal["Evaluate", "Endorse", "Submit", "CommitStatus", "ChaincodeEvents"]

DETAILS_KEY = "grpc-status-details-bin"
"""The trailing metadata in which gRPC carries a google.rpc.Status."""


class GatewayError(Exception):
    """Root of what a call may end in. `peer`: the gateway peer's endpoint. `code`: gRPC's name of the status.
    `reason`: what the network says. The message is a sentence that names peer, step and what to do."""

    advice = ""

    def __init__(self, step: Step, peer: str, code: str, reason: str, advice: str | None = None) -> None:
        self.step, self.peer, self.code, self.reason = step, peer, code, reason
        super().__init__(f"{step} at the Fabric peer {peer}: {reason} ({code}): {advice or self.advice}")


class Permanent(GatewayError):
    """The chaincode refused the call: it will never succeed as it is. `reason`: the chaincode's own sentence."""

    advice = "the chaincode will never take this call; install the chaincode that belongs to this version of glassbox"


class Retry(GatewayError):
    """Nothing happened, or the same again does no harm: send the same message again, to another peer too."""

    advice = "check that the peer, its orderer and the chaincode run and can be reached; it is tried again"


class Unknown(GatewayError):
    """It may or may not have happened: ask CommitStatus before anything else."""

    advice = "the outcome of the transaction is asked for before anything is sent again"


class Conflict(GatewayError):
    """The transaction read something that has changed meanwhile: endorse again, with a new nonce."""

    advice = "other writers are at work on the same records; it is endorsed again"


class Configuration(GatewayError):
    """Nothing will succeed before somebody changes the setup."""

    advice = "check channel, chaincode and identity of this client"


class Invalid(Configuration):
    """The transaction is in its block, marked invalid, and would be again."""


_CHAINCODE = re.compile(r"chaincode response \d+, (?P<reason>.*)", re.DOTALL)
_LONGEST = 400
_PASSING = re.compile(r"failed to execute transaction [0-9a-f]+: |:[0-9a-f]{64}\b")
"""In a peer's sentence: the id of a transaction that came to nothing, and the digest in a chaincode package's id. The
same trouble then reads the same each time, with its cause in sight."""

_IDENTITY = "check this client's certificate (expired, revoked, of another organisation?), its key and its MSP id"
_RULES: list[tuple[str, type[GatewayError], str | None]] = [
    (r"duplicate transaction found", Unknown, None),
    (r"ProposalResponsePayloads do not match", Conflict, "the endorsing peers are not at the same block yet"),
    (r"could not launch chaincode|chaincode stream terminated|connection to \S+ terminated", Retry, None),
    (r"timeout expired while (executing|starting)|exceeding concurrency limit", Retry, None),
    (r"due to unavailability of peers|failed to find any endorsing peers|no peer combination can satisfy", Retry, None),
    (
        r"creator org unknown, creator is malformed",
        Configuration,
        "the network does not know this client's organisation or the issuer of its certificate; check its MSP id, and "
        "that certificate and network belong together",
    ),
    (r"error validating proposal:|access denied|identity expired", Configuration, _IDENTITY),
    (
        r"/Channel/Application/(Writers|Readers)|Failed evaluating policy|status=FORBIDDEN",
        Configuration,
        f"the channel does not let this identity do that; {_IDENTITY}",
    ),
    (r"unsuccessful response from orderer: status=", Configuration, f"the orderer refuses it; {_IDENTITY}"),
    (
        r"make sure the chaincode|No metadata was found|no combination of peers|no peers available to evaluate|"
        r"failed to get config for channel|policy manager for channel|ChaincodeHeaderExtension",
        Configuration,
        "check the names of channel and chaincode, that the peer has joined and that the chaincode is committed",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|Hostname Verification|WRONG_VERSION_NUMBER|CERTIFICATE_REQUIRED|BAD_CERTIFICATE|"
        r"UNKNOWN_CA",
        Configuration,
        "TLS fails; check the CA certificate and host name set for the peer, and the client's own TLS certificate "
        "where the peer asks for one",
    ),
]
"""The first that matches decides."""

_NEVER = "the chaincode will never take this call"
_BY_CHAINCODE: dict[str, tuple[type[GatewayError], str | None]] = {
    "INVALID_BATCH": (Permanent, _NEVER),
    "INVALID_RECORD": (Permanent, _NEVER),
    "INVALID_ARGUMENT": (Permanent, _NEVER),
    "INVALID_POLICY": (Permanent, f"{_NEVER}; correct the policy"),
    "CONFLICT": (Permanent, f"{_NEVER}; what stands on the ledger stays"),
    "FORBIDDEN": (Configuration, "use an identity that may do that"),
    "LEDGER": (Retry, None),
    "INTERNAL": (Retry, None),
}
"""Codes before the chaincode's sentence; the others refuse what the call says."""

_BY_CODE: dict[str, type[GatewayError]] = {
    "UNAUTHENTICATED": Configuration,
    "PERMISSION_DENIED": Configuration,
    "UNIMPLEMENTED": Configuration,
    "INVALID_ARGUMENT": Configuration,
    "NOT_FOUND": Configuration,
    "FAILED_PRECONDITION": Configuration,
}


def error_details(status: bytes) -> list[str]:
    """What each endorser or orderer said, from the bytes of a google.rpc.Status; [] for what cannot be read."""
    said = []
    try:
        for detail in rpc.Status.FromString(status).details:
            item = gateway.ErrorDetail()
            if detail.Unpack(item):
                said.append(str(item.message))
    except DecodeError:
        return []
    return said


def classify(step: Step, peer: str, code: str, message: str, details: Sequence[str] = ()) -> GatewayError:
    """The error of a failed call. `code`: gRPC's name, such as ABORTED. `details`: `error_details`."""
    reason = "; ".join(dict.fromkeys(details)) or message or "no reason given"
    if chaincode := _CHAINCODE.search(reason):
        said = chaincode["reason"][:_LONGEST]
        kind, advice = _BY_CHAINCODE.get(said.partition(": ")[0], (Permanent, None))
        return kind(step, peer, code, said, advice)
    shown = _PASSING.sub("", reason)[:_LONGEST]
    for pattern, kind, advice in _RULES:
        if re.search(pattern, f"{message}; {reason}"):
            return kind(step, peer, code, shown, advice)
    if code == "DEADLINE_EXCEEDED" and step in ("Submit", "CommitStatus"):
        return Unknown(step, peer, code, shown)
    return _BY_CODE.get(code, Retry)(step, peer, code, shown)


_STALE = frozenset({"MVCC_READ_CONFLICT", "PHANTOM_READ_CONFLICT", "CHAINCODE_VERSION_CONFLICT", "EXPIRED_CHAINCODE"})
"""Valid when it was endorsed, and not any more when it was committed."""


def invalidity(peer: str, tx_id: str, code: int) -> GatewayError | None:
    """What a validation code (peer.TxValidationCode) of a committed transaction asks for; None where it is valid."""
    if code == transaction.VALID:
        return None
    name = str(transaction.TxValidationCode.Name(code)) if code in transaction.TxValidationCode.values() else str(code)
    reason = f"the transaction {tx_id} is in its block as invalid"
    if name in _STALE:
        return Conflict("CommitStatus", peer, name, reason)
    if name in ("DUPLICATE_TXID", "NOT_VALIDATED"):
        return Unknown("CommitStatus", peer, name, reason)
    if name == "ENDORSEMENT_POLICY_FAILURE":
        policy = (
            "too few organisations endorsed it; check that a peer of each that its policy asks for has the chaincode"
        )
        return Invalid("CommitStatus", peer, name, reason, policy)
    return Invalid("CommitStatus", peer, name, reason, _IDENTITY)


def trailing_status(metadata: Any) -> bytes:
    """The bytes of the google.rpc.Status in a call's trailing metadata, or none."""
    return next((bytes(value) for key, value in metadata or () if key == DETAILS_KEY), b"")
