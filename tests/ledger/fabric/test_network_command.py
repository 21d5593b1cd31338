"""What `deploy/fabric/network` says where it cannot do what is asked: needs none of Fabric's tools."""

from __future__ import annotations

import os
import subprocess
import sys
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


@pytest.mark.parametrize("wrong", [["--batch-timeout", "soon"], ["--orgs", "3"]])
def test_wrong_options_are_said(wrong: list[str]) -> None:
    code, said = network("up", *wrong)
    assert code == 2
    assert wrong[0] in said
