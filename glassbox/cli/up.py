"""`glassbox up`: the whole pipeline on this machine, until it is told to stop."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from glassbox.cli.supervisor import Supervisor


def up(
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes of each judge kind.")] = 1,
) -> None:
    """Run the whole pipeline on this machine: broker, offline model, every role, catalogue and gateway, each a process
    of its own.

    The broker is the embedded one, whose topics live in memory, unless GLASSBOX_BROKER names another; the model is
    the offline stand-in unless GLASSBOX_LLM_BASE_URL names an endpoint. Ctrl-C stops everything.

    Example: glassbox up --workers 2
    """
    from glassbox.cli.children import Stop
    from glassbox.cli.errors import say
    from glassbox.cli.supervisor import supervised
    from glassbox.settings import Settings

    began = time.monotonic()
    stop = Stop()
    with supervised(Settings.load(), stop, say, workers=workers, doors=True) as supervisor:
        supervisor.start_log()
        _describe(supervisor)
        supervisor.start_roles()
        while not stop and (waiting := supervisor.waiting_for()):
            supervisor.watch()
            time.sleep(0.2)
            if sys.stderr.isatty():
                print(f"\r\x1b[Kwaiting for {', '.join(waiting)}", end="", file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        if not stop:
            print(_NEXT.format(seconds=time.monotonic() - began), flush=True)
        while not stop:
            supervisor.watch()
            time.sleep(0.2)
        say("stopping")


_NEXT = """ready in {seconds:.1f} s; Ctrl-C stops it. From another terminal, in this folder:
  glassbox submit FILE --wait    judge the answers in a JSONL or CSV file
  glassbox watch                 scorecards as they come
  glassbox show ID               one scorecard, its claims and its arithmetic
  glassbox proof ID -o FILE      its proof, for `glassbox verify FILE --key KEY`"""


def _describe(supervisor: Supervisor) -> None:
    from glassbox.cli.gateway import gatekeeper_of
    from glassbox.cli.ledgers import fabric_place

    settings, broker = supervisor.settings, supervisor.broker
    assert broker is not None
    memory = "  (embedded: its topics live in memory and go when this stops)" if broker.embedded else ""
    stand_in = "" if settings.llm_base_url else "  (offline stand-in: it compares words and cannot tell meaning)"
    print(f"broker   {broker.address}{memory}")
    print(f"model    {supervisor.llm}{stand_in}")
    if "merkle" in settings.ledgers:
        print(f"ledger   {settings.ledger_path}")
        print(f"key      {settings.signing_key().verifier}")
    if "fabric" in settings.ledgers:
        print(f"ledger   {fabric_place(settings)}")
    who = "anybody on this machine" if gatekeeper_of(settings).is_open else "who has a key or token"
    print(f"explorer {supervisor.gateway}/  (in a browser, for {who})")
    print(f"gateway  {supervisor.gateway}/v1/evaluations  (HTTP)")
    print(f"data     {settings.data_dir}")
    print("metrics  " + "\n         ".join(f"{url}/metrics  {name}" for name, url in supervisor.metrics.items()))
    policy = settings.policies()[settings.policy]
    foreign = [part for part in policy.parts().values() if part.target is not None and part.target_family == "llm"]
    if settings.llm_base_url is None and foreign:
        print(
            f"note     policy {policy.name!r} has targets for a real model; GLASSBOX_POLICY=offline has the stand-in's",
        )
    sys.stdout.flush()
