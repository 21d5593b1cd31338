"""Part `faithfulness`: what the answer claims, held against what was retrieved, claim by claim.

An answer is taken apart and its claims are checked in one call each: Ragas' two steps. Long answers are taken apart in
pieces, and many claims are checked in several calls, so that no model's limit of output is met: the verdict on a claim
depends on the claim and the passages alone.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from glassbox.contract.canonical import canonical, sha256_hex
from glassbox.contract.request import Document, JudgeInput, Passage
from glassbox.contract.verdict import Method, NotApplicable, Scored
from judges import ragas_metrics
from judges.asking import Asking, Finding
from judges.claims import (
    SYSTEM,
    UNDECIDED,
    ClaimVerdictsOutput,
    NLIStatementOutput,
    StatementGeneratorOutput,
    StatementVerdict,
    check_statements,
    distinct,
    in_order,
    pieces,
    same_claim,
    wilson,
)
from judges.languages import supported
from judges.lexical.statements import abstains, only_courtesies, statements
from judges.llm import Output, Session
from judges.llm.schema import response_format
from judges.port import Case, JudgeError
from judges.shown import Shown, with_what_it_says, without_attacks
from judges.tally import MOST_PLACED, Claim, Tally, agreement, evidence, placed
from judges.tongues import Tongues

PART = "faithfulness"

VERSION = "3"
"""Of the rules of this file, `shown`, `tally` and `tongues` (what is refused, left out, not counted, not applicable);
the prompts have digests of their own."""

PIECE_CHARACTERS = 6_000
"""Of an answer, taken apart in one call: its claims fit into 4,000 tokens."""

CLAIMS_A_CALL = 30
"""Claims that are checked in one call: with their reasons they fit into 4,000 tokens."""

TOKENS_A_CLAIM = 90
"""Room in the output for one claim's reason and verdict."""

MOST_CHARACTERS = 100_000
"""Longer answers are not judged (`too_long`): taking them apart would cost a hundred calls and tell nobody anything."""

REPEATS_DISAGREE = "repeats_disagree"
"""Flag of a verdict whose repeats did not all say the same."""

NOTHING: Mapping[str, Any] = {}
NO_CLAIMS: Mapping[str, Any] = {"claims": []}

T = TypeVar("T")


@dataclass(frozen=True)
class Context:
    """What the claims are held against. `origin`: the request field; `names`: {`passage`: its place there, `id`},
    by position in `shown`."""

    origin: str
    shown: list[Shown]
    names: list[dict[str, Any]]
    blank: int

    @classmethod
    def of(cls, given: JudgeInput) -> Context:
        origin, documents = _documents(given)
        kept = [(n, document) for n, document in enumerate(documents) if _has_a_word(document)]
        return cls(
            origin,
            [without_attacks(document.text) for _, document in kept],
            [{"passage": n, "id": document.id} for n, document in kept],
            len(documents) - len(kept),
        )

    @property
    def texts(self) -> list[str]:
        return [shown.text for shown in self.shown]


def _documents(given: JudgeInput) -> tuple[str, Sequence[Passage | Document]]:
    """The passages, or the source documents where no passage has a word."""
    passages = given.retrieved_passages or []
    if any(map(_has_a_word, passages)):
        return "passages", passages
    return "source_documents", given.source_documents or []


def _has_a_word(document: Passage | Document) -> bool:
    return any(map(str.isalnum, document.text))


async def find(case: Case, asking: Asking) -> Finding:
    """Two calls for an answer and context of usual size, none where there is nothing to ask. Raises `JudgeError`."""
    answer = case.input.answer or ""
    refuse_too_long(answer)
    context = Context.of(case.input)
    where = {"context": context.origin if context.shown else None, "blank": context.blank}

    def not_applicable(cause: str, found: Mapping[str, Any] = NOTHING, flags: tuple[str, ...] = ()) -> Finding:
        verdict = NotApplicable(part=PART, cause=cause, method=method(case, asking), flags=flags)
        return Finding(verdict, {**where, **found}, claims=len(found["claims"]) if "claims" in found else None)

    if (silent := why_silent(with_what_it_says(answer).text)) is not None:
        return not_applicable(silent, NO_CLAIMS)
    if not context.shown:
        if case.settings[PART].get("empty_context") != "unsupported":
            return not_applicable("no_passages")
        return _unsupported(answer, where)
    steps = _Steps(case, asking, context)
    if steps.tongues.judges_none(steps.answer.text, steps.offline):
        return not_applicable("other_language")
    runs = await steps.runs()
    if not runs[0]:
        # The offline rules see an assertion where the model sees none: worth a person's look.
        return not_applicable("no_claims", NO_CLAIMS, ("claims_disputed",) if steps.offline else ())
    claims = await asyncio.to_thread(steps.placed, runs)
    first, *others = [Tally.of(run) for run in claims]
    found: dict[str, Any] = where | {
        "claims": await asyncio.to_thread(evidence, claims[0], context.shown, context.names),
        "supported": first.supported,
        "undecided": first.undecided,
        "total": first.total,
        "support_method": "lexical_alignment",
    }
    if len(claims[0]) > MOST_PLACED:
        found["placed"] = MOST_PLACED
    if not first.total:
        return not_applicable("no_claims", found)
    if steps.lexical and not first.supported and (apart := steps.wholly_apart(runs[0])) is not None:
        return not_applicable(apart, found)
    found["wilson_95"] = [round(bound, 6) for bound in wilson(first.supported, first.total)]
    flags: tuple[str, ...] = ()
    if others:
        same = agreement(runs)
        found |= {"repeats": [round(tally.score, 6) for tally in (first, *others)], "agreement": round(same, 6)}
        flags = (REPEATS_DISAGREE,) if same < 1 or len(set(found["repeats"])) > 1 else ()
    scored = Scored.of(
        PART,
        first.score,
        low=min(tally.low for tally in (first, *others)),
        high=max(tally.score for tally in (first, *others)),
        method=method(case, asking),
        flags=flags,
    )
    return Finding(scored, found, first.total)


def why_silent(answer: str) -> str | None:
    """The cause for which an answer has no claims that anybody needs to look for: `abstained`, or `no_claims` where it
    has no word or is nothing but questions and greetings; None for all others."""
    if abstains(answer):
        return "abstained"
    return "no_claims" if not any(map(str.isalnum, answer)) or only_courtesies(answer) else None


def refuse_too_long(answer: str) -> None:
    """Raises `JudgeError` (too_long)."""
    if len(answer) > MOST_CHARACTERS:
        raise JudgeError("too_long", f"the answer has {len(answer)} characters; at most {MOST_CHARACTERS} are judged")


def method(case: Case, asking: Asking) -> Method:
    """How this part is judged, as far as is known by now: the model as served, once it has answered."""
    fused = _fused(case)
    return Method(
        name="glassbox.faithfulness@fused" if fused else "ragas.faithfulness",
        family=asking.client.endpoint.family,
        library="glassbox" if fused else "ragas",
        version=VERSION if fused else ragas_metrics.library().version,
        model=asking.served(),
        prompt_digest=_prompt_digest(fused),
        parameters={
            **asking.parameters(),
            "rules": VERSION,
            "context": _documents(case.input)[0],
            "duplicates": "collapsed",
            "repeats": _repeats(case),
            "answer_piece": PIECE_CHARACTERS,
            **({} if fused else {"claims_a_call": CLAIMS_A_CALL}),
        },
    )


def _unsupported(answer: str, where: dict[str, Any]) -> Finding:
    """`empty_context = "unsupported"`, with neither passages nor source documents: what the answer claims, found by
    the offline rules, is not supported. No call."""
    made = Method(
        name="glassbox.faithfulness@empty_context",
        family="rules",
        library="glassbox",
        version=VERSION,
        parameters={"claims": "offline", "duplicates": "collapsed", "empty_context": "unsupported"},
    )
    claims = [
        {"text": claim, "verdict": 0, "reason": "nothing was retrieved"} for claim in distinct(statements(answer))
    ]
    if not claims:
        return Finding(NotApplicable(part=PART, cause="no_claims", method=made), where | {"claims": []}, 0)
    found = where | {"claims": claims, "supported": 0, "total": len(claims)}
    return Finding(Scored.of(PART, 0.0, method=made), found, len(claims))


class _Steps:
    """What is asked of the model about one case: Ragas' two steps, or the fused one."""

    def __init__(self, case: Case, asking: Asking, context: Context) -> None:
        self.answer = with_what_it_says(case.input.answer or "")
        self.offline = statements(self.answer.text)
        self._repeats, self._fused = _repeats(case), _fused(case)
        self._asking, self._passages = asking, context.texts
        self.tongues = Tongues.of(context.texts)
        query = case.input.query or ""
        self._query = without_attacks(query).text or query
        self.lexical = asking.client.endpoint.family == "lexical"
        self._sessions: dict[object, Session] = {}
        self._said: list[list[str]] = []  # of each repeat, with what is said again
        self._claims: list[str] = []

    async def runs(self) -> list[list[StatementVerdict]]:
        """The verdicts of each repeat; of the first alone where it found no claims. Ragas counts the first, too."""
        again = range(1, self._repeats)
        if self._fused:
            return [await self._claims_and_verdicts(), *[await self._claims_and_verdicts() for _ in again]]
        first: list[StatementVerdict] = []

        async def judged() -> NLIStatementOutput:
            first[:] = await self._verdicts()
            return NLIStatementOutput(statements=first)

        value = await ragas_metrics.faithfulness(
            self._query,
            self.answer.text,
            self._passages,
            {StatementGeneratorOutput: self._statements, NLIStatementOutput: judged},
        )
        if not first:
            return [first]
        if not math.isclose(value, sum(said.verdict for said in first) / len(first), abs_tol=1e-9):
            raise JudgeError("crashed", "ragas' faithfulness is not supported claims by claims")
        return [first, *[await self._verdicts() for _ in again]]

    def wholly_apart(self, run: Sequence[StatementVerdict]) -> str | None:
        """The cause for which none of the claims can be compared with the passages word by word."""
        return self.tongues.wholly_apart(self.answer.text, [said.statement for said in run])

    def _held(self, said: StatementVerdict) -> StatementVerdict:
        """The verdict; `unsupported` where the claim is in a language that this judge cannot hold against that of the
        passages, so that a tail in it earns nothing. The offline model may be sure of words that it did find."""
        if self.lexical:
            doubtful = not said.verdict or said.reason.startswith(UNDECIDED)
        else:
            doubtful = not supported(said.statement)
        if not doubtful or (cause := self.tongues.apart(said.statement)) is None:
            return said
        return said.model_copy(update={"verdict": 0, "reason": f"{cause}: not comparable with the passages"})

    def placed(self, runs: Sequence[Sequence[StatementVerdict]]) -> list[list[Claim]]:
        return [
            placed(run, said, self.answer, lexical=self.lexical) for run, said in zip(runs, self._said, strict=True)
        ]

    async def _statements(self) -> StatementGeneratorOutput:
        def ask(piece: str) -> Awaitable[StatementGeneratorOutput]:
            return self._asking.say(
                self._session(piece),
                StatementGeneratorOutput,
                {"question": self._query, "answer": piece},
                lambda output: check_statements(output.statements, piece, some=self._asserts(piece)),
                tokens=len(piece) // 2,
            )

        parts = pieces(self.answer.text, PIECE_CHARACTERS)
        said = await _side_by_side(ask, parts)
        self._said = [[statement for part in parts for statement in said[part].statements]] * self._repeats
        self._claims = distinct(self._said[0])
        return StatementGeneratorOutput(statements=self._claims)

    async def _verdicts(self) -> list[StatementVerdict]:
        def ask(batch: tuple[str, ...]) -> Awaitable[NLIStatementOutput]:
            return self._asking.say(
                self._session(batch),
                NLIStatementOutput,
                {"passages": self._passages, "statements": batch},
                lambda output: in_order(output.statements, batch),
                tokens=TOKENS_A_CLAIM * len(batch) + sum(map(len, batch)) // 2,
            )

        starts = range(0, len(self._claims), CLAIMS_A_CALL)
        batches = [tuple(self._claims[start : start + CLAIMS_A_CALL]) for start in starts]
        said = await _side_by_side(ask, batches)
        return [self._held(verdict) for batch in batches for verdict in in_order(said[batch].statements, batch)]

    async def _claims_and_verdicts(self) -> list[StatementVerdict]:
        def check(output: ClaimVerdictsOutput, piece: str) -> None:
            check_statements([said.statement for said in output.statements], piece, some=self._asserts(piece))

        def ask(piece: str) -> Awaitable[ClaimVerdictsOutput]:
            return self._asking.say(
                self._session(piece),
                ClaimVerdictsOutput,
                {"passages": self._passages, "question": self._query, "answer": piece},
                lambda output: check(output, piece),
                tokens=TOKENS_A_CLAIM * (1 + len(piece) // 60) + len(piece) // 2,
            )

        parts = pieces(self.answer.text, PIECE_CHARACTERS)
        said = await _side_by_side(ask, parts)
        held = [self._held(verdict) for part in parts for verdict in said[part].statements]
        self._said.append([verdict.statement for verdict in held])
        # Of different verdicts on one claim the lowest counts, and its reason.
        lowest: dict[str, StatementVerdict] = {}
        for verdict in held:
            known = lowest.setdefault(same_claim(verdict.statement), verdict)
            if verdict.verdict < known.verdict:
                lowest[same_claim(verdict.statement)] = verdict
        return list(lowest.values())

    def _asserts(self, piece: str) -> bool:
        """Whether a model that finds no claim in the piece is wrong: the rules see one, or two where a model that
        understands the text may well know better."""
        found = self.offline if piece == self.answer.text else statements(piece)
        return len(found) >= (1 if self.lexical else 2)

    def _session(self, asked: object) -> Session:
        """One for each thing asked: asked again, it is the next sample."""
        if asked not in self._sessions:
            self._sessions[asked] = self._asking.session()
        return self._sessions[asked]


async def _side_by_side(ask: Callable[[Any], Awaitable[T]], things: Sequence[Any]) -> dict[Any, T]:
    """The answer for each different thing; the first failure ends the others."""

    async def one(thing: Any) -> T:
        return await ask(thing)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = {thing: group.create_task(one(thing)) for thing in dict.fromkeys(things)}
    except* JudgeError as errors:
        raise errors.exceptions[0] from None
    return {thing: task.result() for thing, task in tasks.items()}


def _fused(case: Case) -> bool:
    return bool(case.settings[PART].get("estimator", "two_step") == "fused")


def _repeats(case: Case) -> int:
    return int(case.settings[PART].get("repeats", 1))


@cache
def _prompt_digest(fused: bool) -> str:
    steps: tuple[type[Output], ...] = (StatementGeneratorOutput, NLIStatementOutput)
    if fused:
        steps = (ClaimVerdictsOutput,)
    return sha256_hex(canonical([[SYSTEM[step], response_format(step)] for step in steps]))
