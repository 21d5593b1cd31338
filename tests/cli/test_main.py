"""The command as a whole: help with examples, errors without tracebacks, exit codes, and a quick start."""

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from typer.main import get_command

from glassbox.cli.main import app, main

ROOT = get_command(app)


def commands(group=ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GLASSBOX_")}
    command = [sys.executable, "-m", "glassbox.cli", *arguments]
    return subprocess.run(command, cwd=cwd, env=clean | environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("path", "command"), commands(), ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_every_command_has_help_with_an_example_of_itself(path: tuple[str, ...], command: object) -> None:
    assert "Example: " in (command.help or "")
    assert re.search(rf"\bglassbox {' '.join(path)}\b", command.help), "the example is of another command"


def test_help_is_quick(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert run("--help", cwd=tmp_path).returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime < 1.0, (
        "something heavy is imported before it is needed (about .4 s without)"
    )


def test_heavy_libraries_are_not_imported_for_the_command_itself(tmp_path: Path) -> None:
    heavy = {"pydantic", "confluent_kafka", "faust", "rich.table", "deepeval", "ragas", "aiohttp", "cryptography"}
    code = f"import sys, glassbox.cli.main; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "environment", "says"),
    [
        (("config", "check"), {"GLASSBOX_BROKR": "x"}, "did you mean 'GLASSBOX_BROKER'?"),
        (("config", "show"), {"GLASSBOX_CONFIG": "gone.toml"}, "gone.toml cannot be read"),
        (("submit", "a.jsonl"), {}, "no broker is known: run `glassbox up` in /"),
        (("submit", "a.jsonl"), {"GLASSBOX_DATA_DIR": "/x/d2"}, "run `glassbox up` with GLASSBOX_DATA_DIR=/x/d2, or"),
        (("dead-letters", "list", "--reason", "nope"), {"GLASSBOX_BROKER": "127.0.0.1:1"}, "reasons: contract, too_"),
        (
            ("dead-letters", "discard", "--reason", "nope"),
            {"GLASSBOX_BROKER": "127.0.0.1:1"},
            "reasons: contract, too_",
        ),
        (("judge", "refused.txt"), {}, "no line of refused.txt could be judged"),
        (("watch",), {"GLASSBOX_BROKER": "127.0.0.1:1"}, "no broker answers at 127.0.0.1:1"),
        (("judge", "gone.jsonl"), {}, "gone.jsonl: No such file or directory"),
        (("show", "e-1"), {}, "ledger"),
        (("proof", "e-1", "-o", "x"), {}, "ledger"),
        (("verify", "gone.json"), {}, "gone.json: No such file"),
        (("verify", "a.jsonl", "--key", "nonsense"), {}, "NAME+HASH+BASE64"),
        (("agreement", "a.jsonl"), {}, "has a label"),
        (("policy", "register", "strct"), {}, "no policy 'strct'"),
        (("worker", "grunding"), {}, "grounding"),
    ],
)
def test_expected_errors_are_a_sentence_and_exit_2(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    says: str,
) -> None:
    (tmp_path / "a.jsonl").write_text('{"query": "q", "answer": "a", "retrieved_passages": []}\n')
    (tmp_path / "refused.txt").write_text("root:x:0:0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["glassbox", *arguments])
    for key in [key for key in os.environ if key.startswith("GLASSBOX_")]:
        monkeypatch.delenv(key)
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_an_expected_error_has_no_traceback(tmp_path: Path) -> None:
    done = run("up", cwd=tmp_path, GLASSBOX_POLICY="none-such")
    assert done.returncode == 2
    assert done.stderr == "glassbox: GLASSBOX_POLICY: no policy 'none-such'\n"


def test_read_only_folder_is_a_sentence(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        target = "/proc/glassbox"  # root may write everywhere but there
    else:
        tmp_path.chmod(0o500)
        target = str(tmp_path / "data")
    done = run("up", cwd=Path("/"), GLASSBOX_DATA_DIR=target)
    assert done.returncode == 2
    assert "set GLASSBOX_DATA_DIR to another folder" in done.stderr
    assert "Traceback" not in done.stderr


def test_config_show_says_where_from_and_masks_secrets(tmp_path: Path) -> None:
    (tmp_path / "glassbox.toml").write_text("[policy.strict]\nthreshold = 0.95\n")
    environment = {
        "GLASSBOX_LLM_BASE_URL": "http://127.0.0.1:1/v1",
        "GLASSBOX_LLM_MODEL": "m",
        "GLASSBOX_EMBEDDING_MODEL": "e",
        "GLASSBOX_LLM_API_KEY": "sesame",
    }
    done = run("config", "show", "--json", cwd=tmp_path, **environment)
    shown = json.loads(done.stdout)
    assert "sesame" not in done.stdout
    assert shown["settings"]["GLASSBOX_LLM_MODEL"] == {"value": "m", "from": "environment"}
    assert shown["policies"]["strict"]["threshold"] == "0.950000"
    assert "sesame" not in run("config", "show", cwd=tmp_path, **environment).stdout


def test_version() -> None:
    assert CliRunner().invoke(ROOT, ["--version"]).output.startswith("glassbox ")
