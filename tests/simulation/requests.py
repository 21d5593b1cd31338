"""What the simulated producers ask, small and of few contents, so that their canonical bytes are made once."""

from __future__ import annotations

import functools
import json

from glassbox.contract.policy import load_policies
from glassbox.contract.request import parse_request

DEADLINE_S = 30.0

_TOML = """
[policy.one]
deadline_s = 30
vetoes = []
review_on = []
[policy.one.judges.contextual_precision]
enabled = false
[policy.one.judges.semantic_faithfulness.parts.answer_relevancy]
enabled = false
[policy.one.judges.structural_fidelity.parts.entities]
enabled = false
[policy.one.judges.structural_fidelity.parts.relations]
enabled = false
[policy.other]
deadline_s = 30
vetoes = []
review_on = []
[policy.other.judges.contextual_precision]
enabled = false
[policy.other.judges.semantic_faithfulness]
enabled = false
[policy.other.judges.structural_fidelity.parts.relations]
enabled = false
"""

_LOADED = load_policies(_TOML)
POLICIES = {"current": _LOADED["one"], "other": _LOADED["other"]}
DIGESTS = tuple(policy.digest for policy in POLICIES.values())
KINDS = ("grounding", "terminology", "structure")
"""The worker kinds that these policies need."""
NEEDS = {kind: frozenset(("answer",)) for kind in KINDS}


@functools.cache
def body(name: str, content: str, special: str) -> bytes:
    """A request's bytes. `special`: bad (breaks the contract), big (its tasks are too large for the broker), poison
    (kills the grounding worker), or nothing."""
    answer = {"bad": " ", "big": content + "x" * 5000}.get(special, f"{content} {special}")
    return json.dumps({"evaluation_id": name, "query": "q", "answer": answer, "retrieved_passages": []}).encode()


@functools.cache
def canonical(raw: bytes) -> bytes | None:
    """A request's canonical bytes; None for one that breaks the contract."""
    if b'"answer": " "' in raw:
        return None
    return parse_request(raw, POLICIES).request.canonical()
