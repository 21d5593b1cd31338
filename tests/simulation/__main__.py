"""`python -m tests.simulation`: run schedules, replay one step by step, make a failing one small."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from contextlib import nullcontext

from tests.simulation.mutants import MUTANTS, mutated
from tests.simulation.plan import PROFILES, draw
from tests.simulation.schedule import run


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", type=int, help="the first seed")
    parser.add_argument("--profile", default="mixed", choices=PROFILES)
    parser.add_argument("--count", type=int, default=1, help="how many seeds from there on")
    parser.add_argument("--trace", action="store_true", help="print every step of the schedule")
    parser.add_argument("--mutant", choices=MUTANTS, help="with this rule taken away")
    given = parser.parse_args(arguments)
    with mutated(given.mutant) if given.mutant else nullcontext():
        return _run(given)


def _run(given: argparse.Namespace) -> int:
    profile = PROFILES[given.profile]
    broken, first, counts, faults, steps = Counter[str](), dict[str, int](), Counter[str](), Counter[str](), 0
    began = time.process_time()
    for seed in range(given.seed, given.seed + given.count):
        plan = draw(profile, seed)
        if given.trace:
            for event in plan.events:
                print(event)
            print(sorted(plan.odds), dict(plan.sizes), plan.partitions)
        outcome = run(plan, print if given.trace else None)
        for code in outcome.broken:
            broken[code] += 1
            first.setdefault(code, seed)
        counts.update(outcome.counts)
        faults.update(outcome.faults)
        steps += outcome.steps
    took = time.process_time() - began
    print(f"{given.count} schedules, {steps} steps, {took:.1f} s of CPU: {1000 * took / given.count:.1f} ms each")
    print(dict(counts), dict(faults))
    for code, times in broken.most_common():
        print(f"{times:6d}  {code}  (seed {first[code]})")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
