"""Why a part has the score it has, in a few words, from the evidence that its judge left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from glassbox.contract.verdict import KINDS

_QUOTE = 70
"""Longest quotation, in characters."""

Evidence = Mapping[str, Any]

UNSUPPORTED = frozenset(("unsupported", "novel_entity", "reversed"))


def why(part: Mapping[str, Any], evidence: Mapping[str, Evidence], detail: str = "") -> str:
    """`part`: a row of a scorecard; `evidence`: worker kind -> its evidence; `detail`: of a failed part's verdict. Says
    what can be said without any."""
    name, cause = part["part"], part["cause"]
    found = evidence_of(name, evidence, part.get("judge"))
    if part["state"] == "failed":
        return f"{name}: failed, {plain(cause)}" + (f" ({printable(detail)})" if detail else "")
    if part["state"] == "not_applicable":
        own = "" if name in _SAY else _of_ones_own(found)
        return f"{name}: {plain(cause)}" + (f" ({own})" if own else "")
    said = _SAY.get(name, _of_ones_own)(found) if found else ""
    return f"{name} {float(part['score']):.2f}" + (f": {said}" if said else "")


def evidence_of(part: str, evidence: Mapping[str, Evidence], judge: str | None = None) -> Evidence:
    """What a part's judge left: under the part's name where the kind answers for several. `judge`: the part's judge in
    the policy; one's own is found by the part's name, or where kind and judge have one name."""
    built_in = (kind for kind, parts in KINDS.items() if part in parts)
    own = (kind for kind, whole in evidence.items() if kind not in KINDS and part in whole)
    kind = next(built_in, None) or next(own, judge or "")
    whole = evidence.get(kind, {})
    inner = whole.get(part, whole)
    return inner if isinstance(inner, Mapping) else {}


def plain(code: str) -> str:
    """A code as words."""
    return code.replace("_", " ")


def printable(text: Any) -> str:
    """Text that somebody else wrote, safe for a terminal: an escape sequence in an answer must not move the cursor,
    and a direction mark must not turn a line around."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in str(text))


def quoted(text: Any) -> str:
    """A short quotation on one line."""
    line = printable(" ".join(str(text).split()))
    return f"“{line if len(line) <= _QUOTE else line[: _QUOTE - 1] + '…'}”"


@dataclass(frozen=True)
class Attack:
    """A place that looks like an attack on the judges: in which request field, in which of its texts where it is a
    list, and by which rule."""

    field: str
    index: int | None
    start: int
    end: int
    rule: str


def attacks(evidence: Mapping[str, Evidence]) -> list[Attack]:
    """Each once, whichever judges suspect it."""
    found: dict[Attack, None] = {}
    for kind in evidence.values():
        for row in kind.get("injection_suspected") or []:
            start, end = row["span"]
            found[Attack(row["field"], row["index"], start, end, row["rule"])] = None
    return list(found)


def suspected(evidence: Mapping[str, Evidence], request: Mapping[str, Any] | None = None) -> list[str]:
    """What looks like an attack on the judges, once each: which text, which kind of attack, and its words where the
    `request` is at hand."""
    lines = []
    for each in attacks(evidence):
        name = each.field if each.index is None else f"{each.field}[{each.index}]"
        lines.append(f"{name}: {plain(each.rule)}, {words(each, request or {})}")
    return lines


def words(attack: Attack, request: Mapping[str, Any]) -> str:
    """Its words; characters that nobody sees are named by their code points."""
    text = request.get(attack.field)
    if isinstance(text, list) and attack.index is not None:
        text = text[attack.index].get("text")
    if text is None:  # erased, or only referred to
        return f"characters {attack.start} to {attack.end}"
    said = text[attack.start : attack.end]
    if any(map(str.isprintable, said)):
        return quoted(said)
    codes = " ".join(f"U+{ord(char):04X}" for char in said[:8])
    return f"{codes}{' …' if len(said) > 8 else ''} at character {attack.start}"


def strange_entities(found: Evidence) -> list[Evidence]:
    """Of the evidence of `entities`, those that no source has."""
    return [entity for entity in found.get("found") or [] if entity.get("status") in ("novel", "near_miss")]


def unsupported_pairs(found: Evidence) -> list[Evidence]:
    """Of the evidence of `relations`, those that no source has, or only the other way round."""
    return [pair for pair in found.get("pairs") or [] if pair.get("status") in UNSUPPORTED]


def _of_ones_own(found: Evidence) -> str:
    """A judge of one's own says why in its evidence's `reason`."""
    reason = found.get("reason")
    return quoted(reason) if isinstance(reason, str) and reason.strip() else ""


def _faithfulness(found: Evidence) -> str:
    claims = found.get("claims") or []
    unsupported = [claim for claim in claims if claim.get("verdict") == 0]
    undecided = [claim for claim in claims if claim.get("undecided")]
    if unsupported:
        return f"{len(unsupported)} of {len(claims)} claims unsupported: {quoted(unsupported[0].get('text'))}"
    if undecided:
        return f"{len(undecided)} of {len(claims)} claims undecided: {quoted(undecided[0].get('text'))}"
    return f"all {len(claims)} claims supported" if claims else ""


def _answer_relevancy(found: Evidence) -> str:
    questions = found.get("questions") or []
    return f"it answers rather {quoted(questions[0].get('question'))}" if questions else ""


def _llm_relevance(found: Evidence) -> str:
    judged = [passage for passage in found.get("passages") or [] if "verdict" in passage]
    hits = [passage["rank"] for passage in judged if passage["verdict"] == "yes"]
    if not judged:
        return ""
    if not hits:
        return f"none of {len(judged)} passages is relevant"
    return f"{len(hits)} of {len(judged)} passages relevant, at rank {', '.join(map(str, hits))}"


def _entities(found: Evidence) -> str:
    strange = strange_entities(found)
    if not strange:
        return ""
    names = ", ".join(quoted(entity.get("text")) for entity in strange[:3]) + (" …" if len(strange) > 3 else "")
    near = strange[0].get("nearest")
    return f"not in the sources: {names}" + (f"; nearest {quoted(near)}" if near and len(strange) == 1 else "")


def _relations(found: Evidence) -> str:
    pairs = [pair for pair in unsupported_pairs(found) if pair["status"] != "reversed"]
    if not pairs:
        return ""
    pair = " with ".join(quoted(name) for name in pairs[0].get("pair") or [])
    return f"{len(pairs)} of {len(found['pairs'])} pairs stand in no sentence of the sources: {pair}"


def _terminology(found: Evidence) -> str:
    figures = found.get(str(found.get("reference"))) or {}
    rouge = figures.get("rouge_l") or {}
    if "bleu_score" not in figures or "f1" not in rouge:
        return ""
    return f"wording differs from the sources (BLEU {figures['bleu_score']:.2f}, ROUGE-L {rouge['f1']:.2f})"


def _similarity_calibration(found: Evidence) -> str:
    tau = (found.get("rank_agreement") or {}).get("tau_b")
    missing = [row for row in (found.get("entity_hits") or {}).get("entities") or [] if not row.get("passages")]
    said = []
    if tau is not None:
        said.append(f"the scores' order against the similarities': tau {tau:+.2f}")
    if missing:
        said.append(f"no passage has {quoted(missing[0].get('entity'))}")
    return "; ".join(said)


_SAY: Mapping[str, Callable[[Evidence], str]] = {
    "faithfulness": _faithfulness,
    "answer_relevancy": _answer_relevancy,
    "llm_relevance": _llm_relevance,
    "similarity_calibration": _similarity_calibration,
    "entities": _entities,
    "relations": _relations,
    "terminology": _terminology,
}
