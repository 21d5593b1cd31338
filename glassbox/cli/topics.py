"""`glassbox topics`: make the pipeline's topics, and see what the broker has."""

from __future__ import annotations

import json

import typer

from glassbox.cli.judge import JsonOption

app = typer.Typer(no_args_is_help=True, help="The topics of the pipeline.")


@app.command()
def create(as_json: JsonOption = False) -> None:
    """Create the topics that are missing, with partitions, retention and size limits as the pipeline needs them.

    Example: GLASSBOX_BROKER=kafka:9092 GLASSBOX_REPLICATION=3 glassbox topics create
    """
    from glassbox.settings import Settings
    from streams.clients import create_topics, wait_for_broker

    broker = Settings.load().broker()
    wait_for_broker(broker, 10.0)
    created = create_topics(broker)
    if as_json:
        print(json.dumps({"created": created}))
    else:
        print("\n".join(f"created {name}" for name in created) or "every topic is there")


@app.command()
def describe(as_json: JsonOption = False) -> None:
    """Say what each topic is for, how long it keeps, and whether the broker has it as it must be.

    Example: glassbox topics describe --json
    """
    from glassbox.settings import Settings
    from streams.clients import check_topics
    from streams.topics import DAY_MS, TOPICS

    partitions = check_topics(Settings.load().broker())
    if as_json:
        rows = [
            {
                "name": topic.name,
                "purpose": topic.purpose,
                "partitions": partitions[topic.name],
                "retention_ms": topic.retention_ms,
                "max_message_bytes": topic.max_message_bytes,
            }
            for topic in TOPICS
        ]
        print(json.dumps(rows))
        return
    for topic in TOPICS:
        keeps = "for ever" if topic.retention_ms is None else f"{topic.retention_ms // DAY_MS} days"
        print(f"{topic.name:<32} {partitions[topic.name]:>3} partitions  kept {keeps:<9} {topic.purpose}")
