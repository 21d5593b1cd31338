"""`glassbox recompute`: every shipped sample comes out equal, and whatever is wrong with a record is told."""

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from glassbox.cli.stores import evidence_store
from glassbox.contract.canonical import canonical, strict_loads
from judges.port import NEEDS
from ledger.evidence import EvidenceVault, owner
from tests.cli.judged import ONE, SAMPLES, again, dossier, dossiers, judged, part, scorecards, settings_of

pytestmark = pytest.mark.timeout(180)

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every shipped sample, judged; not to be changed."""
    return judged(tmp_path_factory.mktemp("samples"), requests=SAMPLES)


@pytest.fixture
def folder(samples: Path, tmp_path: Path) -> Path:
    """A copy to do harm to."""
    return Path(shutil.copytree(samples, tmp_path / "data"))


@pytest.fixture(name="command")
def on(command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run `glassbox` on a data folder in this process: its exit code, stdout and stderr."""

    def run(data: Path, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setenv("GLASSBOX_DATA_DIR", str(data))
        return command(*arguments)

    return run


def objects(folder: Path, kind: str, evaluation_id: str = ONE) -> list[Path]:
    """The files of an evaluation's `evidence` or `raw` objects."""
    name = owner(evaluation_id)
    return sorted((Path(settings_of(folder).evidence) / name[:2] / name).glob(f"{kind},*"))


def test_every_shipped_sample_is_equal(samples: Path) -> None:
    found = asyncio.run(dossiers(samples, asyncio.run(scorecards(samples))))
    assert len(found) > 40
    counts: Counter[str] = Counter()
    for each in found:
        made = again(samples, each)
        assert made.equal is True, (each.record["evaluation_id"], made)
        assert not any(kind.reworded for kind in made.kinds)
        counts.update(part.source for part in made.parts)
    assert counts["raw outputs"] > 3 * len(found)
    assert counts["verdict"] == 0


def test_the_command_says_from_what_each_part_was_recomputed(samples: Path, command: Command) -> None:
    code, out, _ = command(samples, "recompute", ONE)
    assert code == 0
    lines = {line.split()[0]: " ".join(line.split()) for line in out.splitlines()}
    record = dossier(samples).record
    for row in record["parts"]:
        source = "request" if row["judge"] == "structural_fidelity" else "raw outputs"
        figure = row["score"] or f"not applicable ({row['cause']})"
        assert lines[row["part"]] == f"{row['part']} from the {source}: equal ({figure})"
    assert out.splitlines()[0] == f"{ONE}  {record['outcome']}  trust {record['trust']}"
    assert out.splitlines()[-1] == "all equal: 7 parts, 4 from the raw outputs, 3 from the request"


def test_json(samples: Path, command: Command) -> None:
    code, out, _ = command(samples, "recompute", ONE, "--json")
    said = json.loads(out)
    assert (code, said["equal"], said["evaluation_id"]) == (0, True, ONE)
    assert said["proof_checked"] is False
    assert {kind["kind"] for kind in said["kinds"]} == set(NEEDS)
    assert {part["result"] for kind in said["kinds"] for part in kind["parts"]} == {"equal"}


def test_an_id_may_be_shortened_and_must_be_known(samples: Path, command: Command) -> None:
    ids = asyncio.run(scorecards(samples))
    short = next(each[:-1] for each in ids if sum(other.startswith(each[:-1]) for other in ids) == 1)
    assert command(samples, "recompute", short)[0] == 0
    for wanted, says in (("nowhere", "no record of 'nowhere'"), ("transit-", "several records begin")):
        code, out, err = command(samples, "recompute", wanted)
        assert (code, out) == (2, "")
        assert says in err
    assert command(samples, "recompute")[0] == 2
    assert command(samples, "recompute", ONE, "--file", "b.json")[0] == 2
    policy_record = f"policy:{dossier(samples).record['policy_digest']}"
    assert "nothing was judged under it" in command(samples, "recompute", policy_record)[2]


def test_a_changed_raw_output_is_found(folder: Path, command: Command) -> None:
    for file in objects(folder, "raw"):
        sealed = bytearray(file.read_bytes())
        sealed[-1] ^= 1
        file.chmod(0o600)
        file.write_bytes(sealed)
    code, out, _ = command(folder, "recompute", ONE)
    assert code == 1
    assert "raw outputs are no longer what was kept" in out
    assert out.splitlines()[-1].startswith("something differs")


def test_a_lost_raw_output_cannot_be_recomputed(folder: Path, command: Command) -> None:
    for file in objects(folder, "raw"):
        file.unlink()
    code, out, _ = command(folder, "recompute", ONE)
    assert code == 2
    assert out.count("raw outputs are lost") == 4
    assert out.splitlines()[-1] == "cannot tell: 7 parts, 3 from the request, 4 untold"
    code, _, err = command(folder, "proof", ONE, "-o", "proof.json", "--with-evidence")
    assert code == 0
    assert "raw outputs are lost or damaged" in err
    assert command(folder, "recompute", "--file", "proof.json")[0] == 2


def test_what_was_erased_leaves_the_verdicts(folder: Path, command: Command) -> None:
    async def erase() -> None:
        vault = EvidenceVault(evidence_store(settings_of(folder)))
        await vault.erase(ONE, "2026-01-01T00:00:00.000Z")
        await vault.close()

    asyncio.run(erase())
    code, out, _ = command(folder, "recompute", ONE)
    assert code == 2
    assert out.count("from the verdict:") == 7
    assert "the content was erased at 2026-01-01" in out
    assert " ".join(out.splitlines()[-2].split()).endswith("arithmetic, trust and outcome are equal")


def test_evidence_that_is_gone(folder: Path, command: Command) -> None:
    for file in objects(folder, "evidence"):
        file.unlink()
    code, out, _ = command(folder, "recompute", ONE)
    assert code == 2
    assert out.count("the evidence that the record cites is not here") == 7


def test_another_id_key_made_other_prompts(folder: Path, command: Command) -> None:
    (folder / "keys" / "id.key").write_text("ab" * 32)
    code, out, _ = command(folder, "recompute", ONE)
    assert code == 2
    assert "was the id key changed?" in out


def test_a_record_that_is_not_what_its_evidence_says(samples: Path) -> None:
    found = dossier(samples)
    sealed = strict_loads(canonical(dict(found.sealed)), max_depth=64)
    sealed["terminology"]["verdicts"][0] |= {"score": "0.500000", "low": "0.500000", "high": "0.500000"}
    made = again(samples, replace(found, sealed=sealed))
    assert made.equal is False
    assert "the record is not what its evidence says: score" in part(made, "terminology").detail


def test_a_bundle_is_enough(samples: Path, tmp_path: Path, command: Command) -> None:
    assert command(samples, "proof", ONE, "-o", "proof.json", "--with-evidence")[0] == 0
    code, out, err = command(tmp_path / "nothing", "recompute", "--file", "proof.json")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "all equal: 7 parts, 4 from the raw outputs, 3 from the request"
    assert "the key of their fences is not here" in out
    assert not (tmp_path / "nothing").exists()
    bundle = (tmp_path / "proof.json").read_text()
    (tmp_path / "proof.json").write_text(bundle.replace('"score":"1.000000"', '"score":"0.900000"', 1))
    code, out, _ = command(samples, "recompute", "--file", "proof.json")
    assert code == 1
    assert out.startswith("does not hold (")


def test_a_forged_signature_is_not_its_business_and_that_is_said(
    samples: Path, tmp_path: Path, command: Command
) -> None:
    assert command(samples, "proof", ONE, "-o", "proof.json", "--with-evidence")[0] == 0
    bundle = json.loads((tmp_path / "proof.json").read_bytes())
    head, signature = bundle["merkle"]["checkpoint"].rstrip("\n").rsplit(" ", 1)
    forged = signature[:-8] + ("A" * 8 if signature[-8] != "A" else "B" * 8)
    bundle["merkle"]["checkpoint"] = f"{head} {forged}\n"
    (tmp_path / "proof.json").write_bytes(canonical(bundle))
    code, out, _ = command(samples, "recompute", "--file", "proof.json")
    assert (code, out.splitlines()[-1].split(":")[0]) == (0, "all equal")
    assert "is not checked here: `glassbox verify proof.json --key KEY`" in out.splitlines()[-2]
    assert "not checked here" not in command(samples, "recompute", ONE)[1]


@pytest.mark.parametrize("text", ["", "{}", "not a bundle", "[1]"])
def test_a_file_that_is_no_bundle_is_wrong_use(tmp_path: Path, command: Command, text: str) -> None:
    (tmp_path / "notes.txt").write_text(text)
    code, out, err = command(tmp_path / "nothing", "recompute", "--file", "notes.txt")
    assert (code, out) == (2, "")
    assert "notes.txt is no proof bundle" in err


def test_a_bundle_without_evidence_is_not(samples: Path, command: Command) -> None:
    assert command(samples, "proof", ONE, "-o", "proof.json")[0] == 0
    code, _, err = command(samples, "recompute", "--file", "proof.json")
    assert code == 2
    assert "holds no evidence" in err
