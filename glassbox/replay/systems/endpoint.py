"""A language model as a system under test: any OpenAI-compatible endpoint, over documents that are retrieved here."""

from __future__ import annotations

import json
import time

from glassbox.contract.canonical import sha256_hex
from glassbox.replay.store import SystemReference
from glassbox.replay.suite import Suite
from glassbox.replay.systems.citations import read_markers
from glassbox.replay.systems.extractive import ABSTENTION
from glassbox.replay.systems.http import failed, secrets_of, shown
from glassbox.replay.systems.retrieval import KeywordRetriever
from glassbox.replay.trace import Invocation, Usage
from judges.llm import Endpoint, EndpointClient, EndpointError
from judges.llm.answers import read_chat

TOP = 3
INSTRUCTIONS = f"""Answer the question from the documents of the input alone, in one to three sentences.
After each sentence name the document that it rests on, by its id in square brackets, as in: It opens at nine [hours].
If the documents do not hold the answer, write this and nothing else: {ABSTENTION}"""


class EndpointSystem:
    """The model gets the instructions and, as JSON, the question with the `TOP` documents that share most with it by
    inverse document frequency; the ids in brackets in its answer become citations. One call a question: who runs the
    system retries."""

    def __init__(self, suite: Suite, endpoint: Endpoint) -> None:
        self._corpus, self._endpoint = suite.corpus, endpoint
        self._retriever = KeywordRetriever(suite.corpus, "idf", TOP)
        self._client = EndpointClient(endpoint)
        self.secrets = secrets_of(endpoint.base_url, endpoint.api_key)
        parameters = {
            "base_url": shown(endpoint.base_url),
            **endpoint.parameters(),
            "retriever": "idf",
            "top": TOP,
            "instructions_digest": sha256_hex(INSTRUCTIONS.encode()),
        }
        self.reference = SystemReference(name="endpoint", version=endpoint.model, parameters=parameters)

    async def start(self) -> None:
        """Nothing has to be up here."""

    async def answer(self, question: str) -> Invocation:
        retrieved = self._retriever.retrieve(question)
        documents = [self._corpus[each.document].model_dump() for each in retrieved]
        prompt = "input: " + json.dumps({"question": question, "documents": documents}, ensure_ascii=False)
        endpoint = self._endpoint
        body = {
            "model": endpoint.model,
            "messages": [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": prompt}],
            "temperature": endpoint.temperature,
            "max_tokens": endpoint.max_tokens,
        }
        try:
            deadline = time.monotonic() + endpoint.call_limit_s
            raw, adapted = await self._client.ask("/chat/completions", body, deadline)
            read = read_chat(raw, endpoint.model, len(INSTRUCTIONS) + len(prompt))
            answer, citations = read_markers(read.text())
        except EndpointError as error:
            raise failed(error) from None
        return Invocation(
            answer=answer,
            citations=citations,
            retrieved=retrieved,
            usage=Usage(
                prompt_tokens=read.usage.prompt_tokens,
                completion_tokens=read.usage.completion_tokens,
                provenance=read.usage.provenance,
            ),
            model=read.model,
            parameters=self.reference.parameters | ({"adapted": list(adapted)} if adapted else {}),
        )

    async def close(self) -> None:
        await self._client.close()
