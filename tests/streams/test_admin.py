from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from streams.access import access, acls
from streams.admin import Admin, Found, check_topics, create_topics, differences
from streams.clients import Broker, BrokerError
from streams.roles import ROLES
from streams.topics import BULK_REQUESTS, CLOSED, RECEIPTS, REQUESTS, RESULTS, TOPICS, judge_topic, topics
from tests.kafka import Kafka
from tests.pipeline import until

pytestmark = pytest.mark.timeout(180)

THREE = Broker("kafka:9092", partitions=12, replication=3)


def as_wanted(**changes: Any) -> Found:
    return replace(Found(12, 3, RESULTS.config(2)), **changes)


def test_as_it_must_be() -> None:
    assert differences(RESULTS, THREE, as_wanted()) == []


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("cleanup.policy", "compact"),
        ("max.message.bytes", "1048588"),
        ("message.timestamp.type", "CreateTime"),
        ("min.insync.replicas", "1"),
        ("retention.ms", "3600000"),
    ],
)
def test_each_setting_is_compared(setting: str, value: str) -> None:
    (found,) = differences(RESULTS, THREE, as_wanted(config={**RESULTS.config(2), setting: value}))
    assert (found.topic, found.setting, found.found) == ("glassbox.results", setting, value)
    assert value in str(found)


def test_partitions_and_replicas_are_compared() -> None:
    assert [each.setting for each in differences(RESULTS, THREE, as_wanted(partitions=13))] == ["partitions"]
    assert [each.setting for each in differences(RESULTS, THREE, as_wanted(replication=1))] == ["replication"]


def test_more_copies_and_a_longer_retention_serve() -> None:
    more = {**RESULTS.config(2), "retention.ms": "-1", "min.insync.replicas": "3"}
    assert differences(RESULTS, THREE, as_wanted(replication=5, config=more)) == []
    (kept,) = differences(RECEIPTS, THREE, as_wanted(config={**RECEIPTS.config(2), "retention.ms": "604800000"}))
    assert (kept.setting, kept.wanted) == ("retention.ms", "-1 or more")


def test_production_refuses_the_embedded_broker() -> None:
    with pytest.raises(BrokerError, match="GLASSBOX_PRODUCTION is set, but the embedded broker"):
        check_topics(Broker("127.0.0.1:1", embedded=True), production=True)


def test_production_refuses_what_differs_and_names_it(kafka: Kafka) -> None:
    broker = kafka.empty()
    create_topics(broker)
    assert check_topics(broker, production=True) == []
    alter(kafka, REQUESTS.name, "retention.ms", "60000")
    alter(kafka, CLOSED.name, "cleanup.policy", "delete")
    assert {(each.topic, each.setting) for each in check_topics(broker)} == {
        (REQUESTS.name, "retention.ms"),
        (CLOSED.name, "cleanup.policy"),
    }
    with pytest.raises(BrokerError, match=r"requests: retention\.ms is 60000, must be 604800000 or more; .*changelog"):
        check_topics(broker, production=True)


def test_a_changelog_with_another_number_of_partitions_is_refused(kafka: Kafka) -> None:
    broker = kafka.empty()
    create_topics(replace(broker, partitions=3), [CLOSED])
    for act in (create_topics, check_topics):
        with pytest.raises(BrokerError, match="glassbox-join-closed-changelog has 3 partitions, GLASSBOX_PARTITIONS"):
            act(broker)


def alter(kafka: Kafka, topic: str, setting: str, value: str) -> None:
    """Change one setting of a topic behind the pipeline's back."""
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in kafka.admin.incremental_alter_configs([resource]).values():
        future.result()
    wanted = [each for each in TOPICS if each.name == topic]
    until(lambda: Admin(kafka.broker).find(wanted)[topic].config[setting] == value, 10, "setting changed")


def test_every_topic_has_its_writers_and_its_readers() -> None:
    table = access(["citations"])
    roles = [table[role] for role in (*ROLES, "citations")]
    people = [table["client"], table["operator"]]
    for topic in topics(["citations"]):
        assert any(topic in needs.writes for needs in (*roles, *people)), topic
        assert any(topic in needs.reads for needs in (*roles, *people)), topic
    assert table["citations"].works_on == (judge_topic("citations"), judge_topic("citations", bulk=True))


def test_nobody_but_intake_and_the_catalogue_reads_requests() -> None:
    asked = (REQUESTS.name, BULK_REQUESTS.name)
    readers = {acl.user for acl in acls() if acl.name in asked and "READ" in acl.operations}
    assert readers == {"intake", "catalogue"}
