"""The test network as a process of its own: what it prints, and that nothing outlives it."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.fabric.profile import Profile
from tests.ledger.fabric.raw_client import RawClient

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def process(chaincode_binary: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.ledger.fabric.peer", "--orgs", "2"]
    command += ["--chaincode", str(chaincode_binary), "--folder", str(tmp_path / "network")]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as child:
        yield child
        child.kill()


def described(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    return dict(json.loads(process.stdout.readline()))


def running(binary: Path) -> set[int]:
    """Processes that run this very file."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                if (folder / "exe").readlink() == binary:
                    found.add(int(folder.name))
            except OSError:
                continue
    return found


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_it_prints_what_a_client_runs_under(process: subprocess.Popen[str]) -> None:
    printed = described(process)
    profile = Profile.from_environment(printed["environment"])
    assert [peer.endpoint for peer in profile.peers] == printed["endpoints"]
    assert list(printed["organizations"]) == ["Org1MSP", "Org2MSP"]
    client = RawClient(profile)
    assert json.loads(client.evaluate("ReadRecords", '["e-1"]')) == [None]
    client.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no process ends with its parent by itself")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_chaincode_ends_with_it(
    process: subprocess.Popen[str], chaincode_binary: Path, number: signal.Signals
) -> None:
    described(process)
    started = {pid for pid in running(chaincode_binary) if parent(pid) == process.pid}
    assert len(started) == 1
    process.send_signal(number)
    assert process.wait(30) == (-number if number is signal.SIGKILL else 0)
    wait_until(lambda: not started & running(chaincode_binary))


def parent(pid: int) -> int:
    """From /proc/PID/stat: the second field behind the name in parentheses."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
