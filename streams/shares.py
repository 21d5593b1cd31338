"""What one tenant may ask for before its requests stand in line behind everybody else's.

A token bucket in the form of the generic cell rate algorithm (ITU-T I.371, annex A): one number a tenant, the time at
which its bucket is full again. The clock is the broker's append time of the requests, so what is decided follows from
the messages alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_MANY = 10_000
"""From so many buckets on, those are dropped that are full, which is what a new one is."""


@dataclass
class Shares:
    """`rate`: requests a second, `burst`: requests at once, of one tenant over all `partitions`. Each partition has
    its even part, at least one request at once, so several intakes need not know of each other."""

    rate: float
    burst: int
    partitions: int
    _full_at: dict[tuple[str | None, int], int] = field(default_factory=dict, init=False)  # microseconds

    def within(self, tenant: str | None, partition: int, at_ms: int) -> bool:
        """Whether a request that was appended then is within its tenant's share, of which it takes its part if so.
        Requests without a tenant are one tenant's."""
        at, each = at_ms * 1000, max(1, round(1_000_000 * self.partitions / self.rate))
        depth = each * max(1, self.burst // self.partitions)
        # no more than a whole bucket is ever missing: nobody pays for a clock that was set back
        full_at = min(max(self._full_at.get((tenant, partition), 0), at), at + depth)
        within = full_at + each <= at + depth
        if len(self._full_at) >= _MANY:
            self._full_at = {key: full for key, full in self._full_at.items() if full > at}
        self._full_at[tenant, partition] = full_at + each if within else full_at
        return within
