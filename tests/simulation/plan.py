"""What a schedule does: its requests and its faults, drawn from the seed before anything runs, so that a failing one
can be made smaller piece by piece."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

ODDS = (
    "lost_acks",
    "late_doubles",
    "lost_sends",
    "slow_judge",
    "failing_judge",
    "store_lost_answers",
    "store_slow",
    "ledger_down",
    "ledger_lost_answers",
    "documents_down",
    "slow_markers",
    "skips",
)
"""Faults that may happen at every occasion, each with its own chance."""

KINDS = (
    *ODDS,
    *"crash crash_closing rebalance zombie freeze outage again again_late reuse reuse_late policy clock poison".split(),
    *"big bad early documents unregistered erase erase_idle store_down lose redrive spread".split(),
)
"""Every kind of fault; `spread` is none, but lets requests come one after another instead of at once. `early`: requests
for a policy that is configured later; `documents`: requests whose texts lie elsewhere."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens at `at` virtual seconds, or at the `at`-th step or touch, as its kind says."""

    kind: str
    at: float
    what: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.kind} at {self.at:g} {dict(self.what) or ''}".rstrip()


@dataclass(frozen=True, slots=True)
class Plan:
    """`odds`: kinds of faults that happen by chance. `sizes`: processes of each role."""

    seed: int
    partitions: int
    sizes: Mapping[str, int]
    odds: frozenset[str]
    events: tuple[Event, ...]

    def has(self, kind: str) -> bool:
        """Whether it has an event of this kind."""
        return any(event.kind == kind for event in self.events)

    def without(self, events: frozenset[int] = frozenset(), odds: str | None = None) -> Plan:
        """The same schedule with some events, or one kind of chance, left out."""
        kept = tuple(event for n, event in enumerate(self.events) if n not in events)
        return replace(self, events=kept, odds=self.odds - {odds})


@dataclass(frozen=True, slots=True)
class Profile:
    """How plans are drawn. `sure`: kinds that every plan has. `chance`: of each other kind in `may`. `ids`: how many
    evaluations. `steps`: the bounds below which crashes fall."""

    sure: frozenset[str] = frozenset()
    may: frozenset[str] = frozenset()
    chance: float = 0.22
    ids: tuple[int, ...] = (1, 2, 2, 3)
    steps: tuple[int, ...] = (40, 120, 300, 700)
    partitions: tuple[int, ...] = (1, 1, 2)
    members: tuple[int, ...] = (1, 1, 2)


def _kinds(names: str) -> frozenset[str]:
    return frozenset(names.split())


PROFILES = {
    "calm": Profile(),
    "crashes": Profile(sure=_kinds("crash")),
    "mixed": Profile(may=frozenset(KINDS)),
    "closing": Profile(  # around card, marker and acknowledgement
        sure=_kinds("crash_closing late_doubles"),
        may=_kinds("crash lost_acks rebalance again again_late"),
        chance=0.3,
        ids=(1, 1, 2),
        members=(1,),
    ),
    "markers": Profile(  # a closed marker that is late, and a process that does not live to see it
        sure=_kinds("crash_closing late_doubles slow_markers"),
        may=_kinds("crash lost_acks again"),
        ids=(1, 1, 2),
        members=(1,),
    ),
    "expiry": Profile(  # closed ids that are remembered for hours, and forgotten then
        sure=_kinds("hours"),
        may=_kinds("crash rebalance late_doubles clock lost_acks again_late reuse_late"),
        chance=0.3,
        ids=(2, 3, 4),
        partitions=(1,),
        members=(1,),
    ),
    "epochs": Profile(  # assignments that end while their events are still in buffers
        sure=_kinds("rebalance slow_judge"),
        may=_kinds("crash zombie freeze lost_acks outage"),
        chance=0.4,
        ids=(3, 4, 6),
        partitions=(1, 2),
        members=(2,),
    ),
    "batches": Profile(  # a committer that finds several entries of one id
        sure=_kinds("lost_acks ledger_down"),
        may=_kinds("crash outage again again_late ledger_lost_answers unregistered zombie"),
        chance=0.5,
    ),
    "store": Profile(
        may=_kinds(
            "crash erase erase_idle store_down store_slow store_lost_answers lose again again_late reuse rebalance "
            "documents documents_down"
        ),
        chance=0.45,
    ),
    "identity": Profile(
        may=_kinds("again again_late reuse reuse_late policy crash lost_acks lost_sends bad big outage"),
        chance=0.45,
    ),
    "redrive": Profile(  # an operator who sends dead requests again
        sure=_kinds("redrive"),
        may=_kinds("early bad big again again_late reuse crash lost_acks lost_sends erase_idle policy ledger_down"),
        chance=0.5,
    ),
    "skips": Profile(  # a transport that leaves out what it had fetched
        sure=_kinds("skips"), may=_kinds("crash rebalance again lost_acks outage"), ids=(2, 3, 4), members=(1,)
    ),
    "killers": Profile(sure=_kinds("poison"), may=_kinds("crash rebalance again slow_judge lost_acks"), ids=(2, 3, 4)),
}


def shares(count: int) -> dict[str, int]:
    """Profile -> its share of so many schedules: half are mixed."""
    focused = [name for name in PROFILES if name not in ("mixed", "calm")]
    each = count // 2 // len(focused)
    return {"mixed": count - each * len(focused), **dict.fromkeys(focused, each)}


def draw(profile: Profile, seed: int) -> Plan:
    """The plan of a seed."""
    r = random.Random(f"plan {seed}")
    kinds = set(profile.sure) | {kind for kind in sorted(profile.may) if r.random() < profile.chance}
    partitions = r.choice(profile.partitions)
    roles = ("intake", "grounding", "terminology", "structure", "join", "committer")
    sizes = {role: r.choice(profile.members) for role in roles}
    events: list[Event] = []

    def add(kind: str, at: float, **what: Any) -> None:
        events.append(Event(kind, round(at, 3), what))

    for n in range(r.choice(profile.ids)):
        _requests(r, kinds, f"x{n}", add)
    horizon = r.choice((4, 20, 100))
    if "crash" in kinds:
        bound = r.choice(profile.steps)
        for _ in range(r.choice((1, 2, 3, 5))):
            add("crash", r.randrange(bound))
    if "crash_closing" in kinds:
        for n in range(r.choice((1, 2))):
            add("crash_closing", r.uniform(0, 1.2), card=n + r.choice((0, 0, 1)))
    for kind in ("rebalance", "zombie", "freeze", "clock"):
        for _ in range(r.choice((1, 2, 4)) if kind in kinds else 0):
            add(kind, r.uniform(0, horizon), pick=r.random(), size=r.random())
    if "outage" in kinds:
        add("outage", r.uniform(0, 20), pick=r.random(), size=r.choice((10, 40, 150, 800)))
    if "policy" in kinds:
        add("policy", r.uniform(0.1, 20))
    if "early" in kinds:
        add("mend", r.choice((5, 60, 200)) * r.random())
    if "redrive" in kinds:
        for _ in range(r.choice((1, 2, 6))):
            add("redrive", r.choice((20, 100, 400, 3000)) * r.random(), dies=r.random() < 0.2)
    if "unregistered" in kinds:
        add("unregistered", r.choice((5, 60)))
    if "store_down" in kinds:
        for _ in range(r.choice((1, 2))):
            add("store_down", r.choice((1, 20, 60)) * r.random(), size=r.choice((5, 40, 200)))
    return Plan(seed, partitions, sizes, frozenset(kinds & set(ODDS)), tuple(events))


_SPECIAL = ("bad", "big", "poison", "early", "documents")


def _requests(r: random.Random, kinds: set[str], name: str, add: Any) -> None:
    """One id: its request, what else is asked under it, and what is done to its objects."""
    start = r.uniform(0, 100 if "spread" in kinds else 3) + (r.choice((0, 7500, 15000)) if "hours" in kinds else 0)
    special = next((kind for kind in _SPECIAL if kind in kinds and r.random() < 0.4), "")
    if special == "documents":
        special = r.choice(("here", "here", "absent", "changed"))
    home = r.randrange(2) if r.random() < 0.8 else None

    def ask(at: float, content: str) -> None:
        add("request", at, id=name, content=content, special=special, home=home if home is not None else r.randrange(2))

    def soon() -> float:
        return start + r.choice((0.1, 5, 60)) * r.random()

    def late() -> float:
        return start + r.choice((100, 400, 2000, 9000)) * r.uniform(0.9, 1.1)

    ask(start, "a")
    for kind, when, content in (
        ("again", soon, "a"),
        ("again_late", late, "a"),
        ("reuse", soon, "b"),
        ("reuse_late", late, "b"),
    ):
        if kind in kinds and r.random() < 0.6:
            ask(when(), content)
    if "erase" in kinds and r.random() < 0.8:
        for _ in range(r.choice((1, 1, 2))):
            add("erase", r.randrange(45), id=name, delay=r.choice((0, 0.05, 2)) * r.random())
    if "erase_idle" in kinds and r.random() < 0.5:
        add("erase_idle", r.choice((0.1, 60, 1000)) * r.random(), id=name)
    if "lose" in kinds and r.random() < 0.6:
        add("lose", r.randrange(1, 45), id=name, pick=r.random())
