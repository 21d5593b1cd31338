"""Judges from outside this repository: the packages that docs/judges.md shows, and small ones that a test makes up."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "judges.md").read_text()
MODULES = {re.findall(r'kind = "(\w+)"', text)[0]: text for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)}
"""Kind -> the module that the page shows."""
PROJECT, POLICY = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
"""The package's pyproject.toml, and the policy that uses it."""


def build(folder: Path) -> Path:
    """The page's package, built and installed by pip into a folder of its own as a user would have it."""
    source = folder / "source"
    source.mkdir()
    (value,) = tomllib.loads(PROJECT)["project"]["entry-points"]["glassbox.judges"].values()
    (source / f"{value.partition(':')[0]}.py").write_text(MODULES["citations"])
    (source / "pyproject.toml").write_text(PROJECT)
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder / "installed"), str(source)]
    subprocess.run(command, check=True, timeout=100)
    return folder / "installed"


def distribution(folder: Path, name: str, entry_points: dict[str, str], **modules: str) -> Path:
    """An installed distribution as importlib.metadata finds it: metadata, entry points and modules."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{key} = {value}" for key, value in entry_points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[glassbox.judges]", *lines, ""]))
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(dedent(text))
    return folder
