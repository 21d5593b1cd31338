"""`glassbox policy`: put the configured policies on the ledger, by way of the committer."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from glassbox.contract.policy import Policy
    from streams.clients import Broker

app = typer.Typer(no_args_is_help=True, help="Policies on the ledger.")


def register(broker: Broker, policies: Iterable[Policy]) -> None:
    """Publish a registration of each policy and wait until the broker has them. The committer registers a policy
    once, however often it is published. Raises `BrokerError`. (On Fabric an administrator registered it before.)"""
    from glassbox.cli.publish import Publisher
    from glassbox.contract.events import PolicyRegistration, reference_record
    from streams.topics import SCORECARDS

    now = time.time_ns() // 1_000_000
    with Publisher(broker) as publisher:
        for policy in policies:
            record = reference_record("policy", policy.digest, now)
            entry = PolicyRegistration(policy=policy.document, record=record)
            publisher.send(SCORECARDS, record["evaluation_id"].encode(), entry.model_dump_json().encode())


@app.command(name="register")
def register_command(
    names: Annotated[list[str] | None, typer.Argument(help="Policies to register; all by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Register policies of glassbox.toml, so that records may cite them.

    Needed after a policy was changed while the pipeline runs; `glassbox up` does it at every start. On Fabric it is
    an administrator's act, for which no broker is needed: GLASSBOX_FABRIC_ADMIN_IDENTITY names one.

    Example: glassbox policy register strict
    """
    from glassbox.cli.errors import CommandError, say
    from glassbox.cli.ledgers import register_on_fabric
    from glassbox.contract.policy import nearest
    from glassbox.settings import Settings
    from streams.clients import BrokerError

    settings = Settings.load()
    policies = settings.policies()
    for name in names or ():
        if name not in policies:
            raise CommandError(f"no policy {name!r} is configured{nearest(name, policies)}")
    wanted = [policies[name] for name in names or policies]
    if "fabric" in settings.ledgers:
        asyncio.run(register_on_fabric(settings, wanted))
    if "merkle" in settings.ledgers:
        register(settings.broker(), wanted)
    elif settings.broker_address is not None or settings.up is not None:
        try:
            register(settings.broker(), wanted)  # for whoever reads the topics; they stand on Fabric already
        except BrokerError as error:
            say(f"on Fabric they are registered; the pipeline's topics were not told: {error}")
    if as_json:
        print(json.dumps({policy.name: policy.digest for policy in wanted}))
    else:
        for policy in wanted:
            print(f"{policy.name:<12} {policy.digest}")
