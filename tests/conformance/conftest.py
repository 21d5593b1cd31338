"""One model that says whatever a row puts in its mouth, for every judge that asks one."""

import json
from collections import defaultdict
from typing import Any

import pytest

from tests.judges.conftest import Script, client, connect, lexical, says, script

__all__ = ["client", "connect", "lexical", "script"]


class Puppet:
    """A step for `Script`. `said`: by schema, what to answer: a dict (as JSON), a string (as it is), a whole response
    (status, headers, body), "hang", "reset", or a function of the request that makes one of these; a list holds one
    for each call in turn, the last one for all that follow. `vectors`: by text; [1, 0] for others."""

    def __init__(self, vectors: dict[str, list[float]] | None = None, **said: Any) -> None:
        self.said, self.vectors = said, vectors or {}
        self.asked: dict[str, list[dict[str, Any]]] = defaultdict(list)
        """By schema: the requests."""

    def __call__(self, body: dict[str, Any]) -> Any:
        if "input" in body:
            self.asked["embeddings"].append(body)
            rows = [self.vectors.get(text, [1.0, 0.0]) for text in body["input"]]
            return 200, {}, json.dumps({"data": [{"index": n, "embedding": row} for n, row in enumerate(rows)]})
        schema = body["response_format"]["json_schema"]["name"]
        self.asked[schema].append(body)
        said = self.said[schema]
        if isinstance(said, list):
            said = said[min(len(self.asked[schema]), len(said)) - 1]
        if callable(said):
            said = said(body)
        if isinstance(said, dict):
            said = json.dumps(said)
        return says(said) if isinstance(said, str) and said not in ("hang", "reset") else said


def data_of(body: dict[str, Any]) -> Any:
    """What a chat request has between its fences."""
    return json.loads(body["messages"][-1]["content"].split("\n")[1])


@pytest.fixture
def puppet(script: Script) -> Any:
    """Makes the model of the scripted endpoint: `puppet(SchemaName=what it says, …)`."""

    def make(**said: Any) -> Puppet:
        made = Puppet(**said)
        script.steps = [made]
        return made

    return make
