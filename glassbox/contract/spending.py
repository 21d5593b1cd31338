"""Which share of a stream is judged and for how many tokens a day, and what tokens cost: `[[sampling]]`, `[budget]` and
`[prices]` of glassbox.toml. Pure."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any

from pydantic import Field, ValidationError

from glassbox.contract.events import Usage
from glassbox.contract.judge_settings import SettingsModel, Share
from glassbox.contract.policy import PolicyError, nearest, wrong
from glassbox.contract.request import EvaluationRequest, keyed_digest

DAY_MS = 24 * 3600 * 1000
"""A day of the budget: from 00:00 UTC, by the broker's clock."""

_PER = 1_000_000
_NAME = Annotated[str, Field(min_length=1, max_length=256)]
_Money = Annotated[Decimal, Field(ge=0, allow_inf_nan=False)]


class Rule(SettingsModel):
    """The share of these requests that is judged. `tenant`: as the gateway sets it; `model`: that which wrote the
    answer, NAME or PROVIDER/NAME; what is not given matches all."""

    rate: Share
    tenant: _NAME | None = None
    model: _NAME | None = None

    def matches(self, request: EvaluationRequest) -> bool:
        made_by = request.model
        named = (made_by.name, f"{made_by.provider}/{made_by.name}") if made_by else ()
        return (self.tenant is None or self.tenant == request.tenant) and (self.model is None or self.model in named)


class Budget(SettingsModel):
    """The tokens that judging may take between 00:00 UTC and the next."""

    tokens_per_day: Annotated[int, Field(ge=0)]


class Price(SettingsModel):
    """Of a million tokens, in whatever money one counts in."""

    prompt: _Money
    completion: _Money = Decimal(0)


class Spending(SettingsModel):
    """`sampling`: the first rule that matches a request decides; one that none matches is judged. `prices`: by the
    name under which a judge asks for the model."""

    sampling: tuple[Rule, ...] = ()
    budget: Budget | None = None
    prices: Mapping[str, Price] = Field(default_factory=dict)

    def samples(self, request: EvaluationRequest, evaluation_id: str, key: bytes) -> bool:
        """Whether a request is in the share that is judged: the same for the same id whoever asks and when, so that a
        redelivery decides alike; and what a rate lets in, every higher rate does too.

        The id is hashed under `key`, or a producer could choose ids that are always, or never, judged. A request that
        supersedes a record was asked for by name and is always judged.
        """
        if request.supersedes is not None:
            return True
        rate = next((rule.rate for rule in self.sampling if rule.matches(request)), Decimal(1))
        return int(keyed_digest(key, b"sampling:" + evaluation_id.encode()), 16) < rate * (1 << 256)

    def cost(self, usage: Iterable[Usage]) -> Decimal | None:
        """What tokens cost by the price table; None where a model has no price."""
        total = Decimal(0)
        for used in usage:
            price = self.prices.get(used.model)
            if price is None:
                return None
            total += price.prompt * used.prompt_tokens + price.completion * used.completion_tokens
        return total / _PER


TABLES = tuple(Spending.model_fields)
"""The tables of glassbox.toml that `load_spending` reads."""


def load_spending(text: str) -> Spending:
    """The tables of a TOML document. Raises `PolicyError` with the key that is wrong."""
    try:
        given = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"not TOML: {error}") from None
    try:
        return Spending.model_validate({name: given[name] for name in TABLES if name in given})
    except ValidationError as error:
        found = error.errors(include_url=False)
        first = next((each for each in found if each["type"] == "extra_forbidden"), found[0])  # not what it left out
        *steps, last = first["loc"]
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"]).lstrip(".")
        if first["type"] == "extra_forbidden":
            tables: Mapping[str, type[SettingsModel]] = {"sampling": Rule, "budget": Budget, "prices": Price}
            known = tables[str(steps[0])].model_fields
            raise PolicyError(f"{where}: no such key{nearest(str(last), known)}") from None
        raise PolicyError(f"{where}: {wrong(error)}") from None


def by_model(usages: Iterable[Usage]) -> tuple[Usage, ...]:
    """What models took together, one entry a model, sorted by its name."""
    sums: dict[str, Usage] = {}
    for used in usages:
        so_far = sums.get(used.model)
        sums[used.model] = used if so_far is None else _sum(so_far, used)
    return tuple(sums[name] for name in sorted(sums))


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        model=one.model,
        calls=one.calls + other.calls,
        prompt_tokens=one.prompt_tokens + other.prompt_tokens,
        completion_tokens=one.completion_tokens + other.completion_tokens,
    )


def usage_of(evidence: Mapping[str, Any]) -> tuple[Usage, ...]:
    """What judging took, by model: every call that the evidence logs as `judges.llm.Call.evidence` writes it, wherever
    it stands. Answers from the cache count too: the log is the same for a second run."""
    return by_model(
        Usage(
            model=call["asked"],
            calls=1,
            prompt_tokens=call["prompt_tokens"],
            completion_tokens=call["completion_tokens"],
        )
        for call in _calls(evidence)
    )


def _calls(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping) and {"asked", "prompt_tokens", "completion_tokens"} <= value.keys():
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _calls(inner)
