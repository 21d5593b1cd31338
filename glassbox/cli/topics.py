"""`glassbox topics`: make the pipeline's topics, see what the broker has, and who may do what there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from glassbox.cli.judge import JsonOption

if TYPE_CHECKING:
    from streams.clients import Broker
    from streams.topics import Topic

app = typer.Typer(no_args_is_help=True, help="The topics of the pipeline.")


@app.command()
def create(
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC=DAYS", help="Keep a topic longer than `describe` says; may be repeated."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Create the topics that are missing, with partitions, replicas, retention and limits as the pipeline needs them.
    A topic that is there stays as it is.

    Example: GLASSBOX_BROKER=kafka:9092 GLASSBOX_REPLICATION=3 glassbox topics create --keep glassbox.dead-letters=90
    """
    from streams.admin import create_topics, wait_for_broker
    from streams.topics import kept_longer

    broker, wanted = _wanted()
    try:
        wanted = kept_longer(
            wanted, {name: int(days) for name, _, days in (each.partition("=") for each in keep or ())}
        )
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--keep TOPIC=DAYS") from None
    wait_for_broker(broker, 10.0)
    created = create_topics(broker, wanted)
    if as_json:
        print(json.dumps({"created": created}))
    else:
        print("\n".join(f"created {name}" for name in created) or "every topic is there")


@app.command()
def describe(as_json: JsonOption = False) -> None:
    """Say what each topic is for, how long it keeps, and whether the broker has it as it must be; exit 1 if not.

    Example: glassbox topics describe --json
    """
    from glassbox.cli.errors import FINDING, say
    from streams.admin import Admin, differences
    from streams.topics import DAY_MS

    broker, wanted = _wanted()
    found = Admin(broker).find(wanted)
    differing = {topic.name: differences(topic, broker, found[topic.name]) for topic in wanted if topic.name in found}
    if as_json:
        rows = [
            {
                "name": topic.name,
                "purpose": topic.purpose,
                "there": topic.name in found,
                "partitions": broker.partitions,
                "replication": broker.replication,
                "settings": topic.config(broker.min_insync_replicas),
                "differences": {each.setting: each.found for each in differing.get(topic.name, [])},
            }
            for topic in wanted
        ]
        print(json.dumps(rows))
    else:
        for topic in wanted:
            there = found.get(topic.name)
            state = f"{there.partitions:>3} partitions × {there.replication}" if there else "MISSING"
            keeps = "for ever" if topic.retention_ms is None else f"{topic.retention_ms // DAY_MS} days"
            print(f"{topic.name:<32} {state:<20} kept {keeps:<9} {topic.purpose}")
    missing = [topic.name for topic in wanted if topic.name not in found]
    if missing:
        say(f"missing: {', '.join(missing)}; run `glassbox topics create`")
    for each in (each for topic in differing.values() for each in topic):
        say(str(each))
    if missing or any(differing.values()):
        raise typer.Exit(FINDING)


@app.command()
def acls(as_json: JsonOption = False) -> None:
    """List what each role must be allowed on a broker with ACLs: user, resource, its name, operations.

    `client` is who submits and watches, `operator` who makes topics and registers policies. A user that is not named
    here needs nothing, and no user needs more.

    Example: glassbox topics acls
    """
    from dataclasses import asdict

    from glassbox.cli.wiring import own_kinds
    from glassbox.settings import Settings
    from streams import access

    lines = list(access.acls(own_kinds(Settings.load().policies().values())))
    if as_json:
        print(json.dumps([asdict(line) for line in lines]))
    else:
        for line in lines:
            print(f"{line.user:<12} {line.resource:<6} {line.name:<32} {' '.join(line.operations)}")


def _wanted() -> tuple[Broker, tuple[Topic, ...]]:
    """The broker, and every topic that the configured policies need of it."""
    from glassbox.cli.wiring import own_kinds
    from glassbox.settings import Settings
    from streams.topics import topics

    settings = Settings.load()
    return settings.broker(), topics(own_kinds(settings.policies().values()))
