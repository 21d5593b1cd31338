"""Child processes end with their parent, however it ends, and stop within their grace."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from glassbox.cli.children import Child, Stop, free_ports, stop_all

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"


def wait_for(condition: Callable[[], bool], within_s: float = 20.0) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def stop() -> Iterator[Stop]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.getsignal(number) for number in numbers}
    yield Stop()
    for number, handler in handlers.items():
        signal.signal(number, handler)


def child(tmp_path: Path, code: str, name: str = "c") -> Child:
    made = Child(name, [sys.executable, "-c", code], dict(os.environ), tmp_path)
    made.start()
    wait_for(lambda: b"up" in made.log.read_bytes())
    return made


def test_a_child_stops_at_the_first_signal(tmp_path: Path, stop: Stop) -> None:
    one = child(tmp_path, SLEEP)
    stop_all([one], 3600.0, stop)
    assert one.exit_code == -signal.SIGTERM
    assert one.last_line() == "up"


def test_a_deaf_child_is_killed_after_its_grace(tmp_path: Path, stop: Stop) -> None:
    one = child(tmp_path, DEAF)
    stop_all([one], 0.2, stop)
    assert one.exit_code == -signal.SIGKILL


def test_a_second_signal_ends_the_grace(tmp_path: Path, stop: Stop) -> None:
    one = child(tmp_path, DEAF)
    os.kill(os.getpid(), signal.SIGINT)
    assert stop
    assert not stop.urgent
    os.kill(os.getpid(), signal.SIGTERM)
    stop_all([one], 3600.0, stop)
    assert stop.exit_code == 128 + signal.SIGTERM


def test_children_of_children_end_too(tmp_path: Path, stop: Stop) -> None:
    code = (
        f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {SLEEP!r}]).pid, flush=True); {SLEEP}"
    )
    one = child(tmp_path, code)
    grandchild = int(one.log.read_text().split()[0])
    stop_all([one], 5.0, stop)
    wait_for(lambda: not alive(grandchild))


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_a_child_does_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    code = (
        "import os, sys, time; from pathlib import Path; from glassbox.cli.children import Child; "
        f"c = Child('c', [sys.executable, '-c', {DEAF!r}], dict(os.environ), Path({str(tmp_path)!r})); c.start(); "
        "print(c.process.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.kill()
    wait_for(lambda: not alive(pid))


def test_free_ports_differ() -> None:
    assert len(set(free_ports(20))) == 20
