"""hfc behind its process boundary: the boundary with made-up workers, then the ledger with the real one. What every
ledger does is tested in test_ledger_behaviour."""

import ast
import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ledger.fabric.hfc import process
from ledger.fabric.hfc.ledger import Deadlines, HfcLedger
from ledger.fabric.hfc.process import WORKER, HfcFailed, Worker, WorkerFailed
from ledger.fabric.identity import ProfileError
from ledger.port import LedgerUnavailable, Receipt
from tests.ledger.fabric.network import TestNetwork
from tests.ledger.records import CREATED_AT, POLICY, scorecard

T = TypeVar("T")

ROOT = Path(__file__).parents[3]


class Stamp:
    """Signs by saying what it was given."""

    msp_id = "Org1MSP"
    certificate = b"a certificate"

    def sign(self, message: bytes) -> bytes:
        return b"signed " + message


PRELUDE = """
import base64, json, os, runpy, sys, time

runpy.run_path(sys.argv[3])["die_with"](int(sys.argv[4]))

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
    assert await asyncio.gather(*(worker.call("evaluate", 30, n=n) for n in range(20))) == list(range(20))
    await worker.close()


async def test_the_key_stays_on_this_side(pretender) -> None:
    worker = pretender("""
        ask()
        tell(sign=base64.b64encode(b"one").decode())
        first = ask()["signature"]
        tell(sign=base64.b64encode(b"two").decode())
        tell(result=[first, ask()["signature"]])
    """)
    assert await worker.call("submit", 30) == ["c2lnbmVkIG9uZQ==", "c2lnbmVkIHR3bw=="]
    await worker.close()


async def test_what_the_worker_says_has_failed_does_not_end_it(pretender) -> None:
    worker = pretender("""
        ask()
        tell(error="the peer is away")
        ask()
        tell(result="here")
    """)
    with pytest.raises(HfcFailed, match="the peer is away"):
        await worker.call("evaluate", 30)
    assert await worker.call("evaluate", 30) == "here"
    await worker.close()


@pytest.mark.parametrize(
    ("misbehaviour", "wait_s", "sentence"),
    [
        ("time.sleep(600)", 0.1, "no answer in 0.1 s"),
        ("os._exit(7)", 30, "exit code 7"),
        ("print('{', flush=True)", 30, "JSON"),
    ],
)
async def test_a_worker_that_is_late_dead_or_mad_is_replaced(
    pretender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, misbehaviour: str, wait_s: float, sentence: str
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
        await worker.call("evaluate", wait_s)
    assert await worker.call("evaluate", 30) > 0
    await worker.close()


async def test_a_worker_that_died_between_requests_is_replaced(pretender) -> None:
    worker = pretender("""
        while True:
            ask()
            tell(result=os.getpid())
    """)
    first = await worker.call("evaluate", 30)
    os.kill(first, signal.SIGKILL)
    second = first
    while second == first:
        try:
            second = await worker.call("evaluate", 30)
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
        await asyncio.wait_for(worker.call("evaluate", 30, n=1, delay=30), 0.2)
    assert await worker.call("evaluate", 30, n=2, delay=0) == 2
    await worker.close()


async def test_the_worker_sees_no_secret_of_ours(pretender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    worker = pretender("""
        ask()
        tell(result=sorted(os.environ))
    """)
    seen = await worker.call("evaluate", 30)
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
    deadline = time.monotonic() + 30
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
        await worker.call("evaluate", 30)
    await worker.close()


def test_the_worker_needs_hfc_and_the_standard_library_alone() -> None:
    nodes = list(ast.walk(ast.parse(WORKER.read_text())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} - sys.stdlib_module_names == {"hfc"}


Through = Callable[..., HfcLedger]


@pytest.fixture
async def through_hfc(hfc_python: Path) -> AsyncIterator[Through]:
    """Ledgers of a network that are reached through hfc, with little patience."""
    made: list[HfcLedger] = []

    def make(network: TestNetwork, user: str = "Admin", **changes: Any) -> HfcLedger:
        profile = replace(network.profile(user), **changes)
        orderers = network.profile(user).peers  # a test network's peers take transactions too
        made.append(HfcLedger(profile, orderers, hfc_python, deadlines=Deadlines(evaluate=10, seen=3, known=0.5)))
        return made[-1]

    yield make
    for ledger in made:
        await ledger.close()


async def test_an_orderer_that_is_down_is_trouble_until_it_is_up(fabric: TestNetwork, through_hfc: Through) -> None:
    ledger = through_hfc(fabric)
    await ledger.register_policy(POLICY.document, CREATED_AT)
    fabric.orderer_faults.down = True
    with pytest.raises(LedgerUnavailable, match="SERVICE_UNAVAILABLE, no Raft leader"):
        await ledger.append([scorecard("e")])
    fabric.orderer_faults.down = False
    assert await results(ledger, "e") == ["created"]


async def test_a_peer_that_is_down_is_trouble_until_it_is_up(fabric: TestNetwork, through_hfc: Through) -> None:
    ledger = through_hfc(fabric)
    await ledger.register_policy(POLICY.document, CREATED_AT)
    fabric.peers[0].close()
    with pytest.raises(LedgerUnavailable, match=r"UNAVAILABLE.*check that the peer"):
        await ledger.append([scorecard("e")])
    fabric.peers[0].start()
    assert await until(lambda: results(ledger, "e")) == ["created"]


async def test_what_others_overtake_is_made_again(fabric: TestNetwork, through_hfc: Through) -> None:
    ledger = through_hfc(fabric)
    await ledger.register_policy(POLICY.document, CREATED_AT)
    fabric.orderer_faults.conflicts = 2
    assert await results(ledger, "e", "f") == ["created", "created"]


async def test_two_writers_of_one_record(fabric: TestNetwork, through_hfc: Through) -> None:
    one, two = through_hfc(fabric), through_hfc(fabric)
    await one.register_policy(POLICY.document, CREATED_AT)
    await two.policy(POLICY.digest)  # its worker runs
    fabric.orderer_faults.delay = 0.2
    first, second = await asyncio.gather(results(one, "e", "f"), results(two, "e", "f"))
    assert sorted([first, second]) == [["created", "created"], ["exists", "exists"]]


async def test_what_no_block_has_in_time_is_trouble_and_exists_later(fabric: TestNetwork, through_hfc: Through) -> None:
    ledger = through_hfc(fabric)
    await ledger.register_policy(POLICY.document, CREATED_AT)
    fabric.orderer_faults.commits.clear()
    with pytest.raises(LedgerUnavailable, match="is not known to be in a block"):
        await ledger.append([scorecard("e")])
    fabric.orderer_faults.commits.set()
    assert await until(lambda: ledger.read("e")) == scorecard("e")
    assert await results(ledger, "e") == ["exists"]


async def test_both_organisations_endorse(fabric_of_two: TestNetwork, through_hfc: Through) -> None:
    both = through_hfc(fabric_of_two)
    await both.register_policy(POLICY.document, CREATED_AT)
    assert await results(both, "e") == ["created"]
    alone = through_hfc(fabric_of_two, peers=fabric_of_two.profile().peers[:1])
    with pytest.raises(LedgerUnavailable, match="too few organisations endorsed it"):
        await alone.append([scorecard("f")])


async def test_what_a_network_will_not_have_is_said(fabric: TestNetwork, through_hfc: Through) -> None:
    with pytest.raises(LedgerUnavailable, match="channel 'nowhere' not found"):
        await through_hfc(fabric, channel="nowhere").read("e")
    fabric.enrol("Late", expired=True)
    with pytest.raises(LedgerUnavailable, match="this client's certificate expired"):
        await through_hfc(fabric, "Late").read("e")
    with pytest.raises(LedgerUnavailable, match="FORBIDDEN"):
        await through_hfc(fabric, "User1").register_policy(POLICY.document, CREATED_AT)


async def test_mutual_tls(chaincode_binary: Path, tmp_path: Path, through_hfc: Through) -> None:
    with TestNetwork(chaincode_binary, tmp_path, mutual_tls=True) as network:
        ledger = through_hfc(network)
        await ledger.register_policy(POLICY.document, CREATED_AT)
        assert await results(ledger, "e") == ["created"]


async def test_hfc_is_not_taken_at_its_word(fabric: TestNetwork, through_hfc: Through) -> None:
    """Records that are said to be committed, and are not there, or not by this transaction."""
    ledger = through_hfc(fabric)
    await ledger.register_policy(POLICY.document, CREATED_AT)
    network = ledger._network
    asked = network._worker.call

    async def lying(name: str, wait_s: float, **arguments: Any) -> Any:
        if name != "submit":
            return await asked(name, wait_s, **arguments)
        answer = [{"evaluation_id": "e", "result": "created"}]
        return {"tx_id": "ab" * 32, "block_number": 7, "status": "VALID", "answer": json.dumps(answer)}

    network._worker.call = lying
    with pytest.raises(LedgerUnavailable, match="is not known to be in a block"):
        await ledger.append([scorecard("e")])
    network._worker.call = asked
    assert await results(ledger, "e") == ["created"]


async def test_the_environment_says_where_hfc_and_the_orderers_are(fabric: TestNetwork, hfc_python: Path) -> None:
    environment = {**fabric.environment("Admin"), "GLASSBOX_FABRIC_HFC_PYTHON": str(hfc_python)}
    with pytest.raises(ProfileError, match="GLASSBOX_FABRIC_ORDERERS is not set"):
        HfcLedger.from_environment(environment)
    ledger = HfcLedger.from_environment({**environment, "GLASSBOX_FABRIC_ORDERERS": fabric.endpoint})
    assert (await ledger.register_policy(POLICY.document, CREATED_AT)).result == "created"
    await ledger.close()
    with pytest.raises(ProfileError, match="HFC_PYTHON is not set"):
        HfcLedger.from_environment(fabric.environment())


async def results(ledger: HfcLedger, *names: str) -> list[str]:
    made = await ledger.append([scorecard(name) for name in names])
    return [receipt.result for receipt in made if isinstance(receipt, Receipt)]


async def until(ask: Callable[[], Awaitable[T]]) -> T:
    """What is answered in the end, within 30 s."""
    end = time.monotonic() + 30
    while True:
        try:
            if answer := await ask():
                return answer
        except LedgerUnavailable:
            if time.monotonic() > end:
                raise
        assert time.monotonic() < end
        await asyncio.sleep(0.05)
