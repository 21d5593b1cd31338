"""Secured Kafka: every client proves who it is, and every role may do what its line of the access table says."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from glassbox.cli.policy import register
from glassbox.contract.policy import SHIPPED, load_policies
from streams.access import access, acls
from streams.admin import Admin, check_topics, create_topics
from streams.clients import Broker, BrokerError, common, read_all
from streams.security import Security
from streams.topics import RECEIPTS, TOPICS
from tests.kafka import PLAIN_USER, Kafka
from tests.pipeline import Pipeline, request, until

pytestmark = pytest.mark.timeout(180)

USERS = list(access())
WAYS = ("SCRAM-SHA-512", "mTLS", "SCRAM-SHA-256")


def test_no_password_is_shown() -> None:
    security = Security("SASL_SSL", username="u", password="sesame", key_password="sesame")
    assert "sesame" not in repr(security)
    assert "sesame" not in repr(Broker("k:9092", security=security))


def test_plaintext_says_nothing_of_users() -> None:
    assert Security(username="u", password="p", ca=Path("ca.pem")).librdkafka() == {"security.protocol": "PLAINTEXT"}
    assert Security().ssl_context() is None


@pytest.fixture
def secured(kafka: Kafka) -> dict[str, Broker]:
    """The broker with its topics and every user's ACLs, as each user sees it; each way to prove who one is, is used."""
    create_topics(kafka.empty())
    kafka.allow(acls())
    ways = {user: "PLAIN" if user == PLAIN_USER else WAYS[n % len(WAYS)] for n, user in enumerate(USERS)}
    return {user: kafka.secured_as(user, how) for user, how in ways.items()}  # type: ignore[arg-type]


def test_who_is_not_trusted_is_told_why(kafka: Kafka) -> None:
    known, certified = kafka.secured_as("client", "SCRAM-SHA-512"), kafka.secured_as("client", "mTLS")
    for broker, changes, says in (
        (known, {"password": "wrong"}, "do not trust each other .*invalid credentials"),
        (known, {"ca": None}, "do not trust each other .*ssl.ca.location"),
        (certified, {"certificate": None, "key": None}, "bad certificate"),
        (kafka.broker, {"protocol": "SSL"}, "SSL connection closed by peer"),
    ):
        refused = replace(broker, security=replace(broker.security, **changes))  # type: ignore[arg-type]
        until(lambda refused=refused, says=says: bool(re.search(says, refusal(refused))), 60, says)  # type: ignore[misc]


def refusal(broker: Broker) -> str:
    """What is told after 3 seconds, in which a busy machine may not come to a handshake."""
    with pytest.raises(BrokerError) as told:
        Admin(broker).topics(3)
    return str(told.value)


def test_who_may_not_see_a_topic_is_told_where_to_look(kafka: Kafka, secured: dict[str, Broker]) -> None:
    stranger = kafka.secured_as("stranger", "SCRAM-SHA-512")
    with pytest.raises(BrokerError, match="`glassbox topics acls` lists what each needs"):
        check_topics(stranger)
    assert check_topics(secured["operator"]) == []


def test_users_read_and_write_what_the_table_says_and_nothing_else(kafka: Kafka, secured: dict[str, Broker]) -> None:
    fill = Producer(common(kafka.broker))
    for topic in TOPICS:
        fill.produce(topic.name, b"{}", b"key", partition=0)
    assert fill.flush(10) == 0
    groups = {(acl.user, acl.name) for acl in acls() if acl.resource == "group"}
    for user, needs in access().items():
        assert written(secured[user]) == {topic.name for topic in needs.writes}, user
        assert seen(secured[user]) == {topic.name for topic in needs.topics}, user
        assert read(secured[user], needs.group) == {topic.name for topic in needs.reads}, user
        theirs = {name for owner, name in groups if owner == user}
        assert described(secured[user], {name for _, name in groups}) == theirs, user


def written(broker: Broker) -> set[str]:
    """The topics that take a message from this user; every other one says that it is forbidden."""
    outcome: dict[str, Any] = {}
    producer = Producer(common(broker))
    for topic in TOPICS:
        producer.produce(
            topic.name,
            b"{}",
            b"key",
            partition=0,
            on_delivery=lambda error, message: outcome.update({message.topic(): error}),
        )
    assert producer.flush(20) == 0
    assert {error.code() for error in outcome.values() if error} <= {KafkaError.TOPIC_AUTHORIZATION_FAILED}
    return {topic for topic, error in outcome.items() if error is None}


def seen(broker: Broker) -> set[str]:
    return set(Admin(broker).topics())


def read(broker: Broker, group: str) -> set[str]:
    """The topics of which this user gets a message; every other one that it may see says that it is forbidden."""
    consumer = Consumer({**common(broker), "group.id": group, "enable.auto.commit": False})
    outcome: dict[str, bool] = {}
    visible = seen(broker)
    try:
        consumer.assign([TopicPartition(topic, 0, 0) for topic in visible])
        end = time.monotonic() + 30
        while len(outcome) < len(visible) and time.monotonic() < end:
            for message in consumer.consume(100, 0.2):
                if message.error() is None:
                    outcome[message.topic()] = True
                elif message.error().code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    outcome[message.topic()] = False
        assert outcome.keys() == visible
    finally:
        consumer.close()
    return {topic for topic, may in outcome.items() if may}


def described(broker: Broker, groups: set[str]) -> set[str]:
    """The consumer groups that this user may look at, as its members must."""
    admin, allowed = Admin(broker), set()
    for group, future in admin.client.describe_consumer_groups(sorted(groups), request_timeout=20).items():
        try:
            future.result()
            allowed.add(group)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                allowed.add(group)  # it may look, and has nothing to see yet
            elif error.args[0].code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
                raise
    return allowed


@pytest.fixture
def pipeline(kafka: Kafka, secured: dict[str, Broker], tmp_path: Path) -> Iterator[Pipeline]:
    """Every role as its own user, with what the table gives it."""
    made = Pipeline(tmp_path, broker=kafka.broker, of_role=lambda role: environment(secured[role]))
    try:
        made.start()
        yield made
    finally:
        made.close()


def environment(broker: Broker) -> dict[str, str]:
    security = broker.security
    values = {
        "GLASSBOX_BROKER": broker.address,
        "GLASSBOX_BROKER_SECURITY": security.protocol,
        "GLASSBOX_BROKER_SASL_MECHANISM": security.mechanism if security.sasl else None,
        "GLASSBOX_BROKER_SASL_USERNAME": security.username,
        "GLASSBOX_BROKER_SASL_PASSWORD": security.password,
        "GLASSBOX_BROKER_TLS_CA": security.ca,
        "GLASSBOX_BROKER_TLS_CERT": security.certificate,
        "GLASSBOX_BROKER_TLS_KEY": security.key,
        "GLASSBOX_PRODUCTION": "true",
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def test_the_pipeline_runs_with_exactly_these_acls(pipeline: Pipeline, secured: dict[str, Broker]) -> None:
    register(secured["operator"], load_policies("").values())
    pipeline.broker = secured["client"]
    with pipeline.watching() as watch:
        sent = [request(f"e{n}") for n in range(20)]
        pipeline.publish([*sent, sent[0], request("bad", query=" ")])
        settled = watch(lambda s: set(s.receipts) == {r["evaluation_id"] for r in sent} and bool(s.dead), 60)
    assert len(settled.receipts) == 20
    assert [letter["reason"] for letter in settled.dead.values()] == ["contract"]
    assert {record["outcome"] for record in settled.records.values()} == {"pass"}
    standing = list(read_all(secured["client"], RECEIPTS))
    assert len(standing) >= 20 + len(SHIPPED)
