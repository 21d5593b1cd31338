"""Small suites, traces and runs."""

from pathlib import Path
from typing import Any

from glassbox.replay.store import Manifest, RunStore, SuiteReference, SystemReference
from glassbox.replay.suite import Case, Document, Suite
from glassbox.replay.trace import Invocation, InvocationError, Trace

NOW = "2026-11-30T09:00:00.000Z"
SYSTEM = SystemReference(name="double", version="1", parameters={"top": 3})


def suite(*cases: str, digest: str = "a" * 64, corpus_digest: str = "b" * 64) -> Suite:
    """Cases by their ids, over one document."""
    return Suite(
        name="small",
        cases={name: Case(id=name, question=f"What is {name}?", relevant=("doc",)) for name in cases},
        corpus={"doc": Document(id="doc", text="It is nine.")},
        digest=digest,
        corpus_digest=corpus_digest,
    )


def manifest(of: Suite, **fields: Any) -> Manifest:
    reference = SuiteReference(name=of.name, digest=of.digest, corpus_digest=of.corpus_digest, cases=len(of.cases))
    return Manifest(**{"run_id": "run", "suite": reference, "system": SYSTEM, "started_at": NOW} | fields)


def trace(case: str, of: Suite, **fields: Any) -> Trace:
    """An answer, or an error where `fields` have one."""
    what = {} if "error" in fields else {"invocation": Invocation(answer="It is nine.")}
    return Trace(**{"case": case, "suite": of.digest, "duration_ms": 1.5} | what | fields)


def failure(message: str = "HTTP 429") -> InvocationError:
    return InvocationError(type="rate_limited", message=message)


def stored(folder: Path, of: Suite, *traces: Trace, **fields: Any) -> Path:
    """A finished run, by default with an answer to each case."""
    with RunStore.create(folder, manifest(of, **fields)) as store:
        for each in traces or [trace(case, of) for case in of.cases]:
            store.append(each)
        store.finish(NOW)
    return folder
