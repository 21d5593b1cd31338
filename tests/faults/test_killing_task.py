"""A task that kills whoever runs it: answered after its third start alone, on real Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.roles import ROLES
from streams.starts import LAST_START
from tests.kafka import Kafka
from tests.pipeline import Pipeline, request

POLICY = """
[policy.short]
deadline_s = 100
[policy.short.judges.semantic_faithfulness]
enabled = false
[policy.short.judges.structural_fidelity.parts.entities]
enabled = false
[policy.short.judges.structural_fidelity.parts.relations]
enabled = false
"""


@pytest.fixture
def pipeline(kafka: Kafka, tmp_path: Path) -> Iterator[Pipeline]:
    (tmp_path / "glassbox.toml").write_text(POLICY)
    environment = {"GLASSBOX_CONFIG": str(tmp_path / "glassbox.toml"), "GLASSBOX_POLICY": "short"}
    made = Pipeline(tmp_path, environment=environment, broker=kafka.empty())
    try:
        made.start([role for role in ROLES if role not in ("structure", "grounding")])
        yield made
    finally:
        made.close()


@pytest.mark.timeout(400)
def test_a_task_that_kills_its_worker_is_answered_and_its_neighbours_are_judged(pipeline: Pipeline) -> None:
    asked = {"before": "a query", "kills": "please kill:relevance", "after": "a query"}
    deaths = 0
    with pipeline.watching() as read:
        pipeline.publish(request(name, query=query) for name, query in asked.items())
        settled = read(lambda s: len(s.receipts) == 3, 3)
        while len(settled.receipts) < 3:
            if not pipeline.roles["relevance"].running:
                deaths += 1
                assert deaths <= LAST_START, "it was started once more than it may be"
                pipeline.start_role("relevance")
            settled = read(lambda s: len(s.receipts) == 3, 1)
    causes = {
        name: {part["part"]: part["cause"] for part in record["parts"] if part["state"] == "failed"}
        for name, record in settled.records.items()
    }
    assert causes == {"before": {}, "kills": {"llm_relevance": "crashed"}, "after": {}}
    assert deaths == LAST_START  # the first start, not alone, and all but the last that would have been
