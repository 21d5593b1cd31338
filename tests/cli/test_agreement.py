"""`glassbox agreement`: real judges against made-up labels, cards in policies, and what scorecards then say."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from glassbox.cli.agreement_text import carried
from glassbox.contract.agreement import read_card
from glassbox.contract.canonical import canonical
from glassbox.contract.policy import load_policies
from judges.agreement import AGREEMENT
from judges.terminology import TerminologyJudge
from ledger.evidence import EvidenceVault
from ledger.store import FolderStore
from tests.cli.conftest import Command
from tests.cli.judged import judge_into

WORDS = """
[policy.words]
vetoes = []
review_on = []
[policy.words.judges.contextual_precision]
enabled = false
[policy.words.judges.semantic_faithfulness]
enabled = false
"""
"""Only what needs neither a model nor a large library."""

PASSAGE = (
    "The ferry Alma Linde was built in 1962 by Hartwell Yard. It carries 240 passengers across the Wend. "
    "Since 1988 it has belonged to the Wend Company."
)

SAMPLE: list[tuple[str, dict[str, bool]]] = [
    ("The ferry Alma Linde was built in 1962 by Hartwell Yard.", {"entities": True, "relations": True}),
    ("Alma Linde carries 240 passengers across the Wend.", {"entities": True, "relations": True}),
    ("Since 1988 the ferry has belonged to the Wend Company.", {"entities": True, "relations": True}),
    ("Hartwell Yard built the Alma Linde in 1962.", {"entities": True}),
    ("The ferry Alma Linde was built in 1971 by Northgate Works.", {"entities": False, "relations": False}),
    ("It carries 310 passengers across the Wend.", {"entities": False}),
    ("Since 1994 it has belonged to the Harbour Trust.", {"entities": False, "relations": False}),
    ("Karl Ostmann designed the Alma Linde in 1962.", {"entities": False, "relations": False}),
    ("yes, it does", {"entities": False}),
    ("The ferry Alma Linde was built in 1962 by the Wend Company.", {}),
]
"""Answers about the passage, and what a person would say of their entities and relations."""


def write(folder: Path, sample: list[tuple[str, dict[str, Any]]], name: str = "labelled.jsonl", **fields: Any) -> str:
    lines = [
        {"query": "What of the ferry?", "answer": answer, "retrieved_passages": [PASSAGE], "labels": labels, **fields}
        for answer, labels in sample
    ]
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return name


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "glassbox.toml").write_text(WORDS)
    return write(tmp_path, SAMPLE)


def test_each_part_has_its_figures(file: str, command: Command) -> None:
    code, out, _ = command("agreement", file, "--policy", "words", "--json")
    assert code == 0
    said = json.loads(out)
    assert (said["lines"], said["unlabelled"], said["refused"]) == (10, 1, [])
    card = said["card"]
    assert said["digest"] == read_card(canonical(card)).digest()
    assert card["data"]["n"] == 9
    entities, relations = card["parts"]
    assert (entities["part"], entities["labelled"], entities["positives"]) == ("entities", 9, 4)
    assert (relations["part"], relations["labelled"], relations["positives"]) == ("relations", 6, 3)
    assert entities["not_applicable"] == {"no_entities": 1}
    (figures,) = entities["methods"]
    assert (figures["n"], figures["target"]) == (8, "0.900000")
    assert figures["confusion"] == {"true_positive": 4, "false_positive": 0, "false_negative": 0, "true_negative": 4}
    assert figures["balanced_accuracy"]["value"] == figures["kappa"]["value"] == figures["auc"]["value"] == "1.000000"
    assert figures["constant_accuracy"] == "0.500000"
    assert figures["method"]["family"] == "rules"
    assert figures["reliability"] is None
    assert entities["labelled"] == figures["n"] + sum(entities["not_applicable"].values())


def test_the_same_labels_give_the_same_card_in_any_order(tmp_path: Path, file: str, command: Command) -> None:
    turned = write(tmp_path, SAMPLE[::-1], "turned.jsonl")
    made = [json.loads(command("agreement", name, "--policy", "words", "--json")[1])["card"] for name in (file, turned)]
    for card in made:
        card.pop("measured_on")
    assert made[0] == made[1]


def test_text_says_what_was_left_out_and_why_there_is_no_plot(file: str, command: Command) -> None:
    code, out, err = command("agreement", file, "--policy", "words", "--plot", "p.svg", "--threshold", "entities=0.2")
    assert code == 0
    assert "9 labelled answers, held against the targets of policy 'words'; lines without a label: 1" in out
    assert "entities: 9 labels, 4 yes and 5 no" in out
    assert "not applicable 1: 1 no entities" in out
    assert "score > 0.2 means yes" in out
    assert "constant guess" in out
    assert "no reliability plot: it takes 200 labelled scores, and there are 8" in out
    assert "only 4 labels say yes: the intervals are rough" in out or "only 4 labels say no" in out
    assert "p.svg was not written" in err
    assert not Path("p.svg").exists()


def test_a_plot_from_200_labels_up(tmp_path: Path, file: str, command: Command) -> None:
    write(tmp_path, SAMPLE[:8] * 25)
    code, out, err = command(
        "agreement", file, "--policy", "words", "--plot", "p.svg", "--label", "entities=labels.entities"
    )
    assert code == 0, err
    assert "reliability: expected calibration error 0." in out
    texts = [node.text for node in ElementTree.parse(tmp_path / "p.svg").iter() if node.tag.endswith("}text")]  # noqa: S314
    assert "entities" in texts


def test_csv_labels_by_column(tmp_path: Path, file: str, command: Command) -> None:
    rows = ["answer,query,passage,fine"] + [
        f'"{answer}",q,"{PASSAGE}",{"yes" if labels["entities"] else "no"}' for answer, labels in SAMPLE[:8]
    ]
    (tmp_path / "a.csv").write_text("\n".join(rows) + "\n")
    arguments = (
        "a.csv",
        "--map",
        "passage=retrieved_passages",
        "--label",
        "entities=fine",
        "--policy",
        "words",
        "--json",
    )
    code, out, _ = command("agreement", *arguments)
    assert code == 0
    (part,) = json.loads(out)["card"]["parts"]
    assert part["methods"][0]["balanced_accuracy"]["value"] == "1.000000"


def test_a_lines_own_policy_is_set_aside_and_a_broken_line_is_named(
    tmp_path: Path, file: str, command: Command
) -> None:
    write(tmp_path, [*SAMPLE[:8], (" ", {"entities": True})], policy="offline")
    code, out, _ = command("agreement", file, "--policy", "words", "--json")
    assert code == 0
    said = json.loads(out)
    assert said["refused"] == [{"line": 9, "field": "answer", "reason": "must not be blank"}]
    part = said["card"]["parts"][0]
    assert (part["unjudged"], part["methods"][0]["n"]) == (1, 8)


def test_fail_under_is_a_finding(tmp_path: Path, file: str, command: Command) -> None:
    write(tmp_path, [(answer, {"entities": not labels["entities"]}) for answer, labels in SAMPLE[:8]])
    arguments = ("agreement", file, "--policy", "words", "--label", "entities=labels.entities")
    assert command(*arguments, "--fail-under", "0.5")[0] == 1
    assert command(*arguments)[0] == 0
    write(tmp_path, SAMPLE)
    assert command(*arguments, "--fail-under", "1")[0] == 0
    write(tmp_path, SAMPLE[:3])
    assert command(*arguments, "--fail-under", "0.5")[0] == 1, "one class: not known"


def test_where_nothing_was_scored_it_could_not_tell(tmp_path: Path, file: str, command: Command) -> None:
    write(tmp_path, [("yes, it does", {"entities": True})])
    code, out, _ = command("agreement", file, "--policy", "words", "--card", "c.json")
    assert code == 2
    assert "cannot be told" in out
    assert not (tmp_path / "c.json").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--label", "entitys=x"), "--label entitys=x: no part is called 'entitys'; did you mean 'entities'?"),
        (("--label", "entities=nowhere"), "has a label: there is nothing under nowhere"),
        (("--threshold", "entities=2"), "must be PART=X with X from 0 to 1"),
        (("--threshold", "entities"), "must be PART=X"),
        (("--threshold", "entities=0.1234567"), "at most 6 places"),
        (("--threshold", "entitys=.5"), "did you mean 'entities'?"),
        (("--policy", "wrods"), "no policy 'wrods' is configured; did you mean 'words'?"),
        (("--label", "faithfulness=labels.entities"), "policy 'words' does not judge faithfulness"),
        (("--from-ledger",), "ledger"),
    ],
)
def test_wrong_use_is_a_sentence(file: str, command: Command, arguments: tuple[str, ...], says: str) -> None:
    code, out, err = command("agreement", file, "--policy", "words", *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


@pytest.fixture
def on_the_ledger(tmp_path: Path, file: str) -> list[str]:
    """The first eight answers, judged into the data folder; their ids."""
    ids = [f"ferry-{n}" for n in range(8)]
    lines = [json.loads(line) for line in (tmp_path / file).read_text().splitlines()]
    lines = [line | {"evaluation_id": f"ferry-{n}"} for n, line in enumerate(lines)]
    (tmp_path / file).write_text("".join(json.dumps(line) + "\n" for line in lines))
    unused: dict[str, Any] = dict.fromkeys(("relevance", "calibration", "grounding"), TerminologyJudge())
    sent = [json.dumps(line).encode() for line in lines[:8]]
    asyncio.run(judge_into(tmp_path / ".glassbox", sent, None, load_policies(WORDS), "words", unused))
    return ids


def test_what_stands_on_the_ledger_agrees_as_what_is_judged_here(
    tmp_path: Path, file: str, command: Command, on_the_ledger: list[str]
) -> None:
    code, out, _ = command("agreement", file, "--policy", "words", "--from-ledger", "--json")
    assert code == 0
    entities, relations = json.loads(out)["card"]["parts"]
    assert (entities["labelled"], entities["unjudged"], entities["methods"][0]["n"]) == (9, 1, 8)
    here = json.loads(command("agreement", file, "--policy", "words", "--json")[1])["card"]["parts"]
    assert (entities["methods"], relations["methods"]) == (here[0]["methods"], here[1]["methods"])

    lines = (tmp_path / file).read_text().replace("1971", "1972")
    (tmp_path / file).write_text(lines)
    entities, _ = json.loads(command("agreement", file, "--policy", "words", "--from-ledger", "--json")[1])["card"][
        "parts"
    ]
    assert entities["unjudged"] == 2, "the record of that id is of another answer"


def test_an_erased_evaluation_keeps_its_figures_and_the_digest_of_its_method(
    tmp_path: Path, file: str, command: Command, on_the_ledger: list[str]
) -> None:
    before = json.loads(command("agreement", file, "--policy", "words", "--from-ledger", "--json")[1])["card"]["parts"]

    async def erase() -> None:
        vault = EvidenceVault(FolderStore(tmp_path / ".glassbox" / "evidence"))
        for evaluation_id in on_the_ledger:
            await vault.erase(evaluation_id, "2026-11-30T00:00:00.000Z")
        await vault.close()

    asyncio.run(erase())
    after = json.loads(command("agreement", file, "--policy", "words", "--from-ledger", "--json")[1])["card"]["parts"]
    assert after[0]["methods"] == [row | {"method": None} for row in before[0]["methods"]]
    assert (
        "scored by a method whose document is erased"
        in command("agreement", file, "--policy", "words", "--from-ledger")[1]
    )


def name_card(folder: Path, digest: str, target: str = "0.9") -> None:
    part = f'[policy.words.judges.structural_fidelity.parts.entities]\nagreement = "{digest}"\ntarget = {target}\n'
    (folder / "glassbox.toml").write_text(WORDS + part)


def test_a_policy_names_a_card_and_scorecards_carry_it(tmp_path: Path, file: str, command: Command) -> None:
    code, _, err = command("agreement", file, "--policy", "words", "--card", "card.json")
    assert code == 0
    raw = (tmp_path / "card.json").read_bytes()
    card = read_card(raw)
    assert raw == card.canonical()
    assert f'agreement = "{card.digest()}"' in err
    assert (tmp_path / ".glassbox" / "cards" / f"{card.digest()}.json").read_bytes() == raw
    assert b"ferry" not in raw, "a card has no text of an evaluation"

    name_card(tmp_path, card.digest())
    assert command("config", "check")[1].splitlines()[0].endswith(", 1 agreement card")
    code, out, _ = command("judge", file, "--policy", "words", "--json")
    assert code == 0
    first, *_, no_entities, _ = map(json.loads, out.splitlines())
    said = first["agreement"]["entities"]
    assert (said["card"], said["n"], said["target"]) == (card.digest(), 8, "0.900000")
    assert said["balanced_accuracy"]["value"] == "1.000000"
    assert "agreement" not in no_entities, "what has no score has no judge to agree with"
    assert all("foreign_agreement" not in verdict["flags"] for verdict in first["verdicts"])
    line = "agreement with people, entities: balanced accuracy 1.000 (1.000 to 1.000) on 8 labelled answers at > 0.9,"
    assert line in command("judge", file, "--policy", "words")[1]

    name_card(tmp_path, card.digest(), target="0.5")
    first = json.loads(command("judge", file, "--policy", "words", "--json")[1].splitlines()[0])
    flags = {verdict["part"]: verdict["flags"] for verdict in first["verdicts"]}
    assert first["agreement"]["entities"] == {"card": card.digest(), "foreign": "target"}
    assert flags["entities"] == ["foreign_agreement"]
    assert flags["relations"] == []


def test_a_card_of_another_method_is_flagged_and_its_figures_are_not_used(
    tmp_path: Path, file: str, command: Command
) -> None:
    command("agreement", file, "--policy", "words", "--card", "card.json")
    other = json.loads((tmp_path / "card.json").read_bytes())
    for row in (row for part in other["parts"] for row in part["methods"]):
        row["digest"], row["method"] = "a" * 64, None
    card = read_card(canonical(other))
    (tmp_path / ".glassbox" / "cards" / f"{card.digest()}.json").write_bytes(card.canonical())
    name_card(tmp_path, card.digest())
    said = json.loads(command("judge", file, "--policy", "words", "--json")[1].splitlines()[0])
    assert said["agreement"] == {"entities": {"card": card.digest(), "foreign": "method"}}
    assert "was measured with another method" in command("judge", file, "--policy", "words")[1]


def test_a_card_that_is_not_there_stops_the_start_and_is_named(tmp_path: Path, file: str, command: Command) -> None:
    name_card(tmp_path, "b" * 64)
    for arguments in (("config", "check"), ("judge", file, "--policy", "words"), ("up",)):
        code, out, err = command(*arguments)
        assert (code, out) == (2, "")
        assert f"policy words: entities.agreement: no card {'b' * 64} in {tmp_path}" in err
    assert command("agreement", file, "--policy", "words")[0] == 0, "or nobody could measure anew"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda card: card | {"measured_on": "2020-01-01"}, "is another card"),
        (lambda card: card | {"parts": "none"}, "is no agreement card (parts: "),
    ],
)
def test_a_changed_card_is_refused(tmp_path: Path, file: str, command: Command, change: Any, says: str) -> None:
    command("agreement", file, "--policy", "words", "--card", "card.json")
    card = json.loads((tmp_path / "card.json").read_bytes())
    digest = read_card(canonical(card)).digest()
    (tmp_path / ".glassbox" / "cards" / f"{digest}.json").write_text(json.dumps(change(card)))
    name_card(tmp_path, digest)
    code, _, err = command("config", "check")
    assert code == 2
    assert says in err


def test_a_card_that_says_nothing_of_the_part_is_refused(tmp_path: Path, file: str, command: Command) -> None:
    command("agreement", file, "--policy", "words", "--label", "relations=labels.relations", "--card", "card.json")
    digest = read_card((tmp_path / "card.json").read_bytes()).digest()
    name_card(tmp_path, digest)
    code, _, err = command("config", "check")
    assert code == 2
    assert f"card {digest} says nothing of entities" in err


def test_a_card_s_figures_are_rounded_as_its_report_rounds_them() -> None:
    value = {"value": "0.896667", "low": "0.812345", "high": "0.999900"}
    said = {"card": "a" * 64, "n": 60, "target": "0.955000", "balanced_accuracy": value}
    evidence = {"structure": {AGREEMENT: {"entities": said}}}
    assert carried(evidence) == [
        f"entities: balanced accuracy 0.897 (0.812 to 1.000) on 60 labelled answers at > 0.955, card {'a' * 16}"
    ]


def test_what_a_scorecard_says_of_a_card_that_was_not_at_hand() -> None:
    said = {"structure": {"agreement_cards": {"entities": {"card": "c" * 64, "foreign": "missing"}}}}
    assert carried(said) == [f"entities: not known: card {'c' * 16} was not at hand where this was judged"]


@pytest.mark.timeout(120)
def test_an_old_file_of_faithfulness_labels_by_the_offline_model(tmp_path: Path, command: Command) -> None:
    """The shape of published attribution data: `label.supported`, one answer of which claims nothing."""
    sample = [(answer, {}) for answer, _ in SAMPLE[:9]]
    lines = [
        {"query": "q", "answer": answer, "retrieved_passages": [PASSAGE], "label": {"supported": n < 4}}
        for n, (answer, _) in enumerate(sample)
    ]
    (tmp_path / "old.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = [
        command("agreement", "old.jsonl", "--policy", "offline", "--json", *options)
        for options in ((), ("--label", "faithfulness=label.supported"))
    ]
    assert [code for code, _, _ in made] == [0, 0]
    assert json.loads(made[0][1])["card"]["parts"] == json.loads(made[1][1])["card"]["parts"]
    (part,) = json.loads(made[0][1])["card"]["parts"]
    assert (part["part"], part["labelled"], part["positives"]) == ("faithfulness", 9, 4)
    assert part["not_applicable"] == {"no_claims": 1}
    (figures,) = part["methods"]
    assert figures["method"]["family"] == "lexical"
    assert float(figures["balanced_accuracy"]["value"]) >= 0.75
