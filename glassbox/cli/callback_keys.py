"""`glassbox callback-keys`: by what callbacks are signed."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from glassbox.cli.judge import JsonOption
from glassbox.cli.keys import check_tenant, lasting, lifetime

if TYPE_CHECKING:
    from glassbox.gateway.callbacks.keys import CallbackKey, CallbackKeyFile

app = typer.Typer(no_args_is_help=True, help="Secrets by which callbacks are signed, of each tenant its own.")


@app.command()
def create(
    tenant: Annotated[str | None, typer.Option(help="Whose callbacks; left out: of requests without a tenant.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a tenant's secret and show it: its receivers check signatures by it.

    Example: glassbox callback-keys create --tenant acme
    """
    check_tenant(tenant)
    _show(_file().create(tenant), as_json)


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """The keys, without their secrets.

    Example: glassbox callback-keys list
    """
    keys = _file().read()
    if as_json:
        print(json.dumps([_public(key) for key in keys]))
        return
    now = datetime.now(UTC)
    for key in keys:
        state = lasting(key) if key.valid(now) else f"EXPIRED {key.expires_at}"
        print(f"{key.id}  {key.tenant or '(no tenant)':<20} since {key.created_at}  {state}")


@app.command()
def rotate(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key to be replaced.")],
    grace: Annotated[str, typer.Option(metavar="AGE", help="How long the old one still signs, beside the new.")] = "1d",
    as_json: JsonOption = False,
) -> None:
    """Make another secret for a tenant; the old one signs too for a while, so that receivers can change over.

    Example: glassbox callback-keys rotate 3f2a91b0c4d5 --grace 2h
    """
    left = lifetime(grace)
    assert left is not None
    _show(_file().rotate(key_id, left), as_json)


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As `glassbox callback-keys list` shows it.")],
) -> None:
    """End a key now.

    Example: glassbox callback-keys revoke 3f2a91b0c4d5
    """
    key = _file().revoke(key_id)
    print(f"{key.id} signs nothing any more")


def _file() -> CallbackKeyFile:
    from glassbox.gateway.callbacks.keys import CallbackKeyFile
    from glassbox.settings import Settings

    return CallbackKeyFile(Settings.load().callback_keys_path)


def _show(key: CallbackKey, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**_public(key), "secret": key.secret}))
        return
    whose = f"tenant {key.tenant}" if key.tenant is not None else "requests without a tenant"
    print(f"{key.secret}\n  id {key.id}, {whose}; for the receiver, who checks signatures by it")


def _public(key: CallbackKey) -> dict[str, object]:
    return {name: value for name, value in asdict(key).items() if name != "secret"}
