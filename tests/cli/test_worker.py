"""A role's process: how it starts, refuses to start, and stops."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from glassbox.cli.children import free_ports
from glassbox.cli.errors import AGAIN
from tests.pipeline import Pipeline, request, until


def run(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GLASSBOX_")}
    return subprocess.run(
        [sys.executable, "-m", "glassbox.cli", "worker", *arguments],
        env={**clean, "GLASSBOX_DATA_DIR": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_an_unknown_role_is_refused(tmp_path: Path) -> None:
    made = run("grounder", folder=tmp_path)
    assert made.returncode == 2
    said = " ".join(made.stderr.replace("│", " ").split())
    assert "no role" in said
    assert "join, committer, catalogue, gateway" in said


def test_a_broker_that_is_not_there(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    made = run("intake", folder=tmp_path, GLASSBOX_BROKER=f"127.0.0.1:{port}")
    assert made.returncode == AGAIN, "it may answer the next time: no reason to end all of `glassbox up`"
    assert made.stderr.strip().count("\n") == 0
    assert f"no broker answers at 127.0.0.1:{port}" in made.stderr


@pytest.mark.timeout(240)
def test_ports_drains_and_a_second_committer(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path)
    try:
        pipeline.start()
        broker = pipeline.broker.address
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            made = run("join", folder=tmp_path, GLASSBOX_BROKER=broker, GLASSBOX_METRICS_PORT=port)
        assert made.returncode == 2
        assert "set GLASSBOX_METRICS_PORT to a free port" in made.stderr

        pipeline.start_role("committer-2")  # the ledger has one writer: the second stands by
        log = pipeline.roles["committer-2"].log
        until(lambda: log.exists() and "another committer" in log.read_text(), 80, "the second committer waits")
        with pipeline.watching() as read:
            pipeline.publish(request(f"e{n}") for n in range(20))
            pipeline.roles["committer"].send(signal.SIGTERM)
            pipeline.roles["committer"].wait()
            assert pipeline.roles["committer"].exit_code == 0
            settled = read(lambda s: len(s.receipts) == 20, 60)
        assert len(settled.receipts) == 20
        assert all(len(digests) == 1 for digests in settled.digests.values())
    finally:
        pipeline.close()
