"""`glassbox replay run`: from the command line to a run that can be trusted, whatever happens on the way."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from glassbox.replay.store import Run
from glassbox.replay.suite import load_suite
from tests.cli.conftest import Command

KEY = "sk-command-0123456789"
ENVIRONMENT_KEY = "sesame-0123456789"
ROOT = Path(__file__).parents[2]

STOPS = """
import json, os, sys, time
for number, line in enumerate(sys.stdin):
    asked = json.loads(line)
    if number == 5 and not os.path.exists("go"):
        open("stopped", "w").write(str(os.getpid()))
        time.sleep(600)
    with open("asked", "a") as file:
        file.write(asked["question"] + "\\n")
    print(json.dumps({"id": asked["id"], "answer": "I do not know."}), flush=True)
"""


@contextmanager
def lexical(*faults: str) -> Iterator[str]:
    """The offline model in a process of its own: its address."""
    command = [sys.executable, "-m", "judges.lexical", *faults]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
        process.terminate()


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command as a process of its own, once its system has begun to hang."""
    (folder / "system.py").write_text(STOPS)
    command = [sys.executable, "-m", "glassbox.cli", "replay", "run", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            while not (folder / "stopped").exists():
                assert process.poll() is None
                time.sleep(0.01)
            yield process
        finally:
            process.kill()


def test_the_deterministic_system(command: Command, tmp_path: Path) -> None:
    code, out, _ = command("replay", "run", "--system", "v2", "--out", "runs/v2")
    run = Run.open(tmp_path / "runs/v2", load_suite("tidewell"))
    assert code == 0
    assert out.splitlines()[0] == "26 questions: 26 answered"
    assert out.splitlines()[-1] == f"digest {run.manifest.digest()}"
    assert [trace.case for trace in run.traces()] == list(load_suite("tidewell").cases)
    code, again, said = command("replay", "run", "--system", "v2", "--out", "runs/v2", "--resume")
    assert (code, again) == (0, out), "nothing is missing, nothing is run"
    assert "nothing is missing" in said
    code, _, error = command("replay", "run", "--system", "v1", "--out", "runs/v2", "--resume")
    assert (code, "was run, not extractive v1" in error) == (2, True), "another system"
    code, _, error = command("replay", "run", "--system", "v2", "--repeats", "2", "--out", "runs/v2", "--resume")
    assert (code, "repeats: is 1 in this run, not 2" in error) == (2, True)
    code, _, error = command("replay", "run", "--system", "v2", "--out", "runs/v2")
    assert (code, "already holds a run" in error) == (2, True)


def test_the_same_traces_however_many_run_at_once(command: Command, tmp_path: Path) -> None:
    for count in ("1", "7"):
        command("replay", "run", "--system", "v3", "--out", count, "--concurrency", count, "--repeats", "2")
    one, seven = (
        [t.model_copy(update={"duration_ms": 0.0}).line() for t in Run.open(tmp_path / n).traces()] for n in "17"
    )
    assert one == seven
    assert len(one) == 52


def test_json(command: Command, tmp_path: Path) -> None:
    _, out, _ = command("replay", "run", "--system", "v1", "--out", "v1", "--json")
    made = json.loads(out)
    assert made["digest"] == Run.open(tmp_path / "v1").manifest.digest()
    assert (made["counts"], made["error_types"]) == ({"traces": 26, "errors": 0}, {})


def test_the_offline_endpoint_with_faults_ends_in_26_traces(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """429s, hangs and malformed replies: the first eight calls go wrong in one of these ways, each an error."""
    faults = "--rate-limit-rate .4 --retry-after-s 0 --hang-rate .2 --malformed not_json --times 8 --seed 3"
    monkeypatch.setenv("GLASSBOX_SUT_API_KEY", KEY)
    monkeypatch.setenv("GLASSBOX_SUT_MODEL", "glassbox-lexical-3")
    with lexical(*faults.split()) as url:
        options = ["--base-url", url, "--timeout", "1", "--retries", "0", "--concurrency", "4"]
        code, out, _ = command("replay", "run", "--system", "endpoint", "--out", "run", *options)
    traces = list(Run.open(tmp_path / "run", load_suite("tidewell")).traces())
    types = [trace.error.type for trace in traces if trace.error]
    assert code == 0
    assert (len(traces), len(types)) == (26, 8)
    assert set(types) == {"rate_limited", "timeout", "malformed_output"}
    told = out.splitlines()[0]
    assert told.startswith("26 questions: 18 answered, ")
    assert all(f"{types.count(type_)} {type_}" in told for type_ in set(types))
    for name in ("manifest.json", "traces.jsonl"):
        assert KEY not in (tmp_path / "run" / name).read_text()
    assert KEY not in out


def test_nobody_answers(command: Command) -> None:
    options = ["--system", "http://127.0.0.1:9/ask", "--retries", "0", "--out", "run"]
    code, out, _ = command("replay", "run", *options)
    assert (code, out.splitlines()[0]) == (1, "26 questions: 0 answered, 26 unavailable")


def test_a_suite_of_ones_own_and_a_command_of_ones_own(command: Command, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    (tmp_path / "system.py").write_text(STOPS)
    (tmp_path / "mine.csv").write_text("id,Frage\na,Wer?\nb,Wo?\n")
    (tmp_path / "docs.jsonl").write_text('{"id": "d", "text": "Niemand."}\n')
    options = ["--suite", "mine.csv", "--corpus", "docs.jsonl", "--map", "Frage=question", "--label", "1.4"]
    code, out, error = command("replay", "run", "--command", f"{sys.executable} system.py", "--out", "run", *options)
    assert (code, out.splitlines()[0], error) == (0, "2 questions: 2 answered", "")
    manifest = Run.open(tmp_path / "run").manifest
    assert (manifest.suite.name, manifest.system.name, manifest.system.version) == ("mine", "command", "1.4")
    assert (tmp_path / "asked").read_text() == "Wer?\nWo?\n"
    code, out, _ = command("replay", "evaluate", "run", "--suite", "mine.csv", "--corpus", "docs.jsonl")
    assert (code, "wrong_abstention" in out) == (0, True), "the run knows how its suite was read"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_stopped_is_gone_on_with(command: Command, tmp_path: Path, number: signal.Signals) -> None:
    arguments = ["--command", f"{sys.executable} system.py", "--out", "run"]
    with running(tmp_path, *arguments) as process:
        process.send_signal(number)
        code = process.wait()
        said = process.stderr.read() if process.stderr else ""
    if number == signal.SIGINT:
        assert code == 130
        assert "go on with the same command and --resume" in said
        assert "Traceback" not in said
    child = Path(f"/proc/{(tmp_path / 'stopped').read_text()}/stat")
    while child.exists() and child.read_text().split()[2] != "Z":
        time.sleep(0.01)  # the hanging system ends with the command
    code, _, error = command("replay", "evaluate", "run")
    assert (code, "go on with --resume" in error) == (2, True)
    (tmp_path / "go").touch()
    code, out, _ = command("replay", "run", *arguments, "--resume")
    assert (code, out.splitlines()[0]) == (0, "26 questions: 26 answered")
    suite = load_suite("tidewell")
    assert (tmp_path / "asked").read_text().splitlines() == [case.question for case in suite.cases.values()]
    assert len(Run.open(tmp_path / "run", suite).manifest.resumed_at) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name the system: either --system or --command"),
        (["--system", "v1", "--command", "x"], "either --system or --command"),
        (["--system", "v5"], "no installed package registers a system 'v5'; did you mean 'v4'"),
        (["--system", "nowhere_at_all:answer"], "does not start: nowhere_at_all:answer cannot be loaded"),
        (["--command", "'"], "No closing quotation"),
        (["--command", ""], "--command is empty"),
        (["--command", "/nowhere/at-all"], "does not start: cannot be started: No such file"),
        (["--system", "endpoint"], "Set --base-url or GLASSBOX_SUT_BASE_URL"),
        (["--system", "endpoint", "--base-url", "http://x/v1"], "Set --model or GLASSBOX_SUT_MODEL"),
        (["--system", "endpoint", "--base-url", "x", "--model", "m"], "base_url: an http or https address"),
        (["--system", "v1", "--suite", "tidewel"], "no such file, folder or shipped suite"),
        (["--system", "v1", "--map", "question"], "--map question: must be COLUMN=FIELD"),
        (["--system", "v1", "--resume"], "holds no run"),
        (["--system", "https://a:sesame@example.org/"], "exclude each other"),
        (["--command", f"rag --key {KEY}"], "give the key in an environment variable"),
        (["--command", "rag --api-key=sesame"], "an argument looks like a key"),
        (["--command", "rag --openai-api-key sesame"], "an argument looks like a key"),
        (["--command", "rag --header 'Authorization: Bearer sesame'"], "an argument looks like a key"),
        (["--command", "env RAG_TOKEN=sesame rag"], "an argument looks like a key"),
        (["--command", "rag --url https://a:sesame@example.org"], "an argument looks like a key"),
        (["--command", f"rag {ENVIRONMENT_KEY}"], "holds a key of this environment"),
    ],
)
def test_what_cannot_be_run_is_said(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], said: str
) -> None:
    monkeypatch.setenv("GLASSBOX_SUT_API_KEY", KEY)
    monkeypatch.setenv("RAG_API_KEY", ENVIRONMENT_KEY)
    (tmp_path / "rag").write_text("#!/bin/sh\n")
    (tmp_path / "rag").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    code, out, error = command("replay", "run", "--out", "run", *arguments)
    assert (code, out) == (2, "")
    assert said in error
    assert KEY not in error
    assert "sesame" not in error
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_another_system_does_not_go_on_with_a_run(command: Command, tmp_path: Path) -> None:
    arguments = ["--command", f"{sys.executable} system.py", "--out", "run"]
    with running(tmp_path, *arguments) as process:
        process.kill()
    code, _, error = command("replay", "run", "--system", "v1", "--out", "run", "--resume")
    assert (code, "was run, not extractive v1" in error) == (2, True)
