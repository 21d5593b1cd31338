"""What one side of the comparison does, in a process of its own: `ours`, or `libraries` with their own runners. Prints
JSON: seconds, CPU seconds, the endpoint's counts, and what was scored.

    python -m tests.bench.llm_runs SIDE URL LATENCY_S [CONCURRENCY]
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import random
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any
from urllib.request import Request, urlopen

COUNT = 50

Row = dict[str, Any]


def rows(count: int, seed: int = 7) -> list[Row]:
    """Evaluations of 3 passages and 4 claims each, every one of its own words."""
    chance = random.Random(seed)
    names = [
        a + b for a in ("Nord", "Ost", "Sunder", "Wester", "Mill") for b in ("kai", "haven", "brook", "wick", "ford")
    ]
    trades = "harbour mill ferry bridge school market library railway brewery theatre".split()
    made = []
    for _ in range(count):
        place, trade = chance.choice(names), chance.choice(trades)
        years = sorted(chance.sample(range(1700, 2000), 4))
        facts = [
            f"The {trade} of {place} was founded in {years[0]} by {chance.choice(names)} and {chance.choice(names)}.",
            f"It was rebuilt in {years[1]} after a fire that lasted {chance.randint(2, 9)} days.",
            f"In {years[2]} it employed {chance.randint(20, 900)} people from the surrounding villages.",
            f"The {trade} was sold to the town of {chance.choice(names)} in {years[3]}.",
        ]
        other = chance.choice(names)
        filler = [
            f"Visitors reach {place} by the coast road, which was widened twice.",
            f"The archive of {other} holds letters about the trade of the region.",
            f"Storms of that winter damaged many roofs in {other}, as reports say.",
            "Local papers wrote about it for weeks, and nobody agreed on the cause.",
        ]
        passages = [
            " ".join([facts[0], filler[0], facts[1], filler[3]]),
            " ".join(chance.sample(filler, 4)),
            " ".join([filler[1], facts[2], facts[3], filler[2]]),
        ]
        wrong = facts[2].replace(str(years[2]), str(years[2] + 1))
        answer = " ".join([facts[0], facts[1], wrong if chance.random() < 0.3 else facts[2], facts[3]])
        query = f"When was the {trade} of {place} founded, rebuilt and sold?"
        made.append({"query": query, "answer": answer, "passages": passages})
    return made


def ours(url: str, concurrency: int) -> Callable[[list[Row]], Any]:
    from glassbox.contract.canonical import canonical, sha256_hex
    from glassbox.contract.request import JudgeInput, Passage
    from judges.grounding import GroundingJudge
    from judges.lexical import CHAT_MODEL, EMBEDDING_MODEL
    from judges.llm import Endpoint, EndpointClient
    from judges.port import Case
    from judges.relevance import RelevanceJudge
    from judges.run import answer

    class Cache(dict[str, bytes]):
        async def get(self, key: str) -> bytes | None:  # type: ignore[override]
            return super().get(key)

        async def put(self, key: str, value: bytes) -> None:
            self[key] = value

    cache = Cache()
    parts: dict[str, dict[str, dict[str, Any]]] = {
        "relevance": {"llm_relevance": {}},
        "grounding": {"faithfulness": {}, "answer_relevancy": {}},
    }

    async def run(cases: list[Row]) -> Any:
        client = EndpointClient(Endpoint(f"{url}/v1", CHAT_MODEL, EMBEDDING_MODEL, "", concurrency=concurrency))
        judges = (RelevanceJudge(client), GroundingJudge(client))

        async def one(n: int, row: Row) -> Any:
            passages = [Passage(text=text) for text in row["passages"]]
            given = JudgeInput(query=row["query"], answer=row["answer"], retrieved_passages=passages)
            until = time.monotonic() + 300
            made = await asyncio.gather(
                *(answer(judge, Case(f"e{n}", given, parts[judge.kind], until, cache)) for judge in judges)
            )
            return [verdict.model_dump(mode="json") for each in made for verdict in each.verdicts], [
                each.evidence for each in made
            ]

        found = await asyncio.gather(*(one(n, row) for n, row in enumerate(cases)))
        await client.close()
        scores = [{verdict["part"]: verdict.get("score") for verdict in verdicts} for verdicts, _ in found]
        claims = [len(evidence[1]["faithfulness"]["claims"]) for _, evidence in found]
        return {
            "scores": scores,
            "claims": sum(claims) / len(claims),
            "bytes": sha256_hex(canonical(json.loads(json.dumps(found)))),
            "peak": client.stats.peak,
        }

    return lambda cases: asyncio.run(run(cases))


def libraries(url: str) -> Callable[[list[Row]], Any]:
    """`ragas.evaluate` and `deepeval.evaluate` as their documentation shows them, one after the other."""
    from deepeval import evaluate as deepeval_evaluate
    from deepeval.metrics import ContextualPrecisionMetric
    from deepeval.models import GPTModel
    from deepeval.test_case import LLMTestCase
    from langchain_openai import OpenAIEmbeddings
    from openai import AsyncOpenAI
    from ragas import EvaluationDataset, evaluate
    from ragas.embeddings import LangchainEmbeddingsWrapper
    from ragas.llms import llm_factory
    from ragas.metrics import answer_relevancy, faithfulness

    llm = llm_factory("gpt-4o-mini", client=AsyncOpenAI(base_url=f"{url}/v1", api_key="k"))
    vectors = OpenAIEmbeddings(base_url=f"{url}/v1", api_key="k", check_embedding_ctx_length=False)
    embeddings = LangchainEmbeddingsWrapper(vectors)
    model = GPTModel(model="gpt-4o-mini", api_key="k", base_url=f"{url}/v1")

    def run(cases: list[Row]) -> Any:
        samples = [
            {"user_input": row["query"], "response": row["answer"], "retrieved_contexts": row["passages"]}
            for row in cases
        ]
        metrics = [faithfulness, answer_relevancy]
        ragas = evaluate(EvaluationDataset.from_list(samples), metrics=metrics, llm=llm, embeddings=embeddings)
        tests = [
            LLMTestCase(
                input=row["query"],
                actual_output=row["answer"],
                expected_output=row["answer"],
                retrieval_context=row["passages"],
            )
            for row in cases
        ]
        deepeval = deepeval_evaluate(tests, [ContextualPrecisionMetric(model=model)])
        precision = {result.input: result.metrics_data[0].score for result in deepeval.test_results}
        return {
            "scores": [
                {
                    "faithfulness": found["faithfulness"],
                    "answer_relevancy": found["answer_relevancy"],
                    "llm_relevance": precision[row["query"]],
                }
                for row, found in zip(cases, ragas.scores, strict=True)
            ]
        }

    return run


def main() -> None:
    side, url, latency_s, *more = sys.argv[1:]
    warnings.simplefilter("ignore")
    os.environ.update(
        DEEPEVAL_TELEMETRY_OPT_OUT="1", DEEPEVAL_DISABLE_DOTENV="1", RAGAS_DO_NOT_TRACK="true", OPENAI_API_KEY="k"
    )
    hushed = io.StringIO()
    with contextlib.redirect_stdout(hushed), contextlib.redirect_stderr(hushed):
        run = ours(url, int(more[0]) if more else 64) if side == "ours" else libraries(url)
        run(rows(2, seed=1))  # imports, connections, compiled schemas
        _post(f"{url}/latency", latency_s)
        first = measured(run, url)
        second = measured(run, url) if side == "ours" else None
    _post(f"{url}/latency", "0")
    print(json.dumps({"first": first, "second": second}))


def measured(run: Callable[[list[Row]], Any], url: str) -> dict[str, Any]:
    _stats(url)
    began, cpu = time.perf_counter(), time.process_time()
    found = run(rows(COUNT))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {"seconds": seconds, "cpu": cpu, "counts": _stats(url), **found}


def _stats(url: str) -> Any:
    with urlopen(f"{url}/stats") as answer:  # noqa: S310
        return json.load(answer)


def _post(url: str, text: str) -> None:
    with urlopen(Request(url, text.encode())):  # noqa: S310
        pass


if __name__ == "__main__":
    main()
