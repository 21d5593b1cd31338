"""From a failing scorecard to a regression test, and replay's runs over HTTP."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from glassbox.contract.request import keyed_digest
from glassbox.replay.cases import Incident, add_case
from glassbox.replay.evaluate import EVALUATION, EvaluationEngine
from glassbox.replay.store import MANIFEST, Run
from glassbox.replay.suite import Observed, load_suite
from tests.cli.conftest import Command, command  # noqa: F401 — a fixture
from tests.gateway.parts import ID_KEY, Door
from tests.gateway.stored import judged
from tests.gateway.test_submitting import URL, problem
from tests.replay.shipped import run_version

CASE = f"{URL}/e/case"
WANTED = {"suite": "regressions", "expectation": {"keywords": [["1843"]], "relevant": [0]}}


async def test_a_failing_scorecard_becomes_a_case(keyed_door: Door, tmp_path: Path) -> None:
    await judged(keyed_door, faithfulness="0.000000")
    await judged(keyed_door, "theirs", tenant="other")
    async with keyed_door.client(keyed_door.key()) as client:
        first, again = [await client.post(CASE, json=WANTED) for _ in range(2)]
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json() == {
            "suite": "regressions",
            "case": "e",
            "added": True,
            "cases": 1,
            "folder": "suites/@acme/regressions",
        }
        assert (await client.post(CASE, json={"suite": "regressions"})).json()["added"] is False
        for other in ({"keywords": [["1842"]], "relevant": [0]}, {"answerable": False}):
            answer = await client.post(CASE, json={**WANTED, "expectation": other})
            problem(answer, 409, "case_exists", "expectation")
        (listed,) = (await client.get("/v1/suites")).json()["suites"]
        assert (listed["name"], listed["cases"], listed["documents"]) == ("regressions", 1, 1)
    suite = load_suite(tmp_path / listed["folder"])
    observed = suite.cases["e"].observed
    assert observed is not None
    assert [(part.part, part.why[:17]) for part in observed.failing] == [("faithfulness", "1 of 1 claims uns")]
    async with keyed_door.client(keyed_door.key("other")) as client:
        problem(await client.post(CASE, json=WANTED), 404, "not_found")
        assert (await client.get("/v1/suites")).json() == {"suites": []}


def test_erasing_names_the_suites_that_have_a_copy(command: Command, tmp_path: Path) -> None:  # noqa: F811 — the fixture
    observed = Observed(evaluation_id="e", answer="a", outcome="fail")
    folder = tmp_path / ".glassbox" / "suites" / "@acme" / "regressions"
    add_case(folder, Incident("What?", [(None, "text")], observed))
    code, _, said = command("erase", "e", "other", "--ahead", "--yes")
    assert code == 0
    (line,) = said.splitlines()
    assert line.startswith(f"glassbox: e: {folder} has a case")


async def test_what_makes_no_case_is_said(keyed_door: Door) -> None:
    await judged(keyed_door)
    async with keyed_door.client(keyed_door.key("acme", "read")) as client:
        problem(await client.post(CASE, json=WANTED), 403, "forbidden")
    async with keyed_door.client(keyed_door.key()) as client:
        for wrong, field in (
            ({"suite": "../up"}, "suite"),
            ({"suite": "tidewell"}, "suite"),
            ({"suite": "s", "expectation": {"relevant": [1]}}, "expectation.relevant"),
            ({"suite": "s", "expectation": {"answerable": False, "relevant": [0]}}, "expectation"),
            ({}, "suite"),
        ):
            problem(await client.post(CASE, json=wrong), 422, "contract", field)
        await keyed_door.vault.erase("e", "2026-02-03T04:05:06.789Z")
        problem(await client.post(CASE, json=WANTED), 404, "no_evidence")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of the shipped suite."""
    folder, suite = tmp_path_factory.mktemp("runs"), load_suite("tidewell")
    for version in ("v1", "v2"):
        run_version(folder / version, suite, version)
    return folder


async def test_runs_and_their_comparison_in_the_words_of_replay(
    open_door: Door,
    tmp_path: Path,
    kept: Path,
    command: Command,  # noqa: F811 — the fixture
) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(kept, folder)
    (folder / "none").mkdir()
    evaluation = EvaluationEngine(load_suite("tidewell")).evaluate(Run.open(folder / "v1"))
    (folder / "v1" / EVALUATION).write_bytes(evaluation.to_bytes())
    async with open_door.client() as client:
        runs = {each["run"]: each for each in (await client.get("/v1/runs")).json()["runs"]}
        assert runs.keys() == {"v1", "v2"}
        recall = next(each for each in runs["v1"]["figures"] if each["metric"] == "keyword_recall")
        assert (recall["text"], recall["n"], runs["v2"]["figures"]) == ("0.614", 22, None)
        assert runs["v1"]["session"] == keyed_digest(ID_KEY, b"run-v1")
        found = (await client.get("/v1/runs/v1/comparison/v2")).json()
        problem(await client.get("/v1/runs/v1/comparison/v9"), 404, "not_found")
        problem(await client.get("/v1/runs/none/comparison/v1"), 404, "not_found")
        manifest = (folder / "v2" / MANIFEST).read_text().replace('"tidewell"', '"mine"')
        (folder / "v2" / MANIFEST).write_text(manifest)
        answer = await client.get("/v1/runs/v1/comparison/v2")
        problem(answer, 409, "no_comparison")
        assert "evaluate the run first" in answer.json()["detail"]
    code, out, _ = command("replay", "compare", str(kept / "v1"), str(kept / "v2"))
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert found["cases"] == len(load_suite("tidewell").cases)
    for change in found["changes"]:
        printed = next(line for line in lines if line[:1] == [change["metric"]])
        words = (
            change["base"],
            change["candidate"],
            change["change"],
            change["share"],
            change["interval"],
            change["n"],
        )
        assert printed[1:] == " ".join((*words, change["verdict"].replace("_", " "))).split()
    assert found["classes"][0]["class"] == "success"


async def test_a_tenant_sees_its_own_runs(keyed_door: Door, tmp_path: Path, kept: Path) -> None:
    shutil.copytree(kept, tmp_path / "runs")
    async with keyed_door.client(keyed_door.key()) as client:
        assert (await client.get("/v1/runs")).json() == {"runs": []}
        problem(await client.get("/v1/runs/v1/comparison/v2"), 404, "not_found")
    shutil.copytree(kept / "v1", tmp_path / "runs" / "@acme" / "mine")
    async with keyed_door.client(keyed_door.key()) as client:
        assert [each["run"] for each in (await client.get("/v1/runs")).json()["runs"]] == ["mine"]
