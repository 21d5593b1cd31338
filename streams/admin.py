"""The broker's topics against the topic table: made, found, compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from streams.clients import Broker, BrokerError, common, explained, of_trust, unless_hidden
from streams.topics import TOPICS, Topic


@dataclass(frozen=True)
class Found:
    """A topic as the broker has it. `config` is empty for the embedded broker, which only echoes what it was told."""

    partitions: int
    replication: int
    config: Mapping[str, str]


@dataclass(frozen=True)
class Difference:
    """Where a topic is not as it must be. `setting`: Kafka's name, or partitions or replication."""

    topic: str
    setting: str
    found: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.topic}: {self.setting} is {self.found}, must be {self.wanted}"


_AT_LEAST = ("retention.ms", "min.insync.replicas", "replication")
"""More of these loses nothing; every other setting must be as the table has it."""


def differences(topic: Topic, broker: Broker, found: Found) -> list[Difference]:
    """What the broker has otherwise than the table and the settings say; pure."""
    wanted = {"replication": str(broker.replication), **topic.config(broker.min_insync_replicas)}
    there = {"replication": str(found.replication), **found.config}
    differing = [
        Difference(topic.name, setting, there[setting], f"{value} or more" if setting in _AT_LEAST else value)
        for setting, value in wanted.items()
        if setting in there and not _serves(setting, there[setting], value)
    ]
    if found.partitions != broker.partitions:
        differing.insert(0, Difference(topic.name, "partitions", str(found.partitions), str(broker.partitions)))
    return differing


def _serves(setting: str, found: str, wanted: str) -> bool:
    if setting not in _AT_LEAST or "-1" in (found, wanted):  # -1 as a retention: for ever
        return found in (wanted, "-1")
    return int(found) >= int(wanted)


_SEEN_S = 10.0


class Admin:
    """An admin client that can say why a connection failed: librdkafka tells only a callback."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._heard: list[KafkaError] = []
        settings: dict[str, Any] = {**common(broker), "error_cb": self._heard.append}
        self.client = AdminClient(settings)

    def topics(self, timeout_s: float = 10) -> Mapping[str, Any]:
        """Name -> metadata of the topics that this user may see. Raises `BrokerError`."""
        try:
            return self.client.list_topics(timeout=timeout_s).topics
        except KafkaException as error:
            self.client.poll(0)
            told = [heard for heard in self._heard if heard.code() != KafkaError._ALL_BROKERS_DOWN]
            told.sort(key=of_trust)  # that says more than the broken connections which come of it
            raise explained(KafkaException(told[-1]) if told else error, self.broker) from None

    def find(self, wanted: Sequence[Topic]) -> dict[str, Found]:
        """Name -> what the broker has, for those of the topics that are there. Raises `BrokerError`."""
        there = {name: each for name, each in self.topics().items() if name in {topic.name for topic in wanted}}
        config: dict[str, dict[str, str]] = {name: {} for name in there}
        if there and not self.broker.embedded:
            asked = [ConfigResource(ResourceType.TOPIC, name) for name in there]
            try:
                for resource, future in self.client.describe_configs(asked, request_timeout=10).items():
                    config[resource.name] = {name: entry.value for name, entry in future.result().items()}
            except KafkaException as error:
                raise explained(error, self.broker) from None
        return {
            name: Found(
                len(each.partitions), min(len(part.replicas) for part in each.partitions.values()), config[name]
            )
            for name, each in there.items()
        }


def wait_for_broker(broker: Broker, timeout_s: float, still_wanted: Callable[[], bool] = lambda: True) -> None:
    """Block until the broker answers. Raises `BrokerError` after `timeout_s` seconds."""
    admin = Admin(broker)
    end = time.monotonic() + timeout_s
    while True:
        try:
            admin.topics(min(1.0, timeout_s))
            return
        except BrokerError:
            if time.monotonic() > end or not still_wanted():
                raise


def create_topics(broker: Broker, wanted: Sequence[Topic] = TOPICS) -> list[str]:
    """Create what is missing and return the names created. Raises `BrokerError` where an existing topic has another
    number of partitions than configured, or the broker refuses."""
    admin = Admin(broker)
    found = admin.find(wanted)
    _refuse_partitions(broker, found)
    missing = [topic for topic in wanted if topic.name not in found]
    if not missing:
        return []
    orders = [
        NewTopic(topic.name, broker.partitions, broker.replication, config=topic.config(broker.min_insync_replicas))
        for topic in missing
    ]
    for name, future in admin.client.create_topics(orders, operation_timeout=30).items():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # two roles may start at once
                raise BrokerError(f"topic {name} could not be created: {error.args[0].str()}") from None
    names = [topic.name for topic in missing]
    end = time.monotonic() + _SEEN_S
    while not admin.topics().keys() >= set(names) and time.monotonic() < end:
        time.sleep(0.05)  # the controller has them before every broker tells of them
    return names


def check_topics(broker: Broker, wanted: Sequence[Topic] = TOPICS, *, production: bool = False) -> list[Difference]:
    """What differs between these topics and the table; nothing of it stops the pipeline.

    Raises `BrokerError` for missing topics and for another number of partitions than configured: with it, events of
    one evaluation would be in two places. In `production` any difference raises, and so does the embedded broker.
    """
    if production and broker.embedded:
        raise BrokerError(
            "GLASSBOX_PRODUCTION is set, but the embedded broker loses its topics when it stops: set GLASSBOX_BROKER "
            "to a Kafka cluster"
        )
    found = Admin(broker).find(wanted)
    _refuse_partitions(broker, found)
    missing = [topic.name for topic in wanted if topic.name not in found]
    if missing:
        names = f"topic {missing[0]} is" if len(missing) == 1 else f"topics {', '.join(missing)} are"
        raise BrokerError(f"{names} missing; run `glassbox topics create`{unless_hidden(broker)}")
    differing = [each for topic in wanted for each in differences(topic, broker, found[topic.name])]
    if production and differing:
        raise BrokerError(
            f"GLASSBOX_PRODUCTION is set, and topics are not as they must be: {'; '.join(map(str, differing))}. "
            "Set them right with kafka-configs or kafka-reassign-partitions; `glassbox topics describe` checks again"
        )
    return differing


def _refuse_partitions(broker: Broker, found: Mapping[str, Found]) -> None:
    for name, topic in found.items():
        if topic.partitions != broker.partitions:
            raise BrokerError(
                f"topic {name} has {topic.partitions} partitions, GLASSBOX_PARTITIONS says {broker.partitions}; "
                "set it right, or make new topics: an id must keep its partition"
            )
