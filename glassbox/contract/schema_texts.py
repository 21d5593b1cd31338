"""The words of the published schemas, and the shapes that Python types do not carry.

Keyed by field, or by `Model.field` where the same name means something else.
"""

from __future__ import annotations

from typing import Any

from glassbox.contract.judge_settings import PART_NAMES, RESERVED_KINDS
from glassbox.contract.record import RESERVED_PREFIXES
from glassbox.contract.request import SUPPORTED_MAJOR
from glassbox.contract.verdict import FAILED, KINDS, NOT_APPLICABLE

Schema = dict[str, Any]

FIGURE: Schema = {"type": "string", "pattern": r"^(0\.[0-9]{6}|1\.000000)$"}
DIGEST: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
CODE: Schema = {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,63}$"}
IDENTIFIER: Schema = {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$"}
TIME: Schema = {
    "type": "string",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z$",
}
_OWN_ID = {**IDENTIFIER, "not": {"pattern": f"^({'|'.join(RESERVED_PREFIXES)})"}}
_NOT_BLANK = {"type": "string", "pattern": "[^\\s\u200b\u200c\u200d\u2060\ufeff]"}
_PART = {**CODE, "examples": list(PART_NAMES)}  # a judge of one's own has others
_KIND = {**CODE, "examples": list(KINDS)}
_PARTS = {"type": "array", "items": _PART}
_SCORECARD, _REFERENCE = {"$ref": "#/$defs/ScorecardRecord"}, {"$ref": "#/$defs/ReferenceRecord"}

SHAPES: dict[str, Schema] = {
    "EvaluationRequest.query": _NOT_BLANK,
    "EvaluationRequest.answer": _NOT_BLANK,
    "EvaluationRequest.reference_answer": _NOT_BLANK,
    "EvaluationRequest.retrieved_passages": {
        "type": "array",
        "items": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Passage"}]},
        "maxItems": 1000,
    },
    "EvaluationRequest.source_documents": {
        "type": "array",
        "items": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Document"}]},
    },
    "EvaluationRequest.evaluation_id": _OWN_ID,
    "EvaluationRequest.supersedes": _OWN_ID,
    "EvaluationRequest.schema_version": {"type": "string", "pattern": rf"^{SUPPORTED_MAJOR}(\.|$)"},
    "evaluation_id": IDENTIFIER,
    "supersedes": IDENTIFIER,
    "part": _PART,
    "kind": _KIND,
    "kinds": {"type": "array", "items": _KIND},
    "OwnJudge.kind": {**CODE, "not": {"enum": sorted(RESERVED_KINDS)}},
    "OwnJudge.parts": {
        "type": "object",
        "propertyNames": CODE,
        "additionalProperties": {"$ref": "#/$defs/OwnPart"},
        "minProperties": 1,
    },
    "vetoes": _PARTS,
    "review_on": _PARTS,
    "Scored.score": FIGURE,
    "Scored.low": FIGURE,
    "Scored.high": FIGURE,
    "NotApplicable.cause": {"enum": sorted(NOT_APPLICABLE)},
    "Failed.cause": {"enum": sorted(FAILED)},
    "Method.prompt_digest": DIGEST,
    "Announced.policy": {"$ref": "#/$defs/PolicyDocument"},
    "PolicyRegistration.policy": {"$ref": "#/$defs/PolicyDocument"},
    "Scorecard.record": _SCORECARD,
    "Reference.record": _REFERENCE,
    "PolicyRegistration.record": _REFERENCE,
    "Receipt.record": {"anyOf": [_SCORECARD, _REFERENCE]},
}

MODELS = {
    "EvaluationRequest": "One answer to judge: the value of a message on glassbox.requests, JSON in UTF-8, to 1 MiB. "
    "The message's key may be anything. An unknown field is left out and counted; null in an optional field is the "
    "same as leaving it out. A duplicated key, a lone surrogate, a NUL, a number that is not finite, an integer that a "
    "double does not hold and nesting deeper than 32 levels are refused; what is refused becomes a dead letter with "
    "field and reason in its headers.",
    "Passage": "A retrieved passage. A plain string stands for an object with only `text`.",
    "Document": "A source document. A plain string stands for an object with only `text`.",
    "Model": "The model that wrote the answer.",
    "policies": "The `[policy.NAME]` tables of glassbox.toml: each is laid over the shipped policy of that name, if "
    "there is one, else over the defaults. Other tables of the file are not described here.",
    "Policy": "Which parts count, with which weights and targets, and when an answer is trusted. Figures have up to 6 "
    "decimal places; enabled weights must not sum to zero, in a judge or over the judges.",
    "PolicyDocument": "A policy in the canonical form that records cite: the SHA-256 of its RFC 8785 bytes is their "
    "policy_digest. Every key is present and every figure is a decimal string with 6 places.",
    "Judges": "The three judges, and those of one's own under names of their own. Weights renormalise over those that "
    "are enabled.",
    "OwnJudge": "A judge that a package registers (docs/judges.md).",
    "OwnPart": "A part of a judge of one's own. What is not named here is a setting of that judge; in the canonical "
    "form its numbers are decimal strings with 6 places.",
    "ContextualPrecision": "Did retrieval find the right passages, and rank them first?",
    "ContextualPrecisionParts": "Parts of contextual_precision.",
    "SemanticFaithfulness": "Does the answer say what the passages say, and answer the query?",
    "SemanticFaithfulnessParts": "Parts of semantic_faithfulness.",
    "StructuralFidelity": "Are wording, names, numbers and relations those of the sources?",
    "StructuralFidelityParts": "Parts of structural_fidelity.",
    "LlmRelevance": "Rank-weighted average precision of the passages that a model calls relevant.",
    "SimilarityCalibration": "Agreement of the retriever's scores with embedding similarity, and entity hit rate.",
    "Faithfulness": "Share of the answer's claims that the passages support.",
    "AnswerRelevancy": "Similarity of the query and of questions generated back from the answer.",
    "Terminology": "Preserved wording: harmonic mean of BLEU-4 and ROUGE-L F1 against the closest source windows.",
    "Entities": "Share of the answer's entities that the sources have.",
    "Relations": "Share of the pairs that the answer asserts which the sources assert too.",
    "Verdict": "What one judge says of one part: scored, not_applicable or failed, never a number that stands for "
    "could-not-tell.",
    "Scored": "The part was judged.",
    "NotApplicable": "The part has no meaning for this evaluation.",
    "Failed": "The part applies but could not be judged. In the trust score's bounds it may be anything from 0 to 1.",
    "Method": "How a number was made. Two numbers compare only where their methods are equal. The record carries the "
    "SHA-256 of this object's RFC 8785 bytes.",
    "JudgeTask": "intake -> the workers of one kind, on glassbox.judge.KIND; key: the evaluation id.",
    "JudgeInput": "The fields of the request that this kind needs; the others are absent or null.",
    "Announced": "intake -> join, on glassbox.results: an evaluation is open and its tasks are in the log.",
    "Source": "Where the request stands in the log.",
    "Judged": "worker -> join, on glassbox.results: one kind's verdicts, one for each of its enabled parts.",
    "DeadlinePassed": "deadline timer -> join, on glassbox.results: close what is open, if the log's own time agrees.",
    "Scorecard": "join -> committer, catalogue and anyone, on glassbox.scorecards.",
    "Claim": "join -> committer, on glassbox.scorecards: another announcement under an id that has its scorecard.",
    "Reference": "A run or a review to be put on the ledger, on glassbox.scorecards.",
    "PolicyRegistration": "A policy to be put on the ledger, on glassbox.scorecards.",
    "Receipt": "committer, intake -> catalogue and anyone, on glassbox.receipts: the record that stands under an id.",
    "Record": "Record v1 as it stands on the ledger; its bytes are the RFC 8785 form. Shape only: that trust, bounds, "
    "coverage and outcome follow from the parts and the policy is arithmetic, described in docs/ledger-schema.md.",
    "ScorecardRecord": "One evaluation's scorecard. No text of the evaluation, no floating-point number.",
    "PartRow": "One enabled part. Sorted by judge, then part.",
    "JudgeRow": "One enabled judge. Sorted by judge.",
    "RecordModel": "The model that wrote the answer.",
    "ReferenceRecord": "A run, review or policy, by the digest of its content.",
}

FIELDS = {
    "query": "What was asked. Not blank.",
    "answer": "What the system answered. Not blank.",
    "retrieved_passages": "What retrieval handed to the model, in rank order. May be empty; at most 1,000.",
    "EvaluationRequest.evaluation_id": "Idempotency key. Left out: derived from the content, so that the same content "
    "sent twice is one evaluation.",
    "session_id": "Stands on the ledger only as a keyed digest.",
    "EvaluationRequest.model": "The model that wrote the answer.",
    "retrieval_strategy": "How the passages were found; kept, not judged.",
    "reference_answer": "The right answer where it is known: relevance is then judged against it.",
    "retrieved_entities": "Entities that retrieval reported; looked for in the passages.",
    "EvaluationRequest.chunk_scores": "The retriever's scores, one a passage, any scale, higher is better unless the "
    "policy says not. Or `score` on each passage; both given must agree.",
    "source_documents": "The documents behind the passages. Left out: structure is judged against the passages.",
    "EvaluationRequest.policy": "Name of a configured policy. Left out: the configured default.",
    "metadata": "At most 16 labels of your own.",
    "EvaluationRequest.tenant": "Set by the gateway from the caller's key.",
    "EvaluationRequest.supersedes": "The evaluation that this one judges again. Set by glassbox rejudge.",
    "callback_url": "Set by the gateway; no part of the request's content or digest.",
    "EvaluationRequest.schema_version": f"Version of this contract; this pipeline reads major {SUPPORTED_MAJOR}.",
    "id": "Your own id of it.",
    "text": "The text, as it was.",
    "Passage.score": "The retriever's score; finite, any scale.",
    "document_id": "The document that it was cut from.",
    "provider": "Who serves the model.",
    "name": "The model's name.",
    "[policy]": "Policy name -> its settings.",
    "Policy.schema_version": "Version of the policy's form.",
    "Policy.name": "The policy's name: lower-case letters, digits, _ and -.",
    "threshold": "Least trust of a trusted answer.",
    "vetoes": "Parts that make the outcome fail alone when scored and short of their target.",
    "review_on": "Parts that send an otherwise trusted answer to review when short of their target.",
    "min_coverage": "Least share of the weight that must have been scored for trust to exist.",
    "abstention": "incomplete: an answer that abstains is incomplete; ignore: only the numbers decide.",
    "empty_context": "unsupported: with neither passages nor source documents an answer's claims count as unsupported.",
    "Policy.deadline_s": "Seconds from announcement to closing, whatever has been judged by then.",
    "Policy.ledger": "Fabric channel and chaincode; empty: the configured ledger.",
    "judges": "Settings of the judges.",
    "contextual_precision": "Settings of this judge.",
    "semantic_faithfulness": "Settings of this judge.",
    "structural_fidelity": "Settings of this judge.",
    "parts": "Settings of the judge's parts.",
    "OwnJudge.kind": "The worker kind that answers; left out: the judge's own name.",
    **dict.fromkeys(PART_NAMES, "Settings of this part."),
    "enabled": "false: absent from scorecards; its weight goes to the other parts of its judge (the other judges).",
    "weight": "Weight against the other parts of the judge (the other judges).",
    "target": "Met by a score above it, or by 1. Without one the part neither vetoes nor asks for review.",
    "target_family": "The method family that the target was set for; a verdict by another is flagged foreign_target.",
    "agreement": "SHA-256 of the agreement card that says how far this part's judge agrees with people.",
    "repeats": "How many times the model is asked. The first answer is the score; their agreement is reported.",
    "labels": "Entity types that an entity model looks for. Their order means nothing.",
    "types": "Relation types that a relation model looks for. Their order means nothing.",
    "Entities.threshold": "Least confidence of an entity that a model finds.",
    "Relations.threshold": "Least confidence of a relation that a model finds.",
    "pair_limit": "Pairs of one answer that are judged; more are left out, and counted.",
    "both_directions": "Whether a relation model is asked about each pair both ways round.",
    "higher_is_better": "false where the retriever reports distances.",
    "estimator": "two_step: claims, then verdicts; fused: both in one call, which is another figure.",
    "strictness": "Questions generated back from the answer, one call each.",
    "Terminology.reference": "aligned: against each sentence's closest window; whole_sources: against them all.",
    "part": "The part.",
    "method": "How it was judged; null where nothing was run.",
    "flags": "Codes that qualify the verdict, such as foreign_target.",
    "state": "Which of the three this is.",
    "Scored.score": "In [0, 1], rounded half-even to 6 places.",
    "Scored.low": "Lower bound that the judge vouches for.",
    "Scored.high": "Upper bound that the judge vouches for.",
    "raw": "The library's own value, where it was clamped or changed.",
    "NotApplicable.cause": "Why it does not apply.",
    "Failed.cause": "Why there is no verdict.",
    "detail": "For operators; quotes nothing of the evaluation.",
    "Method.name": "What was computed, such as ragas.faithfulness.",
    "family": "lexical: the offline model; llm: a hosted model; rules: no model; or a model's own family.",
    "library": "The library that computed it.",
    "version": "Its version.",
    "Method.model": "The model as served; null without one.",
    "prompt_digest": "SHA-256 of the prompt; null without one.",
    "parameters": "Everything else that the number depends on. No floating-point numbers.",
    "evaluation_id": "The evaluation.",
    "request_digest": "SHA-256 of the salt followed by the canonical request.",
    "policy_digest": "SHA-256 of the canonical policy.",
    "intake_run": "Random, new each time intake handles a request.",
    "JudgeTask.deadline_s": "Seconds from this task's append to its topic.",
    "settings": "Part -> its settings: exactly the parts of this kind that the policy enables.",
    "input": "What there is to judge.",
    "JudgeInput.model": "The model that wrote the answer, where a judge must know whether it judges itself.",
    "JudgeInput.chunk_scores": "Aligned with retrieved_passages, wherever the producer put them.",
    "type": "Tells the messages of one topic apart.",
    "requested_at": "The request's broker timestamp, milliseconds since 1970.",
    "Announced.model": "As in the request.",
    "Announced.session": "Keyed digest of the session id.",
    "tenant": "Whose evaluation it is.",
    "supersedes": "The evaluation that this one judges again.",
    "source": "Where the request stands in the log.",
    "kinds": "The worker kinds that will answer.",
    "Announced.deadline_s": "Seconds from this event's append to its topic.",
    "Announced.policy": "The policy, whole, so that a change in mid-flight mixes nothing.",
    "topic": "Topic.",
    "partition": "Partition.",
    "offset": "Offset.",
    "kind": "The worker kind.",
    "verdicts": "One for each enabled part of the kind.",
    "evidence_digest": "SHA-256 of the salt followed by the canonical evidence; null where none could be stored.",
    "record": "The record.",
    "PolicyRegistration.policy": "The policy in its canonical form.",
    "result": "created; exists: these very bytes stood already; duplicate: the same request was judged before.",
    "record_digest": "SHA-256 of the record's bytes.",
    "Receipt.ledger": "The ledger backend: merkle or fabric.",
    "proof": "The backend's proof.",
}

RECORD_FIELDS = {
    "ScorecardRecord.kind": "What kind of record this is.",
    "ScorecardRecord.schema_version": "Version of the record's form.",
    "ScorecardRecord.evaluation_id": "The id under which the first record stands for ever.",
    "ScorecardRecord.request_digest": "SHA-256 of the salt followed by the canonical request.",
    "ScorecardRecord.evidence_digest": "SHA-256 of the RFC 8785 object {worker kind: digest of the evidence counted}.",
    "ScorecardRecord.session": "HMAC-SHA256 of the session id under the id key.",
    "ScorecardRecord.policy_digest": "SHA-256 of the canonical policy that the figures follow from.",
    "ScorecardRecord.model": "The model that wrote the answer, as the producer named it.",
    "ScorecardRecord.requested_at": "Broker timestamp of the request.",
    "ScorecardRecord.closed_at": "Broker timestamp of the event that closed the evaluation.",
    "ScorecardRecord.parts": "Every enabled part.",
    "ScorecardRecord.judges": "Every enabled judge.",
    "ScorecardRecord.trust": "Weighted mean of the scored parts; null without one or with too little coverage.",
    "ScorecardRecord.trust_low": "The same over scored and failed parts at their lower bounds.",
    "ScorecardRecord.trust_high": "The same at their upper bounds.",
    "ScorecardRecord.coverage": "Share of the enabled weight that was scored.",
    "ScorecardRecord.outcome": "What the policy makes of it.",
    "ScorecardRecord.reasons": "Why, as codes or code:part. Sorted by code point, each once.",
    "ScorecardRecord.missed_targets": "The scored parts that miss their targets. Sorted by code point, each once.",
    "ScorecardRecord.supersedes": "The evaluation that this one judges again.",
    "RecordModel.provider": "Who serves the model.",
    "RecordModel.name": "The model's name.",
    "PartRow.judge": "The judge that the part belongs to.",
    "PartRow.part": "The part.",
    "PartRow.state": "Whether there is a score, and if not, whether there could be one.",
    "PartRow.score": "The score; null unless scored.",
    "PartRow.low": "Its lower bound; low <= score <= high.",
    "PartRow.high": "Its upper bound.",
    "PartRow.cause": "Why there is no score; null where there is one.",
    "PartRow.meets_target": "score > target, or score = 1; null without a target or a score.",
    "PartRow.method_digest": "SHA-256 of the method's RFC 8785 bytes.",
    "JudgeRow.judge": "The judge.",
    "JudgeRow.score": "Weighted mean of its scored parts; null without one.",
    "JudgeRow.coverage": "Share of its enabled weight that was scored.",
    "ReferenceRecord.kind": "What was put on the ledger.",
    "ReferenceRecord.schema_version": "Version of the record's form.",
    "ReferenceRecord.evaluation_id": "The kind, a colon, and the digest.",
    "ReferenceRecord.digest": "SHA-256 of the content.",
    "ReferenceRecord.refers_to": "The id of the record that this one is about, or null.",
    "ReferenceRecord.created_at": "Broker timestamp.",
}
