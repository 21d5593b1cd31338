"""`glassbox dead-letters`: what the pipeline refused, and why."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from glassbox.cli.judge import JsonOption

if TYPE_CHECKING:
    from glassbox.cli.answers import DeadLetter

app = typer.Typer(no_args_is_help=True, help="Messages that could not be processed, with the reason.")

_QUIET_S = 1.0
"""Without a message for so long the end of the topic is reached."""


@app.command(name="list")
def list_command(
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """List dead letters: where each stands, why it is one, and where the original message stands.

    Example: glassbox dead-letters list --limit 20
    """
    from glassbox.cli.submit import describe

    letters = sorted(_read(), key=lambda letter: letter.headers.get("first_seen", ""))[-limit:]
    for letter in letters:
        if as_json:
            print(json.dumps({"id": _name(letter), **letter.headers}, ensure_ascii=False))
        else:
            headers = letter.headers
            source = f"{headers.get('source_topic')} {headers.get('source_partition')}/{headers.get('source_offset')}"
            print(f"{_name(letter):<8} {headers.get('first_seen', ''):<24} {source:<28} {describe(headers)}")
    if not letters and not as_json:
        print("no dead letters")


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="PARTITION/OFFSET", help="As `list` prints it.")],
    as_json: JsonOption = False,
) -> None:
    """Show one dead letter: its headers, and on stdout after them the original message, byte for byte.

    Example: glassbox dead-letters show 2/17
    """
    from glassbox.cli.errors import CommandError
    from glassbox.cli.reasons import printable

    letter = next((letter for letter in _read() if _name(letter) == name), None)
    if letter is None:
        raise CommandError(f"no dead letter {name!r}; `glassbox dead-letters list` prints their names")
    if as_json:
        value = None if letter.value is None else letter.value.decode(errors="replace")
        print(json.dumps({"id": name, "headers": letter.headers, "value": value}, ensure_ascii=False))
        return
    for header, text in letter.headers.items():
        print(f"{header:<17} {printable(text)}")
    sys.stdout.flush()
    sys.stdout.buffer.write(b"\n" + (letter.value or b"(the content was left out)") + b"\n")


def _read() -> list[DeadLetter]:
    from glassbox.cli.answers import DeadLetter, Feed
    from glassbox.settings import Settings

    feed = Feed(Settings.load().broker(), from_end=False)
    letters: list[DeadLetter] = []
    try:
        last = time.monotonic()
        while time.monotonic() - last < _QUIET_S:
            for event in feed.read(0.2):
                last = time.monotonic()
                if isinstance(event, DeadLetter):
                    letters.append(event)
    finally:
        feed.close()
    return letters


def _name(letter: DeadLetter) -> str:
    return f"{letter.partition}/{letter.offset}"
