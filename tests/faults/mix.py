"""The faults of the gates, to be mixed: each happens, lasts while requests go on, and is mended.

Two that touch the same thing do not last at the same time, so that each remains what it is.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path

from glassbox.contract.documents import DocumentRules
from judges.lexical.faults import Faults
from ledger.documents import StoredDocuments
from streams.clients import read_all
from streams.topics import REQUESTS, RESULTS
from tests.faults.gates import ROLES, STALLED_S, full
from tests.faults.scene import BURST, FAULTS, Fault, Happens, Scene, fault
from tests.faults.test_clocks import JUMPS
from tests.faults.test_endpoint import FAULTS as TROUBLES
from tests.faults.test_messages import LATER, LATER_MAJOR, NEWER, POISON, WORKED, copied, doubled, largest
from tests.faults.test_replayed import forget_closed_ids, forget_position
from tests.pipeline import request, until

__all__ = ["FAULTS"]

FLOOD = 100
LARGE_BYTES = 200_000
MANY_OPEN = 200


@fault("roles", weight=2)
def a_role_killed(scene: Scene) -> Iterator[None]:
    name = scene.a_role()
    scene.gates.kill(name)
    yield
    scene.start(name)


@fault("roles", "hold")
def a_worker_killed_in_a_batch(scene: Scene) -> Iterator[None]:
    scene.gates.hold.touch()
    for _ in range(2):
        scene.ask("hold:terminology", policy="gate")
        scene.ask(policy="gate")
    yield
    scene.gates.kill("terminology")
    scene.gates.hold.unlink()
    scene.start("terminology")


@fault("roles", "hold")
def a_join_killed_with_many_open(scene: Scene) -> Iterator[None]:
    scene.gates.hold.touch()
    scene.gate.publish(MANY_OPEN, "hold:structure")
    yield
    scene.gates.kill("join")
    scene.gates.hold.unlink()
    scene.start("join")


@fault("roles", weight=2)
def a_role_asleep(scene: Scene) -> Iterator[None]:
    child = scene.gates.pipeline.roles[scene.a_role()]
    child.send(signal.SIGSTOP)
    yield
    child.send(signal.SIGCONT)


def _dies(scene: Scene, role: str, when: str) -> Iterator[None]:
    scene.gates.kill(role)
    scene.start(role, FAULT_DIES=f"{when} {scene.random.randint(1, 20)}")
    yield
    scene.gates.kill(role)
    scene.start(role, FAULT_DIES="never - 0")


@fault("roles")
def a_join_dies_after_a_scorecard(scene: Scene) -> Iterator[None]:
    return _dies(scene, "join", "after glassbox.scorecards")


@fault("roles")
def a_committer_dies_before_a_receipt(scene: Scene) -> Iterator[None]:
    return _dies(scene, "committer", "before glassbox.receipts")


@fault("roles", weight=3)
def a_role_scaled(scene: Scene) -> Iterator[None]:
    """One more of it, or one less, until this is drawn again."""
    name = f"{scene.random.choice([role for role in ROLES if role != 'committer'])}-{scene.random.randint(2, 4)}"
    if name in scene.gates.pipeline.roles:
        scene.leave(name)
        del scene.gates.pipeline.roles[name]
    else:
        scene.start(name, **scene.gates.clocks)
    yield


@fault("roles", "messages", "brokers")
def a_newer_version_beside(scene: Scene) -> Iterator[None]:
    name = f"{scene.random.choice(['intake', 'terminology', 'structure', 'join'])}-5"
    scene.start(name, **NEWER)
    scene.ask(**LATER)
    versions = ((name, json.dumps(request(name, schema_version=name)).encode()) for name in LATER_MAJOR)
    scene.refuse(versions)
    yield
    scene.leave(name)
    del scene.gates.pipeline.roles[name]


@fault("roles", "hold")
def everything_down_past_a_deadline(scene: Scene) -> Iterator[None]:
    names = list(scene.gates.pipeline.roles)
    scene.gates.hold.touch()
    scene.ask("hold:terminology", policy="quick")
    scene.gates.kill(*names)
    scene.gates.hold.unlink()
    yield
    scene.start(*names)


@fault("hold")
def a_deadline_passes(scene: Scene) -> Iterator[None]:
    scene.gates.hold.touch()
    scene.ask("hold:terminology", policy="quick")
    yield
    scene.gates.hold.unlink()


@fault("brokers")
def a_broker_restarted(scene: Scene) -> Iterator[None]:
    number = scene.a_broker()
    scene.kafka.stop(number)
    yield
    scene.kafka.start(number)


@fault("brokers")
def a_broker_killed(scene: Scene) -> Iterator[None]:
    number = scene.a_broker()
    scene.kafka.kill(number)
    yield
    scene.kafka.start(number)


@fault("brokers")
def a_broker_paused(scene: Scene) -> Iterator[None]:
    number = scene.a_broker()
    scene.kafka.pause(number)
    yield
    scene.kafka.resume(number)
    scene.kafka.wait()


@fault("messages", "brokers")
def poison(scene: Scene) -> Iterator[None]:
    for value in scene.random.sample(list(POISON.values()), 3):
        scene.refuse([(None, value)], WORKED)
        scene.ask()
    yield


@fault("messages", "brokers")
def oversize_messages(scene: Scene) -> Iterator[None]:
    for topic in WORKED:
        scene.refuse([("large", largest(topic))], [topic])
    yield


@fault("messages", "brokers")
def an_id_used_for_other_content(scene: Scene) -> Iterator[None]:
    """After its first content is on its way, which may be long ago."""
    names = scene.random.sample(scene.asked, min(5, len(scene.asked)))
    scene.refuse((name, json.dumps(request(name, query="What else?")).encode()) for name in names)
    yield


@fault("messages", "brokers")
def every_message_twice(scene: Scene) -> Iterator[None]:
    with doubled(scene.gates.pipeline.broker):
        yield


@fault("messages", "brokers")
def old_results_again(scene: Scene) -> Iterator[None]:
    """Events of evaluations that were closed long ago, in another order."""
    every = ((str(m.key() or b"", "utf-8"), m.value() or b"") for m in read_all(scene.gates.pipeline.broker, RESULTS))
    old = [event for event in every if _of_a_request(*event)]
    scene.gate.send(RESULTS, scene.random.sample(old, min(200, len(old))))
    yield


def _of_a_request(key: str, event: bytes) -> bool:
    """Whether an event is not some poison: that would be one more dead letter."""
    try:
        return str(json.loads(event)["evaluation_id"]) == key
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


@fault("messages")
def answers_in_any_order(scene: Scene) -> Iterator[None]:
    events = copied(scene.events, scene.model, scene.gate.fresh(BURST))
    scene.random.shuffle(events)
    scene.gate.send(RESULTS, events)
    yield


@fault("messages")
def tasks_that_kill(scene: Scene) -> Iterator[None]:
    scene.gate.publish(1, f"kill:{scene.random.choice(['terminology', 'structure'])}")
    yield


@fault("messages")
def a_flood_of_large_requests(scene: Scene) -> Iterator[None]:
    text = " ".join(f"w{n * 7919 % 10**7}" for n in range(LARGE_BYTES // 9))
    scene.gate.publish(FLOOD, source_documents=[text])
    yield


@fault("ledger")
def a_locked_ledger(scene: Scene) -> Iterator[None]:
    path = scene.gates.data / "ledger" / "ledger.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@fault("ledger")
def a_full_disk(scene: Scene) -> Iterator[None]:
    with full(scene.gates.data):
        yield


@fault("ledger", "roles", "brokers")
def an_empty_ledger_from_the_log(scene: Scene) -> Iterator[None]:
    scene.leave("committer")
    forget_position(scene.kafka, "committer")
    shutil.rmtree(scene.gates.data / "ledger")
    scene.start("committer")
    until((scene.gates.data / "ledger" / "ledger.sqlite3").exists, STALLED_S, "there is a ledger again")
    yield


@fault("roles", "brokers")
def a_join_without_memory_from_the_log(scene: Scene) -> Iterator[None]:
    joins = scene.every("join")
    scene.leave(*joins)
    forget_position(scene.kafka, "join")
    forget_closed_ids(scene.kafka)
    scene.start(*joins)
    yield


@fault("clock")
def a_clock_jumps(scene: Scene) -> Iterator[None]:
    Path(scene.gates.clocks["FAULT_CLOCK"]).write_text(str(scene.random.choice(JUMPS)))
    yield


@fault("network")
def a_network_cut(scene: Scene) -> Iterator[None]:
    assert scene.wire is not None
    scene.wire.cut()
    yield
    scene.wire.mend()


@fault("ledger", "hold")
def an_evaluation_erased(scene: Scene) -> Iterator[None]:
    """In the middle, and before it comes."""
    made = [f"{scene.gate.name}-erased-{len(scene.erased) + n}" for n in range(8)]
    there, coming = made[:4], made[4:]
    scene.erased |= {*made}
    scene.gates.hold.touch()
    scene.gate.ask(there, "hold:structure")
    done = scene.gates.pipeline.command("erase", *there, *coming, "--yes", "--ahead", environment={})
    assert done.returncode == 0, done.stderr
    scene.gate.ask(coming)
    yield
    scene.gates.hold.unlink()


def _documents(scene: Scene, spoil: Callable[[Path], object]) -> Iterator[None]:
    """Requests that refer to documents, of which some are spoilt for a while."""
    location = f"file://{scene.gates.data / 'documents'}/"
    documents = StoredDocuments(DocumentRules((location,)))
    for number in range(4):
        reference = asyncio.run(documents.put(f"Ada wrote it, page {len(scene.asked)}.{number}.".encode()))
        path = Path(reference.uri.removeprefix("file://"))
        kept = path.read_bytes()
        passages = [{"reference": reference.model_dump()}]
        scene.ask(retrieved_passages=passages, count=3)
        if number % 2:
            spoil(path)
        scene.ask(retrieved_passages=passages, count=3)
        if number == 1:
            path.write_bytes(kept)
    yield


@fault("ledger")
def documents_missing(scene: Scene) -> Iterator[None]:
    return _documents(scene, Path.unlink)


@fault("ledger")
def documents_changed(scene: Scene) -> Iterator[None]:
    return _documents(scene, lambda path: path.write_bytes(b"another text"))


@fault("roles", "messages", "brokers", "ledger")
def dead_letters_redriven(scene: Scene) -> Iterator[None]:
    """An intake that does not know a policy yet refuses its requests; one that does takes them, sent again. What is no
    request at all is refused again."""
    intakes, gate = scene.every("intake"), scene.gate
    config, early = (scene.gates.folder / f"{name}.toml" for name in ("glassbox", "early"))
    early.write_text(config.read_text().partition("[policy.late]")[0])
    scene.leave(*intakes)
    scene.start(*intakes, GLASSBOX_CONFIG=str(early))
    where = {
        name: gate.send(REQUESTS, [(name, json.dumps(request(name, policy="late")).encode())]) for name in gate.fresh(5)
    }
    scene.late |= {*chain(*where.values())}
    yield
    gate.read(
        lambda seen: all(name in seen.receipts or stands <= seen.letters.keys() for name, stands in where.items())
    )
    scene.leave(*intakes)
    scene.start(*intakes, GLASSBOX_CONFIG=str(config))
    scene.redrive()


def _trouble(faults: Faults) -> Happens:
    def happens(scene: Scene) -> Iterator[None]:
        scene.endpoint.suffer(faults)
        scene.ask(policy="asking")
        yield
        scene.endpoint.suffer(Faults())

    return happens


for _name, _faults in {**TROUBLES, "refusals": Faults(refuse_rate=0.5)}.items():
    FAULTS.append(Fault(f"an endpoint's {_name}", 1, frozenset({"endpoint"}), contextmanager(_trouble(_faults))))


@fault("endpoint")
def an_endpoint_down(scene: Scene) -> Iterator[None]:
    scene.endpoint.stop()
    scene.ask(policy="asking")
    yield
    scene.endpoint.start()
