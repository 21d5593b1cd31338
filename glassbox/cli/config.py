"""`glassbox config`: whether the settings can be used, and what they are."""

from __future__ import annotations

import json

import typer

from glassbox.cli.judge import JsonOption

app = typer.Typer(no_args_is_help=True, help="Settings and policies.")


@app.command()
def check() -> None:
    """Check environment, glassbox.toml and the judges and agreement cards that its policies name; exit 2 with what is
    wrong.

    Example: glassbox config check
    """
    from glassbox.cli.wiring import own_judges
    from glassbox.settings import Settings

    settings = Settings.load()
    policies, cards = settings.policies(), settings.cards()
    own = own_judges(policies.values()).values()
    settings.spending()
    named = f", {len(cards)} agreement card{'s' if len(cards) > 1 else ''}" if cards else ""
    print(f"fine: {len(policies)} policies ({', '.join(policies)}){named}")
    for judge in own:
        print(f"judge of your own: {judge.kind} ({judge.package}: {', '.join(judge.parts)})")


@app.command()
def show(as_json: JsonOption = False) -> None:
    """Print the effective settings with where each came from, secrets masked, and the policies.

    Example: glassbox config show --json
    """
    from glassbox.settings import Settings

    settings = Settings.load()
    policies, spending = settings.policies(), settings.spending()
    if as_json:
        rows = {name: {"value": value, "from": source} for name, value, source in settings.described()}
        documents = {p.name: p.document for p in policies.values()}
        print(json.dumps({"settings": rows, "policies": documents, **spending.model_dump(mode="json")}))
        return
    for name, value, source in settings.described():
        print(f"{name:<32} {value or '–':<44} {source}")
    print()
    for policy in policies.values():
        mark = "*" if policy.name == settings.policy else " "
        print(f"policy {mark} {policy.name:<12} threshold {policy.threshold}  {policy.digest}")
    for rule in spending.sampling:
        print(f"judged   {rule.rate:<14} of tenant {rule.tenant or '(any)'}, model {rule.model or '(any)'}")
    if spending.budget is not None:
        print(f"budget   {spending.budget.tokens_per_day:,} tokens a day")
