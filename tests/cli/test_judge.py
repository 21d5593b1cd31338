"""`glassbox judge`: the pipeline's contract, judges and arithmetic, in this process."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from glassbox.contract.composite import compose
from glassbox.contract.policy import load_policies
from tests.cli.conftest import Command

TOML = """
[policy.words]
vetoes = []
[policy.words.judges.contextual_precision]
enabled = false
[policy.words.judges.semantic_faithfulness]
enabled = false
"""
"""Only what needs neither a model nor a large library."""

PASSAGE = "The ferry Alma Linde was built in 1962 by Hartwell Yard. It carries 240 passengers across the Wend."
SOUND = "The ferry Alma Linde was built in 1962 by Hartwell Yard."
WRONG = "The ferry Alma Linde was built in 1971 by Northgate Works."


@pytest.fixture(autouse=True)
def _policies(tmp_path: Path) -> None:
    (tmp_path / "glassbox.toml").write_text(TOML)


def requests(folder: Path, *answers: str, **fields: Any) -> str:
    lines = [
        {
            "evaluation_id": f"ferry-{n}",
            "query": "Who built it?",
            "answer": a,
            "retrieved_passages": [PASSAGE],
            **fields,
        }
        for n, a in enumerate(answers, 1)
    ]
    (folder / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return "a.jsonl"


def test_json_has_every_verdict_and_recomputes(tmp_path: Path, command: Command) -> None:
    code, out, _ = command("judge", requests(tmp_path, SOUND, WRONG), "--policy", "words", "--json", "--with-evidence")
    assert code == 0
    sound, wrong = map(json.loads, out.splitlines())
    assert (sound["line"], sound["evaluation_id"], sound["outcome"]) == (1, "ferry-1", "pass")
    assert (sound["trust"], wrong["outcome"]) == ("1.000000", "fail")
    assert {verdict["method"]["family"] for verdict in sound["verdicts"]} == {"rules"}
    assert "Northgate" in json.dumps(wrong["evidence"]["structure"])
    document = load_policies(TOML)["words"].document
    rows = [{key: row[key] for key in ("part", "state", "score", "low", "high", "cause")} for row in wrong["parts"]]
    assert compose(rows, document)["trust"] == wrong["trust"]


def test_table_names_the_weakest_part_and_what_was_refused(tmp_path: Path, command: Command) -> None:
    file = requests(tmp_path, SOUND, WRONG)
    with (tmp_path / file).open("a") as lines:
        lines.write("not json\n")
    code, out, _ = command("judge", file, "--policy", "words")
    assert code == 0
    assert "pairs stand in no sentence of the sources" in " ".join(out.split())
    assert "line 3 was refused: body: not JSON" in out
    assert "3 answers: 1 pass, 1 fail, 1 refused" in out


@pytest.mark.parametrize(("limit", "code"), [("0.1", 0), ("0.9", 1)])
def test_fail_under(tmp_path: Path, command: Command, limit: str, code: int) -> None:
    assert command("judge", requests(tmp_path, SOUND, WRONG), "--policy", "words", "--fail-under", limit)[0] == code


def test_what_was_refused_is_under_every_limit(tmp_path: Path, command: Command) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n")
    assert command("judge", "a.jsonl", "--policy", "words", "--fail-under", "0")[0] == 1


def test_csv(tmp_path: Path, command: Command) -> None:
    (tmp_path / "a.csv").write_text(f'question,answer,context\nWho?,"{SOUND}","{PASSAGE}"\n')
    mapping = ("--map", "question=query", "--map", "context=retrieved_passages")
    code, out, _ = command("judge", "a.csv", *mapping, "--policy", "words", "--json")
    assert code == 0
    assert len(json.loads(out)["evaluation_id"]) == 64


@pytest.mark.parametrize("arguments", [("--policy", "wrods"), ("--map", "a=query")])
def test_wrong_use_is_a_sentence(tmp_path: Path, command: Command, arguments: tuple[str, ...]) -> None:
    code, out, err = command("judge", requests(tmp_path, SOUND), *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("glassbox: ")
    assert err.count("\n") == 1


@pytest.mark.timeout(120)
def test_the_offline_policy_scores_every_part_without_a_network(tmp_path: Path, command: Command) -> None:
    passages = [{"text": f"{PASSAGE} {n}", "score": 1.0 - n / 10} for n in range(6)]
    file = requests(tmp_path, SOUND, query="Who built the ferry Alma Linde?", retrieved_passages=passages)
    code, out, _ = command("judge", file, "--policy", "offline", "--json")
    assert code == 0
    card = json.loads(out)
    assert {part["part"]: part["state"] for part in card["parts"] if part["state"] == "failed"} == {}
    families = {verdict["part"]: verdict["method"]["family"] for verdict in card["verdicts"]}
    assert families["faithfulness"] == families["llm_relevance"] == "lexical"
    *_, last = command("judge", file, "--policy", "offline")[1].splitlines()
    assert re.fullmatch(r"([1-9]\d*) of \1 model answers were kept from before", last)
    *_, last = command("judge", file, "--policy", "offline", "--no-cache")[1].splitlines()
    assert last.startswith("1 answer: ")
