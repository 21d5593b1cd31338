"""A judge of one's own, from a package that pip installed elsewhere: in this process, in the command, on the ledger."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from glassbox.cli.children import Stop
from glassbox.cli.supervisor import Supervisor
from glassbox.settings import Settings
from tests.own_judges import POLICY, ROOT, build, distribution
from tests.pipeline import Pipeline, request

RULES_ONLY = """
vetoes = []
[policy.cited.judges.contextual_precision]
enabled = false
[policy.cited.judges.semantic_faithfulness]
enabled = false
"""
"""What needs neither a model nor a large library, beside the page's own judge."""

CITED = "Ada Lovelace wrote the first program in 1843 [1]. Charles Babbage built engines [2]."
UNCITED = "Ada Lovelace wrote the first program in 1843. Charles Babbage built engines [3]."

Glassbox = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's package is."""
    return build(tmp_path_factory.mktemp("package"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the page's policy, in which only rules judge."""
    before, judges = POLICY.split("\n\n", 1)
    assert before.startswith("[policy.cited]\n")
    (tmp_path / "glassbox.toml").write_text(f"{before}\n{RULES_ONLY}\n{judges}")
    return tmp_path


@pytest.fixture
def glassbox(folder: Path) -> Glassbox:
    """Run the command in the folder; `packages`: where else Python finds installed packages."""

    def run(*arguments: str, packages: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("GLASSBOX_")}
        path = os.pathsep.join(map(str, [ROOT, *([packages] if packages else [])]))
        command = [sys.executable, "-m", "glassbox.cli", *arguments]
        environment = {**clean, "PYTHONPATH": path, **more}
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
        )

    return run


def test_judge_a_file(folder: Path, installed: Path, glassbox: Glassbox) -> None:
    requests = [request("cited", answer=CITED), request("uncited", answer=UNCITED)]
    (folder / "a.jsonl").write_text("".join(json.dumps(each) + "\n" for each in requests))
    made = glassbox("judge", "a.jsonl", "--policy", "cited", "--json", "--with-evidence", packages=installed)
    assert made.returncode == 0, made.stderr
    cited, uncited = map(json.loads, made.stdout.splitlines())
    (part,) = (part for part in uncited["parts"] if part["part"] == "cited")
    assert (part["judge"], part["score"], part["meets_target"]) == ("citations", "0.000000", False)
    assert "review:cited" in uncited["reasons"]
    assert {judge["judge"]: judge["score"] for judge in cited["judges"]}["citations"] == "1.000000"
    (verdict,) = (verdict for verdict in uncited["verdicts"] if verdict["part"] == "cited")
    assert verdict["method"]["parameters"] == {"at_least_words": 4}
    assert len(uncited["evidence"]["citations"]["cited"]["sentences"]) == 2
    table = glassbox("judge", "a.jsonl", "--policy", "cited", packages=installed).stdout
    assert "citations" in table.splitlines()[0]
    assert "0 of 2 sentences cite a passage" in table


def test_without_the_package_every_start_says_so(folder: Path, glassbox: Glassbox, installed: Path) -> None:
    (folder / "a.jsonl").write_text(json.dumps(request("a")) + "\n")
    sentence = "glassbox: policy.cited.judges.citations: no installed package registers a judge 'citations'"
    for command in (("config", "check"), ("judge", "a.jsonl"), ("up",)):
        made = glassbox(*command)
        assert made.returncode == 2
        assert made.stderr.startswith(sentence), made.stderr
        assert made.stderr.count("\n") == 1
    fine = glassbox("config", "check", packages=installed)
    assert fine.returncode == 0
    assert "citations (glassbox-citations 1.0: cited)" in fine.stdout


def test_worker_knows_the_kinds_that_policies_use(glassbox: Glassbox) -> None:
    made = glassbox("worker", "citation", GLASSBOX_BROKER="127.0.0.1:1")
    assert made.returncode == 2
    assert "did you mean 'citations'" in " ".join(made.stderr.split())
    made = glassbox("worker", "citations", GLASSBOX_BROKER="127.0.0.1:1")
    assert "no broker answers at 127.0.0.1:1" in made.stderr


def test_up_runs_a_worker_of_each_kind(folder: Path) -> None:
    settings = Settings(data_dir=folder / "data", config=folder / "glassbox.toml")
    names = Supervisor(settings, Stop(), lambda _: None, workers=2).metrics.keys()
    assert {"citations", "citations-2", "structure-2", "intake", "join", "committer"} <= names
    assert len(names) == 2 * 6 + 3


@pytest.mark.timeout(240)
def test_the_pipeline_takes_it_to_the_ledger(folder: Path, installed: Path, glassbox: Glassbox) -> None:
    config = {"GLASSBOX_CONFIG": str(folder / "glassbox.toml"), "GLASSBOX_POLICY": "cited"}
    pipeline = Pipeline(folder, judges="real", environment={**config, "PYTHONPATH": str(installed)})
    data = {"GLASSBOX_DATA_DIR": str(folder / "data"), "GLASSBOX_BROKER": pipeline.broker.address}
    try:
        pipeline.start(["intake", "citations", "terminology", "structure", "join", "committer"])
        assert "glassbox.judge.citations" in glassbox("topics", "describe", **data).stdout
        with pipeline.watching() as read:
            pipeline.publish([request("cited", answer=CITED), request("uncited", answer=UNCITED)])
            settled = read(lambda s: len(s.receipts) == 2, 60)
        assert len(settled.receipts) == 2
        watched = glassbox("watch", "--from-beginning", "--count", "2", **data)
        assert pipeline.metric("citations", "glassbox_verdicts_total") == 2
    finally:
        pipeline.close()
    parts = {name: {row["part"]: row for row in record["parts"]}["cited"] for name, record in settled.records.items()}
    assert {name: (row["state"], row["score"]) for name, row in parts.items()} == {
        "cited": ("scored", "1.000000"),
        "uncited": ("scored", "0.000000"),
    }
    assert "review:cited" in settled.records["uncited"]["reasons"]
    assert "citations" in watched.stdout.splitlines()[0]
    # what follows reads the ledger on a machine that never had the package
    shown = glassbox("show", "uncited", **data).stdout
    assert re.search(r"cited +0\.000000 .*“0 of 2", shown)
    assert glassbox("recompute", "uncited", packages=installed, **data).returncode == 0
    without = glassbox("recompute", "uncited", **data)
    assert without.returncode == 2
    assert "no installed package registers a judge 'citations'" in " ".join(without.stdout.split())
    proof = glassbox("proof", "uncited", "-o", "proof.json", **data)
    assert proof.returncode == 0, proof.stderr
    key = Settings(data_dir=folder / "data").signing_key().verifier
    verified = glassbox("verify", "proof.json", "--key", str(key))
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_judge_that_cannot_start_is_a_sentence(folder: Path, tmp_path: Path, glassbox: Glassbox) -> None:
    module = """
    class Broken:
        kind, needs, parts = "citations", {"answer"}, {"cited": {"at_least_words": 1}}
        def __init__(self, context):
            raise OSError("the licence server does not answer")
    """
    broken = distribution(
        tmp_path / "broken", "glassbox-broken", {"citations": "broken_judge:Broken"}, broken_judge=module
    )
    (folder / "a.jsonl").write_text(json.dumps(request("a")) + "\n")
    made = glassbox("judge", "a.jsonl", "--policy", "cited", packages=broken)
    assert made.returncode == 2
    assert made.stderr.endswith("the citations judge cannot start: OSError: the licence server does not answer\n")
