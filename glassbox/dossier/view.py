"""One evaluation as a person inspects it: texts, what each judge found in them and where, and the arithmetic.

Figures of the record are decimal strings with 6 places. Places count code points, in the text as it was given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

from glassbox.contract.canonical import strict_loads
from glassbox.contract.composite import enabled_parts, figure
from glassbox.contract.events import Usage
from glassbox.contract.request import EvaluationRequest, GivenDocument, Model, TextReference
from glassbox.contract.spending import Spending, usage_of
from glassbox.contract.verdict import Frozen
from glassbox.dossier.archive import Dossier
from glassbox.dossier.arithmetic import arithmetic
from glassbox.dossier.reasons import UNSUPPORTED, attacks, evidence_of, strange_entities, why, words

Origin = Literal["passages", "source_documents"]
PassageVerdict = Literal["relevant", "irrelevant", "duplicate", "blank"]


class Span(Frozen):
    """A place in the answer."""

    start: int
    end: int


class Place(Frozen):
    """A place in a passage or source document: which list, which of its texts, where in it."""

    origin: Origin
    index: int
    start: int
    end: int


class Text(Frozen):
    """A source document; one that did not travel with the request has a reference in place of its text."""

    text: str | None
    reference: TextReference | None
    id: str | None


class PassageView(Text):
    """`score`: the retriever's; `similarity`: of its embedding to the query's. `verdict`, `rank` and `reason`: the
    relevance judge's; null where it did not judge it. `duplicate_of`: the first passage with the same words."""

    document_id: str | None
    score: float | None
    similarity: float | None
    verdict: PassageVerdict | None
    duplicate_of: int | None
    rank: int | None
    reason: str | None


class Claim(Frozen):
    """`spans`: where the answer makes it; empty where no place was found. `support`: the place that carries it.
    `counted`: false where it stands in what looks like an attack on the judges."""

    text: str
    verdict: Literal["supported", "unsupported", "undecided"]
    reason: str
    counted: bool
    spans: tuple[Span, ...]
    support: Place | None


class NamedEntity(Frozen):
    """`novel`: no source has it; `nearest`: what comes nearest there. `source`: where a source has it."""

    text: str
    label: str
    status: str
    novel: bool
    spans: tuple[Span, ...]
    nearest: str | None
    source: Place | None


class Relation(Frozen):
    """A pair of entities that the answer puts together in the clause from `start` to `end`; `flagged`: no source does,
    or only the other way round."""

    one: str
    other: str
    predicate: str | None
    status: str
    flagged: bool
    start: int
    end: int


class Attack(Frozen):
    """What looks like an attack on the judges. `index`: which text of the field, where it is a list."""

    field: str
    index: int | None
    start: int
    end: int
    rule: str
    text: str


class Question(Frozen):
    """What the answer answers, as a model sees it, and how near that is to the query."""

    question: str
    cosine: float | None


class MethodView(Frozen):
    """How a number was made."""

    name: str
    library: str
    version: str
    model: str | None
    family: str


class PartView(Frozen):
    """One part of the scorecard. `weight`: in the whole. `why`: in a few words. `usage`: what judging it took, also
    where the same calls were for the parts in `shares_usage_with`. `cost`: by the price table; null where a price is
    missing."""

    judge: str
    part: str
    state: Literal["scored", "not_applicable", "failed"]
    score: str | None
    low: str | None
    high: str | None
    target: str | None
    weight: str | None
    meets_target: bool | None
    cause: str | None
    why: str
    flags: tuple[str, ...]
    method: MethodView | None
    method_digest: str | None
    usage: tuple[Usage, ...]
    cost: str | None
    shares_usage_with: tuple[str, ...]


class PolicyPart(Frozen):
    part: str
    enabled: bool
    weight: str
    target: str | None


class PolicyJudge(Frozen):
    judge: str
    enabled: bool
    weight: str
    parts: tuple[PolicyPart, ...]


class PolicyView(Frozen):
    """What the outcome followed from."""

    name: str
    digest: str
    threshold: str
    min_coverage: str
    abstention: str
    vetoes: tuple[str, ...]
    review_on: tuple[str, ...]
    judges: tuple[PolicyJudge, ...]


class ArithmeticLine(Frozen):
    """`text` = `value`."""

    label: str
    text: str
    value: str | None
    note: str


class View(Frozen):
    """All that stands behind a scorecard. `claims_against`: what claims were held against; `support_method`: who found
    the places that carry them. `policy` null: it has not come to the catalogue, so weights, targets and arithmetic are
    missing too."""

    evaluation_id: str
    outcome: str
    trust: str | None
    trust_low: str | None
    trust_high: str | None
    coverage: str
    reasons: tuple[str, ...]
    query: str
    answer: str
    reference_answer: str | None
    model: Model | None
    metadata: dict[str, str]
    passages: tuple[PassageView, ...]
    source_documents: tuple[Text, ...]
    claims_against: Origin | None
    support_method: str | None
    claims: tuple[Claim, ...]
    entities: tuple[NamedEntity, ...]
    relations: tuple[Relation, ...]
    attacks: tuple[Attack, ...]
    questions: tuple[Question, ...]
    parts: tuple[PartView, ...]
    usage: tuple[Usage, ...]
    cost: str | None
    policy: PolicyView | None
    arithmetic: tuple[ArithmeticLine, ...]


def view(dossier: Dossier, spending: Spending) -> View:
    """Of a scorecard's dossier with its request."""
    assert dossier.request is not None
    request = EvaluationRequest.model_validate(strict_loads(dossier.request.request, max_depth=64))
    record, evidence = dossier.record, dossier.evidence
    faithfulness = evidence_of("faithfulness", evidence)
    usage = usage_of(evidence)
    return View(
        **{name: record[name] for name in ("evaluation_id", "outcome", "trust", "trust_low", "trust_high", "coverage")},
        reasons=tuple(record["reasons"]),
        query=request.query,
        answer=request.answer,
        reference_answer=request.reference_answer,
        model=request.model,
        metadata=request.metadata or {},
        passages=tuple(_passages(request, evidence)),
        source_documents=tuple(_text(document) for document in request.source_documents or ()),
        claims_against=faithfulness.get("context"),
        support_method=faithfulness.get("support_method"),
        claims=tuple(_claims(faithfulness)),
        entities=tuple(_entities(request, evidence)),
        relations=tuple(_relations(evidence_of("relations", evidence))),
        attacks=tuple(
            Attack(**asdict(each), text=words(each, request.model_dump(mode="json"))) for each in attacks(evidence)
        ),
        questions=tuple(
            Question(question=row["question"], cosine=row.get("cosine"))
            for row in evidence_of("answer_relevancy", evidence).get("questions") or ()
        ),
        parts=tuple(_parts(dossier, spending)),
        usage=usage,
        cost=_money(spending, usage),
        policy=_policy(record["policy_digest"], dossier.policy) if dossier.policy else None,
        arithmetic=tuple(
            ArithmeticLine(**asdict(line)) for line in (arithmetic(record, dossier.policy) if dossier.policy else ())
        ),
    )


def _text(given: GivenDocument) -> Text:
    return Text(text=given.text, reference=given.reference, id=given.id)


def _passages(request: EvaluationRequest, evidence: Mapping[str, Any]) -> Iterator[PassageView]:
    judged = {row["place"]: row for row in evidence_of("llm_relevance", evidence).get("passages") or ()}
    measured = evidence_of("similarity_calibration", evidence).get("passages") or ()
    similarity = {row["position"]: row.get("similarity") for row in measured}
    for n, given in enumerate(request.retrieved_passages):
        row = judged.get(n, {})
        yield PassageView(
            **_text(given).model_dump(),
            document_id=given.document_id,
            score=request.chunk_scores[n] if request.chunk_scores is not None else given.score,
            similarity=similarity.get(n),
            verdict=_passage_verdict(row),
            duplicate_of=row.get("duplicate_of"),
            rank=row.get("rank"),
            reason=row.get("reason"),
        )


def _passage_verdict(row: Mapping[str, Any]) -> PassageVerdict | None:
    if "verdict" in row:
        return "relevant" if row["verdict"] == "yes" else "irrelevant"
    return "duplicate" if "duplicate_of" in row else "blank" if row.get("blank") else None


def _claims(found: Mapping[str, Any]) -> Iterator[Claim]:
    for row in found.get("claims") or ():
        at, support = (row.get("answer"), *(row.get("again") or ())), row.get("support")
        carried = support and Place(
            origin=found["context"], index=support["passage"], start=support["start"], end=support["end"]
        )
        yield Claim(
            text=row["text"],
            verdict="undecided" if row.get("undecided") else "supported" if row["verdict"] else "unsupported",
            reason=row.get("reason") or "",
            counted=row.get("counted", True),
            spans=tuple(Span(start=span["start"], end=span["end"]) for span in at if span and "start" in span),
            support=carried or None,
        )


def _entities(request: EvaluationRequest, evidence: Mapping[str, Any]) -> Iterator[NamedEntity]:
    found = evidence_of("entities", evidence)
    origin: Origin = "source_documents"
    given: Sequence[GivenDocument] = request.source_documents or ()
    if (evidence.get("structure", {}).get("sources") or {}).get("origin") != "source_documents":
        origin, given = "passages", request.retrieved_passages
    at = {each.id or str(n): n for n, each in reversed(list(enumerate(given)))}  # of equal ids the first
    strange = strange_entities(found)
    for row in found.get("found") or ():
        where = row.get("where")
        source = None
        if where and where["source"] in at:
            start, end = where["span"]
            source = Place(origin=origin, index=at[where["source"]], start=start, end=end)
        yield NamedEntity(
            text=row["text"],
            label=", ".join(row.get("types") or ()) or row.get("kind") or "",
            status=row["status"],
            novel=row in strange,
            spans=tuple(Span(start=start, end=end) for start, end in row.get("spans") or ()),
            nearest=row.get("nearest"),
            source=source,
        )


def _relations(found: Mapping[str, Any]) -> Iterator[Relation]:
    for row in found.get("pairs") or ():
        one, other = row["pair"]
        start, end = row["clause"]
        yield Relation(
            one=one,
            other=other,
            predicate=row.get("predicate"),
            status=row["status"],
            flagged=row["status"] in UNSUPPORTED,
            start=start,
            end=end,
        )


def _parts(dossier: Dossier, spending: Spending) -> Iterator[PartView]:
    policy = dossier.policy
    weights = {name: figure(weight) for name, (_, _, weight) in enabled_parts(policy).items()} if policy else {}
    judges = policy["judges"].values() if policy else ()
    targets = {name: part["target"] for judge in judges for name, part in judge["parts"].items()}
    taken = _taken(dossier)
    for row in dossier.record["parts"]:
        name = row["part"]
        verdict = dossier.verdicts.get(name, {})
        method = verdict.get("method")
        usage, shared = taken.get(name, ((), ()))
        yield PartView(
            **{each: row[each] for each in ("judge", "part", "state", "score", "low", "high", "meets_target", "cause")},
            target=targets.get(name),
            weight=weights.get(name),
            why=why(row, dossier.evidence, verdict.get("detail", "")).partition(": ")[2],
            flags=tuple(verdict.get("flags") or ()),
            method=method and MethodView(**{each: method[each] for each in MethodView.model_fields}),
            method_digest=row["method_digest"],
            usage=usage,
            cost=_money(spending, usage),
            shares_usage_with=shared,
        )


def _taken(dossier: Dossier) -> dict[str, tuple[tuple[Usage, ...], tuple[str, ...]]]:
    """Part -> what judging it took, and the parts that the same calls were for."""
    taken = {}
    for sealed in dossier.sealed.values():
        parts = [verdict["part"] for verdict in sealed.get("verdicts", ())]
        evidence = sealed.get("evidence", {})
        common = {name: value for name, value in evidence.items() if name not in parts}
        shared = bool(usage_of(common))
        for part in parts:
            usage = usage_of({"own": evidence.get(part), "common": common})
            taken[part] = usage, tuple(other for other in parts if shared and other != part)
    return taken


def _money(spending: Spending, usage: Sequence[Usage]) -> str | None:
    money = spending.cost(usage) if spending.prices else None
    return None if money is None else f"{money:.6f}"


def _policy(digest: str, policy: Mapping[str, Any]) -> PolicyView:
    return PolicyView(
        **{name: policy[name] for name in ("name", "threshold", "min_coverage", "abstention", "vetoes", "review_on")},
        digest=digest,
        judges=tuple(
            PolicyJudge(
                judge=judge,
                enabled=settings["enabled"],
                weight=settings["weight"],
                parts=tuple(
                    PolicyPart(part=part, **{name: its[name] for name in ("enabled", "weight", "target")})
                    for part, its in settings["parts"].items()
                ),
            )
            for judge, settings in policy["judges"].items()
        ),
    )
