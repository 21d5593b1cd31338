"""The command `glassbox`: every subcommand is a file of its own, and imports what it needs when it runs."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

from glassbox.cli import (
    agreement,
    callback_keys,
    catalogue,
    config,
    dead_letters,
    demo,
    erase,
    judge,
    keys,
    ledger,
    policy,
    proof,
    recompute,
    replay,
    show,
    submit,
    topics,
    up,
    watch,
)
from glassbox.cli.errors import UNABLE, explained, say, unheard

app = typer.Typer(
    name="glassbox",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"glassbox {version('glassbox')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """Judges answers that LLM systems give, and leaves proof."""


for _command in (
    *(up.up, demo.demo, judge.judge, submit.submit, watch.watch, show.show),
    *(proof.proof, proof.verify, recompute.recompute, erase.erase, agreement.agreement),
):
    app.command()(_command)
app.add_typer(topics.app, name="topics")
app.add_typer(dead_letters.app, name="dead-letters")
app.add_typer(config.app, name="config")
app.add_typer(policy.app, name="policy")
app.add_typer(ledger.app, name="ledger")
app.add_typer(replay.app, name="replay")
app.add_typer(keys.app, name="keys")
app.add_typer(callback_keys.app, name="callback-keys")
app.add_typer(catalogue.app, name="catalogue")


@app.command()
def worker(
    role: Annotated[
        str, typer.Argument(metavar="ROLE", help="intake, a judge kind, join, committer, catalogue, gateway.")
    ],
) -> None:
    """Run one role of the pipeline until it is asked to stop.

    Exit 2 if it cannot run with these settings, 3 if it is to be started again: no broker answered, or what was open
    could not be sent.

    Example: GLASSBOX_BROKER=kafka:9092 glassbox worker grounding
    """
    from glassbox.cli.worker import worker as run

    run(role)


def main() -> NoReturn:
    """Run the command. An error that was to be expected is one sentence on stderr, with exit code 2."""
    try:
        app()
    except BrokenPipeError:
        unheard(sys.stdout)
        sys.exit(1)
    except Exception as error:
        sentence = explained(error)
        if sentence is None:
            raise
        say(sentence)
        sys.exit(UNABLE)
    sys.exit()
