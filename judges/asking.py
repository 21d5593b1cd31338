"""What one part of one evaluation asks of the model, and the log of it in the order of asking."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from glassbox.contract.verdict import NotApplicable, Scored
from judges.authorship import JUDGE_IS_AUTHOR, judge_is_author
from judges.claims import SYSTEM
from judges.llm import Call, EndpointClient, Session
from judges.llm.schema import M
from judges.port import Case


@dataclass(frozen=True)
class Finding:
    """What came of a part. `claims`: how many were found in the answer, None where nobody looked."""

    verdict: Scored | NotApplicable
    evidence: dict[str, Any]
    claims: int | None = None


class Asking:
    """Questions that run side by side each have a session of their own, so that neither the samples nor the log
    depend on which is answered first."""

    def __init__(self, client: EndpointClient, case: Case) -> None:
        self.client, self._case = client, case
        self._sessions: list[Session] = []

    def session(self) -> Session:
        self._sessions.append(self.client.session(self._case.deadline, self._case.cache))
        return self._sessions[-1]

    async def say(
        self,
        session: Session,
        schema: type[M],
        fields: Mapping[str, Any],
        accept: Callable[[M], object],
        *,
        tokens: int = 0,
        more: str = "",
    ) -> M:
        """The step's output for `fields`, which go fenced. `more` is added to the instructions; else as
        `Session.chat`."""
        system = {"role": "system", "content": SYSTEM[schema] + more}
        user = {"role": "user", "content": self.client.fence.enclose(fields)}
        return await session.chat((system, user), schema, accept, tokens=tokens)

    @property
    def calls(self) -> list[Call]:
        """The answers that arrived, session by session."""
        return [call for session in self._sessions for call in session.calls]

    def served(self) -> str:
        """The chat model as it served last, or as it would be asked for."""
        chats = [call for call in self.calls if call.schema != "embeddings"]
        return chats[-1].answer.model if chats else self.client.endpoint.model

    def parameters(self) -> dict[str, Any]:
        """What of the endpoint belongs into a method."""
        endpoint = self.client.endpoint
        author = judge_is_author(self._case.input.model, endpoint.model, self.served())
        adapted = sorted({name for call in self.calls for name in call.answer.adapted})
        return {
            **endpoint.parameters(),
            **({"adapted": adapted} if adapted else {}),
            **({JUDGE_IS_AUTHOR: True} if author else {}),
        }
