"""Habits of the repository that a test can hold."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.schedule import COMPUTES, WAITS

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


@pytest.fixture(scope="module")
def tracked(missing) -> list[Path]:
    """Every file under version control, and every new one that is not ignored."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode:
        missing("this is not a git checkout")
    return [path for name in listing.stdout.split("\0")[:-1] if (path := ROOT / name).is_file()]


def locked(lock: Path) -> dict[str, set[Version]]:
    pins = re.findall(r"^([a-z0-9.-]+)==([^\s;]+)", lock.read_text(), re.M)
    return {name: {Version(v) for n, v in pins if n == name} for name, _ in pins}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_lock_says_what_and_never_where_from(lock: Path) -> None:
    text = lock.read_text()
    pins = re.findall(r"^[^\s#].*", text, re.M)
    assert all("==" in pin for pin in pins), "a lock holds versions only: no index, no link, no path"
    assert not re.search(r"://|--(extra-)?index-url|--find-links| @ ", text)
    assert len(re.findall(r"^[^\s#].*(?:\n    --hash=sha256:[0-9a-f]{64}(?: \\)?)+", text, re.M)) == len(pins)


def test_users_run_the_versions_that_the_tests_ran() -> None:
    base, dev = (locked(ROOT / "requirements" / name) for name in ("base.txt", "dev.txt"))
    assert {name: versions for name, versions in base.items() if dev.get(name) != versions} == {}


@pytest.mark.parametrize("lock", ["base.txt", "dev.txt"])
def test_locks_fit_pyproject(lock: str) -> None:
    extras = PROJECT["project"]["optional-dependencies"].values() if lock == "dev.txt" else []
    wanted = [*PROJECT["project"]["dependencies"], *chain.from_iterable(extras)]
    pins = locked(ROOT / "requirements" / lock)
    for requirement in map(Requirement, wanted):
        assert pins.get(requirement.name), f"{requirement} is not in {lock}: run make lock"
        assert all(version in requirement.specifier for version in pins[requirement.name])


FABRIC = ROOT / "ledger" / "fabric"
ELSEWHERE = FABRIC / "hfc" / "worker.py"
"""Runs under another environment's Python (requirements/hfc.txt)."""


def test_every_import_is_declared(tracked: list[Path]) -> None:
    """What a module imports when it is loaded comes with the base, in the room that needs it with `fabric`; what it
    imports late may come with an extra."""
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    sources = [path for path in tracked if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in packages]
    trees = {path: ast.parse(path.read_text()) for path in sources if path != ELSEWHERE}
    base = declared(PROJECT["project"]["dependencies"])
    extras = PROJECT["project"]["optional-dependencies"]
    fabric, models = declared(extras["fabric"]), declared(extras["models"])
    shipped_by = packages_distributions()

    def strangers(path: Path, nodes: Iterable[ast.AST], known: set[str]) -> set[str]:
        foreign = imported(nodes) - sys.stdlib_module_names - set(packages)
        missing = {name for name in foreign if not known & set(map(canonicalize_name, shipped_by.get(name, ())))}
        return {f"{path.relative_to(ROOT)}: {name}" for name in missing}

    for path, tree in trees.items():
        at_once = base | fabric if FABRIC in path.parents else base
        assert strangers(path, tree.body, at_once) == set()
        assert strangers(path, ast.walk(tree), at_once | models) == set()


def declared(requirements: Iterable[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in requirements}


def imported(nodes: Iterable[ast.AST]) -> set[str]:
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return names


def test_base_has_no_torch() -> None:
    assert not {"torch", "transformers", "gliner"} & locked(ROOT / "requirements" / "base.txt").keys()


def test_no_file_names_a_path_of_one_machine(tracked: list[Path]) -> None:
    pattern = re.compile(rb"/(?:work|root|tmp/gb)/")
    assert [p for p in tracked if p != Path(__file__) and pattern.search(p.read_bytes())] == []


def test_every_folder_of_tests_is_a_package(tracked: list[Path]) -> None:
    folders = {path.parent for path in tracked if path.match("tests/**/test_*.py")} | {ROOT / "tests"}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_every_package_is_shipped(tracked: list[Path]) -> None:
    tops = {path.relative_to(ROOT).parts[0] for path in tracked if path.name == "__init__.py"} - {"tests"}
    assert tops == set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert tops == set(PROJECT["tool"]["mypy"]["files"]) == set(PROJECT["tool"]["importlinter"]["root_packages"])


def test_licence_is_the_one_declared() -> None:
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert "Apache License\n" in (ROOT / "LICENSE").read_text()


def test_verifier_runs_on_the_standard_library_and_cryptography() -> None:
    script = "import sys; before = set(sys.modules); import ledger.verify; print(*set(sys.modules) - before)"
    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    third_parties = {name.partition(".")[0] for name in run.stdout.split()} - sys.stdlib_module_names
    assert third_parties <= {"glassbox", "ledger", "cryptography", "_cffi_backend", "_openssl"}


def test_the_schedule_of_the_tests_names_what_is_there() -> None:
    assert [path for path in WAITS + COMPUTES if not (ROOT / path).exists()] == []
