"""How `pytest -n` deals the tests out: a file at a time, or a folder whose tests share what is slow to start.

Half of them wait for brokers, workers and each other's deadlines; half compute. So one process begins with what waits
longest, the next with what computes longest, and they meet among the small files.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

WAITS = (
    "tests/faults/",
    "tests/streams/",
    "tests/cli/test_up.py",
    "tests/operations/",  # a pipeline under Prometheus
    "tests/gateway/",  # PostgreSQL and a pipeline
    "tests/browser/",  # one Chromium, and evaluations to show in it
    "tests/cli/test_worker.py",
    "tests/cli/test_own_judges.py",
    "tests/cli/test_demo.py",
    "tests/cli/test_replay_submit.py",
    "tests/cli/test_topics.py",
    "tests/ledger/",
    "tests/chaincode/",
)
COMPUTES = (
    "tests/conformance/test_calibration.py",
    "tests/conformance/test_structure.py",
    "tests/conformance/test_terminology.py",
    "tests/simulation/test_schedules.py",
)
"""Both by the beginning of a path, as they are to be run: what waits first, what computes last."""


def scope(nodeid: str) -> str:
    """What is given to one process as a whole: the folder of `WAITS`, or the file."""
    return next(
        (folder for folder in WAITS if folder.endswith("/") and nodeid.startswith(folder)), nodeid.split("::")[0]
    )


def rank(scope: str) -> int:
    """Negative for what waits, positive for what computes, 0 for all that is small."""
    if scope in WAITS:
        return WAITS.index(scope) - len(WAITS)
    return COMPUTES.index(scope) + 1 if scope in COMPUTES else 0


class FromBothEnds(LoadScopeScheduling):
    """Even processes take what waits, odd ones what computes, as long as there is any."""

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        pick = max if self.nodes.index(node) % 2 else min
        self.workqueue.move_to_end(pick(self.workqueue, key=rank), last=False)
        super()._assign_work_unit(node)
