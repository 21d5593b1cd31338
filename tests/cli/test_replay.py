"""`glassbox replay` on stored runs: what it prints and writes, its exit codes, and what it says of wrong input."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from glassbox.contract.canonical import canonical
from glassbox.replay.evaluate import read_evaluation
from glassbox.replay.suite import Suite, load_suite
from tests.cli.conftest import Command
from tests.replay.builders import stored, suite
from tests.replay.shipped import run_version


@pytest.fixture(scope="module")
def tidewell() -> Suite:
    return load_suite("tidewell")


@pytest.fixture(scope="module")
def kept(tidewell: Suite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for version in ("v1", "v2", "v3"):
        run_version(folder / version, tidewell, version)
    return folder


@pytest.fixture
def runs(kept: Path, tmp_path: Path) -> Path:
    """A folder with runs v1, v2 and v3, which a test may change; the command runs beside it."""
    shutil.copytree(kept, tmp_path / "runs")
    return tmp_path / "runs"


def test_evaluate_shows_runs_side_by_side_and_keeps_what_it_found(command: Command, runs: Path) -> None:
    code, out, _ = command("replay", "evaluate", "runs/v1", "runs/v2")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert ["keyword_recall", "0.614", "(22)", "0.886", "(22)"] in lines
    assert ["success", "15", "19"] in lines
    assert read_evaluation(runs / "v2" / "evaluation.json").classes["success"] == 19
    assert sorted(path.name for path in (runs / "v1").iterdir() if not path.name.startswith(".")) == [
        "evaluation.json",
        "manifest.json",
        "traces.jsonl",
    ]


def test_evaluate_prints_the_same_bytes_that_it_keeps(command: Command, runs: Path) -> None:
    _, first, _ = command("replay", "evaluate", "runs/v1", "runs/v2", "--json")
    _, again, _ = command("replay", "evaluate", "runs/v1", "runs/v2", "--json", "--no-write")
    assert first == again
    assert first.encode() == b"".join((runs / name / "evaluation.json").read_bytes() for name in ("v1", "v2"))


def test_no_write_writes_nothing(command: Command, runs: Path) -> None:
    assert command("replay", "evaluate", "runs/v1", "--no-write")[0] == 0
    assert not (runs / "v1" / "evaluation.json").exists()


def test_two_runs_of_one_system_are_told_apart(command: Command, runs: Path, tidewell: Suite) -> None:
    manifest = runs / "v1" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("run-v1", "again").replace('"version":"v1"', '"version":"v2"'))
    pair = ("runs/v1", "runs/v2")
    head = command("replay", "evaluate", *pair, "--no-write")[1].splitlines()[0]
    assert head.split() == ["extractive", "v2", "(again)", "extractive", "v2", "(run-v2)"]
    expected = "extractive v2 (run-v2) against extractive v2 (again), 26 cases"
    assert command("replay", "compare", *pair)[1].splitlines()[0] == expected
    assert command("replay", "gate", *pair, "--markdown", "gate.md")[1].splitlines()[0] == expected
    text = (runs.parent / "gate.md").read_text()
    assert "run-v2" in text
    assert "again" in text
    command("replay", "report", *pair, "-o", "page.html")
    assert "extractive v2 (again) to extractive v2 (run-v2)" in (runs.parent / "page.html").read_text()


def test_compare_names_every_affected_case(command: Command, runs: Path, tidewell: Suite) -> None:
    code, out, _ = command("replay", "compare", "runs/v2", "runs/v3")
    assert code == 0
    listed = out[out.index("groundedness: regressed") :]
    assert all(f"  {case}" in listed for case in tidewell.cases)
    assert "success -> ungrounded" in listed


def test_an_evaluation_stands_for_its_run(command: Command, runs: Path) -> None:
    command("replay", "evaluate", "runs/v2", "runs/v3")
    for version in ("v2", "v3"):
        (runs / version / "traces.jsonl").unlink()
    code, out, _ = command("replay", "compare", "runs/v2/evaluation.json", "runs/v3/evaluation.json", "--json")
    found = json.loads(out)
    assert code == 0
    assert [c["metric"] for c in found["changes"] if c["verdict"] == "regressed"] == [
        "citation_coverage",
        "groundedness",
    ]
    assert len(found["transitions"]) == 22


@pytest.mark.parametrize(("candidate", "expected"), [("v2", 0), ("v3", 1)])
def test_gate_and_its_files(candidate: str, expected: int, command: Command, runs: Path) -> None:
    options = ("--junit", "gate.xml", "--markdown", "gate.md")
    code, _, err = command("replay", "gate", "runs/v2", f"runs/{candidate}", *options)
    assert code == expected
    assert ("No regression" in err) == (expected == 0)
    suite_ = ElementTree.parse(runs.parent / "gate.xml").getroot()[0]  # noqa: S314
    assert suite_.get("failures") == str(2 * expected)
    assert (runs.parent / "gate.md").read_text().startswith("## ✅" if expected == 0 else "## ❌")


@pytest.mark.parametrize(("candidate", "expected"), [("v2", 0), ("v3", 1), ("v9", 2)])
def test_a_gate_whose_reader_has_gone_keeps_its_exit_code(candidate: str, expected: int, runs: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        gate = (sys.executable, "-m", "glassbox.cli", "replay", "gate", "runs/v2", f"runs/{candidate}")
        ended = subprocess.run(gate, cwd=runs.parent, stdout=writer, stderr=writer, timeout=100)
    finally:
        os.close(writer)
    assert ended.returncode == expected


def test_a_gate_on_a_missing_run_could_not_measure_and_says_so_in_its_files(command: Command, runs: Path) -> None:
    code, out, err = command("replay", "gate", "runs/v2", "runs/v9", "--junit", "gate.xml", "--markdown", "gate.md")
    assert (code, out) == (2, "")
    assert "runs/v9: there is no such run or evaluation" in err
    assert "runs/v9" in (runs.parent / "gate.xml").read_text()
    assert "could not be measured" in (runs.parent / "gate.md").read_text()


def test_a_gate_on_a_foreign_run_could_not_measure(command: Command, runs: Path) -> None:
    other = suite("a", "b")
    stored(runs / "other", other)
    (runs.parent / "suite.jsonl").write_bytes(
        b"".join(canonical(case.model_dump(mode="json")) + b"\n" for case in other.cases.values())
    )
    (runs.parent / "corpus.jsonl").write_bytes(canonical(other.corpus["doc"].model_dump(mode="json")) + b"\n")
    code, _, err = command("replay", "gate", "runs/v2", "runs/other")
    assert code == 2
    assert "'small' is no shipped suite: name its file or folder with --suite" in err
    code, _, err = command("replay", "gate", "runs/v2", "runs/other", "--suite", "tidewell", "--suite", ".")
    assert code == 2
    assert "suite.digest" in err
    code, _, err = command("replay", "gate", "runs/v2", "runs/v3", "--suite", ".")
    assert code == 2


def foreign(folder: Path) -> str:
    """A suite of one's own in a folder, its run, and the run's folder."""
    made = [
        {"id": "bill-due", "question": "When?", "relevant": ["bills"]},
        {"id": "new", "question": "Who?", "answerable": False},
    ]
    folder.mkdir()
    (folder / "suite.jsonl").write_text("".join(json.dumps(line) + "\n" for line in made))
    (folder / "corpus.jsonl").write_text(json.dumps({"id": "bills", "title": "Bills", "text": "A bill is due in May."}))
    run_version(folder / "run", load_suite(folder), "v2")
    return str(folder / "run")


def test_runs_of_different_suites_are_refused_and_common_cases_compared_when_told(command: Command, runs: Path) -> None:
    other = foreign(runs / "own")
    options = ("--suite", "tidewell", "--suite", "runs/own")
    code, _, err = command("replay", "gate", "runs/v2", other, *options)
    assert code == 2
    assert "different suites" in err
    code, _, err = command("replay", "gate", "runs/v2", other, *options, "--common")
    assert code == 2
    assert "no case in common" in err  # the same id, asked in other words


def test_a_suite_of_ones_own(command: Command, runs: Path) -> None:
    run = foreign(runs / "own")
    code, out, _ = command("replay", "evaluate", run, "--suite", "runs/own")
    assert code == 0
    assert "extractive v2" in out
    code, _, _ = command(
        "replay",
        "report",
        run,
        "--suite",
        "runs/own/suite.jsonl",
        "--corpus",
        "runs/own/corpus.jsonl",
        "-o",
        "own.html",
    )
    assert code == 0


def test_thresholds(command: Command, runs: Path) -> None:
    gate = ("replay", "gate", "runs/v2", "runs/v3")
    lost = ("--ignore", "citation_precision")
    assert command(*gate, *lost, "--threshold", "100%")[0] == 0
    assert command(*gate, *lost, "--threshold", "100%", "--threshold", "groundedness=2%")[0] == 1
    assert command(*gate, *lost, "--threshold", "groundedness=1.0", "--threshold", "citation_coverage=1")[0] == 0
    assert command(*gate, "--threshold", "100%")[0] == 2  # citation precision is no longer measured
    assert command(*gate, *lost, "--ignore", "groundedness", "--ignore", "citation_coverage")[0] == 0


def test_a_threshold_in_per_cent_has_no_floor_beneath_it(command: Command, runs: Path) -> None:
    options = ("--threshold", "latency_median=5%", "--threshold", "tokens=0.1%", "--json")
    _, out, _ = command("replay", "compare", "runs/v1", "runs/v2", *options)
    found = {each["metric"]: each for each in json.loads(out)["changes"]}
    assert found["latency_median"]["allowed"] == 0.1  # of 2 ms
    assert found["tokens"]["allowed"] == pytest.approx(0.001 * found["tokens"]["base"]["value"], abs=1e-6)
    assert found["latency_p95"]["allowed"] == 50


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--threshold", "much"), "--threshold much: must be a number from 0, or one in per cent, such as 5%"),
        (("--threshold", "mrr=-1"), "--threshold mrr=-1: must be a number from 0"),
        (("--threshold", "mrr=nan"), "must be a number from 0"),
        (("--threshold", "charm=1%"), "--threshold charm=1%: no such metric; there are keyword_recall"),
        (("--ignore", "charm"), "--ignore charm: no such metric; there are abstention"),
    ],
)
def test_wrong_use_is_a_sentence(options: tuple[str, str], reason: str, command: Command, runs: Path) -> None:
    code, _, err = command("replay", "gate", "runs/v1", "runs/v2", *options)
    assert code == 2
    assert reason in err


def test_what_is_wrong_with_a_run_is_said_with_file_line_and_field(command: Command, runs: Path) -> None:
    traces, manifest = (runs / "v1" / name for name in ("traces.jsonl", "manifest.json"))
    lines = traces.read_bytes().splitlines(keepends=True)
    traces.write_bytes(b"".join([*lines[:-1], lines[-1].replace(b'"repeat":0', b'"repeat":-1')]))
    code, _, err = command("replay", "evaluate", "runs/v1")
    assert code == 2
    assert "runs/v1/traces.jsonl, traces_digest: has digest" in err
    manifest.write_text(manifest.read_text().replace('"schema_version":"1"', '"schema_version":"2"'))
    code, _, err = command("replay", "evaluate", "runs/v1")
    assert code == 2
    assert "runs/v1/manifest.json, schema_version: is 2; this build reads 1" in err
    (runs / "e.json").write_text("{")
    code, _, err = command("replay", "compare", "runs/e.json", "runs/v2")
    assert code == 2
    assert "runs/e.json: not JSON" in err


def test_report(command: Command, runs: Path) -> None:
    code, out, _ = command("replay", "report", "runs/v2", "runs/v3", "-o", "page.html")
    assert (code, out) == (0, "page.html\n")
    assert "Regressed: citation_coverage, groundedness" in (runs.parent / "page.html").read_text()
    command("replay", "evaluate", "runs/v2")
    assert command("replay", "report", "runs/v2/evaluation.json")[0] == 0
    assert "clean answers of 26" in (runs.parent / "report.html").read_text()
    shutil.copy(runs / "v2" / "evaluation.json", runs / "v3" / "evaluation.json")
    code, _, err = command("replay", "report", "runs/v2", "runs/v3/evaluation.json")
    assert code == 2
    assert "is not an evaluation of the run beside it" in err
