"""The roles of the pipeline: one process each, scaled on their own."""

from __future__ import annotations

from collections.abc import Iterable

from glassbox.contract.verdict import KINDS


def roles(own_kinds: Iterable[str] = ()) -> tuple[str, ...]:
    """What `glassbox worker ROLE` takes. The worker kinds are roles of their own, those of one's own too."""
    return ("intake", *KINDS, *own_kinds, "join", "committer")


ROLES = roles()
"""The roles of the product."""

DOORS = ("catalogue", "gateway")
"""Beside the pipeline: what readers see of it, and the way in over HTTP. No request waits for them."""
