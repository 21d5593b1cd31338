"""What the simulated producers ask, small and of few contents, so that their canonical bytes are made once."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from hashlib import sha256

from glassbox.contract.documents import DocumentRules
from glassbox.contract.policy import load_policies
from glassbox.contract.request import ParsedRequest, parse_request

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
LATER = "later"
"""The name of a policy that requests ask for before it is configured."""
POLICIES = {"current": _LOADED["one"], "other": _LOADED["other"], LATER: _LOADED["one"]}
DIGESTS = tuple(policy.digest for policy in POLICIES.values())
KINDS = ("grounding", "terminology", "structure")
"""The worker kinds that these policies need."""
NEEDS = {kind: frozenset(("answer",)) for kind in KINDS} | {"terminology": frozenset(("answer", "source_documents"))}
RULES = DocumentRules(("s3://texts/",))
DOCUMENTS = {"here": b"what the answer is about", "changed": b"what it is not about any more"}
"""Path -> what lies there: not the text that requests name under `changed`, and nothing under `absent`."""


@functools.cache
def body(name: str, content: str, special: str) -> bytes:
    """A request's bytes. `special`: bad (breaks the contract), big (its tasks are too large for the broker), poison
    (kills the grounding worker), early (its policy is configured later), here | absent | changed (its document is), or
    nothing."""
    answer = {"bad": " ", "big": content + "x" * 5000}.get(special, f"{content} {special}")
    request = {"evaluation_id": name, "query": "q", "answer": answer, "retrieved_passages": []}
    if special == "early":
        request["policy"] = LATER
    if special in ("here", "absent", "changed"):
        text = DOCUMENTS["here"]
        reference = {"uri": f"s3://texts/{special}", "sha256": sha256(text).hexdigest(), "size": len(text)}
        request["source_documents"] = [{"reference": reference}]
    return json.dumps(request).encode()


@functools.lru_cache(500)
def parsed(raw: bytes, policies: Iterable[str] = tuple(POLICIES)) -> ParsedRequest:
    """As intake reads it, with these policies configured."""
    return parse_request(raw, policies)


@functools.lru_cache(500)
def canonical(raw: bytes) -> bytes | None:
    """A request's canonical bytes; None for one that breaks the contract."""
    return None if b'"answer": " "' in raw else parsed(raw).request.canonical()
