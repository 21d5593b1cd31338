"""`glassbox replay run`: ask a system every question of a suite once, and keep what it answered."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassbox.cli.errors import CommandError
from glassbox.cli.judge import JsonOption

if TYPE_CHECKING:
    from glassbox.replay.runner import Limits
    from glassbox.replay.store import Run, RunStore
    from glassbox.replay.suite import Suite
    from glassbox.replay.systems.port import SystemUnderTest

INTERRUPTED = 130


@dataclass(frozen=True)
class Wanted:
    """Which system, as the options say."""

    system: str | None
    command: str | None
    label: str | None
    base_url: str | None
    model: str | None
    temperature: float
    max_tokens: int


def run(
    out: Annotated[Path, typer.Option(metavar="DIR", help="The run's folder; made.")],
    system: Annotated[
        str | None,
        typer.Option(
            metavar="SYSTEM",
            help="v1, v2, v3 or v4 (the deterministic system), endpoint, a URL, MODULE:CALLABLE or a registered name.",
        ),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(help="In place of --system: a command that reads questions and writes answers, as JSON lines."),
    ] = None,
    suite: Annotated[str, typer.Option(metavar="NAME|PATH", help="A shipped suite, a folder, JSON lines or CSV.")] = (
        "tidewell"
    ),
    corpus: Annotated[Path | None, typer.Option(help="The suite's documents, where the suite is a file.")] = None,
    mapping: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="COLUMN=FIELD", help="CSV: which column is which field of a case."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a stopped run: only what is missing.")] = False,
    repeats: Annotated[int, typer.Option(min=1, max=100, help="Ask each question so often, to measure noise.")] = 1,
    label: Annotated[str | None, typer.Option(help="The version of a system of your own, for the manifest.")] = None,
    base_url: Annotated[str | None, typer.Option(help="endpoint: default GLASSBOX_SUT_BASE_URL.")] = None,
    model: Annotated[str | None, typer.Option(help="endpoint: default GLASSBOX_SUT_MODEL.")] = None,
    temperature: Annotated[float, typer.Option(min=0, max=2, help="endpoint.")] = 0.0,
    max_tokens: Annotated[int, typer.Option(min=1, help="endpoint: longest answer.")] = 1024,
    timeout: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds for one answer; default 30, and 150 for endpoint.")
    ] = None,
    retries: Annotated[int, typer.Option(min=0, max=20, help="After HTTP 429 or 5xx; once after a timeout.")] = 2,
    concurrency: Annotated[int, typer.Option(min=1, max=256, help="Questions at a time.")] = 1,
    pause: Annotated[float, typer.Option(min=0, help="Seconds between the beginnings of two calls.")] = 0.0,
    as_json: JsonOption = False,
) -> None:
    """Run a system once over a suite. Every question ends in a trace: an answer, or an error with its type.

    The key of an endpoint or URL is taken from GLASSBOX_SUT_API_KEY and is kept nowhere. The same command with --resume
    goes on with a run that was stopped. Exit code 1: not one question was answered.

    A command may print {"ready": true} once it has loaded: its first answer is timed from there. Without it the first
    answer may take 300 s longer, and its duration holds the loading.

    Example: glassbox replay run --system v2 --out runs/v2

    Example: glassbox replay run --system endpoint --base-url http://localhost:8000/v1 --model qwen3 --out runs/qwen3

    Example: glassbox replay run --command "python rag.py" --suite mine.csv --corpus docs.jsonl --out runs/mine
    """
    from glassbox.cli.errors import FINDING, say
    from glassbox.replay.runner import LLM_TIMEOUT_S, TIMEOUT_S, Limits
    from glassbox.replay.suite import load_suite

    found = load_suite(suite, corpus, _columns(mapping or []))
    limits = Limits(
        timeout_s=timeout or (LLM_TIMEOUT_S if system == "endpoint" else TIMEOUT_S),
        retries=retries,
        concurrency=concurrency,
        pause_s=pause,
    )
    wanted = Wanted(system, command, label, base_url, model, temperature, max_tokens)
    make = _maker(wanted, found, limits.timeout_s)
    made = _finished(out, found, make, repeats) if resume else None
    if made:
        say(f"nothing is missing: the run in {out} is finished")
    try:
        made = made or asyncio.run(_run(make, found, limits, out, resume, repeats))
    except KeyboardInterrupt:
        say(f"stopped; what was answered is kept in {out}: go on with the same command and --resume")
        sys.exit(INTERRUPTED)
    errors: Counter[str] = Counter(trace.error.type for trace in made.traces() if trace.error)
    _print(made, errors, as_json)
    assert made.manifest.counts is not None
    if errors.total() == made.manifest.counts.traces:
        sys.exit(FINDING)


async def _run(
    make: Callable[[], SystemUnderTest], suite: Suite, limits: Limits, out: Path, resume: bool, repeats: int
) -> Run:
    from glassbox.cli.progress import Progress
    from glassbox.replay.runner import ExperimentRunner, utc_now
    from glassbox.replay.trace import Trace

    first = make()
    waiting = [first]
    try:
        await _up(first, limits.start_s)
        with _store(first, suite, out, resume, repeats) as store:
            done = len(store.done)
            with Progress("answered", len(suite.cases) * store.manifest.repeats) as progress:
                progress.update(done)

                def kept(_: Trace) -> None:
                    progress.update(len(store.done))

                runner = ExperimentRunner(lambda: waiting.pop() if waiting else make(), limits)
                await runner.run(suite, store, kept)
            return store.finish(utc_now())
    finally:
        for system in waiting:
            await system.close()


async def _up(system: SystemUnderTest, limit_s: float) -> None:
    """So that a system that cannot run at all is said at once, and not once a case."""
    from glassbox.replay.systems.port import InvocationFailed

    try:
        async with asyncio.timeout(limit_s):
            await system.start()
    except InvocationFailed as failed:
        raise CommandError(f"the system does not start: {failed.message}") from None
    except TimeoutError:
        raise CommandError(f"the system is not up after {limit_s:g} s") from None


def _store(system: SystemUnderTest, suite: Suite, out: Path, resume: bool, repeats: int) -> RunStore:
    from glassbox.replay.runner import SecretError, describe, utc_now
    from glassbox.replay.store import RunStore

    if resume:
        return RunStore.resume(out, suite, system.reference, utc_now(), repeats=repeats)
    try:
        return RunStore.create(out, describe(suite, system.reference, system.secrets, repeats=repeats))
    except SecretError as error:
        raise CommandError(str(error)) from None


def _finished(out: Path, suite: Suite, make: Callable[[], SystemUnderTest], repeats: int) -> Run | None:
    """The run where nothing of it is missing. Raises `StoreError` where it is another than is asked for."""
    from glassbox.replay.store import Run, StoreError, check_same

    try:
        made = Run.open(out, suite)
        check_same(out, made.manifest, suite, make().reference, repeats)
        return made
    except StoreError as error:
        if error.field == "finished_at":
            return None
        raise


def _columns(mapping: list[str]) -> dict[str, str]:
    """Case field -> CSV column."""
    columns = {}
    for item in mapping:
        column, equals, field = item.rpartition("=")
        if not (column and equals and field):
            raise CommandError(f"--map {item}: must be COLUMN=FIELD, such as --map Frage=question")
        columns[field] = column
    return columns


def _maker(wanted: Wanted, suite: Suite, timeout_s: float) -> Callable[[], SystemUnderTest]:
    """What makes the system that is wanted. Raises `CommandError`."""
    from glassbox.contract.policy import nearest
    from glassbox.replay.systems.entry_point import entry_point_system
    from glassbox.replay.systems.extractive import VARIANTS, ExtractiveSystem

    make: Callable[[], SystemUnderTest]
    if (wanted.system is None) == (wanted.command is None):
        raise CommandError("name the system: either --system or --command")
    system = wanted.system or ""
    try:
        if wanted.command is not None:
            make = _command(wanted.command, wanted.label)
        elif system in VARIANTS:
            shipped = ExtractiveSystem(suite, system)
            return lambda: shipped
        elif system == "endpoint":
            make = _endpoint(wanted, suite, timeout_s)
        elif system.lower().startswith(("http://", "https://")):
            make = _http(system, wanted.label, timeout_s)
        else:
            make = partial(entry_point_system, system, wanted.label)
        make()  # which touches nothing yet, but says what is wrong
    except LookupError as error:
        hint = nearest(system, [*VARIANTS, "endpoint"])
        raise CommandError(f"--system {system}: no shipped system, URL or MODULE:CALLABLE, and {error}{hint}") from None
    except ValueError as error:
        raise CommandError(str(error)) from None
    return make


def _command(command: str, label: str | None) -> Callable[[], SystemUnderTest]:
    from glassbox.replay.store import SystemReference
    from glassbox.replay.systems.command import CommandSystem
    from glassbox.replay.systems.entry_point import UNVERSIONED
    from glassbox.replay.systems.port import shows_key

    words = shlex.split(command)
    if not words:
        raise CommandError("--command is empty")
    if shows_key(words):
        raise CommandError(
            "--command: an argument looks like a key, and the command is kept in the manifest: "
            "give the key in an environment variable, which the command inherits"
        )
    reference = SystemReference(name="command", version=label or UNVERSIONED, parameters={"command": words})
    return lambda: CommandSystem(words, reference)


def _endpoint(wanted: Wanted, suite: Suite, timeout_s: float) -> Callable[[], SystemUnderTest]:
    from glassbox.replay.systems.endpoint import EndpointSystem
    from glassbox.settings import Settings
    from judges.llm import Endpoint

    settings = Settings.load()
    url, model = wanted.base_url or settings.sut_base_url, wanted.model or settings.sut_model
    if not url or not model:
        missing = "--base-url or GLASSBOX_SUT_BASE_URL" if not url else "--model or GLASSBOX_SUT_MODEL"
        raise CommandError(f"which endpoint? Set {missing}")
    endpoint = Endpoint(
        base_url=url,
        model=model,
        embedding_model="",
        api_key=settings.sut_api_key.get_secret_value() if settings.sut_api_key else "",
        call_limit_s=timeout_s,
        temperature=wanted.temperature,
        max_tokens=wanted.max_tokens,
    )
    return lambda: EndpointSystem(suite, endpoint)


def _http(url: str, label: str | None, timeout_s: float) -> Callable[[], SystemUnderTest]:
    from glassbox.replay.systems.entry_point import UNVERSIONED
    from glassbox.replay.systems.http import HttpSystem
    from glassbox.settings import Settings

    key = Settings.load().sut_api_key
    secret = key.get_secret_value() if key else ""
    return lambda: HttpSystem(url, label or UNVERSIONED, api_key=secret, timeout_s=timeout_s)


def _print(run: Run, errors: Counter[str], as_json: bool) -> None:
    manifest = run.manifest
    if as_json:
        document = manifest.model_dump(mode="json") | {"digest": manifest.digest(), "error_types": dict(errors)}
        print(json.dumps(document, ensure_ascii=False))
        return
    assert manifest.counts is not None
    answered = manifest.counts.traces - errors.total()
    told = ", ".join([f"{answered} answered", *(f"{count} {type_}" for type_, count in errors.most_common())])
    print(f"{manifest.counts.traces} questions: {told}")
    print(f"run {manifest.run_id} of {manifest.system.name} {manifest.system.version} in {run.folder}")
    print(f"digest {manifest.digest()}")
