"""JSON Schemas of everything that crosses a process: request, policy, messages, verdict, record, agreement card.

    python -m glassbox.contract.schemas [DIR]           writes DIR (docs/schemas)
    python -m glassbox.contract.schemas --check [DIR]   exits 1 where a file differs from what would be written

Derived from the models, so that they cannot say what the code does not do; the words and the shapes that types do not
carry are `schema_texts`. The record's schema is written out, because the record is plain dicts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from glassbox.contract import events, record
from glassbox.contract.agreement import AgreementCard
from glassbox.contract.composite import OUTCOMES
from glassbox.contract.policy import Policy
from glassbox.contract.request import EvaluationRequest
from glassbox.contract.schema_texts import (
    CODE,
    DIGEST,
    FIELDS,
    FIGURE,
    IDENTIFIER,
    MODELS,
    RECORD_FIELDS,
    SHAPES,
    TIME,
    Schema,
)
from glassbox.contract.verdict import Verdict

DEFAULT_FOLDER = Path("docs/schemas")
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, Schema]:
    """File name -> schema. Each stands alone: what it refers to is in its own `$defs`."""
    document = policy_document()
    extra = {**record_definitions(), **document.pop("$defs"), "PolicyDocument": document}
    made = {
        "request": _derived(EvaluationRequest, "validation"),
        "policy": policy_toml(),
        "policy-document": {**document, "$defs": {name: extra[name] for name in sorted(_reached(document, extra))}},
        "verdict": _derived(Verdict),
        "record": {"description": MODELS["Record"], "oneOf": _refs("ScorecardRecord", "ReferenceRecord")},
        "judge-task": _derived(events.JudgeTask),
        "announced": _derived(events.Announced),
        "judged": _derived(events.Judged),
        "deadline-passed": _derived(events.DeadlinePassed),
        "scorecard": _derived(events.Scorecard),
        "claim": _derived(events.Claim),
        "reference": _derived(events.Reference),
        "review": _derived(events.Review),
        "policy-registration": _derived(events.PolicyRegistration),
        "receipt": _derived(events.Receipt),
        "agreement-card": _derived(AgreementCard),
    }
    return {f"{name}.json": _whole(name, schema, extra) for name, schema in made.items()}


def policy_toml() -> Schema:
    """A settings file with `[policy.NAME]` tables, as people write them: numbers, defaults, no nulls."""
    schema = _derived(Policy, "validation")
    schema["$defs"]["OwnJudge"]["required"].remove("kind")
    definitions = {name: _as_toml(inner) for name, inner in schema.pop("$defs").items()}
    policy = _as_toml(schema)
    name = policy["properties"].pop("name")
    policy.pop("required", None)
    tables = {
        "type": "object",
        "description": FIELDS["[policy]"],
        "propertyNames": {"pattern": name["pattern"]},
        "additionalProperties": {"$ref": "#/$defs/Policy"},
    }
    return {
        "description": MODELS["policies"],
        "type": "object",
        "properties": {"policy": tables},
        "$defs": {**definitions, "Policy": policy},
    }


def _as_toml(schema: Schema) -> Schema:
    for part in schema["properties"].values():
        types = [option.get("type") for option in part.get("anyOf", ())]
        if "number" in types:
            number = next(option for option in part.pop("anyOf") if option["type"] == "number")
            part.update({"anyOf": [number, {"const": "none"}]} if "null" in types else number)
            if "default" in part:
                part["default"] = float(part["default"])
        elif "null" in types:
            part.update(part.pop("anyOf")[0])
        if "$ref" in part:
            part.pop("default", None)
    return schema


def policy_document() -> Schema:
    """The canonical form, which records cite by digest: every key present, every figure a string with 6 places."""
    schema = _derived(Policy, "validation")
    for inner in (schema, *schema["$defs"].values()):
        inner["required"] = list(inner["properties"])
        for part in inner["properties"].values():
            part.pop("default", None)
            options = part.get("anyOf", [part])
            types = [option.get("type") for option in options]
            if "number" in types:
                number = next(option for option in options if option.get("type") == "number")
                part.pop("anyOf", None)
                figure = (
                    FIGURE if number.get("maximum") == 1 else {"type": "string", "pattern": r"^[0-9]{1,5}\.[0-9]{6}$"}
                )
                part.update({"anyOf": [figure, {"type": "null"}]} if "null" in types else figure)
            elif "integer" in types:
                for key in ("minimum", "maximum"):
                    part.pop(key, None)
                part.update(type="string", pattern=r"^[0-9]+\.000000$")
    own = schema["$defs"]["OwnPart"]["additionalProperties"]["anyOf"]
    own.remove({"type": "number"})
    own[-1]["items"]["anyOf"].remove({"type": "number"})
    schema["description"] = MODELS["PolicyDocument"]
    return schema


def record_definitions() -> dict[str, Schema]:
    """`$defs` of Record v1. The arithmetic is not in them: `check_record` recomputes it."""
    present, absent = ({name: {"type": kind} for name in ("score", "low", "high")} for kind in ("string", "null"))
    part = _object(
        "PartRow",
        judge=CODE,
        part=CODE,
        state={"enum": ["scored", "not_applicable", "failed"]},
        score=_or_null(FIGURE),
        low=_or_null(FIGURE),
        high=_or_null(FIGURE),
        cause=_or_null(CODE),
        meets_target={"type": ["boolean", "null"]},
        method_digest=_or_null(DIGEST),
    )
    part |= {
        "if": {"properties": {"state": {"const": "scored"}}},
        "then": {"properties": {**present, "cause": {"type": "null"}}},
        "else": {"properties": {**absent, "cause": {"type": "string"}}},
    }
    text = {"type": "string", "minLength": 1, "maxLength": 256}
    codes = {"type": "array", "uniqueItems": True}
    scorecard = _object(
        "ScorecardRecord",
        kind={"const": "scorecard"},
        schema_version={"const": record.SCHEMA_VERSION},
        evaluation_id={**IDENTIFIER, "not": {"pattern": f"^({'|'.join(record.RESERVED_PREFIXES)})"}},
        request_digest=DIGEST,
        evidence_digest=DIGEST,
        session=_or_null(DIGEST),
        policy_digest=DIGEST,
        model=_or_null(_object("RecordModel", provider=text, name=text)),
        requested_at=TIME,
        closed_at=TIME,
        parts={"type": "array", "items": _ref("PartRow")},
        judges={"type": "array", "items": _ref("JudgeRow")},
        trust=_or_null(FIGURE),
        trust_low=_or_null(FIGURE),
        trust_high=_or_null(FIGURE),
        coverage=FIGURE,
        outcome={"enum": list(OUTCOMES)},
        reasons={**codes, "items": {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,63}(:[a-z][a-z0-9_]{0,63})?$"}},
        missed_targets={**codes, "items": CODE},
        supersedes=_or_null(IDENTIFIER),
    )
    reference = _object(
        "ReferenceRecord",
        kind={"enum": ["run", "review", "policy"]},
        schema_version={"const": record.SCHEMA_VERSION},
        evaluation_id={"type": "string", "pattern": f"^({'|'.join(record.RESERVED_PREFIXES)})[0-9a-f]{{64}}$"},
        digest=DIGEST,
        refers_to=_or_null(IDENTIFIER),
        created_at=TIME,
    )
    return {
        "ScorecardRecord": scorecard,
        "PartRow": part,
        "JudgeRow": _object("JudgeRow", judge=CODE, score=_or_null(FIGURE), coverage=FIGURE),
        "ReferenceRecord": reference,
    }


def _object(name: str, /, **fields: Schema) -> Schema:
    """An object of exactly these fields, each with its words."""
    return {
        "description": MODELS[name],
        "type": "object",
        "properties": {key: {**shape, "description": RECORD_FIELDS[f"{name}.{key}"]} for key, shape in fields.items()},
        "required": list(fields),
        "additionalProperties": False,
    }


def _or_null(shape: Schema) -> Schema:
    return {"anyOf": [shape, {"type": "null"}]}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _refs(*names: str) -> list[Schema]:
    return [_ref(name) for name in names]


def _derived(model: Any, mode: Literal["validation", "serialization"] = "serialization") -> Schema:
    """The model's schema with our words and shapes. KeyError for a field that has no words."""
    raw = TypeAdapter(model).json_schema(mode=mode)
    schema: Schema = _tidy(raw)
    root = raw.get("title", "Verdict")  # the one union has no title
    for name, inner in ((root, schema), *schema.get("$defs", {}).items()):
        inner["description"] = MODELS[name]
        for field, part in inner.get("properties", {}).items():
            _shape(part, SHAPES.get(f"{name}.{field}", SHAPES.get(field)))
            part["description"] = FIELDS.get(f"{name}.{field}") or FIELDS[field]
            if "const" in part:  # a discriminator: written always, though the model could do without
                part.pop("default", None)
                inner["required"] = sorted({*inner.get("required", ()), field}, key=list(inner["properties"]).index)
    return schema


def _shape(part: Schema, shape: Mapping[str, Any] | None) -> None:
    if shape is None:
        return
    nullable = {"type": "null"} in part.get("anyOf", ())
    kept = {key: part[key] for key in ("default",) if key in part}
    part.clear()
    part.update(_or_null(dict(shape)) if nullable else dict(shape), **kept)


def _tidy(value: Any) -> Any:
    """Without what pydantic adds and a reader does not need."""
    if isinstance(value, dict):
        noise = {"title", "discriminator"} | ({"default"} if value.get("default", 0) is None else set())
        return {key: _tidy(item) for key, item in value.items() if key not in noise}
    return [_tidy(item) for item in value] if isinstance(value, list) else value


def _reached(value: Any, known: Mapping[str, Schema]) -> set[str]:
    """The names in `known` that `value` refers to, at any depth."""
    found: set[str] = set()
    waiting = set(_names(value))
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= set(_names(known.get(name, {}))) - found
    return found & known.keys()


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].removeprefix("#/$defs/")
        for item in value.values():
            yield from _names(item)
    elif isinstance(value, list):
        for item in value:
            yield from _names(item)


def _whole(name: str, schema: Schema, extra: Mapping[str, Schema]) -> Schema:
    own = schema.get("$defs", {})
    definitions = own | {found: extra[found] for found in _reached(schema, extra) if found not in own}
    head = {"$schema": DIALECT, "$id": f"urn:glassbox:{name}:1"}
    body = {key: value for key, value in schema.items() if key != "$defs"}
    return head | body | ({"$defs": dict(sorted(definitions.items()))} if definitions else {})


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    folder = Path(next((a for a in arguments if a != "--check"), DEFAULT_FOLDER))
    texts = {name: json.dumps(schema, indent=2) + "\n" for name, schema in schemas().items()}
    if not check:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        return 0
    stale = [name for name, text in texts.items() if _text(folder / name) != text]
    for name in stale:
        sys.stderr.write(f"{folder / name} is not what the models say: run python -m glassbox.contract.schemas\n")
    return 1 if stale else 0


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
