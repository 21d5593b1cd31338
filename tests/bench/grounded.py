"""A pipeline of one kind of worker, grounding, whose model takes its time: the model is what limits it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from judges.lexical import CHAT_MODEL, EMBEDDING_MODEL
from tests.pipeline import ROOT

LATENCY_S = 0.2
POLICY = """
[policy.grounded]
deadline_s = 600
[policy.grounded.judges.contextual_precision]
enabled = false
[policy.grounded.judges.structural_fidelity]
enabled = false
"""


@contextmanager
def slow_model() -> Iterator[str]:
    """The address of the offline model behind an endpoint that takes its time."""
    command = [sys.executable, "-m", "tests.bench.library_endpoint"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert httpx.post(f"{url}/latency", content=str(LATENCY_S)).is_success
            yield url
        finally:
            process.terminate()


def grounded(folder: Path, model: str) -> dict[str, str]:
    """The environment of such a pipeline's roles; writes their policy into the folder. `model`: of `slow_model`."""
    (folder / "glassbox.toml").write_text(POLICY)
    return {
        "GLASSBOX_CONFIG": str(folder / "glassbox.toml"),
        "GLASSBOX_POLICY": "grounded",
        "GLASSBOX_LLM_BASE_URL": f"{model}/v1",
        "GLASSBOX_LLM_MODEL": CHAT_MODEL,
        "GLASSBOX_EMBEDDING_MODEL": EMBEDDING_MODEL,
    }
