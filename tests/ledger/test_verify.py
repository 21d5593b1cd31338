"""A bundle holds as it was made, and no other way."""

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbox.contract.canonical import canonical, sha256_hex, strict_loads
from glassbox.contract.record import evidence_digest, record_bytes
from ledger import merkle, verify
from ledger.bundle import Disclosure, make_bundle
from ledger.checkpoint import Checkpoint, KeyFormatError, Signer
from ledger.port import Receipt
from ledger.verify import exit_code, summary, verify_bundle
from tests.ledger.records import POLICY, salted_digest, scorecard

GOLDEN = Path(__file__).parent / "golden" / "bundle.json"
GOLDEN_KEY = (GOLDEN.parent / "bundle.vkey").read_text(encoding="utf-8").strip()
SIGNER = Signer("log.example/verify", bytes(32))
VKEY = str(SIGNER.verifier)
OUTPUT, VECTORS = b'{"statements": ["330 m"]}', bytes(range(7))
DISCLOSURE = Disclosure(
    salt=bytes(range(32)),
    request={"query": "How tall is it?", "answer": "330 m", "chunk_scores": [0.5, 1e-7], "metadata": {"lang": "en"}},
    evidence={
        "grounding": {
            "claims": [{"text": "330 m", "verdict": True, "span": [0, 5]}],
            "calls": [{"output_digest": sha256_hex(OUTPUT)}, {"output_digest": sha256_hex(OUTPUT)}],
        },
        "calibration": {"calls": [{"output_digest": sha256_hex(VECTORS)}]},
    },
    raw={sha256_hex(raw): raw for raw in (OUTPUT, VECTORS)},
)


def disclosed_record() -> dict[str, Any]:
    by_kind = {kind: salted_digest(DISCLOSURE.salt, found) for kind, found in DISCLOSURE.evidence.items()}
    return scorecard(
        "e:1",
        request_digest=salted_digest(DISCLOSURE.salt, DISCLOSURE.request),
        evidence_digest=evidence_digest(by_kind),
    )


def receipt_of(record: dict[str, Any], size: int = 11, index: int = 6) -> Receipt:
    """A receipt in a log of `size` records of which this one is number `index`."""
    raw = record_bytes(record)
    leaves = [merkle.leaf_hash(raw if n == index else bytes([n])) for n in range(size)]
    nodes: dict[merkle.Node, bytes] = {}
    for n, leaf in enumerate(leaves):
        nodes.update(merkle.completed(n, leaf, lambda level, number: nodes[level, number]))
    path = merkle.inclusion_path(index, size, lambda level, number: nodes[level, number])
    proof = {
        "origin": SIGNER.name,
        "index": index,
        "tree_size": size,
        "path": [value.hex() for value in path],
        "checkpoint": SIGNER.sign(Checkpoint(SIGNER.name, size, merkle.root(leaves))),
    }
    return Receipt("created", record, sha256_hex(raw), "merkle", proof)


BUNDLE = make_bundle(receipt_of(disclosed_record()), POLICY.document, DISCLOSURE)


def outcome(raw: bytes) -> str:
    return summary(verify_bundle(raw, [VKEY]))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of everything in a JSON document, containers included, the document itself not."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from leaves(item, (*path, key))


def others(value: Any) -> Iterator[Any]:
    """Values of the same and of another type that a forger might put there."""
    if isinstance(value, bool):
        yield from (not value, int(value), None)
    elif isinstance(value, int):
        yield from (value + 1, -value - 1, str(value), float(value) + 0.5, bool(value))
    elif isinstance(value, float):
        yield from (value + 1, str(value))
    elif isinstance(value, str):
        yield from (value + "0", value[:-1], value.swapcase() + " ", None, [value])
        if value[-1:].isalnum():
            yield value[:-1] + ("1" if value[-1] != "1" else "2")
    elif value is None:
        yield from (False, "", 0, {})
    elif isinstance(value, list):
        yield from ([*value, None], [*value, *value[:1]] if value else [0], None, {})
        if value:
            yield from (value[:-1], value[1:])
        if value != value[::-1]:
            yield value[::-1]
    elif isinstance(value, dict):
        yield from ({**value, "surprise": 1}, None, [], {"": value})
        for key in value:
            yield {name: item for name, item in value.items() if name != key}


DOCUMENT = strict_loads(BUNDLE)


def test_no_value_anywhere_can_be_changed() -> None:
    for path in leaves(DOCUMENT):
        # The policy is held by its digest alone, so two changes a value say what ten would.
        for other in islice(others(_at(DOCUMENT, path)), 2 if path[0] == "policy" else None):
            changed = copy.deepcopy(DOCUMENT)
            _at(changed, path[:-1])[path[-1]] = other
            steps = verify_bundle(canonical(changed), [VKEY])
            assert steps[-1].holds is not True, (path, other)
            assert steps[-1].detail, (path, other)


def _at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


@given(st.integers(0, len(BUNDLE) - 1), st.integers(1, 255))
@settings(max_examples=300)
def test_no_byte_can_be_changed(position: int, bits: int) -> None:
    changed = BUNDLE[:position] + bytes([BUNDLE[position] ^ bits]) + BUNDLE[position + 1 :]
    assert not outcome(changed).startswith("holds")


@given(st.binary(max_size=200))
def test_garbage_is_an_answer_and_not_a_crash(raw: bytes) -> None:
    assert outcome(raw).startswith("does not hold (format)")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(list(leaves(DOCUMENT))), json_values)
@settings(max_examples=150)
def test_any_json_in_any_place_is_an_answer_and_not_a_crash(path: tuple[Any, ...], value: Any) -> None:
    if _at(DOCUMENT, path) == value:
        return
    changed = copy.deepcopy(DOCUMENT)
    _at(changed, path[:-1])[path[-1]] = value
    assert not outcome(canonical(changed)).startswith("holds")


def test_a_bundle_holds_with_and_without_evidence() -> None:
    line = outcome(BUNDLE)
    assert line.startswith("holds: ")
    assert "record e:1 (trust 0.912345, fail) follows from its parts" in line
    assert "number 6 there" in line
    assert f"signed by {SIGNER.verifier.label}" in line
    assert "request as cited; evidence as cited; 2 raw outputs as cited" in line
    plain = outcome(make_bundle(receipt_of(disclosed_record()), POLICY.document))
    assert plain.startswith("holds: ")
    assert "evidence" not in plain


def test_raw_outputs_are_all_that_the_evidence_cites_or_none() -> None:
    without = {name: value for name, value in DOCUMENT.items() if name != "raw"}
    assert outcome(canonical(without)).startswith("holds: ")
    assert outcome(canonical({**DOCUMENT, "raw": {}})).startswith("does not hold (raw): the raw outputs are not those")
    more = {**DOCUMENT["raw"], sha256_hex(b""): ""}
    assert outcome(canonical({**DOCUMENT, "raw": more})).startswith(
        "does not hold (raw): the raw outputs are not those"
    )
    alone = make_bundle(receipt_of(disclosed_record()), POLICY.document)
    undisclosed = canonical({**strict_loads(alone), "raw": DOCUMENT["raw"]})
    assert outcome(undisclosed).startswith("does not hold (format): raw: no such field")


def test_a_raw_output_is_written_in_one_way() -> None:
    digest = sha256_hex(VECTORS)
    assert DOCUMENT["raw"][digest] == "AAECAwQFBg=="
    for text in ("AAECAwQFBh==", "AAECAwQFBg", "AAECAwQFBg==\n", 7, None):
        changed = {**DOCUMENT, "raw": {**DOCUMENT["raw"], digest: text}}
        assert outcome(canonical(changed)).startswith("does not hold (raw): a raw output is not base64"), text


def test_a_bundle_made_by_an_earlier_version_still_holds() -> None:
    steps = verify_bundle(GOLDEN.read_bytes(), [GOLDEN_KEY])
    assert exit_code(steps) == 0, summary(steps)
    assert [step.name for step in steps] == [
        "format",
        "policy",
        "record",
        "request",
        "evidence",
        "checkpoint",
        "inclusion",
        "signature",
    ]


def test_without_a_key_it_says_who_signed_and_cannot_tell() -> None:
    steps = verify_bundle(BUNDLE, [])
    assert exit_code(steps) == 2
    assert f"signed by {SIGNER.verifier.label}, whom you did not name" in summary(steps)
    assert all(step.holds for step in steps[:-1])


def test_without_a_key_what_is_wrong_is_still_wrong() -> None:
    steps = verify_bundle(BUNDLE.replace(b'"trust":"0.912345"', b'"trust":"0.999999"'), [])
    assert exit_code(steps) == 1
    assert summary(steps) == "does not hold (record): trust: '0.912345' by arithmetic, not '0.999999'"


def test_another_key_does_not_do() -> None:
    steps = verify_bundle(BUNDLE, [str(Signer.generate(SIGNER.name).verifier)])
    assert exit_code(steps) == 1
    assert "whom you did not name" in summary(steps)
    assert exit_code(verify_bundle(BUNDLE, [str(Signer.generate("other").verifier), VKEY])) == 0


def test_a_malformed_key_is_the_callers_mistake() -> None:
    with pytest.raises(KeyFormatError, match=r"NAME\+HASH\+BASE64"):
        verify_bundle(BUNDLE, ["nonsense"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"policy": {**POLICY.document, "threshold": "0.100000"}}, "does not hold (policy): the policy's digest"),
        ({"policy": None}, "does not hold (policy): policy: the one that the record cites"),
        ({"request": {"query": "Another?"}}, "does not hold (request): salt and request"),
        ({"salt": "00" * 32}, "does not hold (request): salt and request"),
        ({"evidence": {"grounding": {}}}, "does not hold (evidence): salt and evidence"),
        ({"surprise": 1}, "does not hold (format): surprise: no such field"),
        ({"schema_version": "2"}, "cannot tell (format): the bundle has format '2'"),
        ({"ledger": "paper"}, "does not hold (format): ledger: one of merkle, fabric"),
    ],
)
def test_the_reason_names_what_is_wrong(change: dict[str, Any], reason: str) -> None:
    assert outcome(canonical({**DOCUMENT, **change})).startswith(reason)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"origin": "log.example/other"}, "does not hold (checkpoint): the checkpoint is of the log"),
        ({"tree_size": 12}, "does not hold (checkpoint): the checkpoint is of 11 records, the proof of 12"),
        ({"index": 5}, "does not hold (inclusion): the path"),
        ({"path": []}, "does not hold (inclusion): the path is shorter"),
        ({"checkpoint": "nonsense"}, "does not hold (checkpoint): the checkpoint has no signature lines"),
    ],
)
def test_the_reason_names_what_is_wrong_with_the_proof(change: dict[str, Any], reason: str) -> None:
    assert outcome(canonical({**DOCUMENT, "merkle": {**DOCUMENT["merkle"], **change}})).startswith(reason)


def test_another_record_of_the_same_log_cannot_be_slipped_in() -> None:
    other = {**DOCUMENT, "record": {**disclosed_record(), "model": None}}
    assert outcome(canonical(other)).startswith("does not hold (inclusion): the path does not lead to the root")


def test_a_forged_signature_does_not_verify() -> None:
    forged = Signer(SIGNER.name, b"\x01" * 32).sign(Checkpoint(SIGNER.name, 11, bytes(32)))
    head = DOCUMENT["merkle"]["checkpoint"]
    ours = head.rpartition(" ")[2]
    theirs = forged.rpartition(" ")[2]
    mixed = head.replace(ours, ours[:6] + theirs[6:])
    assert outcome(canonical({**DOCUMENT, "merkle": {**DOCUMENT["merkle"], "checkpoint": mixed}})).startswith(
        f"does not hold (signature): the signature of {SIGNER.verifier.label} does not verify"
    )


def test_spaces_are_not_canonical() -> None:
    assert outcome(json.dumps(DOCUMENT).encode()) == (
        "does not hold (format): the bundle is not in canonical form (RFC 8785)"
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "proof.json"
    path.write_bytes(BUNDLE)
    return path


def test_the_command_answers_in_one_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify.main([str(file), "--key", VKEY]) == 0
    assert capsys.readouterr().out == outcome(BUNDLE) + "\n"
    assert verify.main([str(file)]) == 2
    assert "whom you did not name" in capsys.readouterr().out
    assert verify.main([str(file), "--key", str(Signer.generate("other").verifier)]) == 1, "it is not of the log named"
    assert capsys.readouterr().out.startswith(f"does not hold (signature): signed by {SIGNER.verifier.label}, whom you")
    file.write_bytes(b'{"a":"b"}')
    assert verify.main([str(file), "--key", VKEY]) == 1
    assert capsys.readouterr().out == "does not hold (format): no proof bundle: schema_version is missing\n"
    file.write_bytes(BUNDLE[:-1])
    assert verify.main([str(file), "--key", VKEY]) == 1
    assert capsys.readouterr().out.startswith("does not hold (format): not JSON")


def test_the_command_speaks_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify.main([str(file), "--key", VKEY, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["holds"] is True
    assert report["steps"][0]["name"] == "format"


def test_wrong_use_is_a_sentence_and_2(tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify.main([str(tmp_path / "absent.json"), "--key", VKEY]) == 2
    assert "No such file" in capsys.readouterr().err
    assert verify.main([str(file), "--key", "nonsense"]) == 2
    assert capsys.readouterr().err.startswith("cannot tell: a verifier key has the form")


ISOLATED = """
import sys
from importlib.abc import MetaPathFinder

class OnlyTheVerifier(MetaPathFinder):
    ours = {"glassbox", "glassbox.contract", "glassbox.contract.canonical", "glassbox.contract.composite",
            "glassbox.contract.record", "ledger", "ledger.merkle", "ledger.checkpoint", "ledger.steps", "ledger.verify"}
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in ("cryptography", "_cffi_backend", "cffi"):
            if name not in self.ours:
                raise ImportError(f"the verifier may not import {name}")
        return None

sys.meta_path.insert(0, OnlyTheVerifier())
import runpy
sys.argv = ["verify", *sys.argv[1:]]
runpy.run_module("ledger.verify", run_name="__main__", alter_sys=False)
"""


def test_it_runs_on_the_standard_library_and_cryptography_alone(file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ISOLATED, str(file), "--key", VKEY], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == outcome(BUNDLE) + "\n"


def test_a_fabric_proof_names_the_extra_where_it_is_absent(file: Path) -> None:
    document = {name: value for name, value in DOCUMENT.items() if name != "merkle"}
    fabric = {"channel": "glassbox", "chaincode": "scorecards", "tx_id": "00" * 32, "block_number": 1}
    file.write_bytes(canonical({**document, "ledger": "fabric", "fabric": fabric}))
    done = subprocess.run([sys.executable, "-c", ISOLATED, str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (
        2,
        "cannot tell (transaction): a Fabric proof needs the extra: pip install 'glassbox[fabric]', "
        "then glassbox verify\n",
    ), done.stderr
