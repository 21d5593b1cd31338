"""Run one plan and say what it broke."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation.group import Group
from tests.simulation.invariants import Invariants
from tests.simulation.plan import Plan
from tests.simulation.roles import TOPICS, make_consumer
from tests.simulation.shortcuts import remembered
from tests.simulation.world import END_S, World


@dataclass(frozen=True)
class Outcome:
    """What a schedule showed. `broken`: code of an invariant -> how often. `steps`: of processes."""

    broken: Counter[str]
    faults: Counter[str]
    counts: Counter[str]
    steps: int


def run(plan: Plan, trace: Callable[[str], None] | None = None) -> Outcome:
    """Play a plan to its end, the invariants checked at every append, commit and write, and once more at the end."""
    with remembered():
        world = World(plan, trace)
        invariants = Invariants(world)
        for role, topics in TOPICS.items():
            if role == "structure" and not plan.has("policy"):
                continue  # only the other policy asks for it
            world.groups[role] = Group(world, role, topics, plan.sizes[role], make_consumer, invariants.committed)
        for group in world.groups.values():
            group.begin()
        world.begin()
        try:
            ended = world.loop.run(until=END_S)
            invariants.at_the_end(ended)
        finally:
            world.loop.close()
    return Outcome(invariants.broken, world.faults, invariants.counts, world.steps)
