"""hfc behind its process boundary: the boundary with made-up workers, then the ledger with the real one."""

import ast
import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger.fabric.hfc import process
from ledger.fabric.hfc.process import WORKER, HfcFailed, Worker, WorkerFailed

ROOT = Path(__file__).parents[3]


class Stamp:
    """Signs by saying what it was given."""

    msp_id = "Org1MSP"
    certificate = b"a certificate"

    def sign(self, message: bytes) -> bytes:
        return b"signed " + message


PRELUDE = """
import base64, json, os, sys, time

def ask():
    return json.loads(sys.stdin.readline())

def tell(**message):
    print(json.dumps(message), flush=True)

assert ask()["call"] == "open"
tell(result=None)
"""


@pytest.fixture
def pretender(tmp_path: Path) -> Callable[..., Worker]:
    """A Worker whose interpreter is a script that speaks for itself once it was opened."""

    def make(script: str) -> Worker:
        path = tmp_path / "python"
        path.write_text(f"#!{sys.executable}\n{PRELUDE}\n{textwrap.dedent(script)}")
        path.chmod(0o700)
        return Worker(path, {}, Stamp())

    return make


async def test_one_request_at_a_time_whoever_asks(pretender) -> None:
    worker = pretender("""
        while True:
            request = ask()
            time.sleep(0.01)  # another request would be read in its place
            tell(result=request["n"])
    """)
    assert await asyncio.gather(*(worker.call("evaluate", 5, n=n) for n in range(20))) == list(range(20))
    await worker.close()


async def test_the_key_stays_on_this_side(pretender) -> None:
    worker = pretender("""
        ask()
        tell(sign=base64.b64encode(b"one").decode())
        first = ask()["signature"]
        tell(sign=base64.b64encode(b"two").decode())
        tell(result=[first, ask()["signature"]])
    """)
    assert await worker.call("submit", 5) == ["c2lnbmVkIG9uZQ==", "c2lnbmVkIHR3bw=="]
    await worker.close()


async def test_what_the_worker_says_has_failed_does_not_end_it(pretender) -> None:
    worker = pretender("""
        ask()
        tell(error="the peer is away")
        ask()
        tell(result="here")
    """)
    with pytest.raises(HfcFailed, match="the peer is away"):
        await worker.call("evaluate", 5)
    assert await worker.call("evaluate", 5) == "here"
    await worker.close()


@pytest.mark.parametrize(
    ("misbehaviour", "sentence"),
    [("time.sleep(60)", "no answer in 0.1 s"), ("os._exit(7)", "exit code 7"), ("print('{', flush=True)", "JSON")],
)
async def test_a_worker_that_is_late_dead_or_mad_is_replaced(
    pretender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, misbehaviour: str, sentence: str
) -> None:
    monkeypatch.setattr(process, "_GRACE_S", 0.0)
    once = tmp_path / "once"
    worker = pretender(f"""
        ask()
        if not os.path.exists({str(once)!r}):
            open({str(once)!r}, "w").close()
            {misbehaviour}
        tell(result=os.getpid())
    """)
    with pytest.raises(WorkerFailed, match=sentence):
        await worker.call("evaluate", 0.1)
    assert await worker.call("evaluate", 5) > 0
    await worker.close()


async def test_a_worker_that_died_between_requests_is_replaced(pretender) -> None:
    worker = pretender("""
        while True:
            ask()
            tell(result=os.getpid())
    """)
    first = await worker.call("evaluate", 5)
    os.kill(first, signal.SIGKILL)
    second = first
    while second == first:
        try:
            second = await worker.call("evaluate", 5)
        except WorkerFailed:  # where it was asked before its death was known
            continue
    await worker.close()


async def test_a_request_that_was_given_up_leaves_no_answer_behind(pretender) -> None:
    worker = pretender("""
        while True:
            request = ask()
            time.sleep(request["delay"])
            tell(result=request["n"])
    """)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(worker.call("evaluate", 5, n=1, delay=30), 0.2)
    assert await worker.call("evaluate", 5, n=2, delay=0) == 2
    await worker.close()


async def test_the_worker_sees_no_secret_of_ours(pretender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    worker = pretender("""
        ask()
        tell(result=sorted(os.environ))
    """)
    seen = await worker.call("evaluate", 5)
    assert "OPENAI_API_KEY" not in seen
    await worker.close()


def test_the_worker_ends_with_its_parent(tmp_path: Path) -> None:
    stuck = tmp_path / "python"
    stuck.write_text(
        f"#!{sys.executable}\n{PRELUDE}\nask()\nprint(os.getpid(), file=sys.stderr, flush=True)\ntime.sleep(60)"
    )
    stuck.chmod(0o700)
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import asyncio, sys; from pathlib import Path; from ledger.fabric.hfc.process import Worker\n"
            "from tests.ledger.fabric.test_hfc import Stamp\n"
            f"asyncio.run(Worker(Path({str(stuck)!r}), {{}}, Stamp()).call('evaluate', 60))",
        ],
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    assert parent.stderr is not None
    worker = int(parent.stderr.readline())
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{worker}").exists() and "Z" not in Path(f"/proc/{worker}/stat").read_text().split(")")[1]:
        assert time.monotonic() < deadline, "the worker outlives its parent"
        time.sleep(0.02)
    parent.stderr.close()


@pytest.mark.parametrize(
    ("python", "sentence"),
    [(Path(sys.executable), "No module named 'hfc'.*make hfc"), (Path("/nowhere/python"), "No such file or directory")],
)
async def test_an_interpreter_without_hfc_says_what_to_do(python: Path, sentence: str) -> None:
    opening = {"channel": "glassbox", "client_tls": None, "peers": [], "orderers": []}
    worker = Worker(python, opening, Stamp())
    with pytest.raises(WorkerFailed, match=sentence):
        await worker.call("evaluate", 5)
    await worker.close()


def test_the_worker_needs_hfc_and_the_standard_library_alone() -> None:
    nodes = list(ast.walk(ast.parse(WORKER.read_text())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} - sys.stdlib_module_names == {"hfc"}
