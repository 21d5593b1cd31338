"""Many schedules on several processors, and one failing schedule made small."""

from __future__ import annotations

import gc
import itertools
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from multiprocessing import get_context

from tests.simulation.mutants import mutated
from tests.simulation.plan import PROFILES, Plan, draw
from tests.simulation.schedule import run

_CHUNK = 100


@dataclass
class Summary:
    """What many schedules showed. `broken`: code -> how many schedules broke it; `first`: code -> profile and seed of
    one of them. `seconds`: of processor time."""

    schedules: int = 0
    steps: int = 0
    seconds: float = 0.0
    broken: Counter[str] = field(default_factory=Counter)
    first: dict[str, tuple[str, int]] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, other: Summary) -> None:
        self.schedules += other.schedules
        self.steps += other.steps
        self.seconds += other.seconds
        self.broken.update(other.broken)
        self.faults.update(other.faults)
        self.counts.update(other.counts)
        self.first = {**other.first, **self.first}

    def progress(self) -> str:
        """One line, with a seed for each thing that broke."""
        each = 1000 * self.seconds / max(1, self.schedules)
        broken = "; ".join(f"{code}: {n}, {' '.join(map(str, self.first[code]))}" for code, n in self.broken.items())
        moment = time.strftime("%H:%M:%S", time.gmtime())
        return f"{moment} {self.schedules} schedules, {each:.1f} ms of processor time each; broken: {broken or 'none'}"

    def __str__(self) -> str:
        lines = [f"{self.schedules} schedules, {self.steps} steps, {self.seconds:.0f} s of processor time"]
        lines += [f"  {name}: {n}" for name, n in sorted((self.counts + self.faults).items())]
        for code, n in self.broken.most_common():
            profile, seed = self.first[code]
            lines.append(f"BROKEN {n}: {code} (python -m tests.simulation {seed} --profile {profile})")
        return "\n".join(lines)


def chunk(profile: str, first: int, count: int, mutant: str | None = None) -> Summary:
    """Some schedules in this process."""
    summary, began = Summary(), time.process_time()
    gc.freeze()
    gc.disable()  # a chunk's garbage is collected at once below
    try:
        with mutated(mutant) if mutant else nullcontext():
            for seed in range(first, first + count):
                outcome = run(draw(PROFILES[profile], seed))
                summary.schedules += 1
                summary.steps += outcome.steps
                summary.broken.update(set(outcome.broken))
                summary.faults.update(outcome.faults)
                summary.counts.update(outcome.counts)
                for code in outcome.broken:
                    summary.first.setdefault(code, (profile, seed))
    finally:
        gc.enable()
        gc.collect()
        gc.unfreeze()
    summary.seconds = time.process_time() - began
    return summary


def many(shares: dict[str, int], first: int, processes: int, mutant: str | None = None) -> Iterator[Summary]:
    """Chunk by chunk as they end. `shares`: profile -> how many schedules, from the seed `first` on."""
    jobs = [
        (profile, first + start, min(_CHUNK, count - start), mutant)
        for profile, count in shares.items()
        for start in range(0, count, _CHUNK)
    ]
    jobs.sort(key=lambda job: (job[1] - first) / shares[job[0]])  # every profile from the beginning on
    if processes == 1:
        yield from itertools.starmap(chunk, jobs)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("forkserver")) as pool:
        yield from pool.map(chunk, *zip(*jobs, strict=True)) if jobs else ()


def shrink(plan: Plan, code: str) -> Plan:
    """A plan with as few events and chances as still break this invariant."""
    smaller = True
    while smaller:
        smaller = False
        candidates = [plan.without(frozenset({n})) for n in range(len(plan.events))]
        candidates += [plan.without(odds=kind) for kind in sorted(plan.odds)]
        for candidate in candidates:
            if code in run(candidate).broken:
                plan, smaller = candidate, True
                break
    return plan
