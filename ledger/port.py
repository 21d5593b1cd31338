"""What a ledger is to the rest: records go in, receipts come out, and the first record of an id stands for ever."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from glassbox.contract.record import SCHEMA_VERSION, record_digest

Record = Mapping[str, Any]
"""A Record v1 as plain JSON values (glassbox.contract.record)."""


class LedgerError(Exception):
    """Root of everything a ledger raises; the message is a sentence that names the next step."""


class LedgerUnavailable(LedgerError):
    """Ledger trouble: disk full, locked, read-only, damaged. Nothing was written: wait and append again."""


class UnknownPolicy(LedgerUnavailable):
    """A scorecard cites a policy that is not on the ledger yet: register it, then append again."""

    def __init__(self, digest: str) -> None:
        self.digest = digest
        super().__init__(f"policy {digest} is not on the ledger: register it (glassbox policy register)")


class LedgerRefused(LedgerError):
    """Something that can never go on the ledger. `field` is a path, `rule` says what must hold."""

    def __init__(self, field: str, rule: str) -> None:
        self.field, self.rule = field, rule
        super().__init__(f"{field}: {rule}")


@dataclass(frozen=True)
class Receipt:
    """Where a record stands, with its proof.

    `result`: *created* now; *exists*, the same bytes stood already; *conflict*, other bytes stand under this id.
    `record` is always the one that stands. `proof` has the shape of the backend named by `ledger`; for merkle:
    origin, index, tree_size, path (hexadecimal hashes, leaf to root), checkpoint (signed note text).
    """

    result: Literal["created", "exists", "conflict"]
    record: Record
    ledger: str
    proof: Mapping[str, Any]

    @property
    def evaluation_id(self) -> str:
        return str(self.record["evaluation_id"])

    @property
    def record_digest(self) -> str:
        return record_digest(self.record)

    def to_dict(self) -> dict[str, Any]:
        """The value on `glassbox.receipts` and in the evidence store."""
        return {
            "schema_version": SCHEMA_VERSION,
            "evaluation_id": self.evaluation_id,
            "result": self.result,
            "record": dict(self.record),
            "record_digest": self.record_digest,
            "ledger": self.ledger,
            self.ledger: dict(self.proof),
        }


@dataclass(frozen=True)
class Refused:
    """A record that breaks schema or arithmetic, and always will: a dead letter, not trouble."""

    evaluation_id: str | None
    field: str
    rule: str


AppendResult = Receipt | Refused


class Ledger(Protocol):
    """A backend. Every method may raise LedgerUnavailable."""

    name: str

    async def append(self, records: Sequence[Record]) -> list[AppendResult]:
        """Write what is new, all of it or nothing, and answer each record in its place.

        One refused record does not hold up the others. UnknownPolicy is raised before anything is written.
        """
        ...

    async def read(self, evaluation_id: str) -> dict[str, Any] | None:
        """The record that stands under an id."""
        ...

    async def prove(self, evaluation_id: str) -> Receipt | None:
        """A receipt (result *exists*) against the newest checkpoint."""
        ...

    async def register_policy(self, policy: Mapping[str, Any], created_at: str) -> Receipt:
        """Put a canonical policy on the ledger, once per digest, with a record `policy:DIGEST`.

        `created_at`: RFC 3339 UTC with milliseconds. Registering it again answers *exists*, whatever the time.
        Raises LedgerRefused for what is no policy.
        """
        ...

    async def policy(self, digest: str) -> dict[str, Any] | None:
        """The registered policy with this digest (64 lower-case hexadecimal digits)."""
        ...

    async def close(self) -> None: ...
