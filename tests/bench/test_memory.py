"""Peak memory of every role with a queue of large requests behind it, each role under a limit.

MEMORY_EVALUATIONS: how many are queued; MEMORY_JUDGES: `trivial` (answer at once) or `real`; MEMORY_LIMIT_MB: what a
process may allocate. On the embedded broker, which holds every topic in memory: 10,000 need about 10 GB for it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from glassbox.cli.children import Child, free_ports, stop_all
from judges.lexical import CHAT_MODEL, EMBEDDING_MODEL
from streams.roles import ROLES
from tests.bench.processes import peak_mb
from tests.pipeline import MODULES, Pipeline, get, request, until

COUNT = int(os.environ.get("MEMORY_EVALUATIONS", "1000"))
JUDGES = os.environ.get("MEMORY_JUDGES", "trivial")
LIMIT_MB = int(os.environ.get("MEMORY_LIMIT_MB", "1024"))
DOCUMENTS_BYTES = 200_000

pytestmark = [pytest.mark.bench, pytest.mark.timeout(4 * 3600)]


PROSE = " ".join(f"w{word * 7919 % 10**7}" for word in range(DOCUMENTS_BYTES // 80))


def documents(number: int) -> list[str]:
    """Ten documents of made-up words, 200 KB in all."""
    return [f"{number}.{n} {PROSE}" for n in range(10)]


def test_peak_memory_of_every_role(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    lexical = [sys.executable, "-m", "judges.lexical", "--host", "127.0.0.1", "--port", str(port)]
    model = Child("model", lexical, dict(os.environ), tmp_path)
    endpoint = {
        "GLASSBOX_LLM_BASE_URL": f"http://127.0.0.1:{port}/v1",
        "GLASSBOX_LLM_MODEL": CHAT_MODEL,
        "GLASSBOX_EMBEDDING_MODEL": EMBEDDING_MODEL,
    }
    pipeline = Pipeline(tmp_path, JUDGES, endpoint if JUDGES == "real" else None)
    limited = ["prlimit", f"--data={LIMIT_MB * 1024 * 1024}", "--", sys.executable]
    try:
        if JUDGES == "real":
            model.start()
            until(lambda: get(port, "/healthz")[0] == 200, 60, "the offline model answers")
        pipeline.start([])
        pipeline.publish(request(f"e{n}", source_documents=documents(n)) for n in range(COUNT))
        with pipeline.watching() as read:
            for role in ROLES:
                own = role in ("intake", "join", "committer")
                pipeline.start_role(role, command=[*limited, *MODULES["real" if own else JUDGES]])
            settled = read(lambda s: len(s.receipts) == COUNT, 3 * 3600)
        peaks = {role: peak_mb(pipeline.roles[role]) for role in ROLES}
    finally:
        pipeline.close()
        stop_all([model], 2)
    assert len(settled.receipts) == COUNT
    assert not settled.dead
    print(f"\n{COUNT} queued, {DOCUMENTS_BYTES // 1000} KB of documents each, {JUDGES} judges, limit {LIMIT_MB} MB")
    for role, peak in peaks.items():
        print(f"{role:<12} {peak:6.0f} MB at most")
