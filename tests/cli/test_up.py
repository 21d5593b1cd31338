"""`glassbox up` on real processes, and the commands that work against it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(180)

Run = Callable[..., subprocess.CompletedProcess[str]]

PASSAGE = "The harbour museum opened in 1998. It closes at 18:00 on weekdays and admission costs 7 euros."
SOUND = {
    "evaluation_id": "museum-1",
    "query": "When does the harbour museum close on weekdays?",
    "answer": "It closes at 18:00 on weekdays.",
    "retrieved_passages": [PASSAGE],
}


def request(**fields: Any) -> bytes:
    return json.dumps({**SOUND, **fields}).encode()


BROKEN: dict[str, tuple[bytes, str]] = {
    "not JSON": (b"{", "body"),
    "no object": (b"[1]", "body"),
    "missing field": (b'{"query": "q", "retrieved_passages": []}', "answer"),
    "blank query": (request(query=" \u200b "), "query"),
    "passages as a string": (request(retrieved_passages="p"), "retrieved_passages"),
    "scores of the wrong length": (request(chunk_scores=[1.0, 2.0]), "chunk_scores"),
    "NaN": (request().replace(b"}", b', "chunk_scores": [NaN]}'), "chunk_scores[0]"),
    "lone surrogate": (request(answer="\ud800"), "answer"),
    "duplicated keys": (b'{"query": "q", "query": "q", "answer": "a", "retrieved_passages": []}', "query"),
    "too many passages": (request(retrieved_passages=["p"] * 1001), "retrieved_passages"),
    "too large": (request(answer="a" * 5_000_000), "body"),
    "unknown major": (request(schema_version="9"), "schema_version"),
    "unknown policy": (request(policy="none-such"), "policy"),
}
"""What is wrong -> (message, the field that its dead letter names)."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with an agreement card, which the policy names for the entities."""
    folder = tmp_path_factory.mktemp("up")
    labelled = [
        request(answer=f"It closes at {hour}:00 on weekdays.", labels={"entities": hour == 18}) for hour in (18, 19, 20)
    ]
    (folder / "entities.jsonl").write_bytes(b"\n".join(labelled))
    command = [sys.executable, "-m", "glassbox.cli", "agreement", "entities.jsonl", "--card", "card.json", "--json"]
    done = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True, check=True)
    digest = json.loads(done.stdout)["digest"]
    part = "policy.offline.judges.structural_fidelity.parts.entities"
    (folder / "glassbox.toml").write_text(f'[{part}]\nagreement = "{digest}"\n')
    return folder


def environment(folder: Path) -> dict[str, str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GLASSBOX_")}
    return clean | {"GLASSBOX_POLICY": "offline", "GLASSBOX_DATA_DIR": str(folder / "data")}


@pytest.fixture(scope="module")
def up(folder: Path) -> Iterator[subprocess.Popen[str]]:
    with (folder / "up.out").open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "glassbox.cli", "up"],
            cwd=folder,
            env=environment(folder),
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )
    try:
        wait_for(lambda: "ready in" in (folder / "up.out").read_text(), process)
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(30) == 0, "Ctrl-C is how it is meant to end"
        finally:
            process.kill()
    assert not (folder / "data" / "up.json").exists()


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str], within_s: float = 90.0) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert process.poll() is None, "`up` ended"
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def run(folder: Path, up: subprocess.Popen[str]) -> Run:
    def command(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "glassbox.cli", *arguments],
            cwd=folder,
            env=environment(folder),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    return command


@pytest.fixture(scope="module")
def museum(folder: Path, run: Run) -> dict[str, Any]:
    """One judged answer: the line that `submit --wait --json` prints of it."""
    (folder / "one.jsonl").write_bytes(request() + b"\n")
    answer, summary = map(json.loads, run("submit", "one.jsonl", "--wait", "--json").stdout.splitlines())
    assert summary["summary"]["evaluations"] == 1
    return dict(answer)


def test_up_prints_where_everything_is(folder: Path, up: subprocess.Popen[str]) -> None:
    said = (folder / "up.out").read_text()
    found = json.loads((folder / "data" / "up.json").read_text())
    assert found["broker"]["address"] in said
    assert found["ledger"] in said
    assert all(address in said for address in found["metrics"].values())


def test_a_second_up_is_refused(run: Run) -> None:
    assert "runs already in" in run("up", code=2).stderr


def test_a_request_is_judged_shown_proved_and_verified(folder: Path, run: Run, museum: dict[str, Any]) -> None:
    assert (museum["evaluation_id"], museum["outcome"]) == ("museum-1", "pass")
    shown = run("show", "museum-1").stdout
    assert museum["trust"] in shown
    assert "It closes at 18:00 on weekdays." in shown
    assert "ragas" in shown
    record = json.loads(run("show", "museum-1", "--json").stdout)["record"]
    assert record["trust"] == museum["trust"]
    run("proof", "museum-1", "-o", "proof.json", "--with-evidence")
    key = next(line.split()[1] for line in (folder / "up.out").read_text().splitlines() if line.startswith("key"))
    assert run("verify", "proof.json", "--key", key).stdout.startswith("holds")
    bundle = (folder / "proof.json").read_text()
    (folder / "forged.json").write_text(bundle.replace('"outcome":"pass"', '"outcome":"fail"'))
    run("verify", "forged.json", "--key", key, code=1)
    assert "whom you did not name" in run("verify", "proof.json", code=2).stdout
    for again in (run("recompute", "museum-1"), run("recompute", "--file", "proof.json")):
        assert again.stdout.splitlines()[-1].startswith("all equal: 7 parts, ")


def test_the_same_request_again_gets_the_standing_record(run: Run, museum: dict[str, Any]) -> None:
    again = json.loads(run("submit", "one.jsonl", "--wait", "--json").stdout.splitlines()[0])
    assert again["trust"] == museum["trust"]


def test_watch_shows_scorecards(run: Run, museum: dict[str, Any]) -> None:
    assert "museum-1" in run("watch", "--from-beginning", "--count", "1").stdout
    card = json.loads(run("watch", "--from-beginning", "--count", "1", "--json").stdout)
    assert card["kind"] == "scorecard"


def test_every_broken_request_is_a_dead_letter_that_says_why_and_the_next_is_served(folder: Path, run: Run) -> None:
    lines = [*(raw for raw, _ in BROKEN.values()), request(evaluation_id="museum-after")]
    (folder / "broken.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    said = run("submit", "broken.jsonl", "--wait", "--json", code=1).stdout.splitlines()
    answers = {answer["line"]: answer for answer in map(json.loads, said[:-1])}
    for line, (what, (_, field)) in enumerate(BROKEN.items(), 1):
        letter = answers[line]["dead_letter"]
        assert letter["reason"] == "contract", what
        assert letter["field"].startswith(field), what
        assert letter["detail"], what
    assert answers[len(lines)]["outcome"] == "pass"
    listed = [json.loads(line) for line in run("dead-letters", "list", "--json").stdout.splitlines()]
    blank = next(letter for letter in listed if letter["field"] == "query" and "blank" in letter["detail"])
    shown = json.loads(run("dead-letters", "show", blank["id"], "--json").stdout)
    assert shown["value"].encode() == BROKEN["blank query"][0], "the original, byte for byte"


def test_one_id_with_two_contents_is_a_dead_letter(folder: Path, run: Run, museum: dict[str, Any]) -> None:
    (folder / "reused.jsonl").write_bytes(request(answer="It closes at 19:00 on weekdays.") + b"\n")
    answer = json.loads(run("submit", "reused.jsonl", "--wait", "--json", code=1).stdout.splitlines()[0])
    assert answer["dead_letter"]["reason"] == "id_reused"


def test_dead_letters_are_redriven_once_or_let_go(folder: Path, run: Run, museum: dict[str, Any]) -> None:
    (folder / "dead.jsonl").write_bytes(b"\n".join([request(evaluation_id="late", policy="later"), b"{"]) + b"\n")
    run("submit", "dead.jsonl", "--wait", code=1)
    listed = {
        letter["field"]: letter["id"]
        for letter in map(json.loads, run("dead-letters", "list", "--since", "1h", "--json").stdout.splitlines())
        if letter["field"] in ("policy", "body")
    }
    late, broken = listed["policy"], listed["body"]
    assert "say which" in run("dead-letters", "redrive", code=2).stderr
    assert "1 would be redriven" in run("dead-letters", "redrive", late, "--dry-run").stdout
    sent = run("dead-letters", "redrive", late, "--comment", "try", "--json")
    assert [json.loads(line) for line in sent.stdout.splitlines()] == [{"id": late, "result": "redriven"}]
    again = json.loads(run("dead-letters", "redrive", late, "--json", code=1).stdout)
    assert again["result"] == "refused"
    assert "it was redriven at" in again["why"]
    assert "1 discarded" in run("dead-letters", "discard", broken).stdout
    assert "it was discarded at" in run("dead-letters", "redrive", broken, code=1).stdout

    def second() -> list[dict[str, Any]]:
        found = map(
            json.loads, run("dead-letters", "list", "--source", "glassbox.requests", "--json").stdout.splitlines()
        )
        return [letter for letter in found if letter["attempt"] == "1"]

    end = time.monotonic() + 30
    while not (died := second()) and time.monotonic() < end:
        pass
    assert [letter["field"] for letter in died] == ["policy"], "nothing was mended, so it died again, counted"
    assert not {late, broken} & {letter["id"] for letter in died}
    every = {json.loads(line)["id"] for line in run("dead-letters", "list", "--all", "--json").stdout.splitlines()}
    assert {late, broken} <= every


def test_erasing_leaves_a_proof_without_content(folder: Path, run: Run, museum: dict[str, Any]) -> None:
    (folder / "private.jsonl").write_bytes(request(evaluation_id="private") + b"\n")
    run("submit", "private.jsonl", "--wait")
    assert "say --yes" in run("erase", "private", code=2).stderr
    assert "its content is erased" in run("erase", "private", "--yes").stdout
    assert "erased before" in run("erase", "private", "--yes").stdout
    assert "nothing is stored" in run("erase", "priv", "--yes", code=1).stdout
    run("proof", "private", "-o", "private.json")
    assert "was erased" in run("proof", "private", "-o", "more.json", "--with-evidence", code=2).stderr
    key = next(line.split()[1] for line in (folder / "up.out").read_text().splitlines() if line.startswith("key"))
    assert run("verify", "private.json", "--key", key).stdout.startswith("holds")
    said = run("submit", "private.jsonl", "--wait", "--json", code=1).stdout.splitlines()[0]
    assert json.loads(said)["dead_letter"]["reason"] == "erased"
    run("erase", "never-came", "--ahead", "--yes")
    (folder / "ahead.jsonl").write_bytes(request(evaluation_id="never-came") + b"\n")
    said = run("submit", "ahead.jsonl", "--wait", "--json", code=1).stdout.splitlines()[0]
    assert json.loads(said)["dead_letter"]["reason"] == "erased"


def test_topics_and_policies(run: Run) -> None:
    assert run("topics", "create").stdout == "every topic is there\n"
    described = json.loads(run("topics", "describe", "--json").stdout)
    assert {topic["partitions"] for topic in described} == {4}
    assert "offline" in run("policy", "register", "offline").stdout


def test_agreement_from_the_ledger(folder: Path, run: Run, museum: dict[str, Any]) -> None:
    (folder / "labelled.jsonl").write_bytes(request(label={"supported": True}) + b"\n")
    (part,) = json.loads(run("agreement", "labelled.jsonl", "--from-ledger", "--json").stdout)["card"]["parts"]
    (figures,) = part["methods"]
    assert figures["confusion"]["true_positive"] == 1
    assert figures["method"]["family"] == "lexical"


def test_a_scorecard_carries_how_far_its_judge_agrees_with_people(run: Run, museum: dict[str, Any]) -> None:
    shown = run("show", "museum-1").stdout
    assert "how far the judges agree with people" in shown
    assert "entities: balanced accuracy 1.000 (1.000 to 1.000) on 3 labelled answers at > 0.9, card " in shown
    record = json.loads(run("show", "museum-1", "--json").stdout)
    card = record["evidence"]["structure"]["agreement_cards"]["entities"]["card"]
    assert record["policy"]["judges"]["structural_fidelity"]["parts"]["entities"]["agreement"] == card
    assert run("recompute", "museum-1").returncode == 0


def test_a_killed_role_starts_again_and_the_next_request_is_judged(
    folder: Path, run: Run, up: subprocess.Popen[str], museum: dict[str, Any]
) -> None:
    def pids() -> dict[str, int]:
        return dict(json.loads((folder / "data" / "up.json").read_text())["pids"])

    before = pids()
    os.kill(before["structure"], signal.SIGKILL)
    wait_for(lambda: pids()["structure"] != before["structure"], up)
    (folder / "later.jsonl").write_bytes(request(evaluation_id="museum-later") + b"\n")
    run("submit", "later.jsonl", "--wait")
    assert "structure ended with code -9" in (folder / "up.out").read_text()
