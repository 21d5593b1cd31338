"""Which role that ended is started again, and which ends all."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from glassbox.cli.children import Child, Stop
from glassbox.cli.errors import AGAIN, UNABLE, CommandError
from glassbox.cli.supervisor import Supervisor
from glassbox.settings import Settings


class _NoStop(Stop):
    def __init__(self) -> None:
        self.asked = self.number = 0


def _ended(folder: Path, code: int) -> tuple[Supervisor, list[str]]:
    """A supervisor whose gateway said something and ended so."""
    said: list[str] = []
    supervisor = Supervisor(Settings(data_dir=folder), _NoStop(), said.append)
    script = f"import sys; sys.stderr.write('glassbox: the reason\\n'); sys.exit({code})"
    child = Child("gateway", [sys.executable, "-c", script], {}, folder)
    child.start()
    child.wait()
    supervisor._roles["gateway"] = child
    return supervisor, said


def test_a_role_that_found_no_broker_starts_again(tmp_path: Path) -> None:
    supervisor, said = _ended(tmp_path, AGAIN)
    supervisor.watch()
    assert [line.partition(" (")[0] for line in said] == ["gateway ended with code 3; it starts again in 0.5 s"]


def test_a_role_that_cannot_run_with_these_settings_ends_all(tmp_path: Path) -> None:
    supervisor, _ = _ended(tmp_path, UNABLE)
    with pytest.raises(CommandError, match="gateway cannot run: the reason"):
        supervisor.watch()
