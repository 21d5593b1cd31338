"""Faults that the lexical endpoint can be told to have, so that it doubles as the test double of any endpoint."""

from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Any, Literal

Malformed = Literal["none", "fewer", "more", "reorder", "empty", "not_json"]
MALFORMED: tuple[Malformed, ...] = ("none", "fewer", "more", "reorder", "empty", "not_json")

Fault = Literal["hang", "error", "rate_limit", "refuse", "truncate", "malformed"]

EMBEDDINGS = "embeddings"
"""What `Faults.only_schema` calls the requests for embeddings, which have no schema."""

_NOT_JSON = "Here is my verdict: it all looks fine to me."


@dataclass(frozen=True)
class Faults:
    """What goes wrong, how often. Which request is hit depends on the seed and the request's number alone.

    Rates are probabilities in [0, 1], drawn independently; where several hit, the first of hang, error, rate limit,
    refusal, truncation and malformed happens. Raises ValueError for a figure out of range.
    """

    latency_s: float = 0.0  # added to every request concerned
    error_rate: float = 0.0  # status 500
    rate_limit_rate: float = 0.0  # status 429 with Retry-After
    retry_after_s: float = 1.0
    truncate_rate: float = 0.0  # output cut after two thirds, finish_reason "length"
    hang_rate: float = 0.0  # no answer until the client goes away
    refuse_rate: float = 0.0  # a refusal in place of the content
    malformed: Malformed = "none"  # what every output suffers: its list shortened, lengthened, reversed, emptied …
    only_schema: str | None = None  # spare the others; "embeddings" and "plain" mean requests without a schema
    times: int | None = None  # stop after this many faults
    seed: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_rate") and not 0 <= value <= 1:
                raise ValueError(f"{field.name} is {value}: a rate lies between 0 and 1")
            if field.name.endswith("_s") and value < 0:
                raise ValueError(f"{field.name} is {value}: a time in seconds is not negative")
        if self.malformed not in MALFORMED:
            raise ValueError(f"malformed is {self.malformed!r}: choose one of {', '.join(MALFORMED)}")

    def concern(self, schema: str) -> bool:
        """Whether requests for this schema are meant."""
        return self.only_schema in (None, schema)

    def draw(self, request: int, schema: str) -> Fault | None:
        """The fault of the request with this number (counted from 0), if any."""
        if not self.concern(schema):
            return None
        rates: dict[Fault, float] = {
            "hang": self.hang_rate,
            "error": self.error_rate,
            "rate_limit": self.rate_limit_rate,
            "refuse": self.refuse_rate,
            "truncate": self.truncate_rate,
            "malformed": float(self.malformed != "none"),
        }
        if schema == EMBEDDINGS:
            del rates["refuse"], rates["truncate"]
        return next((fault for fault, rate in rates.items() if rate and self._chance(request, fault) < rate), None)

    def _chance(self, request: int, fault: str) -> float:
        digest = blake2b(f"{self.seed}:{request}:{fault}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64


def spoil(output: dict[str, Any], malformed: Malformed) -> dict[str, Any] | str:
    """The output, or the text in its place, of a model that does not keep to the schema.

    The list of the output loses or repeats its last item, is reversed or emptied; an output without a list loses its
    last field ("fewer"), gains one ("more") or all ("empty"), and "reorder" leaves it as it is.
    """
    if malformed == "not_json":
        return _NOT_JSON
    for key, value in output.items():
        if isinstance(value, list):
            changed = {"fewer": value[:-1], "more": value + value[-1:], "reorder": value[::-1], "empty": []}
            return output | {key: changed.get(malformed, value)}
    keys = list(output)
    match malformed:
        case "fewer":
            return {key: output[key] for key in keys[:-1]}
        case "more":
            return output | {"comment": "unasked"}
        case "empty":
            return {}
        case _:
            return output
