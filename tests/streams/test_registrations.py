from __future__ import annotations

from glassbox.cli.policy import register
from glassbox.cli.publish import Publisher
from streams.admin import create_topics
from streams.clients import Broker
from streams.registrations import LoggedRegistrations
from streams.topics import SCORECARDS
from tests.streams.events import POLICIES, POLICY

LATER = POLICIES["rag"]


async def test_what_is_registered_is_found_wherever_it_stands(broker: Broker) -> None:
    create_topics(broker, [SCORECARDS])
    logged = LoggedRegistrations(broker)
    assert await logged.find(POLICY.digest) is None

    with Publisher(broker) as publisher:
        for n in range(200):
            publisher.send(SCORECARDS, f"e{n}".encode(), b"a scorecard of somebody's")
        publisher.send(SCORECARDS, f"policy:{LATER.digest}".encode(), b"nothing that anybody could read")
    register(broker, [POLICY])
    found = await logged.find(POLICY.digest)
    assert found is not None
    assert found.policy == POLICY.document

    assert await logged.find(LATER.digest) is None
    register(broker, [LATER])
    found = await logged.find(LATER.digest)
    assert found is not None
    assert found.policy == LATER.document
