"""Run schedules by seed, replay one step by step, or make a failing one small.

python -m tests.simulation 7 --profile store              one schedule, every step of it
python -m tests.simulation 7 --profile store --shrink     the same with as little in it as still fails
python -m tests.simulation 0 --count 20000                many, of every profile in turn
python -m tests.simulation 0 --count 500 --profile closing --mutant "no closed ids"
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import nullcontext

from tests.simulation.many import Summary, many, shrink
from tests.simulation.mutants import MUTANTS, mutated
from tests.simulation.plan import PROFILES, Plan, draw, shares
from tests.simulation.schedule import run


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seed", type=int, help="the first seed")
    parser.add_argument("--profile", choices=PROFILES, help="one kind of schedule; else of every kind its share")
    parser.add_argument("--count", type=int, help="how many seeds from there on; else the one schedule, step by step")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--shrink", action="store_true", help="make the one schedule small, then print its steps")
    parser.add_argument("--mutant", choices=MUTANTS, help="with this rule taken away")
    given = parser.parse_args(arguments)
    if given.count is None:
        with mutated(given.mutant) if given.mutant else nullcontext():
            return _one(draw(PROFILES[given.profile or "mixed"], given.seed), given.shrink)
    total, said = Summary(), 0
    for part in many(
        {given.profile: given.count} if given.profile else shares(given.count),
        given.seed,
        given.processes,
        given.mutant,
    ):
        total.add(part)
        if total.schedules - said >= max(1000, given.count / 500):
            said = total.schedules
            print(total.progress(), flush=True)
    print(total)
    return 1 if total.broken else 0


def _one(plan: Plan, small: bool) -> int:
    broken = run(plan).broken
    if small and broken:
        plan = shrink(plan, broken.most_common(1)[0][0])
    print("What is planned:")
    for event in plan.events:
        print(f"  {event}")
    print(f"  at any time: {', '.join(sorted(plan.odds)) or 'nothing'}")
    processes = ", ".join(f"{count} {role}" for role, count in plan.sizes.items())
    print(f"Processes: {processes}. Partitions: {plan.partitions}.")
    print("What happens (virtual seconds, steps of all processes so far):")
    outcome = run(plan, print)
    for code, times in outcome.broken.items():
        print(f"BROKEN {times} times: {code}")
    if not outcome.broken:
        print(f"All invariants held over {outcome.steps} steps.")
    return 1 if outcome.broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
