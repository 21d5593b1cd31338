"""What the protocol costs: the pipeline with judges that answer at once, against bare aiokafka loops in as many
processes that move the same messages over the same Kafka, in one run."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from glassbox.cli.children import Child, stop_all
from glassbox.cli.publish import Publisher
from glassbox.contract.verdict import KINDS
from streams.admin import create_topics
from streams.clients import Broker, read_all, reader
from streams.roles import ROLES
from streams.topics import CLOSED, JUDGE, RECEIPTS, REQUESTS, RESULTS, SCORECARDS, TOPICS, Topic
from tests.bench.bare_loops import Loop, write_plan
from tests.bench.processes import cpu_s, peak_mb
from tests.kafka import Kafka
from tests.pipeline import ROOT, Pipeline, request, until

COUNT = int(os.environ.get("BENCH_EVALUATIONS", "2000"))
WARM_UP = 50

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]


def bare(topic: Topic) -> Topic:
    return replace(topic, name=f"bare-{topic.name}")


@dataclass
class Cost:
    """`cpu`: role -> seconds of processor time an evaluation."""

    seconds: float
    cpu: Mapping[str, float]

    @property
    def rate(self) -> float:
        return COUNT / self.seconds


@contextmanager
def counting(roles: Mapping[str, Child]) -> Iterator[Callable[[], Cost]]:
    """The function given says what was used since the block began."""
    used, began = {name: cpu_s(child) for name, child in roles.items()}, time.monotonic()
    yield lambda: Cost(
        time.monotonic() - began, {name: (cpu_s(child) - used[name]) / COUNT for name, child in roles.items()}
    )


def measure_product(pipeline: Pipeline) -> Cost:
    with pipeline.watching() as read:
        pipeline.publish(request(f"w{n}") for n in range(WARM_UP))
        assert len(read(lambda s: len(s.receipts) == WARM_UP, 120).receipts) == WARM_UP
        with counting(pipeline.roles) as cost:
            pipeline.publish(request(f"e{n}") for n in range(COUNT))
            settled = read(lambda s: len(s.receipts) == WARM_UP + COUNT, 600)
            assert (len(settled.receipts), settled.dead) == (WARM_UP + COUNT, {})
            return cost()


def measure_bare(broker: Broker, roles: Mapping[str, Child], sample: bytes) -> Cost:
    consumer = reader(broker, [bare(RECEIPTS)])
    arrived = 0

    def arrive(wanted: int, timeout_s: float) -> None:
        nonlocal arrived
        end = time.monotonic() + timeout_s
        while arrived < wanted:
            assert time.monotonic() < end, f"{arrived} of {wanted} messages arrived"
            arrived += len(consumer.consume(500, 0.1))

    def send(prefix: str, count: int) -> None:
        with Publisher(broker) as publisher:
            for n in range(count):
                publisher.send(bare(REQUESTS), f"{prefix}{n}".encode(), sample)

    try:
        send("w", WARM_UP)
        arrive(WARM_UP, 120)
        with counting(roles) as cost:
            send("e", COUNT)
            arrive(WARM_UP + COUNT, 600)
            return cost()
    finally:
        consumer.close()


def loops(samples: Mapping[Topic, bytes], announced: bytes, judged: Mapping[str, bytes]) -> dict[str, Loop]:
    """Each role of the product as a loop over as many messages of the same content."""

    def sends(*topics: Topic) -> tuple[tuple[str, bytes], ...]:
        return tuple((bare(topic).name, samples[topic]) for topic in topics)

    results = bare(RESULTS).name
    return {
        "intake": Loop(bare(REQUESTS).name, 1, (*sends(*JUDGE.values()), (results, announced))),
        **{kind: Loop(bare(JUDGE[kind]).name, 1, ((results, judged[kind]),)) for kind in KINDS},
        "join": Loop(results, 1 + len(KINDS), sends(SCORECARDS, CLOSED)),
        "committer": Loop(bare(SCORECARDS).name, 1, sends(RECEIPTS)),
    }


def plan(broker: Broker, path: Path) -> bytes:
    """Write the loops' plan from what the product has left on its topics; returns a request."""
    first = {}
    for topic in (REQUESTS, *JUDGE.values(), SCORECARDS, CLOSED, RECEIPTS):
        values = (message.value() for message in read_all(broker, topic) if message.key() != b"policy")
        first[topic] = max((value for value in values if value), key=len)
    results = [(json.loads(value), value) for message in read_all(broker, RESULTS) if (value := message.value())]
    announced = next(value for event, value in results if event["type"] == "announced")
    judged = {event["kind"]: value for event, value in results if event["type"] == "judged"}
    write_plan(path, broker.address, loops(first, announced, judged))
    return first[REQUESTS]


def joined(kafka: Kafka, group: str) -> bool:
    found = kafka.admin.describe_consumer_groups([group])[group].result()
    return any(member.assignment and member.assignment.topic_partitions for member in found.members)


def test_cost_of_the_protocol(kafka: Kafka, tmp_path: Path) -> None:
    broker = kafka.empty()
    create_topics(broker, [bare(topic) for topic in TOPICS])
    pipeline = Pipeline(tmp_path, broker=broker)
    plan_file = tmp_path / "plan.json"
    command = [sys.executable, "-m", "tests.bench.bare_loops", str(plan_file)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    children = {role: Child(f"bare-{role}", [*command, role], environment, tmp_path) for role in ROLES}
    try:
        pipeline.start()
        product = measure_product(pipeline)
        peaks = {role: peak_mb(child) for role, child in pipeline.roles.items()}
        pipeline.close()
        sample = plan(broker, plan_file)
        for child in children.values():
            child.start()
        groups = [f"bare-{bare(topic).name}" for topic in (REQUESTS, *JUDGE.values(), RESULTS, SCORECARDS)]
        until(lambda: all(joined(kafka, group) for group in groups), 60, "every loop has its partitions")
        loop = measure_bare(broker, children, sample)
    finally:
        pipeline.close()
        stop_all(children.values(), 2)
    print(f"\n{COUNT} evaluations on Kafka\n{'':22}{'product':>10}{'bare':>10}{'ratio':>8}{'peak MB':>9}")
    print(f"{'evaluations/s':22}{product.rate:10.1f}{loop.rate:10.1f}{product.rate / loop.rate:8.2f}")
    for role in ROLES:
        ours, theirs = product.cpu[role] * 1000, loop.cpu[role] * 1000
        print(f"{'ms CPU: ' + role:22}{ours:10.2f}{theirs:10.2f}{ours / theirs:8.1f}{peaks[role]:9.0f}")
    ours, theirs = sum(product.cpu.values()) * 1000, sum(loop.cpu.values()) * 1000
    print(f"{'ms CPU: all':22}{ours:10.2f}{theirs:10.2f}{ours / theirs:8.1f}{sum(peaks.values()):9.0f}")
