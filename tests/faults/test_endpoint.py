"""A model endpoint that fails in every way an endpoint can, and comes back."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from glassbox.cli.children import free_ports
from judges.lexical import CHAT_MODEL, EMBEDDING_MODEL
from judges.lexical.faults import Faults
from judges.lexical.server import LexicalServer
from tests.faults.gates import Gate, Gates
from tests.pipeline import MODULES, until

pytestmark = pytest.mark.timeout(600)

FAULTS = {
    "429": Faults(rate_limit_rate=1, retry_after_s=0.2, times=60),
    "500": Faults(error_rate=1, times=40),
    "hang": Faults(hang_rate=1, times=10),
    "garbage": Faults(malformed="not_json", times=20),
    "cut short": Faults(truncate_rate=1, times=20),
}
EACH = 6


@pytest.fixture
def port(gates: Gates) -> Iterator[int]:
    """Where the grounding worker of the product looks for its endpoint."""
    (port,) = free_ports(1)
    environment = {
        "GLASSBOX_LLM_BASE_URL": f"http://127.0.0.1:{port}/v1",
        "GLASSBOX_LLM_MODEL": CHAT_MODEL,
        "GLASSBOX_EMBEDDING_MODEL": EMBEDDING_MODEL,
        "GLASSBOX_LLM_CALL_LIMIT_S": "1",
    }
    gates.pipeline.start_role("grounding", environment, [sys.executable, *MODULES["real"]])
    gates.pipeline.wait_ready("grounding")
    yield port
    gates.retire("grounding")


async def test_an_endpoint_in_every_trouble(gates: Gates, gate: Gate, port: int) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(LexicalServer(port=port))
        for number, (_, faults) in enumerate(FAULTS.items()):
            server.faults = faults
            await asyncio.to_thread(gate.publish, EACH, policy="asking")
            await asyncio.to_thread(gate.answered, (number + 1) * EACH)
            assert server.faulted
    await asyncio.to_thread(gate.publish, EACH, policy="asking")  # it is down: nobody listens
    worker = gates.pipeline
    await asyncio.to_thread(
        until, lambda: worker.metric("grounding", "glassbox_unacknowledged_messages") == EACH, 60, "all are asking"
    )
    async with LexicalServer(port=port):
        seen = await asyncio.to_thread(gate.settle)
    assert set(server.faulted) == {"rate_limit", "error", "hang", "malformed", "truncate"}
    after = [seen.records[name]["outcome"] for name in gate.names[-EACH:]]
    assert "incomplete" not in after, "an outage shorter than the deadline costs no verdict"
