"""`glassbox topics` against Kafka, and a role that refuses topics which are not as they must be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from streams.admin import create_topics
from streams.topics import CLOSED, RECEIPTS, TOPICS
from tests.kafka import Kafka
from tests.pipeline import ROOT

pytestmark = pytest.mark.timeout(180)

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """`glassbox` with these words in a folder of its own; `code` is the exit code that is expected."""

    def command(*words: str, code: int = 0, **settings: str) -> subprocess.CompletedProcess[str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GLASSBOX_")}
        done = subprocess.run(
            [sys.executable, "-m", "glassbox.cli", *words],
            cwd=tmp_path,
            env={**kept, "PYTHONPATH": str(ROOT), **{f"GLASSBOX_{key}": value for key, value in settings.items()}},
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done

    return command


def test_create_and_describe(kafka: Kafka, run: Run) -> None:
    address = kafka.empty().address
    assert run("topics", "describe", code=1, BROKER=address).stdout.count("MISSING") == len(TOPICS)
    assert "missing: glassbox.requests" in run("topics", "describe", code=1, BROKER=address).stderr
    assert json.loads(run("topics", "create", "--json", BROKER=address).stdout)["created"] == [t.name for t in TOPICS]
    rows = {row["name"]: row for row in json.loads(run("topics", "describe", "--json", BROKER=address).stdout)}
    assert all(row["there"] and not row["differences"] for row in rows.values())
    assert rows[CLOSED.name]["settings"]["cleanup.policy"] == "compact"
    assert rows[RECEIPTS.name]["settings"]["retention.ms"] == "-1"


def test_a_role_refuses_to_start_without_its_topics(kafka: Kafka, run: Run) -> None:
    address = kafka.empty().address
    said = run("worker", "intake", code=2, BROKER=address).stderr
    assert "topics glassbox.requests, glassbox.requests.bulk, " in said
    assert "are missing; run `glassbox topics create`" in said


def test_in_production_a_role_refuses_topics_that_differ(kafka: Kafka, run: Run) -> None:
    broker = kafka.empty()
    short = replace(CLOSED, cleanup="delete")
    create_topics(broker, [short, *(topic for topic in TOPICS if topic is not CLOSED)])
    said = run("topics", "describe", code=1, BROKER=broker.address).stderr
    assert said == "glassbox: glassbox-join-closed-changelog: cleanup.policy is delete, must be compact\n"
    said = run("worker", "join", code=2, BROKER=broker.address, PRODUCTION="true").stderr
    assert "glassbox-join-closed-changelog: cleanup.policy is delete, must be compact" in said
    said = run("worker", "committer", code=2, BROKER=broker.address, PRODUCTION="true", REPLICATION="3").stderr
    assert "glassbox.scorecards: replication is 1, must be 3 or more" in said
    assert "changelog" not in said, "a role looks at its own topics"


def test_acls_are_those_of_the_page(run: Run) -> None:
    listed = run("topics", "acls").stdout
    assert listed in (ROOT / "docs" / "kafka.md").read_text(), (
        "docs/kafka.md: put in what `glassbox topics acls` prints"
    )
    assert len(json.loads(run("topics", "acls", "--json").stdout)) == len(listed.splitlines())
