"""Policies: which judges and parts count, with which weights and targets, and when trust is enough.

Written as TOML by people (`[policy.NAME]`), filled in with every default, and cited on each record by the digest of
the canonical form, so that what a score meant at the time can be proved later.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from glassbox.contract.canonical import CanonicalError, canonical, sha256_hex, strict_loads
from glassbox.contract.composite import PLACES
from glassbox.contract.judge_settings import (
    CODE,
    DIGEST,
    Judges,
    OwnJudge,
    Part,
    SettingsModel,
    Share,
    kind_of_parts,
)
from glassbox.contract.verdict import KINDS


class PolicyError(ValueError):
    """A policy that cannot be used; the message names the key that is wrong."""


MAX_BYTES = 64 * 1024
"""A policy's canonical form stands whole in every announcement."""


_NAME = r"^[a-z][a-z0-9_-]{0,63}$"


class Policy(SettingsModel):
    """When an answer is trusted. Thresholds and targets are in [0, 1]; `deadline_s` in seconds."""

    schema_version: Literal["1"] = "1"
    name: Annotated[str, Field(pattern=_NAME)]
    threshold: Share = Decimal("0.80")
    judges: Judges = Judges()
    vetoes: tuple[str, ...] = ("faithfulness",)
    review_on: tuple[str, ...] = ("answer_relevancy", "entities", "llm_relevance")
    min_coverage: Share = Decimal("0.50")
    abstention: Literal["incomplete", "ignore"] = "incomplete"
    empty_context: Literal["not_applicable", "unsupported"] = "not_applicable"
    deadline_s: Annotated[Decimal, Field(gt=0, le=86400, decimal_places=PLACES, allow_inf_nan=False)] = Decimal(300)
    ledger: Mapping[Literal["channel", "chaincode"], str] = Field(default_factory=dict)

    @field_validator("vetoes", "review_on")
    @classmethod
    def _parts_exist(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if "judges" in info.data:  # else they are wrong themselves, and that is said
            names = [part for _, _, parts in info.data["judges"].tables() for part, _ in parts]
            for name in value:
                if name not in names:
                    raise ValueError(f"no part is called {name!r}{nearest(name, names)}")
        return tuple(sorted(set(value)))

    @model_validator(mode="after")
    def _weights(self) -> Policy:
        total = Decimal(0)
        for judge, settings, parts in self.judges.tables():
            inner = [part.weight for _, part in parts if part.enabled]
            if not settings.enabled or not inner:
                continue
            if not sum(inner):
                raise ValueError(f"judges.{judge}.parts: the enabled weights sum to zero")
            total += settings.weight
        if not total:
            raise ValueError("judges: the enabled weights sum to zero")
        return self

    @model_validator(mode="after")
    def _can_be_read_back(self) -> Policy:
        try:
            size = len(written := canonical(self.document))
            strict_loads(written)
        except CanonicalError as error:
            raise ValueError(f"{error.field}: {error.reason}") from None
        if size > MAX_BYTES:
            raise ValueError(f"{size} bytes in canonical form; at most {MAX_BYTES}")
        return self

    def parts(self) -> dict[str, Part]:
        """Enabled part name -> its settings."""
        return {
            name: part
            for _, settings, parts in self.judges.tables()
            if settings.enabled
            for name, part in parts
            if part.enabled
        }

    def own_kinds(self) -> tuple[str, ...]:
        """The worker kinds of judges of one's own that have at least one enabled part, sorted."""
        judges = self.judges.own().values()
        return tuple(sorted({j.kind for j in judges if j.enabled and any(part.enabled for part in j.parts.values())}))

    def kinds(self) -> tuple[str, ...]:
        """The worker kinds that have at least one enabled part: in the order of `KINDS`, then one's own."""
        parts = self.parts()
        return (*(kind for kind, names in KINDS.items() if parts.keys() & set(names)), *self.own_kinds())

    def kind_settings(self, kind: str) -> dict[str, dict[str, Any]]:
        """Part name -> settings as JSON, for the enabled parts of a worker kind: what a task carries."""
        kinds = kind_of_parts(self.document)
        return {name: dict(settings) for name, settings in self._settings.items() if kinds[name] == kind}

    @cached_property
    def _settings(self) -> dict[str, dict[str, Any]]:
        settings = {name: part.model_dump(mode="json") for name, part in self.parts().items()}
        if "faithfulness" in settings:
            settings["faithfulness"]["empty_context"] = self.empty_context
        return settings

    @cached_property
    def document(self) -> dict[str, Any]:
        """The canonical policy as a JSON value: every default filled in, every figure a 6-place decimal string."""
        made = _figures(self.model_dump())
        assert isinstance(made, dict)
        return made

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the RFC 8785 bytes of `document`, hexadecimal: what every record cites."""
        return sha256_hex(canonical(self.document))

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Policy:
        """The policy back from its canonical form. Raises `PolicyError`."""
        return _validated(dict(document))


def _figures(value: Any) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, Decimal | int):
        return f"{Decimal(value):.{PLACES}f}"
    if isinstance(value, Mapping):
        return {key: _figures(item) for key, item in value.items()}
    return [_figures(item) for item in value]


SHIPPED: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "rag": {"empty_context": "unsupported"},
    "direct": {"judges": {"contextual_precision": {"enabled": False}}},
    "offline": {
        # words alone miss a relation between the wrong pair everywhere else: it must not come out as a pass
        "review_on": ["answer_relevancy", "entities", "llm_relevance", "relations"],
        "judges": {
            "contextual_precision": {"parts": {"llm_relevance": {"target_family": "lexical"}}},
            "semantic_faithfulness": {
                "parts": {
                    "faithfulness": {"target_family": "lexical"},
                    "answer_relevancy": {"target": Decimal("0.20"), "target_family": "lexical"},
                }
            },
        },
    },
}
"""The policies that come with the product, as differences from the defaults."""


def load_policies(text: str) -> dict[str, Policy]:
    """The shipped policies and those of a TOML document's `[policy.NAME]` tables (a shipped name is overlaid).

    Raises `PolicyError` with the key that is wrong.
    """
    try:
        # Decimal keeps what was written, so that a seventh place is seen and 0.1 means 0.1
        tables = tomllib.loads(text, parse_float=Decimal).get("policy", {})
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"not TOML: {error}") from None
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise PolicyError("policy: must be tables [policy.NAME]")
    for name, table in tables.items():
        if "name" in table:
            raise PolicyError(f"policy.{name}.name: no such key; the table's own name is the policy's")
    names = dict.fromkeys([*SHIPPED, *tables])
    return {name: _validated({"name": name, **_overlay(SHIPPED.get(name, {}), tables.get(name, {}))}) for name in names}


def _overlay(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = _overlay(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return merged


def _validated(values: dict[str, Any]) -> Policy:
    judges = values.get("judges")
    for judge, table in judges.items() if isinstance(judges, Mapping) else ():
        if judge not in Judges.model_fields and not (isinstance(table, Mapping) and "parts" in table):
            hint = nearest(judge, Judges.model_fields) or "; a judge of your own needs a table of parts"
            raise PolicyError(f"policy.{values.get('name', '?')}.judges.{judge}: no such key{hint}")
    try:
        return Policy.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        steps = [str(step) for step in first["loc"] if step != "[key]"]
        where = ".".join(["policy", str(values.get("name", "?")), *steps])
        if first["type"] == "extra_forbidden":
            known = _fields_at(first["loc"][:-1])
            raise PolicyError(f"{where}: no such key{nearest(str(first['loc'][-1]), known)}") from None
        raise PolicyError(f"{where}: {wrong(error)}") from None


def wrong(refused: ValidationError) -> str:
    """What is wrong with the first setting of what was refused, after its key and a colon."""
    error = refused.errors(include_url=False)[0]
    context = error.get("ctx", {})
    says = _PATTERNS.get(context.get("pattern", "")) or _SAYS.get(error["type"], "").format(**context)
    return says or error["msg"].removeprefix("Value error, ")


_SAYS = {
    "missing": "is missing",
    **dict.fromkeys(("tuple_type", "list_type"), "must be a list"),
    **dict.fromkeys(("dict_type", "model_type"), "must be a table"),
    "string_type": "must be text",
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("decimal_type", "decimal_parsing"), "must be a number"),
    "finite_number": "must be a finite number",
    "decimal_max_places": "must have at most {decimal_places} decimal places",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "needs at least one",
    "too_long": "has {actual_length} entries; at most {max_length}",
}
"""Pydantic's kind of error -> what is said of the key."""

_PATTERNS = {
    DIGEST: "must be 64 lower-case hexadecimal digits",
    CODE: "must be lower-case letters, digits and _, a letter first, at most 64",
    _NAME: "must be lower-case letters, digits, _ and -, a letter first, at most 64",
}


def _fields_at(location: tuple[int | str, ...]) -> list[str]:
    model: Any = Policy
    for step in location:
        model = OwnJudge if model is Judges and step not in Judges.model_fields else model.model_fields[step].annotation
    return list(model.model_fields)


def nearest(name: str, known: Any) -> str:
    """A hint for an error message: ``; did you mean 'x'?``, or nothing where nothing is near."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {found[0]!r}?" if found else ""
