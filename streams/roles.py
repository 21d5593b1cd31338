"""The roles of the pipeline: one process each, scaled on their own."""

from __future__ import annotations

from glassbox.contract.verdict import KINDS

ROLES: tuple[str, ...] = ("intake", *KINDS, "join", "committer")
"""What `glassbox worker ROLE` takes. The worker kinds are roles of their own."""
