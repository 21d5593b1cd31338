"""A model endpoint that fails in every way an endpoint can, and comes back."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from judges.lexical.faults import Faults
from tests.faults.endpoint import Endpoint
from tests.faults.gates import Gate, Gates
from tests.pipeline import MODULES, until

pytestmark = pytest.mark.timeout(600)

FAULTS = {
    "429": Faults(rate_limit_rate=1, retry_after_s=0.2, times=30),
    "500": Faults(error_rate=1, times=20),
    "hang": Faults(hang_rate=1, times=8),
    "garbage": Faults(malformed="not_json", times=12),
    "cut short": Faults(truncate_rate=1, times=12),
}
EACH = 6


@pytest.fixture
def endpoint(gates: Gates) -> Iterator[Endpoint]:
    """The one that the grounding worker of the product asks."""
    with Endpoint() as made:
        asking = made.environment(call_limit_s=1)
        gates.pipeline.start_role("grounding", asking, [sys.executable, *MODULES["real"]])
        gates.pipeline.wait_ready("grounding")
        yield made
        gates.retire("grounding")


def test_an_endpoint_in_every_trouble(gates: Gates, gate: Gate, endpoint: Endpoint) -> None:
    for number, faults in enumerate(FAULTS.values()):
        endpoint.suffer(faults)
        gate.publish(EACH, policy="asking")
        gate.answered((number + 1) * EACH)
    assert set(endpoint.suffered) == {"rate_limit", "error", "hang", "malformed", "truncate"}
    endpoint.stop()  # nobody listens
    gate.publish(EACH, policy="asking")
    until(lambda: gates.in_flight("grounding") == EACH, 60, "all are asking")
    endpoint.start()
    seen = gate.settle()
    after = [seen.records[name]["outcome"] for name in gate.names[-EACH:]]
    assert "incomplete" not in after, "an outage shorter than the deadline costs no verdict"
