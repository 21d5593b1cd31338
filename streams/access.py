"""Who may do what on the broker: the topics and the group of each role, and the ACLs that follow.

The one table for `glassbox topics acls`, for docs/kafka.md and for the test that runs every role with exactly these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from glassbox.contract.verdict import KINDS
from streams.topics import (
    BULK_REQUESTS,
    CLOSED,
    DEAD_LETTERS,
    RECEIPTS,
    REQUESTS,
    RESULTS,
    SCORECARDS,
    Topic,
    judge_topic,
    topics,
)

READER_GROUP = "glassbox-reader"
"""Named by clients that watch without a group: they commit nothing, yet the broker asks."""


def group(role: str) -> str:
    """The consumer group of a role, and the name of its Faust app."""
    return f"glassbox-{role}"


@dataclass(frozen=True)
class Access:
    """What one user needs. A role works on the first topic that it reads, and with a bulk lane on the first two.
    `checks`: compares the settings of its topics with the table. `observes`: the groups whose progress it asks for."""

    group: str
    reads: tuple[Topic, ...]
    writes: tuple[Topic, ...]
    creates: tuple[Topic, ...] = ()
    checks: bool = True
    observes: tuple[str, ...] = ()
    lanes: int = 1

    @property
    def works_on(self) -> tuple[Topic, ...]:
        """The topics whose messages are this role's work, the bulk lane's last."""
        return self.reads[: self.lanes]

    @property
    def topics(self) -> tuple[Topic, ...]:
        """Those that must be there, each once."""
        return tuple(dict.fromkeys((*self.reads, *self.writes, *self.creates)))


Operation = Literal["READ", "WRITE", "CREATE", "DESCRIBE", "DESCRIBE_CONFIGS"]


@dataclass(frozen=True)
class Acl:
    """What a user is allowed on one topic or group, by its literal name, from any host."""

    user: str
    resource: Literal["topic", "group"]
    name: str
    operations: tuple[Operation, ...]


def access(own_kinds: Iterable[str] = ()) -> dict[str, Access]:
    """User -> what it needs: the roles, then `client` (`submit`, `watch`, `dead-letters list`) and `operator`
    (`topics`, `policy register`, `replay submit`, `ledger rebuild`, `dead-letters redrive` and `discard`)."""
    own_kinds = tuple(own_kinds)
    kinds = (*KINDS, *own_kinds)
    lanes = {kind: (judge_topic(kind), judge_topic(kind, bulk=True)) for kind in kinds}
    workers = {kind: Access(group(kind), lanes[kind], (RESULTS, DEAD_LETTERS), lanes=2) for kind in kinds}
    tasks = tuple(topic for pair in zip(*lanes.values(), strict=True) for topic in pair)
    asked, answers = (REQUESTS, BULK_REQUESTS), (RECEIPTS, DEAD_LETTERS)
    return {
        "intake": Access(
            # results: with a budget, what the day has cost
            group("intake"),
            (*asked, RESULTS),
            (BULK_REQUESTS, *tasks, RESULTS, *answers),
            observes=tuple(group(kind) for kind in kinds),
            lanes=2,
        ),
        **workers,
        "join": Access(group("join"), (RESULTS, CLOSED), (RESULTS, SCORECARDS, CLOSED, DEAD_LETTERS)),
        "committer": Access(group("committer"), (SCORECARDS,), answers),
        "catalogue": Access(group("catalogue"), (REQUESTS, RESULTS, SCORECARDS, *answers), ()),
        "gateway": Access(group("gateway"), (), (REQUESTS, SCORECARDS)),
        "client": Access(READER_GROUP, answers, asked, checks=False),
        "operator": Access(
            # scorecards: for `ledger rebuild`, policies that are not configured any more
            READER_GROUP,
            (*answers, SCORECARDS),
            (*asked, SCORECARDS, DEAD_LETTERS),
            topics(own_kinds),
        ),
    }


def acls(own_kinds: Iterable[str] = ()) -> Iterator[Acl]:
    """Every ACL that the pipeline needs, by user. READ and WRITE include DESCRIBE."""
    for user, needs in access(own_kinds).items():
        for topic in needs.topics:
            yield Acl(user, "topic", topic.name, tuple(_operations(needs, topic)))
        if needs.reads:
            yield Acl(user, "group", needs.group, ("READ",))
        for observed in needs.observes:
            yield Acl(user, "group", observed, ("DESCRIBE",))


def _operations(needs: Access, topic: Topic) -> Iterator[Operation]:
    if topic in needs.reads:
        yield "READ"
    if topic in needs.writes:
        yield "WRITE"
    if topic in needs.creates:
        yield "CREATE"
    if topic not in (*needs.reads, *needs.writes):
        yield "DESCRIBE"
    if needs.checks:
        yield "DESCRIBE_CONFIGS"
