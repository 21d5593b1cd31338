"""Judging again from what was kept: each verdict from the request and the raw model outputs, then the whole record.

The judges are those that judged, on a client that only repeats what the model said then (judges.llm.recorded).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import TypeAdapter

from glassbox.cli.errors import CommandError
from glassbox.cli.wiring import make_judge
from glassbox.contract.canonical import canonical, strict_loads
from glassbox.contract.composite import compose
from glassbox.contract.policy import Policy
from glassbox.contract.record import RecordError, check_record
from glassbox.contract.request import EvaluationRequest
from glassbox.contract.verdict import Failed, Method, NotApplicable, Scored, Verdict, part_row
from judges.agreement import AGREEMENT, FOREIGN_AGREEMENT
from judges.llm.recorded import NOT_RECORDED, RecordedClient, recorded_endpoint
from judges.llm.retry import ANSWERED
from judges.port import Case, Judge
from judges.run import answer
from ledger.port import StoreError

if TYPE_CHECKING:
    from glassbox.dossier.archive import Dossier
    from ledger.port import Documents

Source = Literal["raw outputs", "request", "verdict"]
"""What a part was recomputed from; `request` where no model was asked, `verdict` where it was not recomputed."""

Result = Literal["equal", "differs", "not_kept", "other_method", "unknown"]
"""`not_kept`: a part that failed without an answer to recompute it from, as it does when a call runs out of time.
`other_method`: this build, or its settings, judge in another way. `unknown`: what should be there is not."""

LEAST_S = 600.0
"""Time for a kind, whatever its policy's deadline: an old machine may read what a new one judged."""

_VERDICT: TypeAdapter[Scored | NotApplicable | Failed] = TypeAdapter(Verdict)
_BESIDE = frozenset(("calls", AGREEMENT))
"""Left out where evidence is compared: calls are compared by their answers, and agreement cards are not judging."""
_ROW = ("state", "score", "low", "high", "cause")
_COMPOSED = ("trust", "trust_low", "trust_high", "coverage", "outcome", "reasons", "missed_targets")


@dataclass(frozen=True)
class Part:
    """`recorded` and `now`: rows of a record; `now` is None where the part was not recomputed."""

    part: str
    source: Source
    result: Result
    detail: str
    recorded: Mapping[str, Any]
    now: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Kind:
    """`evidence`: where the evidence now differs from the counted one, in words; None where it does not or could not
    be compared. `reworded`: prompts that are not those recorded, so that answers were matched by step."""

    kind: str
    parts: tuple[Part, ...]
    evidence: str | None = None
    reworded: int = 0


@dataclass(frozen=True)
class Recomputation:
    """`arithmetic`: what does not follow from the recorded parts, `composite`: from the recomputed ones, in words;
    both empty where all is equal. `fenced`: whether the prompts could be made with the key of their fences."""

    kinds: tuple[Kind, ...]
    arithmetic: tuple[str, ...]
    composite: tuple[str, ...]
    fenced: bool

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(part for kind in self.kinds for part in kind.parts)

    @property
    def equal(self) -> bool | None:
        """True where everything that was recomputed is equal, False where something differs, None where it could not
        all be told."""
        results = {part.result for part in self.parts}
        if "differs" in results or self.arithmetic or self.composite or any(kind.evidence for kind in self.kinds):
            return False
        if results & {"other_method", "unknown"} or (self.fenced and any(kind.reworded for kind in self.kinds)):
            return None
        return True


async def recompute(dossier: Dossier, fence_key: bytes | None, documents: Documents) -> Recomputation:
    """Recompute a scorecard. `fence_key`: the id key under which its prompts were fenced, None for a reader without.
    `documents`: the texts that its request refers to.

    Raises `CommandError` where nothing was judged under the id, `PolicyError` for a policy that this build cannot
    read.
    """
    record = dossier.record
    if record["kind"] != "scorecard" or dossier.policy is None:
        raise CommandError(f"{record['evaluation_id']} is a {record['kind']}: nothing was judged under it")
    policy = Policy.from_document(dossier.policy)
    kinds = tuple([await _kind(dossier, policy, kind, fence_key or b"", documents) for kind in policy.kinds()])
    try:
        check_record(dict(record), dossier.policy)
        arithmetic: tuple[str, ...] = ()
    except RecordError as error:
        arithmetic = (str(error),)
    rows = [part.now or part.recorded for kind in kinds for part in kind.parts]
    composed = compose(rows, dossier.policy)
    composite = tuple(_differences(record, composed, _COMPOSED))
    return Recomputation(kinds, arithmetic, composite, fence_key is not None)


async def _kind(dossier: Dossier, policy: Policy, kind: str, fence_key: bytes, documents: Documents) -> Kind:
    rows = {row["part"]: row for row in dossier.record["parts"] if row["part"] in policy.kind_settings(kind)}
    if kind not in dossier.sealed or dossier.request is None:
        return Kind(kind, tuple(_unsealed(dossier, row) for row in rows.values()))
    try:
        return await _again(dossier, policy, kind, rows, fence_key, documents)
    except CommandError as error:
        why = str(error)
    except (LookupError, TypeError, ValueError) as error:  # what another build wrote need not have our form
        why = f"this build cannot read how it was judged ({type(error).__name__})"
    return Kind(kind, tuple(Part(part, "verdict", "unknown", why, row) for part, row in rows.items()))


async def _again(
    dossier: Dossier,
    policy: Policy,
    kind: str,
    rows: Mapping[str, Mapping[str, Any]],
    fence_key: bytes,
    documents: Documents,
) -> Kind:
    sealed = dossier.sealed[kind]
    told = {verdict["part"]: verdict for verdict in sealed["verdicts"]}
    client = _client(dossier, sealed, fence_key)
    now, evidence = await _judged(dossier, policy, kind, _judge(dossier, kind, client), documents)
    parts = tuple(_part(dossier, row, told.get(part), now[part], sealed["evidence"]) for part, row in rows.items())
    differs = None
    if all(part.result == "equal" for part in parts):
        differs = _place(sealed["evidence"], evidence)
    return Kind(kind, parts, differs, len(client.reworded))


def _client(dossier: Dossier, sealed: Mapping[str, Any], fence_key: bytes) -> RecordedClient:
    calls = [call for call in _calls(sealed["evidence"]) if "prompt_digest" in call]
    methods = [verdict["method"] for verdict in sealed["verdicts"] if verdict["method"]]
    return RecordedClient(calls, dossier.outputs.kept, recorded_endpoint(calls, methods), fence_key)


def _judge(dossier: Dossier, kind: str, client: RecordedClient) -> Judge:
    """The kind's judge with recorded models: those of this process as they were, others by the endpoint's client."""
    sealed, kept = dossier.sealed[kind], dossier.outputs.kept
    methods = {verdict["part"]: verdict["method"] for verdict in sealed["verdicts"] if verdict["method"]}
    calls = [call for call in _calls(sealed["evidence"]) if "input_digest" in call]
    if kind == "calibration" and any(method["parameters"].get("embedder") for method in methods.values()):
        from judges.calibration import CalibrationJudge
        from judges.embedders import RecordedEmbedder

        (method,) = methods.values()
        return CalibrationJudge(RecordedEmbedder(method, calls, kept))
    if kind == "structure":
        from judges.extract_models import recorded_extractor
        from judges.structure import StructureJudge

        said = {call["input_digest"]: kept[call["output_digest"]] for call in calls if call["output_digest"] in kept}
        by_part = {part: Method.model_validate(method) for part, method in methods.items()}
        return StructureJudge(recorded_extractor(by_part, said))
    return make_judge(kind, client)


def _calls(evidence: Any) -> Iterator[Mapping[str, Any]]:
    """What a model was asked, wherever it stands in the evidence: the objects with an `output_digest`."""
    if isinstance(evidence, dict) and "output_digest" in evidence:
        yield evidence
    elif isinstance(evidence, dict | list):
        for value in evidence.values() if isinstance(evidence, dict) else evidence:
            yield from _calls(value)


async def _judged(
    dossier: Dossier, policy: Policy, kind: str, judge: Judge, documents: Documents
) -> tuple[dict[str, Scored | NotApplicable | Failed], Any]:
    """Verdicts by part, and the evidence as JSON, exactly as a worker comes to them."""
    assert dossier.request is not None
    request = EvaluationRequest.model_validate(strict_loads(dossier.request.request, max_depth=64))
    until = time.monotonic() + max(LEAST_S, float(policy.deadline_s))
    try:
        given = await documents.read(request.judge_input(judge.needs))
        made = await answer(judge, Case(dossier.record["evaluation_id"], given, policy.kind_settings(kind), until))
    except StoreError as error:
        raise CommandError(str(error)) from None
    finally:
        await judge.close()
    return {verdict.part: verdict for verdict in made.verdicts}, strict_loads(canonical(made.evidence), max_depth=64)


def _unsealed(dossier: Dossier, row: Mapping[str, Any]) -> Part:
    """A part of a kind whose evidence is not at hand."""
    if dossier.erased_at is not None:
        why = f"the content was erased at {dossier.erased_at}"
    elif dossier.request is None or not dossier.sealed:
        why = "the evidence that the record cites is not here"
    elif row["state"] == "failed":
        return Part(row["part"], "verdict", "not_kept", f"failed ({row['cause']}): nothing was kept", row)
    else:
        why = "the record cites no evidence of it"
    return Part(row["part"], "verdict", "unknown", why, row)


def _part(
    dossier: Dossier,
    row: Mapping[str, Any],
    told: Mapping[str, Any] | None,
    now: Scored | NotApplicable | Failed,
    evidence: Mapping[str, Any],
) -> Part:
    """`told`: the verdict in the counted evidence."""
    part = row["part"]
    if told is None:
        return _unsealed(dossier, row)
    said = part_row(_VERDICT.validate_python(told))
    made = part_row(now)
    apart = tuple(_differences(row, said, (*_ROW, "method_digest"), "evidence"))
    if apart:
        return Part(part, "verdict", "differs", f"the record is not what its evidence says: {'; '.join(apart)}", row)
    own = evidence.get(part)
    cited = {call["output_digest"] for call in _calls(own if isinstance(own, dict) and "calls" in own else evidence)}
    if damaged := cited & dossier.outputs.damaged:
        return Part(part, "verdict", "differs", f"{len(damaged)} raw outputs are no longer what was kept", row)
    if missing := cited & dossier.outputs.missing:
        return Part(part, "verdict", "unknown", f"{len(missing)} raw outputs are lost", row)
    unkept = isinstance(now, Failed) and now.detail == NOT_RECORDED
    if told["state"] == "failed" and (unkept or told["cause"] not in ANSWERED | {"refused"}):
        return Part(part, "verdict", "not_kept", f"failed ({told['cause']}): nothing was kept", row)
    if now.method is None and isinstance(now, Failed):
        return Part(part, "verdict", "unknown", f"judging again ended in {now.cause} ({now.detail})", row)
    changes = dict(_changes(told["method"] or {}, now.model_dump(mode="json")["method"] or {}))
    if unkept:
        changes.pop("model", None)  # as asked for: only an answer says which model served
    if changes:
        return Part(part, "verdict", "other_method", "; ".join(f"{name} {how}" for name, how in changes.items()), row)
    if unkept:
        return Part(part, "verdict", "unknown", "a model's answer that the verdict needs was not kept", row)
    source: Source = "raw outputs" if cited else "request"
    names = (*_ROW, "flags")
    told = {**told, "flags": [flag for flag in told["flags"] if flag != FOREIGN_AGREEMENT]}
    differences = "; ".join(_differences({**said, **told}, {**made, "flags": list(now.flags)}, names))
    return Part(part, source, "differs" if differences else "equal", differences, row, {**row, **made})


def _differences(
    recorded: Mapping[str, Any], now: Mapping[str, Any], names: Sequence[str], other: str = "now"
) -> Iterator[str]:
    for name in names:
        if recorded[name] != now[name]:
            yield f"{name}: recorded {_shown(recorded[name])}, {other} {_shown(now[name])}"


def _changes(recorded: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What differs between two methods, by field or parameter."""
    for name in sorted(recorded.keys() | here.keys()):
        there, own = recorded.get(name), here.get(name)
        if isinstance(there, dict) and isinstance(own, dict):
            yield from _changes(there, own)
        elif there != own:
            yield name, f"is {_shown(own)} here, {_shown(there)} on record"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "none"
    return "none" if value is None else str(value)


def _place(recorded: Any, now: Any, path: str = "") -> str | None:
    """The first place at which two JSON values differ."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        for key in sorted((recorded.keys() | now.keys()) - _BESIDE):
            if key not in recorded or key not in now:
                return f"{path}.{key}".lstrip(".")
            if found := _place(recorded[key], now[key], f"{path}.{key}"):
                return found
        return None
    if isinstance(recorded, list) and isinstance(now, list) and len(recorded) == len(now):
        for n, (one, other) in enumerate(zip(recorded, now, strict=True)):
            if found := _place(one, other, f"{path}[{n}]"):
                return found
        return None
    return None if recorded == now else path.lstrip(".") or "the whole"
