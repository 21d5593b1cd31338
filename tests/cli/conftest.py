"""The command, run in this process."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from glassbox.cli.main import main

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Run the command in an empty folder: its exit code, stdout and stderr."""
    for key in [key for key in os.environ if key.startswith("GLASSBOX_")]:
        monkeypatch.delenv(key)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["glassbox", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run
