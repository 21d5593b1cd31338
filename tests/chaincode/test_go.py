"""The chaincode builds, is vetted, passes its own tests under the race detector, and serves as a process."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from tests.ledger.fabric.chaincode_process import SOURCE
from tests.ledger.fabric.fixtures import chaincode_binary

__all__ = ["chaincode_binary"]

ID = "scorecards:0"


@pytest.fixture(scope="module")
def go(missing: Callable[[str], NoReturn]) -> Callable[..., None]:
    found = shutil.which("go")
    if found is None:
        missing("go is not installed: the chaincode is written in Go (https://go.dev/dl, 1.26 or later)")

    def run(*arguments: str) -> None:
        done = subprocess.run((found, *arguments), cwd=SOURCE, capture_output=True, text=True)
        assert done.returncode == 0, f"go {' '.join(arguments)}\n{done.stdout}{done.stderr}"

    return run


@pytest.mark.timeout(
    600
)  # the first time, Go compiles everything below the chaincode, and once more with race detection
def test_its_own_tests(go: Callable[..., None]) -> None:
    go("test", "-race", "./...")


@pytest.mark.timeout(600)
def test_vetted(go: Callable[..., None]) -> None:
    go("vet", "./...")
    go("tool", "staticcheck", "./...")
    go("mod", "verify")


def test_formatted(go: Callable[..., None]) -> None:
    done = subprocess.run(("gofmt", "-l", "."), cwd=SOURCE, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("", 0), "run gofmt -w chaincode"


@pytest.fixture
def started(chaincode_binary: Path) -> Iterator[Callable[[Mapping[str, str]], subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []

    def start(environment: Mapping[str, str]) -> subprocess.Popen[str]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("CHAINCODE_", "CORE_"))}
        processes.append(
            subprocess.Popen((chaincode_binary,), env={**ours, **environment}, stderr=subprocess.PIPE, text=True)
        )
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("leaked", [{}, {"CORE_PEER_TLS_ENABLED": "true"}])
def test_serves_until_it_is_told_to_end(
    started: Callable[[Mapping[str, str]], subprocess.Popen[str]], leaked: Mapping[str, str]
) -> None:
    process = started({"CHAINCODE_SERVER_ADDRESS": "127.0.0.1:0", "CORE_CHAINCODE_ID_NAME": ID, **leaked})
    assert process.stderr is not None
    assert process.stderr.readline().startswith(f"serving {ID} at 127.0.0.1:")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)
    assert said == "stopped: every call in progress was answered\n"
    assert process.returncode == 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({}, "CHAINCODE_SERVER_ADDRESS is not set: "),
        ({"CHAINCODE_SERVER_ADDRESS": "127.0.0.1:0"}, "CORE_CHAINCODE_ID_NAME is not set: "),
        (
            {"CHAINCODE_SERVER_ADDRESS": "nowhere", "CORE_CHAINCODE_ID_NAME": ID},
            "CHAINCODE_SERVER_ADDRESS cannot be listened on: ",
        ),
    ],
)
def test_does_not_start_without_what_it_needs(
    started: Callable[[Mapping[str, str]], subprocess.Popen[str]], environment: Mapping[str, str], sentence: str
) -> None:
    process = started(environment)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert said.startswith(sentence)
    assert said.count("\n") == 1
