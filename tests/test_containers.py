"""The container files say what the product knows, and what they run works as they run it: the same commands with the
same settings, as an ordinary user, on a root file system that is read only."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer.main
import yaml

from glassbox.cli.children import Child, free_ports, stop_all
from glassbox.cli.main import app
from glassbox.settings import Settings, variable
from judges.lexical import CHAT_MODEL, EMBEDDING_MODEL
from streams.roles import DOORS, ROLES
from tests.kafka import Kafka
from tests.pipeline import Pipeline, request, until

ROOT = Path(__file__).parent.parent
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()
OURS = {name: it for name, it in COMPOSE["services"].items() if it["image"].startswith("glassbox:")}
PLAIN = {name: it for name, it in OURS.items() if "profiles" not in it}


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
    started = [(name, arguments[1]) for name, arguments in commands() if arguments[0] == "worker" and name in PLAIN]
    assert sorted(started) == sorted((role, role) for role in (*ROLES, "catalogue"))
    assert OURS["gateway"]["command"] == ["worker", "gateway"]  # in a profile: it does not start before it has a key
    assert set(DOORS) == {"catalogue", "gateway"}


def test_a_gpu_worker_stands_in_for_the_one_without() -> None:
    for name, service in OURS.items():
        if service.get("profiles") != ["gpu"]:
            continue
        _, role = service["command"]
        assert service["networks"]["default"]["aliases"] == [role], f"{name}: Prometheus looks for {role}"
        models = service["environment"].keys() - PLAIN[role]["environment"].keys()
        assert models, f"{name} judges as {role} does"
        assert models <= {f"GLASSBOX_{kind}_MODEL" for kind in ("SENTENCE", "ENTITY", "RELATION")}


def test_container_settings_are_known() -> None:
    named = set(re.findall(r"GLASSBOX_[A-Z_]+(?==)", DOCKERFILE)).union(*(s["environment"] for s in OURS.values()))
    assert named - {variable(field) for field in Settings.model_fields} == set()


def test_compose_asks_the_model_that_it_starts() -> None:
    environment, model = OURS["grounding"]["environment"], OURS["model"]
    assert environment["GLASSBOX_LLM_MODEL"] == CHAT_MODEL
    assert environment["GLASSBOX_EMBEDDING_MODEL"] == EMBEDDING_MODEL
    port = model["command"][model["command"].index("--port") + 1]
    assert environment["GLASSBOX_LLM_BASE_URL"] == f"http://model:{port}/v1"


def test_compose_builds_stages_of_the_dockerfile() -> None:
    bases = {stage: base for base, stage in re.findall(r"^FROM (\S+) AS (\S+)$", DOCKERFILE, re.M)}
    for name, service in OURS.items():
        target = service["build"]["target"]
        assert service["image"] == f"glassbox:{target}", name
        assert bases[target] == "runtime", name
    runtime = DOCKERFILE[DOCKERFILE.index(" AS runtime") :]
    assert re.search(r"^USER (?!root|0$)", runtime, re.M), "the image must not run as root"


def test_our_containers_can_write_to_their_volumes_alone() -> None:
    for name, service in OURS.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["tmpfs"] == ["/tmp"], name  # noqa: S108


def test_every_image_has_a_version_and_every_mounted_file_is_there() -> None:
    for name, service in COMPOSE["services"].items():
        assert re.search(r":[a-z0-9][\w.-]*$", service["image"]), f"{name}: which version of {service['image']}?"
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (ROOT / source).exists(), f"{name}: {source}"


def test_image_gets_every_package() -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    let_through = re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text(), re.M)
    assert {*packages["packages"], "pyproject.toml", "LICENSE", "requirements"} == set(let_through)


def test_images_have_the_versions_that_the_tests_ran() -> None:
    def pins(name: str) -> set[str]:
        return set(re.findall(r"^\S+==\S+", (ROOT / "requirements" / name).read_text(), re.M))

    assert pins("base.txt") < pins("cpu.txt") < pins("gpu.txt") < pins("dev.txt")


# Every mount read only but one folder, which stands at /mnt; then an ordinary user, who may still read everything.
CONTAINER = """
mount --make-rprivate /
mount --bind "$DATA" /mnt
awk '{print $2}' /proc/self/mounts | grep -v '^/mnt$' | while read -r at; do
    mount -o remount,bind,ro "$at" 2>/dev/null || true
done
cd /
exec setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs \
    --inh-caps -all,+dac_read_search --ambient-caps -all,+dac_read_search --bounding-set -all,+dac_read_search "$@"
"""


class Containers:
    """What docker-compose.yml starts, as processes of this machine."""

    def __init__(self, folder: Path, broker: str) -> None:
        self._folder, self._broker = folder, broker
        self.data = folder / "data"
        (self.data / "tmp").mkdir(parents=True)
        for each in (self.data, self.data / "tmp"):
            os.chown(each, 10001, 10001)
        self.ports = dict(zip(PLAIN, free_ports(len(PLAIN)), strict=True))
        self.running: dict[str, Child] = {}

    def start(self, name: str) -> Child:
        service = PLAIN[name]
        module, arguments = ["-m", "glassbox.cli"], [str(each) for each in service["command"]]
        if "entrypoint" in service:
            _, *module = service["entrypoint"]
            arguments[arguments.index("--port") + 1] = str(self.ports[name])
        there = {"kafka:9092": self._broker, "model:8000": f"127.0.0.1:{self.ports['model']}", "0.0.0.0": "127.0.0.1"}  # noqa: S104
        environment = {key: _replaced(str(value), there) for key, value in service["environment"].items()}
        environment.pop("GLASSBOX_CATALOGUE_URL", None)  # in SQLite: tests/catalogue has PostgreSQL
        environment |= {"GLASSBOX_METRICS_PORT": str(self.ports[name]), "GLASSBOX_DATA_DIR": "/mnt"}
        environment |= {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        environment |= {"DATA": str(self.data), "TMPDIR": "/mnt/tmp", "HOME": "/nonexistent"}
        shell = ["unshare", "--mount", "sh", "-euc", CONTAINER, "container"]
        child = Child(name, [*shell, sys.executable, *module, *arguments], environment, self._folder)
        self.running[name] = child
        child.start()
        return child

    def up(self) -> None:
        """In the order that `depends_on` asks for."""
        left = dict(PLAIN)
        while left:
            name = next(name for name, it in left.items() if not (it.get("depends_on", {}).keys() & left.keys()))
            child = self.start(name)
            if any(name in it.get("depends_on", {}) for it in left.values()):
                self._wait(name, child)
            del left[name]
        for name, child in self.running.items():
            self._wait(name, child)

    def _wait(self, name: str, child: Child) -> None:
        """Healthy by the container's own test, or ended well."""
        test = PLAIN[name].get("healthcheck", {}).get("test")

        def settled() -> bool:
            assert child.exit_code in (None, 0), f"{name}: {child.log.read_text()[-2000:]}"
            if test is None or child.exit_code == 0:
                return child.exit_code == 0
            return os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", self._local(name, test[-1])]) == 0

        until(settled, 150, f"{name} is healthy: {child.last_line() if child.log.exists() else ''}")

    def _local(self, name: str, code: str) -> str:
        quiet = "import sys; sys.stderr = open('/dev/null', 'w'); "
        return quiet + re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{self.ports[name]}", code)


def _replaced(text: str, there: dict[str, str]) -> str:
    for name, address in there.items():
        text = text.replace(name, address)
    return text


@contextmanager
def containers(folder: Path, broker: str) -> Iterator[Containers]:
    made = Containers(folder, broker)
    try:
        yield made
    finally:
        stop_all(made.running.values(), 15)


@pytest.mark.timeout(400)
def test_what_compose_runs_judges_a_request(tmp_path: Path, kafka: Kafka, missing: Callable[[str], NoReturn]) -> None:
    for tool in ("unshare", "setpriv"):
        if shutil.which(tool) is None or os.geteuid() != 0:
            missing(f"{tool}, run by root, makes the containers' file system: install util-linux and be root")
    broker = kafka.empty()
    with containers(tmp_path, broker.address) as compose:
        compose.up()
        producer = Pipeline(tmp_path, broker=broker)
        with producer.watching() as read:
            producer.publish([request("one")])
            settled = read(lambda seen: "one" in seen.receipts, 60)
        assert {part["state"] for part in settled.records["one"]["parts"]} <= {"scored", "not_applicable"}
        assert not settled.dead
        roles = [child for name, child in compose.running.items() if name in (*ROLES, *DOORS)]
        assert PLAIN["intake"]["stop_grace_period"] == "1m"
        stop_all(roles, 60)
        assert {child.name: child.exit_code for child in roles} == dict.fromkeys((*ROLES, "catalogue"), 0)
    owners = {path.stat().st_uid for path in compose.data.rglob("*") if path.name != "tmp"}
    assert owners == {10001}
