"""Evaluations per second of the whole pipeline on this machine: its transport alone, and with the offline model."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from glassbox.cli.children import Child, free_ports, stop_all
from judges.lexical import CHAT_MODEL, EMBEDDING_MODEL
from tests.pipeline import Pipeline, get, request, until

COUNT = 2000

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]


def rate(pipeline: Pipeline) -> float:
    """Evaluations per second from the first request sent to the last receipt read."""
    with pipeline.watching() as read:
        began = time.monotonic()
        pipeline.publish(request(f"e{n}", query=f"Who wrote the first program, number {n}?") for n in range(COUNT))
        settled = read(lambda s: len(s.receipts) == COUNT, 600)
    assert len(settled.receipts) == COUNT
    assert not settled.dead
    return COUNT / (time.monotonic() - began)


def test_evaluations_per_second(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "judges.lexical", "--host", "127.0.0.1", "--port", str(port)]
    model = Child("model", command, dict(os.environ), tmp_path)
    endpoint = {
        "GLASSBOX_LLM_BASE_URL": f"http://127.0.0.1:{port}/v1",
        "GLASSBOX_LLM_MODEL": CHAT_MODEL,
        "GLASSBOX_EMBEDDING_MODEL": EMBEDDING_MODEL,
    }
    rates = {}
    for judges in ("trivial", "real"):
        folder = tmp_path / judges
        folder.mkdir()
        pipeline = Pipeline(folder, judges, endpoint if judges == "real" else None)
        try:
            if judges == "real":
                model.start()
                until(lambda: get(port, "/healthz")[0] == 200, 30, "the offline model answers")
            pipeline.start()
            rates[judges] = rate(pipeline)
        finally:
            pipeline.close()
            stop_all([model], 2)
    print(
        f"\n{COUNT} evaluations: {rates['trivial']:.1f}/s with judges that answer at once, "
        f"{rates['real']:.1f}/s with the offline model ({rates['trivial'] / rates['real']:.1f} times)"
    )
