"""What must hold, whatever fails: checked at every append, commit, write and put, and once more at the end."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from glassbox.contract.record import record_bytes
from ledger.evidence import owner
from ledger.port import salted_digest
from streams.committer import CommitQueue
from streams.intake import source_of
from streams.joiner import MARKER_TTL_MS
from streams.lanes import Lanes
from streams.ports import Record
from streams.reading import JoinConsumer, Pool
from streams.redrive import note_of
from streams.starts import LAST_START
from streams.topics import BULK_REQUESTS, DEAD_LETTERS, RECEIPTS, REQUESTS, RESULTS, SCORECARDS, judge_topic
from tests.simulation import requests
from tests.simulation.log import Where
from tests.simulation.shortcuts import parsed

if TYPE_CHECKING:
    from tests.simulation.group import Group, Member
    from tests.simulation.world import World

OF_THE_REQUEST = frozenset({"too_large", "id_reused"})
"""Reasons of dead letters that end a request, so that no record may stand beside one. A request refused by its contract
has no identity yet, and one for a policy that is configured later may be sent again."""
KILLS = LAST_START
"""Starts of one message that kills. One of them unawares: that it may begin is noted first, the note stays unless the
assignment ends in good order, and a process that ends one in good order has nothing running. From then on each start
is counted first, which only the present assignment can do, and the one counted as `LAST_START` is not made."""
COUNTED_KILLS = LAST_START - 1
"""So many more, each time that it was answered without being run (it had expired, say) and its worker then died of
something else before the commit: what ended well is counted anew, as it looks innocent."""
MOST_ATTEMPTS = 3
MOST_DEADLINES = 150
"""`DeadlinePassed` of one id: a timer that does not grow its gaps sends more."""

Position = tuple[str, int, int]


class Invariants:
    """`broken`: code -> how often. A code with `(after a loss)` is allowed where the store lost objects."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.broken, self.counts = Counter[str](), Counter[str]()
        self._contents: dict[str, bytes] = {}  # request digest -> canonical request
        self._asked: list[tuple[Record, float]] = []
        self._tasks: set[tuple[str, str, str, str]] = set()
        self._may_kill = Counter[str]()
        self._announced: dict[str, list[Record]] = defaultdict(list)
        self._digests: defaultdict[tuple[str, bytes], set[str]] = defaultdict(set)
        self._judged: set[tuple[str, str, str]] = set()
        self._scores: set[tuple[str, str, str, str]] = set()
        self._evidence: set[str] = set()
        self._deadlines: defaultdict[str, list[int]] = defaultdict(list)
        self._cards: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self._first_cards: dict[tuple[str, str], int] = {}
        self._claims: set[tuple[str, str]] = set()
        self._dead: defaultdict[Position, set[str]] = defaultdict(set)
        self._moved: set[Position] = set()
        self._receipts: dict[str, float] = {}
        self._redriven: set[tuple[str, bytes | None]] = set()
        world.accuse = self.break_
        world.log.heard.append(self._appended)
        world.store.changed.append(self._stored)
        world.ledger.written.append(self._written)

    def break_(self, code: str, *words: object) -> None:
        self.broken[code] += 1
        self.world.note("!!", code, *words)

    # as it happens

    def _appended(self, record: Record) -> None:
        topic = record.topic
        if topic == DEAD_LETTERS.name:
            self._dead_letter(record)
            return
        if record.value is None or topic not in _READERS:
            return
        if topic == BULK_REQUESTS.name:
            self._moved.add(_position(record))
            self.counts["moved to the bulk lane"] += 1
            self.world.note("log", record.topic, record.partition, record.offset, record.key)
            return
        if topic == REQUESTS.name:
            self._asked.append((record, self.world.loop.time()))
            attempt = int(record.headers.get("attempt", b"0"))
            if attempt:
                self._redriven.add(_identity(record))
            if attempt > MOST_ATTEMPTS:
                self.break_("a request is redriven for ever", record.key)
            self.world.note("log", record.topic, record.partition, record.offset, record.key)
            return
        value = parsed(record.value)
        name = value.get("evaluation_id") or value["record"]["evaluation_id"]
        _READERS[topic](self, record, name, value)
        if self.world.tracing:
            self.world.note("log", _short(record, name, value))
        self.world.touch(name)

    def _task(self, record: Record, name: str, value: dict[str, Any]) -> None:
        kind = _KINDS[record.topic]
        self._tasks.add((kind, name, value["request_digest"], value["intake_run"]))
        if kind == "grounding":
            self._may_kill[name] += KILLS

    def _result(self, record: Record, name: str, value: dict[str, Any]) -> None:
        if value["type"] == "deadline_passed":
            self._deadlines[name].append(record.offset)
            if len(self._deadlines[name]) == MOST_DEADLINES:
                self.break_("the timer floods the log", name)
            return
        digest = value["request_digest"]
        if value["type"] == "announced":
            self._announced[name].append(record)
            self._digests[name, self._contents[digest]].add(digest)
            for kind in value["kinds"]:
                if (kind, name, digest, value["intake_run"]) not in self._tasks:
                    self.break_("announced before its tasks are in the log", name, kind)
            return
        self._judged.add((name, value["kind"], digest))
        if value["kind"] == "grounding" and not any(row.get("cause") == "crashed" for row in value["verdicts"]):
            self._may_kill[name] += COUNTED_KILLS
        for verdict in value["verdicts"]:
            self.counts[f"verdicts: {verdict.get('cause') or verdict['state']}"] += 1
            if verdict["state"] == "scored":
                self._scores.add((name, digest, verdict["part"], f"{float(verdict['score']):.6f}"))
        cited = value["evidence_digest"]
        if cited is not None and f"{owner(name)}/evidence/{value['kind']}/{cited}" not in self._evidence:
            self.break_("an answer cites evidence that is not stored", name, value["kind"])

    def _scorecard(self, record: Record, name: str, value: dict[str, Any]) -> None:
        if value["type"] == "claim":
            self._claims.add((name, value["request_digest"]))
            self.counts["claims"] += 1
            return
        card, known = value["record"], self._cards[name]
        if card not in known:
            key = name, card["request_digest"]
            first = self._first_cards.setdefault(key, record.timestamp)
            if first != record.timestamp and record.timestamp - first <= MARKER_TTL_MS:
                self.break_("two different scorecards of one request", name)
            known.append(card)

    def _receipt(self, record: Record, name: str, value: dict[str, Any]) -> None:
        self._receipts[name] = self.world.loop.time()
        if value["record"] != self.world.ledger.records.get(name):
            self.break_("a receipt of something else than the ledger's record", name)

    def _dead_letter(self, record: Record) -> None:
        headers = {name: text.decode() for name, text in record.headers.items()}
        if note_of(headers) is not None:
            self.world.note("log note", *headers.values())
            return
        where = headers["source_topic"], int(headers["source_partition"]), int(headers["source_offset"])
        self._dead[where].add(headers["reason"])
        self.counts[f"dead letters: {headers['reason']}"] += 1
        if headers["reason"] == "erased" and record.value is not None:
            self.break_("a dead letter with erased content", where)
        self.world.note("log dead letter", headers["reason"], *where)
        if "evaluation_id" in headers:
            self.world.touch(headers["evaluation_id"])

    def _stored(self, what: str, name: str, data: bytes | None) -> None:
        if data is None:
            return
        rest = name.partition("/")[2]
        if rest == "request" and what == "put":
            document = parsed(data)
            content = document["request"].encode()
            self._contents[salted_digest(bytes.fromhex(document["salt"]), content)] = content
        elif rest.startswith("evidence/"):
            self._evidence.add(name)
        elif rest == "receipt":
            receipt = parsed(data)
            if receipt["record"] != self.world.ledger.records.get(receipt["evaluation_id"]):
                self.break_("a stored receipt of something else than the ledger's record", receipt["evaluation_id"])

    def _written(self, record: dict[str, Any], again: bool) -> None:
        name = record["evaluation_id"]
        self.world.note("ledger", name, record["outcome"], record["request_digest"][:6])
        if again:
            self.break_("a second record of one id", name)
        self.world.touch(name)

    # commits

    def committed(self, group: Group, where: Where, before: int, after: int) -> None:
        """Below a committed offset the effect of every record stands."""
        check = _DONE.get(group.role, Invariants._answered)
        for record in self.world.log.read(where)[before:after]:
            if _position(record) not in self._dead and not check(self, record):
                role = group.role if group.role in _DONE else "a judge"
                self.break_(f"a commit of {role} passed open work", *where, record.offset)

    def _announced_or_ended(self, record: Record) -> bool:
        name, content = _identity(record)
        if content is None:
            return False
        if record.topic == REQUESTS.name and _position(record) in self._moved:
            return True
        if self._record_is_of(name, content):
            return True
        return bool(self._digests.get((name, content)))

    def _answered(self, record: Record) -> bool:
        task = parsed(record.value or b"{}")
        kind = _KINDS[record.topic]
        return (task["evaluation_id"], kind, task["request_digest"]) in self._judged

    def _closed(self, record: Record) -> bool:
        event = parsed(record.value or b"{}")
        name = event["evaluation_id"]
        if event["type"] == "deadline_passed" or self._cards.get(name):
            if event["type"] != "announced":
                return True
            digest = event["request_digest"]
            mine = any(card["request_digest"] == digest for card in self._cards[name])
            return mine or (name, digest) in self._claims
        if event["type"] == "announced":
            return False
        # no card: only as an answer without announcement that a deadline dropped
        return any(offset > record.offset for offset in self._deadlines[name])

    def _settled(self, record: Record) -> bool:
        entry = parsed(record.value or b"{}")
        name = entry.get("evaluation_id") or entry["record"]["evaluation_id"]
        return name in self._receipts

    # at the end

    def at_the_end(self, ended: bool) -> None:
        """Once nothing is left to do and every fault is over."""
        world = self.world
        if not ended:
            self.break_("it never ends")
        for complaint in world.loop.complaints:
            self.break_("a task failed unheard", complaint)
        for group in world.groups.values():
            for where in group.where:
                at, end = group.offsets.committed.get(where, 0), len(world.log.read(where))
                if at != end:
                    self.break_(f"work is left to {group.role}", where[1], f"{at} of {end}")
            for member in group.members:
                self._at_rest(member)
        for record, asked_at in self._asked:
            self._ended_once(record, asked_at)
        for name, record in world.ledger.records.items():
            self._record_at_the_end(name, record)
        for name, times in world.kills.items():
            if times > self._may_kill[name]:
                self.break_("a task kills its workers on and on", name, times)
        for name in world.erasing:
            self.break_("an erasure never reports", name)
        for name in world.erased:
            if set(parsed(world.store.objects[f"{owner(name)}/request"])) != {"erased_at"}:
                self.break_("a request is left after its erasure", name)
        for (name, _), digests in self._digests.items():
            if len(digests) > 1 and name not in world.lost:
                self.break_("one request has two digests", name)

    def _at_rest(self, member: Member) -> None:
        held = member.acks.open_tokens()
        consumer = member.consumer
        if isinstance(consumer, JoinConsumer):
            held += len(consumer.join._open) + len(consumer.join._closing)
        elif isinstance(consumer, Lanes):
            held += sum(pool.slots.held for pool in consumer.of.values() if isinstance(pool, Pool))
        elif isinstance(consumer, CommitQueue):
            held += len(consumer._queue) + consumer._working
        if held:
            self.break_(f"something is held for ever by {member.group.role}", member)

    def _ended_once(self, record: Record, asked_at: float) -> None:
        name, content = _identity(record)
        reasons = self._dead.get((record.topic, record.partition, record.offset), set())
        lost = name in self.world.lost
        has = content is not None and self._record_is_of(name, content)
        self.counts["requests"] += 1
        if not has and not reasons:
            self.break_("a request without record or dead letter", name, record.offset)
        if has and reasons & OF_THE_REQUEST and not lost and (name, content) not in self._redriven:
            self.break_("a record and a dead letter of one request", name, record.offset)
        if has and not reasons and not lost and self._receipts.get(name, -1.0) < asked_at:
            self.break_("a request never saw a receipt", name, record.offset)

    def _record_is_of(self, name: str, content: bytes) -> bool:
        standing = self.world.ledger.records.get(name)
        return standing is not None and self._contents[standing["request_digest"]] == content

    def _record_at_the_end(self, name: str, record: dict[str, Any]) -> None:
        self.counts["records"] += 1
        if name not in self._receipts:
            self.break_("a record without a receipt", name)
        if record_bytes(self._cards[name][0]) != record_bytes(record):
            self.break_("the record is not the first scorecard of the log", name)
        for part in record["parts"]:
            cited = name, record["request_digest"], part["part"], part["score"]
            if part["state"] == "scored" and cited not in self._scores:
                self.break_("a score that no answer gave", name, part["part"])
        if record["outcome"] == "incomplete":
            self.counts["incomplete"] += 1


def _position(record: Record) -> Position:
    """Where a record stands, a moved request where its producer put it."""
    source = source_of(record)
    return source.topic, source.partition, source.offset


def _identity(record: Record) -> tuple[str, bytes | None]:
    assert record.key is not None
    assert record.value is not None
    return record.key.decode(), requests.canonical(record.value)


def _short(record: Record, name: str, value: dict[str, Any]) -> str:
    topic = record.topic.removeprefix("glassbox.")
    kind = value.get("type", value.get("result", "task"))
    more = [str(value[key])[:6] for key in ("kind", "request_digest", "intake_run") if key in value]
    more += [verdict.get("cause") or verdict["state"] for verdict in value.get("verdicts", ())]
    return f"{topic} {record.partition} {record.offset}: {kind} {name} {' '.join(more)}"


_DONE = {
    "intake": Invariants._announced_or_ended,
    "join": Invariants._closed,
    "committer": Invariants._settled,
}

_KINDS = {judge_topic(kind, bulk=bulk).name: kind for kind in requests.KINDS for bulk in (False, True)}
_READERS: dict[str, Any] = {
    REQUESTS.name: None,
    BULK_REQUESTS.name: None,
    **dict.fromkeys(_KINDS, Invariants._task),
    RESULTS.name: Invariants._result,
    SCORECARDS.name: Invariants._scorecard,
    RECEIPTS.name: Invariants._receipt,
}
