"""`glassbox replay`: run a system once, keep what it answered, evaluate and compare it ever after."""

from __future__ import annotations

import typer

from glassbox.cli import replay_compare, replay_evaluate, replay_gate, replay_report, replay_run, replay_submit

app = typer.Typer(
    no_args_is_help=True, help="Run a system once over a suite; evaluate, compare and gate what was kept, without it."
)
for _command in (
    *(replay_run.run, replay_evaluate.evaluate, replay_compare.compare),
    *(replay_gate.gate, replay_report.report, replay_submit.submit),
):
    app.command()(_command)
