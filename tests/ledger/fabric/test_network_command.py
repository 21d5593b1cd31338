"""What `deploy/fabric/network` says where it cannot do what is asked: needs none of Fabric's tools."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ledger.fabric.native import BIN, SCRIPT


def network(*arguments: str, **variables: str) -> tuple[int, str]:
    """Exit code, and what it says."""
    environment = {**{name: value for name, value in os.environ.items() if name != BIN}, **variables}
    command = [sys.executable, str(SCRIPT), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with programs of the right names, which all fail."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("peer", "orderer", "configtxgen", "cryptogen", "osnadmin"):
        (folder / name).write_text(f"#!/bin/sh\necho {name} is broken >&2\nexit 1\n")
        (folder / name).chmod(0o755)
    return folder


def test_the_folder_of_the_tools_is_asked_for(tmp_path: Path) -> None:
    code, said = network("up", "--state", str(tmp_path / "run"))
    assert code == 2
    assert f"set {BIN} to the folder with Fabric's tools: peer, orderer" in said
    assert not (tmp_path / "run").exists()


def test_missing_tools_are_named(tools: Path, tmp_path: Path) -> None:
    for name in ("orderer", "osnadmin"):
        (tools / name).unlink()
    code, said = network("up", "--state", str(tmp_path / "run"), **{BIN: str(tools)})
    assert code == 2
    assert f"{BIN}={tools} lacks orderer, osnadmin" in said


def test_a_chaincode_that_is_none_is_said_before_anything_starts(tools: Path, tmp_path: Path) -> None:
    code, said = network("up", "--state", str(tmp_path / "run"), CHAINCODE_BIN=str(tmp_path), **{BIN: str(tools)})
    assert code == 2
    assert f"CHAINCODE_BIN={tmp_path} is no program" in said


def test_without_go_the_chaincode_must_be_given(tools: Path, tmp_path: Path) -> None:
    code, said = network("up", "--state", str(tmp_path / "run"), PATH=str(tools), CHAINCODE_BIN="", **{BIN: str(tools)})
    assert code == 2
    assert "go is missing, which builds the chaincode" in said


def test_a_tool_that_fails_is_quoted_and_the_next_up_begins_anew(tools: Path, tmp_path: Path) -> None:
    chaincode = str(tools / "peer")
    for _ in range(2):
        code, said = network("up", "--state", str(tmp_path / "run"), CHAINCODE_BIN=chaincode, **{BIN: str(tools)})
        assert code == 2
        assert "cryptogen is broken" in said
    assert network("status", "--state", str(tmp_path / "run"))[0] == 2


def test_a_folder_that_holds_something_else_is_left_alone(tools: Path, tmp_path: Path) -> None:
    for command in (["up"], ["down", "--delete"]):
        code, said = network(*command, "--state", str(tmp_path), **{BIN: str(tools)})
        assert code == 2
        assert f"{tmp_path} holds something else" in said
    assert (tools / "peer").exists()


def test_where_there_is_no_network_there_is_nothing_to_end(tmp_path: Path) -> None:
    code, said = network("down", "--state", str(tmp_path / "run"))
    assert (code, said) == (0, f"there is no network in {tmp_path / 'run'}\n")
    for command in (["status"], ["env"], ["stop", "peer1"], ["define", "x"]):
        code, said = network(*command, "--state", str(tmp_path / "run"))
        assert code == 2
        assert "up makes one" in said
    assert not any(tmp_path.iterdir())


PORTS = ("orderer", "orderer_admin", "peer1", "operations1", "chaincode1")


def state(folder: Path, *, ready: bool, port: int = 1) -> Path:
    """A folder as `up` leaves it, of a network of which nothing runs; `port` is the orderer's."""
    ports = {**dict.fromkeys(PORTS, 1), "orderer": port}
    made = {"orgs": 1, "first_port": None, "ports": ports, "batch_timeout": "2s", "mutual_tls": False, "ready": ready}
    folder.mkdir()
    (folder / "network.json").write_text(json.dumps(made))
    return folder


@contextmanager
def seeming_to_run(folder: Path, process: str) -> Iterator[None]:
    """As a process of the network does, this one holds its pid file locked."""
    (folder / "pids").mkdir()
    with (folder / "pids" / process).open("w") as pid:
        fcntl.flock(pid, fcntl.LOCK_EX)
        pid.write(str(os.getpid()))
        pid.flush()
        yield


def test_what_a_killed_up_has_left_running_is_for_down_to_end(tools: Path, tmp_path: Path) -> None:
    run = state(tmp_path / "run", ready=False)
    with seeming_to_run(run, "orderer"):
        for command in (["status"], ["env"], ["stop", "orderer"], ["define", "x"], ["up"]):
            code, said = network(*command, "--state", str(run), **{BIN: str(tools)})
            assert code == 2
            assert "(orderer): down ends" in said
    code, said = network("down", "--state", str(run))
    assert (code, said) == (0, f"the network in {run} is down: up makes it anew\n")


def test_a_port_that_another_program_has_is_said_before_anything_starts(tools: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = state(tmp_path / "run", ready=True, port=port)
        for command in (["up"], ["start", "orderer"]):
            code, said = network(*command, "--state", str(run), CHAINCODE_BIN=str(tools / "peer"), **{BIN: str(tools)})
            assert code == 2
            assert f"port {port}, orderer of this network, cannot be had" in said
    assert not (run / "pids").exists()


def test_a_folder_is_for_one_command_at_a_time_and_deleting_it_leaves_nothing(tmp_path: Path) -> None:
    run = state(tmp_path / "run", ready=True)
    folder = os.open(run, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        code, said = network("down", "--delete", "--state", str(run))
        assert code == 2
        assert f"another command is at work on {run}" in said
    finally:
        os.close(folder)
    assert network("down", "--delete", "--state", str(run))[0] == 0
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["Bad Name/;", "", "-x", "a--b", "ä"])
def test_a_name_that_fabric_does_not_take_is_said_at_once(tools: Path, tmp_path: Path, name: str) -> None:
    run = state(tmp_path / "run", ready=True)
    code, said = network("define", "--state", str(run), "--", name, **{BIN: str(tools)})
    assert code == 2
    assert f"{name!r} is no name for a chaincode" in said


@pytest.mark.parametrize(
    "wrong",
    [["--batch-timeout", "soon"], ["--orgs", "3"], *(["--first-port", port] for port in ("65535", "0", "-1", "http"))],
)
def test_wrong_options_are_said(wrong: list[str]) -> None:
    code, said = network("up", *wrong)
    assert code == 2
    assert wrong[0] in said
