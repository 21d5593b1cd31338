"""What a ledger is to the rest: records go in, receipts come out, and the first record of an id stands for ever."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from glassbox.contract.canonical import CanonicalError, sha256_hex
from glassbox.contract.record import RecordError, check_shape

if TYPE_CHECKING:
    from glassbox.contract.request import JudgeInput, TaskInput

Record = Mapping[str, Any]
"""A Record v1 as plain JSON values (glassbox.contract.record)."""


class LedgerError(Exception):
    """Root of everything a ledger raises; the message is a sentence that names the next step."""


class LedgerUnavailable(LedgerError):
    """Ledger trouble: disk full, read-only, damaged; peers away, setup wrong. Wait and append again: what was written
    before the trouble stands, and is not written twice."""


class UnknownPolicy(LedgerUnavailable):
    """A scorecard cites a policy that is not on the ledger yet: register it, then append again."""

    def __init__(self, digest: str) -> None:
        self.digest = digest
        super().__init__(f"policy {digest} is not on the ledger: register it (glassbox policy register)")


class UnknownReference(LedgerUnavailable):
    """A record points (`field`: supersedes or refers_to) to one that is not on the ledger yet: append it again once
    that one stands. Nothing of its transaction was written."""

    def __init__(self, evaluation_id: str, field: str, reference: str) -> None:
        self.evaluation_id, self.field, self.reference = evaluation_id, field, reference
        super().__init__(f"{field} of {evaluation_id}: {reference} is not on the ledger")


class LedgerRefused(LedgerError):
    """Something that can never go on the ledger. `field` is a path, `rule` says what must hold."""

    def __init__(self, field: str, rule: str) -> None:
        self.field, self.rule = field, rule
        super().__init__(f"{field}: {rule}")


@dataclass(frozen=True)
class Receipt:
    """Where a record stands, with its proof.

    `result`: *created* now; *exists*, the same bytes stood already; *conflict*, other bytes stand under this id.
    `record` is always the one that stands, `record_digest` the SHA-256 of its bytes. `proof` has the shape of the
    backend named by `ledger`; for merkle: origin, index, tree_size, path (hexadecimal hashes, leaf to root),
    checkpoint (signed note text).
    """

    result: Literal["created", "exists", "conflict"]
    record: Record
    record_digest: str
    ledger: str
    proof: Mapping[str, Any]

    @property
    def evaluation_id(self) -> str:
        return str(self.record["evaluation_id"])


@dataclass(frozen=True)
class Refused:
    """A record that breaks schema or arithmetic, and always will: a dead letter, not trouble."""

    evaluation_id: str | None
    field: str
    rule: str

    @classmethod
    def because(cls, record: Record, error: RecordError | CanonicalError) -> "Refused":
        known = record.get("evaluation_id")
        rule = error.rule if isinstance(error, RecordError) else error.reason
        return cls(known if isinstance(known, str) else None, error.field, rule)


AppendResult = Receipt | Refused


def check_appendable(record: Record) -> None:
    """Raise RecordError unless this has the shape of a record that `Ledger.append` takes: any but a policy's."""
    if record.get("kind") == "policy":
        raise RecordError("kind", "scorecard, run or review: a policy goes on the ledger with its content")
    check_shape(dict(record))


class Ledger(Protocol):
    """A backend. Every method may raise LedgerUnavailable."""

    name: str

    @property
    def place(self) -> str:
        """Where the records stand, for people: a log's origin, a channel and its chaincode."""
        ...

    async def append(self, records: Sequence[Record]) -> list[AppendResult]:
        """Write what is new and answer each record in its place. One refused record does not hold up the others.

        A transaction of the backend is written whole or not at all: all the records are one on merkle, and up to 100
        on fabric. After trouble, append the same again: what was written answers *exists*. UnknownPolicy and
        UnknownReference are raised before anything is written.
        """
        ...

    async def read(self, evaluation_id: str) -> dict[str, Any] | None:
        """The record that stands under an id."""
        ...

    async def prove(self, evaluation_id: str) -> Receipt | None:
        """A receipt (result *exists*) against the newest checkpoint."""
        ...

    async def find(self, prefix: str, limit: int) -> list[str]:
        """The first `limit` evaluation ids that begin with `prefix`: derived ids are long, and people shorten them."""
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


class StoreError(Exception):
    """Root of everything an evidence store raises; the message names the next step and never any content."""


class StoreUnavailable(StoreError):
    """Store trouble: disk full, read-only, gone. Wait and try again."""


class StoreRefused(StoreError):
    """A place that cannot keep what an evidence store promises, however long one waits."""


class DocumentMissing(StoreError):
    """A request refers to a document that is not there, or where nothing is read."""


class DocumentChanged(StoreError):
    """A request refers to a document of other bytes than stand there, or they are no text."""


class Documents(Protocol):
    """The texts that requests refer to (claim check)."""

    async def read(self, given: "TaskInput") -> "JudgeInput":
        """With the text of every reference, its digest checked. Raises DocumentMissing, DocumentChanged,
        StoreUnavailable."""
        ...


@dataclass(frozen=True)
class StoredRequest:
    """A canonical request as it stands, with the salt that opens everything else of its evaluation.

    `requested_at`: milliseconds since 1970 by the broker. Keep the salt in memory only.
    """

    request: bytes
    salt: bytes
    requested_at: int
    callback_url: str | None = None

    @property
    def digest(self) -> str:
        """The record's request_digest."""
        return salted_digest(self.salt, self.request)

    def __repr__(self) -> str:
        return f"StoredRequest(digest={self.digest!r}, requested_at={self.requested_at!r})"


@dataclass(frozen=True)
class Tombstone:
    """What stands in place of an erased request."""

    erased_at: str


def salted_digest(salt: bytes, content: bytes) -> str:
    """SHA-256(salt || content), hexadecimal: how records cite requests and evidence."""
    return sha256_hex(salt + content)


class Responses(Protocol):
    """A model's answers for one evaluation, by key."""

    async def get(self, key: str) -> bytes | None: ...

    async def put(self, key: str, value: bytes) -> None: ...


class Vault(Protocol):
    """What the pipeline asks of the evidence store. Every method may raise StoreUnavailable."""

    async def put_request(
        self, evaluation_id: str, request: bytes, requested_at: int, callback_url: str | None = None
    ) -> StoredRequest | Tombstone:
        """Put a canonical request with a fresh salt if the id has none, and return what stands."""
        ...

    async def request(self, evaluation_id: str) -> StoredRequest | Tombstone | None: ...

    async def put_evidence(self, evaluation_id: str, kind: str, evidence: bytes, salt: bytes) -> str:
        """Seal a kind's canonical evidence and return its digest, SHA-256(salt || evidence)."""
        ...

    async def put_raw(self, evaluation_id: str, raw: bytes, salt: bytes) -> str:
        """Seal a raw model output and return the plain SHA-256 by which evidence cites it."""
        ...

    async def put_receipt(self, evaluation_id: str, receipt: Mapping[str, Any]) -> None:
        """Keep the first receipt."""
        ...

    async def receipt(self, evaluation_id: str) -> dict[str, Any] | None: ...

    def cache(self, evaluation_id: str, salt: bytes) -> Responses: ...
