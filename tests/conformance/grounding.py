"""The case that the rows of grounding begin with, and what a model says of it."""

import json
import time
from typing import Any

from glassbox.contract.canonical import canonical
from glassbox.contract.request import JudgeInput, Passage
from judges.grounding import GroundingJudge
from judges.port import Case
from judges.run import answer as judged

QUERY = "When was the old mill of Tornby rebuilt, and who owned it?"
FIRE = "A fire destroyed the old mill of Tornby in 1911. The owner was Karla Aldersey."
REBUILT = "The old mill of Tornby was rebuilt in 1913 and grinds rye today."
A, B, C = (
    "The old mill of Tornby was rebuilt in 1913.",
    "The owner was Karla Aldersey.",
    "The old mill of Tornby was rebuilt in 1933.",
)
PASSAGES = (FIRE, REBUILT)
FAITHFUL: dict[str, dict[str, Any]] = {"faithfulness": {}}
RELEVANT: dict[str, dict[str, Any]] = {"answer_relevancy": {}}
BOTH = FAITHFUL | RELEVANT


class Cache(dict[str, bytes]):
    async def get(self, key: str) -> bytes | None:  # type: ignore[override]
        return super().get(key)

    async def put(self, key: str, value: bytes) -> None:
        self[key] = value


def case(answer=f"{A} {B}", passages=PASSAGES, settings=BOTH, *, query=QUERY, seconds=100.0, cache=None, **fields):
    texts = [Passage(text=text, id=f"p{n}") for n, text in enumerate(passages)]
    given = JudgeInput(**{"query": query, "answer": answer, "retrieved_passages": texts, **fields})
    return Case("e-1", given, settings, time.monotonic() + seconds, cache)


async def parts(client, *arguments, **named):
    """Through the guard that every judge runs under: verdicts by part, evidence by part."""
    made = await judged(GroundingJudge(client), case(*arguments, **named))
    canonical(made.evidence)
    return {verdict.part: verdict for verdict in made.verdicts}, made.evidence


def statements(*texts: str) -> dict[str, Any]:
    return {"statements": list(texts)}


def nli(*rows: tuple[str, Any]) -> dict[str, Any]:
    return {"statements": [{"statement": text, "reason": "r", "verdict": verdict} for text, verdict in rows]}


def question(text: str = "When?", noncommittal: Any = 0) -> dict[str, Any]:
    return {"question": text, "noncommittal": noncommittal}


def honest(**said: Any) -> dict[str, Any]:
    """What a model says of the default case, but for what a row changes."""
    return {
        "StatementGeneratorOutput": statements(A, B),
        "NLIStatementOutput": nli((A, 1), (B, 1)),
        "AnswerRelevanceOutput": question(),
        **said,
    }


SAID = {
    "StatementGeneratorOutput": json.dumps(statements(A, B)),
    "NLIStatementOutput": json.dumps(nli((A, 1), (B, 1))),
    "AnswerRelevanceOutput": json.dumps(question()),
}
