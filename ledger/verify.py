"""The offline verifier: `python -m ledger.verify FILE --key VKEY`, for people who trust nobody, us included.

Recomputes everything a proof bundle (ledger.bundle) says: the policy's digest, the record's arithmetic and
outcome, what was disclosed, and the ledger's proof: for the Merkle log its leaf, the path to the root and the
signature over it; for Fabric what the transaction wrote and who endorsed it (ledger.fabric.proof). Imports the
standard library, `cryptography` and the few plain files that define these things, so that it can be read and run
alone; a Fabric proof alone needs more, Fabric's message types.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassbox.contract.canonical import MAX_DEPTH, CanonicalError, canonical, sha256_hex, strict_loads
from glassbox.contract.record import (
    RecordError,
    check_record,
    evidence_digest,
    policy_digest,
    record_bytes,
)
from ledger import checkpoint, merkle
from ledger.checkpoint import CheckpointError, KeyFormatError, SignedCheckpoint, VerifierKey
from ledger.steps import CannotTell, Fails, Step, decoded

if TYPE_CHECKING:
    from ledger.fabric.trust import Trust

SCHEMA_VERSION = "1"

_KEYS = frozenset({"schema_version", "record", "policy", "ledger"})
_DISCLOSED = frozenset({"salt", "request", "evidence"})
_OUTPUTS = "raw"
_HASH = re.compile(r"[0-9a-f]{64}")
_TEXT, _NUMBER, _DIGITS = "text", "a whole number", "64 lower-case hexadecimal digits"
_PATH = f"a list of {_DIGITS} each"
_PROOF_FIELDS = {
    "merkle": {"origin": _TEXT, "index": _NUMBER, "tree_size": _NUMBER, "path": _PATH, "checkpoint": _TEXT},
    "fabric": {
        "channel": _TEXT,
        "chaincode": _TEXT,
        "tx_id": _DIGITS,
        "block_number": _NUMBER,
        "transaction": _TEXT,
        "reading": _TEXT,
    },
}
_LATER = frozenset({"transaction", "reading"})  # a receipt is without them: `glassbox proof` fetches them


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


_FORMS: dict[str, Callable[[Any], bool]] = {
    _TEXT: lambda value: isinstance(value, str),
    _NUMBER: lambda value: type(value) is int,
    _DIGITS: _is_hash,
    _PATH: lambda value: isinstance(value, list) and all(map(_is_hash, value)),
}


def verify_bundle(raw: bytes, vkeys: Sequence[str], trust: Trust | None = None) -> list[Step]:
    """Check a bundle's bytes step by step, ending at the first that does not hold (or cannot be told).

    `vkeys`: the verifier keys (NAME+HASH+BASE64) of Merkle logs that the caller trusts; `trust`: the organisations
    of a Fabric channel. Raises KeyFormatError for a malformed key.
    """
    keys = [VerifierKey.parse(text) for text in vkeys]
    steps: list[Step] = []
    bundle: dict[str, Any] = {}
    with warnings.catch_warnings(action="ignore"):  # what a library thinks of an odd certificate is no verdict
        for name, check in _checks(raw, bundle, keys, trust):
            try:
                steps.append(Step(name, True, check()))
            except CannotTell as error:
                steps.append(Step(name, None, str(error)))
            except (Fails, CanonicalError, RecordError, CheckpointError, merkle.ProofError) as error:
                steps.append(Step(name, False, str(error)))
            if steps[-1].holds is not True:
                break
    return steps


def _checks(
    raw: bytes, bundle: dict[str, Any], keys: Sequence[VerifierKey], trust: Trust | None
) -> Iterator[tuple[str, Callable[[], str]]]:
    """Each is made once those before it hold, so that it may rely on them."""
    yield "format", lambda: _format(raw, bundle)
    yield "policy", lambda: _policy(bundle)
    yield "record", lambda: _record(bundle)
    if "salt" in bundle:
        yield "request", lambda: _request(bundle)
        yield "evidence", lambda: _evidence(bundle)
    if _OUTPUTS in bundle:
        yield _OUTPUTS, lambda: _raw(bundle)
    if bundle["ledger"] == "merkle":
        yield "checkpoint", lambda: _checkpoint(bundle)
        yield "inclusion", lambda: _inclusion(bundle)
        yield "signature", lambda: _signature(bundle, keys)
    else:
        try:
            from ledger.fabric.check import checks
        except ImportError:
            yield "transaction", _extra_needed
        else:
            yield from checks(bundle, trust)


def exit_code(steps: Sequence[Step]) -> int:
    """0 all holds, 1 something does not, 2 it could not be told."""
    return {True: 0, False: 1, None: 2}[steps[-1].holds]


def summary(steps: Sequence[Step]) -> str:
    """One line: what holds, or the first thing that does not."""
    last = steps[-1]
    if last.holds:
        return "holds: " + "; ".join(step.detail for step in steps)
    if last.holds is None:
        return f"cannot tell ({last.name}): {last.detail}"
    return f"does not hold ({last.name}): {last.detail}"


def _format(raw: bytes, bundle: dict[str, Any]) -> str:
    """Fill `bundle` once its form is as published; anything besides is refused."""
    value = strict_loads(raw, max_depth=MAX_DEPTH + 4)
    if not isinstance(value, dict):
        raise Fails("the bundle is not a JSON object")
    if "schema_version" not in value:
        raise Fails("no proof bundle: schema_version is missing")
    version = value["schema_version"]
    if not isinstance(version, str):
        raise Fails("schema_version: text")
    if version != SCHEMA_VERSION:
        raise CannotTell(f"the bundle has format {version[:20]!r}, this verifier knows {SCHEMA_VERSION!r}")
    backend = value.get("ledger")
    if not isinstance(backend, str) or backend not in _PROOF_FIELDS:
        raise Fails(f"ledger: one of {', '.join(_PROOF_FIELDS)}")
    disclosed = _DISCLOSED if value.keys() & _DISCLOSED else frozenset[str]()
    if disclosed and _OUTPUTS in value:
        disclosed |= {_OUTPUTS}
    _expect_keys(value, _KEYS | {backend} | disclosed, "")
    for name in ("record", backend, *(disclosed - {"salt"})):
        if not isinstance(value[name], dict):
            raise Fails(f"{name}: an object")
    if not isinstance(value["policy"], dict | None):
        raise Fails("policy: an object or null")
    if disclosed and not _is_hash(value["salt"]):
        raise Fails(f"salt: {_DIGITS}")
    _proof_format(value[backend], backend)
    if canonical(value) != raw:
        raise Fails("the bundle is not in canonical form (RFC 8785)")
    bundle.update(value)
    return "a proof bundle"


def _proof_format(proof: Mapping[str, Any], backend: str) -> None:
    fields = _PROOF_FIELDS[backend]
    _expect_keys(proof, frozenset(fields.keys() - (_LATER - proof.keys())), f"{backend}.")
    for name, form in fields.items():
        if name in proof and not _FORMS[form](proof[name]):
            raise Fails(f"{backend}.{name}: {form}")


def _policy(bundle: Mapping[str, Any]) -> str:
    record, policy = bundle["record"], bundle["policy"]
    cited = {"scorecard": "policy_digest", "policy": "digest"}.get(str(record.get("kind")))
    if cited is None:
        if policy is not None:
            raise Fails("policy: null, because the record cites none")
        return "no policy"
    if policy is None:
        raise Fails("policy: the one that the record cites")
    if policy_digest(policy) != record.get(cited):
        raise Fails(f"the policy's digest is not the record's {cited}")
    return "policy as cited"


def _record(bundle: Mapping[str, Any]) -> str:
    record = bundle["record"]
    check_record(record, bundle["policy"])
    if record["kind"] != "scorecard":
        return f"record {record['evaluation_id']}"
    trust = "without trust score" if record["trust"] is None else f"trust {record['trust']}"
    return f"record {record['evaluation_id']} ({trust}, {record['outcome']}) follows from its parts"


def _request(bundle: Mapping[str, Any]) -> str:
    if _salted(bundle, bundle["request"]) != bundle["record"].get("request_digest"):
        raise Fails("salt and request do not give the record's request_digest")
    return "request as cited"


def _evidence(bundle: Mapping[str, Any]) -> str:
    by_kind = {kind: _salted(bundle, content) for kind, content in bundle["evidence"].items()}
    if evidence_digest(by_kind) != bundle["record"].get("evidence_digest"):
        raise Fails("salt and evidence do not give the record's evidence_digest")
    return "evidence as cited"


def _raw(bundle: Mapping[str, Any]) -> str:
    outputs, cited = bundle[_OUTPUTS], set(cited_outputs(bundle["evidence"]))
    for digest, text in outputs.items():
        if sha256_hex(decoded(text, "a raw output")) != digest:
            raise Fails("a raw output is not what its name says")
    if outputs.keys() != cited:
        raise Fails("the raw outputs are not those that the evidence cites")
    return f"{len(cited)} raw outputs as cited"


def cited_outputs(evidence: Any) -> Iterator[str]:
    """SHA-256 of each raw model output that evidence cites: the values of `output_digest`, wherever they stand."""
    for key, value in evidence.items() if isinstance(evidence, dict) else enumerate(evidence):
        if isinstance(value, dict | list):
            yield from cited_outputs(value)
        elif key == "output_digest" and isinstance(value, str):
            yield value


def _checkpoint(bundle: Mapping[str, Any]) -> str:
    proof, head = bundle["merkle"], _signed(bundle).checkpoint
    if head.origin != proof["origin"]:
        raise Fails(f"the checkpoint is of the log {head.origin}, the proof of another")
    if head.size != proof["tree_size"]:
        raise Fails(f"the checkpoint is of {head.size} records, the proof of {proof['tree_size']}")
    return f"checkpoint of {head.origin} at {head.size} records"


def _inclusion(bundle: Mapping[str, Any]) -> str:
    proof, root = bundle["merkle"], _signed(bundle).checkpoint.root
    leaf = merkle.leaf_hash(record_bytes(bundle["record"]))
    path = [bytes.fromhex(value) for value in proof["path"]]
    merkle.verify_inclusion(leaf, proof["index"], proof["tree_size"], path, root)
    return f"record is number {proof['index']} there"


def _signature(bundle: Mapping[str, Any], keys: Sequence[VerifierKey]) -> str:
    signed = _signed(bundle)
    if not keys:
        raise CannotTell(
            f"all else holds, but the log is signed by {signed.signers}, whom you did not name: use --key VKEY"
        )
    return f"signed by {checkpoint.verify(signed, keys).label}"


def _signed(bundle: Mapping[str, Any]) -> SignedCheckpoint:
    return checkpoint.parse(bundle["merkle"]["checkpoint"])


def _extra_needed() -> str:
    raise CannotTell("a Fabric proof needs the extra: pip install 'glassbox[fabric]', then glassbox verify")


def _salted(bundle: Mapping[str, Any], content: Any) -> str:
    return sha256_hex(bytes.fromhex(bundle["salt"]) + canonical(content))


def _expect_keys(value: Mapping[str, Any], expected: frozenset[str], prefix: str) -> None:
    for name in sorted(expected - value.keys()):
        raise Fails(f"{prefix}{name}: missing")
    for name in sorted(value.keys() - expected):
        raise Fails(f"{prefix}{name[:80]}: no such field in a bundle")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m ledger.verify",
        description="Check a GlassBox proof bundle without GlassBox. Exit 0: holds, 1: does not (such as: signed by "
        "none of the keys that you named), 2: cannot tell (such as: you named no key).",
        epilog="example: python -m ledger.verify proof.json --key log.example+1a2b3c4d+Aa0...",
    )
    parser.add_argument("file", metavar="FILE", help="the bundle, as `glassbox proof ID -o FILE` writes it")
    parser.add_argument(
        "--key", metavar="VKEY", action="append", default=[], help="a verifier key that you trust (repeatable)"
    )
    parser.add_argument(
        "--root",
        metavar="MSPID=FILE.pem",
        action="append",
        default=[],
        help="an organisation that must have endorsed a Fabric proof, and its certificate authorities (repeatable)",
    )
    parser.add_argument("--endorsements", metavar="N", type=int, help="how many of them are enough (default: all)")
    parser.add_argument("--channel", metavar="NAME", help="the channel that a Fabric proof must be of")
    parser.add_argument("--chaincode", metavar="NAME", help="the chaincode that a Fabric proof must be of")
    parser.add_argument(
        "--unsigned-validity",
        action="store_true",
        help="take the word of whoever made a Fabric proof that the transaction became valid, where too few signed it",
    )
    parser.add_argument("--json", action="store_true", help="print every step as JSON")
    options = parser.parse_args(arguments)
    try:
        raw = Path(options.file).read_bytes()
        trust = trusted(
            options.root, options.endorsements, options.channel, options.chaincode, options.unsigned_validity
        )
        steps = verify_bundle(raw, options.key, trust)
    except (OSError, KeyFormatError) as error:
        reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        sys.stderr.write(f"cannot tell: {reason}\n")
        return 2
    if options.json:
        report = {"holds": steps[-1].holds, "steps": [asdict(step) for step in steps]}
        sys.stdout.write(json.dumps(report) + "\n")
    else:
        sys.stdout.write(summary(steps) + "\n")
    return exit_code(steps)


def trusted(
    roots: Sequence[str],
    endorsements: int | None = None,
    channel: str | None = None,
    chaincode: str | None = None,
    unsigned_validity: bool = False,
) -> Trust | None:
    """What the options say of a Fabric proof; None where they say nothing. Raises KeyFormatError and OSError."""
    if not (roots or endorsements is not None or channel is not None or chaincode is not None or unsigned_validity):
        return None
    from ledger.fabric.trust import Trust

    return Trust.from_options(roots, endorsements, channel, chaincode, unsigned_validity)


if __name__ == "__main__":
    sys.exit(main())
