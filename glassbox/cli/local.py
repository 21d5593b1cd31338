"""Judging in this process, without broker or ledger: the same contract, judges, guard and arithmetic."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from glassbox.cli.errors import CommandError
from glassbox.cli.inputs import Line
from glassbox.cli.response_cache import SealedResponses
from glassbox.cli.stores import documents
from glassbox.cli.wiring import make_judge, own_judges
from glassbox.contract.canonical import CanonicalError
from glassbox.contract.composite import compose
from glassbox.contract.policy import Policy
from glassbox.contract.request import ContractError, EvaluationRequest, keyed_digest, parse_request
from glassbox.contract.verdict import Failed, part_row
from judges.agreement import with_agreement
from judges.port import Case, Judge, Judgement, Models, ResponseCache
from judges.run import answer
from ledger.port import DocumentChanged, StoreError

if TYPE_CHECKING:
    from glassbox.contract.agreement import AgreementCard
    from glassbox.settings import Settings
    from judges.llm import ClientStats, EndpointClient
    from ledger.documents import StoredDocuments


@dataclass(frozen=True)
class Result:
    """One line's answer. `card` is what `compose` gives with the evaluation id, None where not every kind was to judge
    or the request was refused (`refused`: field and reason). `verdicts` and `evidence` are JSON; `evidence` by worker
    kind."""

    line: int
    policy: Policy | None = None
    card: dict[str, Any] | None = None
    verdicts: tuple[dict[str, Any], ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    refused: tuple[str, str] | None = None


class Bench:
    """The judges of this process, each made when the first request needs it. `judge` may run many times at once.

    `cards`: agreement cards by digest. `documents`: the texts that requests refer to. `models`: those of this process.
    `only`: the worker kinds that judge, by default all of the policy. `cache`: where models' answers are kept.
    """

    def __init__(
        self,
        client: EndpointClient,
        policies: Mapping[str, Policy],
        default: str,
        id_key: Callable[[], bytes],
        cards: Mapping[str, AgreementCard],
        documents: StoredDocuments,
        models: Models,
        only: Collection[str] | None = None,
        cache: ResponseCache | None = None,
    ) -> None:
        self._client, self._policies, self._default, self._id_key = client, policies, default, id_key
        self._cards, self._models, self._only, self._cache = cards, models, only, cache
        self._documents = documents
        self._judges: dict[str, Judge] = {}

    def _judge(self, kind: str) -> Judge:
        if kind not in self._judges:
            self._judges[kind] = make_judge(kind, self._client, self._models)
        return self._judges[kind]

    @property
    def asked(self) -> ClientStats:
        """What its judges asked of models so far."""
        return self._client.stats

    async def close(self) -> None:
        for judge in self._judges.values():
            await judge.close()

    async def judge(self, line: Line) -> Result:
        """Never raises for what the line says; `CommandError` where a judge cannot be made."""
        number, raw = line
        try:
            request = parse_request(raw, self._policies).request
            self._documents.rules.check(request)
            content = request.canonical()
        except (ContractError, CanonicalError) as error:
            return Result(number, refused=(error.field or "body", error.reason))
        policy = self._policies[request.policy or self._default]
        evaluation_id = request.evaluation_id or keyed_digest(self._id_key(), content)
        kinds = [kind for kind in policy.kinds() if self._only is None or kind in self._only]
        for kind in kinds:
            self._judge(kind)  # one that cannot be made says so before others are under way
        made = await asyncio.gather(*(self._answer(kind, evaluation_id, request, policy) for kind in kinds))
        verdicts = [verdict for _, judgement in made for verdict in judgement.verdicts]
        card = None
        if self._only is None:
            card = {"evaluation_id": evaluation_id, "policy": policy.name, "policy_digest": policy.digest}
            card |= compose([part_row(verdict) for verdict in verdicts], policy.document)
        return Result(
            number,
            policy=policy,
            card=card,
            verdicts=tuple(verdict.model_dump(mode="json") for verdict in verdicts),
            evidence={kind: judgement.evidence for kind, judgement in made},
        )

    async def _answer(self, kind: str, evaluation_id: str, request: EvaluationRequest, policy: Policy) -> Any:
        judge = self._judge(kind)
        deadline = time.monotonic() + float(policy.deadline_s)
        try:
            given = await self._documents.read(request.judge_input(judge.needs))
        except StoreError as error:
            cause = "document_changed" if isinstance(error, DocumentChanged) else "document_missing"
            return kind, Judgement(tuple(Failed(part=part, cause=cause) for part in policy.kind_settings(kind)), {})
        case = Case(evaluation_id, given, policy.kind_settings(kind), deadline, self._cache)
        return kind, with_agreement(await answer(judge, case), case, self._cards)


@asynccontextmanager
async def bench(
    settings: Settings, policy: str | None = None, *, only: Collection[str] | None = None, cache: bool = True
) -> AsyncIterator[Bench]:
    """The judges of the configured policies. Without a configured endpoint the offline model is served inside
    this process. `policy`: judges the requests that name none; by default the settings'. `only`: these worker kinds
    judge every request under that one policy, whatever it names, and no scorecard is made. `cache`: models' answers
    are kept in the data folder, and what was asked before is not asked again."""
    from glassbox.contract.policy import nearest

    policies = settings.policies()
    own_judges(policies.values())
    default = policy or settings.policy
    if default not in policies:
        raise CommandError(f"no policy {default!r} is configured{nearest(default, policies)}")
    cards = settings.cards() if only is None else {}
    async with AsyncExitStack() as stack:
        from judges.lexical.server import LexicalServer
        from judges.llm import EndpointClient

        offline = None if settings.llm_base_url else await stack.enter_async_context(LexicalServer())
        client = EndpointClient(settings.endpoint(offline.url if offline else None), settings.id_key())
        stack.push_async_callback(client.close)
        by_name = policies if only is None else dict.fromkeys(policies, policies[default])
        kept = None
        if cache:
            kept = SealedResponses(settings.make_data_dir() / "judge-cache.sqlite", settings.id_key())
            stack.callback(kept.close)
        made = Bench(
            client, by_name, default, settings.id_key, cards, documents(settings), settings.models(), only, kept
        )
        stack.push_async_callback(made.close)
        yield made


async def judge_lines(bench: Bench, lines: Iterable[Line], at_once: int) -> AsyncIterator[Result]:
    """Results in the order of the lines, `at_once` evaluations in flight."""
    pending: list[asyncio.Task[Result]] = []
    source = iter(lines)
    try:
        while True:
            while len(pending) < at_once and (line := next(source, None)) is not None:
                pending.append(asyncio.create_task(bench.judge(line)))
            if not pending:
                return
            yield await pending[0]
            pending.pop(0)
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
