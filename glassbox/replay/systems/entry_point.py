"""A system that is Python: `module:callable`, or what an installed package registers under `glassbox.systems`.

It runs in a child process (`child`), because code that hangs can only be ended with its process.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

from glassbox.contract.policy import nearest
from glassbox.replay.store import SystemReference
from glassbox.replay.systems.command import CommandSystem

GROUP = "glassbox.systems"
UNVERSIONED = "unversioned"


def registered() -> dict[str, tuple[str, str]]:
    """Name -> (`module:callable`, version of its distribution) of the systems that installed packages register."""
    return {
        each.name: (each.value, each.dist.version if each.dist else UNVERSIONED) for each in entry_points(group=GROUP)
    }


def entry_point_system(target: str, version: str | None = None) -> CommandSystem:
    """A system by its registered name or as `module:callable`: see `child` for what it may be. `version`: what the
    manifest calls it, by default that of the package. Raises LookupError for a name that nobody registered."""
    known = registered()
    found, package_version = known.get(target, (target, UNVERSIONED))
    if ":" not in found:
        raise LookupError(f"no installed package registers a system {target!r}{nearest(target, known)}")
    reference = SystemReference(name=target, version=version or package_version, parameters={"entry_point": found})
    return CommandSystem([sys.executable, "-m", "glassbox.replay.systems.child", found], reference, greets=True)
