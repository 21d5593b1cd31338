"""`glassbox topics`: make the pipeline's topics, and see what the broker has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from glassbox.cli.judge import JsonOption

if TYPE_CHECKING:
    from streams.clients import Broker
    from streams.topics import Topic

app = typer.Typer(no_args_is_help=True, help="The topics of the pipeline.")


@app.command()
def create(as_json: JsonOption = False) -> None:
    """Create the topics that are missing, with partitions, retention and size limits as the pipeline needs them.

    Example: GLASSBOX_BROKER=kafka:9092 GLASSBOX_REPLICATION=3 glassbox topics create
    """
    from streams.clients import create_topics, wait_for_broker

    broker, wanted = _wanted()
    wait_for_broker(broker, 10.0)
    created = create_topics(broker, wanted)
    if as_json:
        print(json.dumps({"created": created}))
    else:
        print("\n".join(f"created {name}" for name in created) or "every topic is there")


@app.command()
def describe(as_json: JsonOption = False) -> None:
    """Say what each topic is for, how long it keeps, and whether the broker has it as it must be.

    Example: glassbox topics describe --json
    """
    from streams.clients import check_topics
    from streams.topics import DAY_MS

    broker, wanted = _wanted()
    partitions = check_topics(broker, wanted)
    if as_json:
        rows = [
            {
                "name": topic.name,
                "purpose": topic.purpose,
                "partitions": partitions[topic.name],
                "retention_ms": topic.retention_ms,
                "max_message_bytes": topic.max_message_bytes,
            }
            for topic in wanted
        ]
        print(json.dumps(rows))
        return
    for topic in wanted:
        keeps = "for ever" if topic.retention_ms is None else f"{topic.retention_ms // DAY_MS} days"
        print(f"{topic.name:<32} {partitions[topic.name]:>3} partitions  kept {keeps:<9} {topic.purpose}")


def _wanted() -> tuple[Broker, tuple[Topic, ...]]:
    """The broker, and every topic that the configured policies need of it."""
    from glassbox.cli.wiring import own_kinds
    from glassbox.settings import Settings
    from streams.topics import topics

    settings = Settings.load()
    return settings.broker(), topics(own_kinds(settings.policies().values()))
