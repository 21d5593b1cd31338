"""`glassbox demo` on real processes: what it shows, and that nothing is left of it however it ends."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROLES = 8
SERVERS = 2  # broker and model

Process = subprocess.Popen[str]


@contextmanager
def demo(folder: Path, *arguments: str) -> Iterator[Process]:
    """The demo with its temporary folders in `folder`, in a process group of its own as a shell starts it."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GLASSBOX_")}
    environment |= {"TMPDIR": str(folder), "GLASSBOX_POLICY": "not-looked-at"}
    with (folder / "out").open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "glassbox.cli", "demo", *arguments],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            text=True,
            process_group=0,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def temporary(folder: Path) -> list[Path]:
    return list(folder.glob("glassbox-demo-*"))


def processes(folder: Path) -> list[int]:
    """Every process that was started for a data folder in `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if f"GLASSBOX_DATA_DIR={folder}/".encode() in environment:
                found.append(int(entry.name))
    return found


def nothing_left(folder: Path) -> bool:
    return processes(folder) == [] and [entry.name for entry in folder.iterdir()] == ["out"]


def wait_for(condition: Callable[[], bool], process: Process, within_s: float = 60.0) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert process.poll() is None, "the demo ended"
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


@pytest.mark.timeout(240)
def test_every_answer_is_judged_every_proof_holds_and_nothing_is_left(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        code = process.wait(200)
    said = (tmp_path / "out").read_text()
    assert code == 0, said
    assert re.search(r"first scorecard after [\d.]+ s", said)
    proofs = re.search(r"(\d+) of (\d+) inclusion proofs hold", said)
    assert proofs is not None, said
    assert proofs[1] == proofs[2]
    assert int(proofs[1]) > 35
    assert len(re.findall("^dead letter: line", said, re.M)) == 2
    assert "failed" not in said
    assert nothing_left(tmp_path)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["folder", "broker", "roles"])
def test_nothing_is_left_after_a_signal(tmp_path: Path, moment: str, number: signal.Signals) -> None:
    moments: dict[str, Callable[[], bool]] = {
        "folder": lambda: bool(temporary(tmp_path)),
        "broker": lambda: len(processes(tmp_path)) > 0,
        "roles": lambda: len(processes(tmp_path)) == ROLES + SERVERS,
    }
    with demo(tmp_path) as process:
        wait_for(moments[moment], process)
        os.killpg(process.pid, number)  # as a terminal sends Ctrl-C: to the whole foreground group
        code = process.wait(60)
    said = (tmp_path / "out").read_text()
    assert code == 128 + number, said
    assert "Traceback" not in said
    assert nothing_left(tmp_path)


@pytest.mark.timeout(180)
def test_no_process_outlives_a_killed_demo(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        wait_for(lambda: len(processes(tmp_path)) == ROLES + SERVERS, process)
        process.kill()
        process.wait()
    end = time.monotonic() + 30
    while processes(tmp_path):
        assert time.monotonic() < end, "a child outlived its parent"
        time.sleep(0.01)
