"""`glassbox keys`: who may come through the gateway."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from glassbox.cli.judge import JsonOption

if TYPE_CHECKING:
    from glassbox.gateway.callbacks.keys import CallbackKey
    from glassbox.gateway.keys import ApiKey, KeyFile

app = typer.Typer(no_args_is_help=True, help="API keys of the gateway.")

_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
LifetimeOption = Annotated[
    str | None, typer.Option("--expires", metavar="AGE", help="Ends after 90d, 12h, 30m; never, if left out.")
]


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the key is for; for people.")],
    tenant: Annotated[str | None, typer.Option(help="Whose evaluations it submits and sees.")] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(help="submit, read, review (by default all three) or admin: every tenant. Repeatable."),
    ] = None,
    expires: LifetimeOption = None,
    rate: Annotated[float | None, typer.Option(min=0.001, help="Requests a second, twice as many at once.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a key and show it, this once: only its SHA-256 is kept.

    Example: glassbox keys create billing-bot --tenant acme --scope submit --expires 90d --rate 50
    """
    check_text(name, "NAME")
    check_tenant(tenant)
    if rate is not None and not math.isfinite(rate):
        raise typer.BadParameter("requests a second are a number; left out, any rate", param_hint="--rate")
    key, text = _file().create(name, tenant, tuple(scope or ("submit", "read", "review")), _expires(expires), rate)
    _show(key, text, as_json)


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """The keys, without their secrets.

    Example: glassbox keys list
    """
    keys = _file().read()
    if as_json:
        print(json.dumps([_public(key) for key in keys]))
        return
    now = datetime.now(UTC)
    for key in keys:
        state = lasting(key) if key.valid(now) else f"EXPIRED {key.expires_at}"
        rate = f"{key.rate:g}/s" if key.rate else "any rate"
        print(
            f"{key.id}  {key.name:<24} {key.tenant or '(any tenant)':<20} {','.join(key.scopes):<12} {rate:<9} {state}"
        )


@app.command()
def rotate(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key to be replaced.")],
    grace: Annotated[str, typer.Option(metavar="AGE", help="How long the old one still opens.")] = "1d",
    expires: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="The new one ends after 90d, 12h, 30m; left out, it lives as the old one."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a key like another one, which itself ends after a while.

    The new key lives as long as the old one had from its creation to its end, or as --expires says.

    Example: glassbox keys rotate 3f2a91b0c4d5 --grace 2h
    """
    left = lifetime(grace)
    assert left is not None
    key, text = _file().rotate(key_id, left, _expires(expires))
    _show(key, text, as_json)


@app.command()
def revoke(key_id: Annotated[str, typer.Argument(metavar="ID", help="As `glassbox keys list` shows it.")]) -> None:
    """End a key now.

    Example: glassbox keys revoke 3f2a91b0c4d5
    """
    key = _file().revoke(key_id)
    print(f"{key.id} ({key.name}) opens nothing any more")


def _file() -> KeyFile:
    from glassbox.gateway.keys import KeyFile
    from glassbox.settings import Settings

    return KeyFile(Settings.load().api_keys_path)


def lifetime(text: str | None) -> timedelta | None:
    """An age such as 90d, 12h or 30m."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,6})([mhd])", text)
    if not found:
        raise typer.BadParameter(f"{text!r} is no age such as 30m, 12h or 90d")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _expires(text: str | None) -> timedelta | None:
    found = lifetime(text)
    if found == timedelta(0):
        raise typer.BadParameter(
            f"{text} would be a key that opens nothing; say 30m, 12h or 90d", param_hint="--expires"
        )
    return found


def lasting(key: ApiKey | CallbackKey) -> str:
    """How long a key is good, for people."""
    return f"until {key.expires_at}" if key.expires_at else "for ever"


def check_tenant(tenant: str | None) -> None:
    """Raises `typer.BadParameter` for what no request can name as its tenant."""
    if tenant is not None:
        check_text(tenant, "--tenant")
        if not 0 < len(tenant) <= 256:
            raise typer.BadParameter("a tenant has 1 to 256 characters", param_hint="--tenant")


def check_text(text: str, option: str) -> None:
    """Raises `typer.BadParameter` for text that has no canonical form."""
    from glassbox.contract.canonical import CanonicalError, canonical

    try:
        canonical(text)
    except CanonicalError as error:
        raise typer.BadParameter(error.reason, param_hint=option) from None


def _show(key: ApiKey, text: str, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**_public(key), "key": text}))
        return
    whose = f"tenant {key.tenant}" if key.tenant is not None else "any tenant"
    print(f"{text}\n  id {key.id}, {whose}, {', '.join(key.scopes)}, {lasting(key)}; it is shown this once")


def _public(key: ApiKey) -> dict[str, object]:
    return {name: value for name, value in asdict(key).items() if name != "hash"}
