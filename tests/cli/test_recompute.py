"""`glassbox recompute`: every shipped sample comes out equal, and whatever is wrong with a record is told."""

import asyncio
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassbox.cli.dossier import Dossier, Outputs, archive
from glassbox.cli.recomputation import Part, Recomputation, recompute
from glassbox.contract.canonical import canonical, sha256_hex, strict_loads
from glassbox.contract.policy import load_policies
from glassbox.contract.verdict import Method
from judges.calibration import CalibrationJudge
from judges.embedders import Embedded, input_digest
from judges.extract import Call, Extractor
from judges.extract_models import ModelEntities, ModelPairs
from judges.lexical import CHAT_MODEL
from judges.lexical.faults import Faults
from judges.lexical.server import LexicalServer
from judges.llm import Endpoint, EndpointClient
from judges.port import NEEDS, Case, Judge, JudgeError, Judgement
from judges.relevance import RelevanceJudge
from judges.structure import StructureJudge
from judges.window_model import Made, Question
from ledger.evidence import EvidenceVault, owner
from ledger.merkle_log import MerkleLog
from ledger.store import FolderStore
from tests.cli.judged import judge_into, settings_of
from tests.own_judges import distribution

pytestmark = pytest.mark.timeout(180)

SAMPLES = (files("glassbox.cli") / "samples" / "requests.jsonl").read_bytes().splitlines()
NO_FAULTS = Faults()
ONE = "transit-fare-01"
POLICIES = """
[policy.often.judges.contextual_precision.parts.llm_relevance]
repeats = 3
[policy.often.judges.semantic_faithfulness.parts]
faithfulness = {repeats = 3}
answer_relevancy = {repeats = 2, strictness = 3}
[policy.fused.judges.semantic_faithfulness.parts.faithfulness]
estimator = "fused"
"""
"""Other ways to ask than the default's."""
OWN = """
[policy.toned.judges.tone]
weight = 0.1
[policy.toned.judges.tone.parts.polite]
weight = 1
"""
TONE = """
from glassbox.contract.verdict import Method, Scored
from judges.port import Judgement

class Tone:
    kind, needs, parts = "tone", {"answer"}, {"polite": {}}

    def __init__(self, context):
        self.client = context.client

    async def judge(self, case):
        session = self.client.session(case.deadline, case.cache)
        one, other = await session.embed([case.input.answer, "please and thank you"])
        method = Method(name="tone", family="rules", library="tone", version="1")
        calls = [call.evidence() for call in session.calls]
        verdict = Scored.of("polite", abs(float(one @ other)), method=method)
        return Judgement((verdict,), {"polite": {"calls": calls}}, tuple(call.answer.raw for call in session.calls))

    async def close(self):
        pass
"""

Command = Callable[..., tuple[int, str, str]]


def judged(
    folder: Path,
    requests: Iterable[bytes] = SAMPLES[:1],
    *,
    policy: str = "offline",
    policies: str = POLICIES,
    faults: Faults = NO_FAULTS,
    connect: Callable[[Endpoint, bytes], EndpointClient] = EndpointClient,
    replaced: Callable[[EndpointClient], Mapping[str, Judge]] = lambda client: {},
) -> Path:
    """A data folder in which requests were judged."""

    async def judge() -> None:
        settings = settings_of(folder)
        async with LexicalServer(faults=faults) as server:
            client = connect(settings.endpoint(server.url), settings.id_key())
            await judge_into(folder, requests, client, load_policies(policies), policy, replaced(client))
            await client.close()

    asyncio.run(judge())
    return folder


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
    return sorted((settings_of(folder).evidence_path / name[:2] / name).glob(f"{kind},*"))


async def _dossiers(folder: Path, ids: Iterable[str]) -> list[Dossier]:
    async with archive(settings_of(folder)) as records:
        return [await records.dossier(evaluation_id) for evaluation_id in ids]


async def _scorecards(folder: Path) -> list[str]:
    log = MerkleLog.reader(settings_of(folder).ledger_path)
    ids = await log.find("", 1000)
    await log.close()
    return [evaluation_id for evaluation_id in ids if not evaluation_id.startswith("policy:")]


def dossier(folder: Path, evaluation_id: str = ONE) -> Dossier:
    return asyncio.run(_dossiers(folder, [evaluation_id]))[0]


def again(folder: Path, found: Dossier | None = None) -> Recomputation:
    return asyncio.run(recompute(found or dossier(folder), settings_of(folder).id_key()))


def part(made: Recomputation, name: str) -> Part:
    return next(part for part in made.parts if part.part == name)


def test_every_shipped_sample_is_equal(samples: Path) -> None:
    found = asyncio.run(_dossiers(samples, asyncio.run(_scorecards(samples))))
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
    assert {kind["kind"] for kind in said["kinds"]} == set(NEEDS)
    assert {part["result"] for kind in said["kinds"] for part in kind["parts"]} == {"equal"}


def test_an_id_may_be_shortened_and_must_be_known(samples: Path, command: Command) -> None:
    ids = asyncio.run(_scorecards(samples))
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
        vault = EvidenceVault(FolderStore(settings_of(folder).evidence_path))
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


class Altered:
    """A judge whose answer is changed before it is stored: a worker that was tampered with, or is of another build."""

    def __init__(self, judge: Judge, change: Callable[[Judgement], Judgement]) -> None:
        self._judge, self._change = judge, change
        self.kind, self.needs = judge.kind, judge.needs

    async def judge(self, case: Case) -> Judgement:
        return self._change(await self._judge.judge(case))

    async def close(self) -> None:
        await self._judge.close()


def altered(folder: Path, **verdict: Any) -> Recomputation:
    """One evaluation whose relevance verdict was changed, with evidence and record that agree with it."""

    def change(made: Judgement) -> Judgement:
        return Judgement((made.verdicts[0].model_copy(update=verdict),), made.evidence, made.raw)

    judged(folder, replaced=lambda client: {"relevance": Altered(RelevanceJudge(client), change)})
    return again(folder)


def test_a_verdict_that_does_not_follow_from_the_raw_outputs(tmp_path: Path) -> None:
    made = altered(tmp_path, **dict.fromkeys(("score", "low", "high"), "0.123456"))
    assert made.equal is False
    found = part(made, "llm_relevance")
    assert (found.source, found.result) == ("raw outputs", "differs")
    assert "score: recorded 0.123456, now 1.000000" in found.detail
    assert made.arithmetic == ()
    assert any(line.startswith("trust: recorded ") for line in made.composite)
    assert [each.result for each in made.parts if each is not found] == ["equal"] * 6


def test_a_flag_that_was_taken_away(tmp_path: Path) -> None:
    made = altered(tmp_path, flags=("order_disagrees",))
    assert part(made, "llm_relevance").detail == "flags: recorded order_disagrees, now none"
    assert made.equal is False


def test_a_changed_method_is_not_a_changed_result(tmp_path: Path, samples: Path) -> None:
    told = dossier(samples).verdicts["llm_relevance"]["method"]
    made = altered(tmp_path, method=Method(**{**told, "version": "4.0.0"}))
    found = part(made, "llm_relevance")
    assert (made.equal, found.result) == (None, "other_method")
    assert found.detail == f"version is {told['version']} here, 4.0.0 on record"


def test_evidence_that_does_not_follow_from_the_raw_outputs(tmp_path: Path) -> None:
    def change(made: Judgement) -> Judgement:
        evidence = strict_loads(canonical(made.evidence), max_depth=64)
        evidence["llm_relevance"]["passages"][0]["reason"] = "because"
        return Judgement(made.verdicts, evidence, made.raw)

    judged(tmp_path, replaced=lambda client: {"relevance": Altered(RelevanceJudge(client), change)})
    made = again(tmp_path)
    assert made.equal is False
    assert {kind.evidence for kind in made.kinds} == {None, "llm_relevance.passages[0].reason"}


def test_a_record_that_is_not_what_its_evidence_says(samples: Path) -> None:
    found = dossier(samples)
    sealed = strict_loads(canonical(dict(found.sealed)), max_depth=64)
    sealed["terminology"]["verdicts"][0] |= {"score": "0.500000", "low": "0.500000", "high": "0.500000"}
    made = again(samples, replace(found, sealed=sealed))
    assert made.equal is False
    assert "the record is not what its evidence says: score" in part(made, "terminology").detail


@pytest.mark.parametrize(("policy", "samples"), [("often", [0, 1, 2]), ("fused", [0])])
def test_the_policy_is_the_one_on_record(tmp_path: Path, policy: str, samples: list[int]) -> None:
    made = again(judged(tmp_path, policy=policy))
    assert made.equal is True
    calls = dossier(tmp_path).sealed["grounding"]["evidence"]["faithfulness"]["calls"]
    assert sorted({call["sample"] for call in calls}) == samples


class Aliased(EndpointClient):
    """An endpoint that is asked for one model and says that another served."""

    async def post(self, path: str, body: Mapping[str, Any], deadline: float) -> bytes:
        if "messages" not in body:
            return await super().post(path, body, deadline)
        said = json.loads(await super().post(path, {**body, "model": CHAT_MODEL}, deadline))
        return json.dumps({**said, "model": "judge-2026-01-31"}).encode()


def test_the_model_that_was_asked_for_need_not_be_the_one_that_served(tmp_path: Path) -> None:
    def alias(endpoint: Endpoint, key: bytes) -> EndpointClient:
        return Aliased(replace(endpoint, model="judge-latest"), key)

    made = again(judged(tmp_path, connect=alias))
    assert made.equal is True
    assert dossier(tmp_path).verdicts["faithfulness"]["method"]["model"] == "judge-2026-01-31"


class Late:
    kind = "structure"
    needs = NEEDS["structure"]

    async def judge(self, case: Case) -> Judgement:
        raise JudgeError("timeout", "no answer in time")

    async def close(self) -> None: ...


def test_what_failed_without_an_answer_stands(tmp_path: Path, command: Command) -> None:
    judged(tmp_path, replaced=lambda client: {"structure": Late()})
    made = again(tmp_path)
    assert made.equal is True
    assert {part.part for part in made.parts if part.result == "not_kept"} == {"entities", "relations"}
    code, out, _ = command(tmp_path, "recompute", ONE)
    assert code == 0
    assert "stands alone: failed (timeout): nothing was kept" in out


class ToyEmbedder:
    """A model of this process."""

    family, model = "embedding", "toy@1"
    parameters: Mapping[str, Any] = {"library": "toy 1"}

    async def embed(self, query: str, passages: Sequence[str], case: Case) -> Embedded:
        vectors = np.array([[len(text), text.count("e") + 1] for text in (query, *passages)], dtype="<f4")
        asked = input_digest(self.model, query, passages)
        call = {
            "schema": "embeddings",
            "input_digest": asked,
            "output_digest": sha256_hex(vectors.tobytes()),
            "unread": [],
        }
        return Embedded(vectors, self.model, (call,), (vectors.tobytes(),))

    async def close(self) -> None: ...


class ToyAsker:
    """Finds words with a capital, and a relation from each to the next."""

    made = Made("toy", "toy", "1", "toy@1", {})

    async def ask(self, questions: Sequence[Question]) -> list[Call]:
        return [Call(each.schema, each.digest(self.made.model), self._answer(each)) for each in questions]

    def _answer(self, question: Question) -> bytes:
        label = question.labels[0]
        hits = [[n, n + 1, label, 0.75] for n in range(len(question.mentions) - 1)]
        if question.schema == "entities":
            hits = [[*found.span(), label, 0.75] for found in re.finditer(r"\b[A-Z]\w+", question.text)]
        windows = [{"span": [0, len(question.text)], "found": hits}]
        return canonical({"windows": windows, "cut_words": 0, "cut_sentences": 0})

    async def close(self) -> None: ...


def test_models_of_this_process_say_again_what_they_said(tmp_path: Path) -> None:
    """Neither their libraries nor their weights are needed."""
    passages = [{"text": f"Anna Berg met Otto Kern in Linz{' here' * n}.", "score": 0.9 - n / 10} for n in range(6)]
    request = {
        "evaluation_id": ONE,
        "query": "Who met Otto Kern?",
        "answer": "Anna Berg met Otto Kern in Graz.",
        "retrieved_passages": passages,
    }
    models = Extractor(ModelEntities(ToyAsker()), ModelPairs(ToyAsker()))
    judged(
        tmp_path,
        [json.dumps(request).encode()],
        replaced=lambda client: {
            "calibration": CalibrationJudge(ToyEmbedder()),
            "structure": StructureJudge(models),
        },
    )
    found = dossier(tmp_path)
    made = again(tmp_path, found)
    assert made.equal is True
    for name in ("similarity_calibration", "entities", "relations"):
        assert (part(made, name).source, part(made, name).recorded["state"]) == ("raw outputs", "scored")
    lost = replace(found, outputs=Outputs(missing=frozenset(found.outputs.kept)))
    assert {each.part for each in again(tmp_path, lost).parts if each.result == "unknown"} == {
        *("llm_relevance", "similarity_calibration", "faithfulness", "answer_relevancy", "entities", "relations")
    }


def test_a_judge_of_ones_own_is_run_again_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distribution(tmp_path / "site", "glassbox-tone", {"tone": "tone_of_ones_own:Tone"}, tone_of_ones_own=TONE)
    with monkeypatch.context() as installed:
        installed.syspath_prepend(tmp_path / "site")
        made = again(judged(tmp_path / "data", policy="toned", policies=OWN))
    found = part(made, "polite")
    assert (made.equal, found.source, found.result) == (True, "raw outputs", "equal")
    made = again(tmp_path / "data")
    assert made.equal is None
    assert "no installed package registers a judge 'tone'" in part(made, "polite").detail


@pytest.mark.parametrize("malformed", ["fewer", "not_json"])
def test_answers_that_could_not_be_used_fail_again(tmp_path: Path, malformed: Any) -> None:
    made = again(judged(tmp_path, faults=Faults(malformed=malformed, only_schema="PassageVerdicts")))
    found = part(made, "llm_relevance")
    assert found.recorded["state"] == "failed"
    assert (found.source, found.result) == ("raw outputs", "equal")
    assert made.equal is True


@pytest.mark.parametrize("fault", [{"malformed": "not_json"}, {"truncate_rate": 1.0}, {"error_rate": 1.0}])
def test_what_was_asked_again_is_asked_again(tmp_path: Path, fault: dict[str, Any]) -> None:
    made = again(judged(tmp_path, faults=Faults(**fault, only_schema="StatementGeneratorOutput", times=1)))
    assert part(made, "faithfulness").source == "raw outputs"
    assert part(made, "faithfulness").recorded["state"] == "scored"
    assert made.equal is True
    calls = dossier(tmp_path).sealed["grounding"]["evidence"]["faithfulness"]["calls"]
    assert [call["rejected"] is None for call in calls] == (
        [True, True] if "error_rate" in fault else [False, True, True]
    )


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


def test_a_bundle_without_evidence_is_not(samples: Path, command: Command) -> None:
    assert command(samples, "proof", ONE, "-o", "proof.json")[0] == 0
    code, _, err = command(samples, "recompute", "--file", "proof.json")
    assert code == 2
    assert "holds no evidence" in err
