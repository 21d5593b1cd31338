"""The container files say what the product knows: its commands, its roles, its settings, its packages."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from glassbox.cli.main import app
from glassbox.settings import Settings, variable
from judges.lexical import CHAT_MODEL, EMBEDDING_MODEL
from streams.roles import ROLES

ROOT = Path(__file__).parent.parent
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()
OURS = {name: service for name, service in COMPOSE["services"].items() if service["image"] == "glassbox:base"}


def commands() -> list[tuple[str, list[str]]]:
    """The service and the arguments of each container that runs the command."""
    return [(name, service["command"]) for name, service in OURS.items() if "entrypoint" not in service]


@pytest.mark.parametrize(("service", "arguments"), commands())
def test_compose_runs_commands_that_exist(service: str, arguments: list[str]) -> None:
    found: Any = typer.main.get_command(app)
    for word in arguments:
        if not hasattr(found, "commands"):
            break  # the rest are the command's own arguments
        assert word in found.commands, f"{service}: there is no command `glassbox {' '.join(arguments)}`"
        found = found.commands[word]
    assert not hasattr(found, "commands"), f"{service}: `glassbox {' '.join(arguments)}` is only a group"


def test_compose_runs_every_role_once() -> None:
    started = [(name, arguments[1]) for name, arguments in commands() if arguments[0] == "worker"]
    assert sorted(started) == sorted((role, role) for role in ROLES)


def test_container_settings_are_known() -> None:
    named = set(re.findall(r"GLASSBOX_[A-Z_]+(?==)", DOCKERFILE)).union(*(s["environment"] for s in OURS.values()))
    assert named - {variable(field) for field in Settings.model_fields} == set()


def test_compose_asks_the_model_that_it_starts() -> None:
    environment, model = OURS["grounding"]["environment"], OURS["model"]
    assert environment["GLASSBOX_LLM_MODEL"] == CHAT_MODEL
    assert environment["GLASSBOX_EMBEDDING_MODEL"] == EMBEDDING_MODEL
    port = model["command"][model["command"].index("--port") + 1]
    assert environment["GLASSBOX_LLM_BASE_URL"] == f"http://model:{port}/v1"


def test_compose_builds_a_stage_of_the_dockerfile() -> None:
    stages = set(re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.M))
    assert {service["build"]["target"] for service in OURS.values()} <= stages
    assert re.search(r"^USER (?!root|0$)", DOCKERFILE, re.M), "the image must not run as root"


def test_image_gets_every_package() -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    let_through = re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text(), re.M)
    assert {*packages["packages"], "pyproject.toml", "LICENSE", "requirements"} == set(let_through)
