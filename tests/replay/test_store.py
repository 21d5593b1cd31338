"""Runs on disk: what is kept survives a crash at any byte, and what has changed is never read."""

import json
import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbox.replay.store import MANIFEST, TRACES, Run, RunStore, StoreError
from glassbox.replay.suite import Suite
from glassbox.replay.trace import Trace, TraceError
from tests.replay.builders import NOW, SYSTEM, failure, manifest, stored, suite, trace

SUITE = suite("a", "b", "c")
LATER = "2026-11-30T10:00:00.000Z"


def resume(folder: Path, of: Suite = SUITE, **fields: Any) -> RunStore:
    return RunStore.resume(folder, of, SYSTEM.model_copy(update=fields), LATER)


def changed(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads(path.read_bytes())
    change(value)
    path.write_text(json.dumps(value))


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    traces = [trace("c", SUITE), trace("a", SUITE, error=failure(), attempts=3), trace("b", SUITE)]
    run = Run.open(stored(tmp_path / "run", SUITE, *traces), SUITE)
    assert list(run.traces()) == traces
    made = run.manifest
    assert made.counts is not None
    assert (made.counts.traces, made.counts.errors, made.finished_at) == (3, 1, NOW)
    assert made.traces_digest == sha256((tmp_path / "run" / TRACES).read_bytes()).hexdigest()
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [MANIFEST, TRACES]


def test_the_digest_of_a_run_is_that_of_its_manifest(tmp_path: Path) -> None:
    run = Run.open(stored(tmp_path / "run", SUITE))
    assert run.manifest.digest() == sha256((tmp_path / "run" / MANIFEST).read_bytes().rstrip(b"\n")).hexdigest()
    other = Run.open(stored(tmp_path / "other", SUITE, *(trace(case, SUITE, duration_ms=2) for case in SUITE.cases)))
    assert run.manifest.digest() != other.manifest.digest(), "it holds for the traces too"


def test_repeats_are_traces_of_their_own(tmp_path: Path) -> None:
    traces = [trace(case, SUITE, repeat=n) for n in range(2) for case in SUITE.cases]
    run = Run.open(stored(tmp_path, SUITE, *traces, repeats=2))
    assert [(each.case, each.repeat) for each in run.traces()][3:] == [("a", 1), ("b", 1), ("c", 1)]


def test_nothing_is_written_over(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="already holds a run"):
        stored(stored(tmp_path, SUITE), SUITE)
    Run.open(tmp_path, SUITE)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, manifest(SUITE)):
        for begin in (lambda: RunStore.create(tmp_path, manifest(SUITE)), lambda: resume(tmp_path)):
            with pytest.raises(StoreError, match="another process is writing"):
                begin()
    with resume(tmp_path) as store:
        assert store.done == frozenset()


def test_a_case_is_kept_once(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, manifest(SUITE)) as store:
        store.append(trace("a", SUITE))
        with pytest.raises(ValueError, match="case 'a' has a trace already"):
            store.append(trace("a", SUITE))
        with pytest.raises(ValueError, match="2 traces are missing"):
            store.finish(NOW)


def test_what_has_no_line_leaves_none(tmp_path: Path) -> None:
    bad = trace("a", SUITE)
    assert bad.invocation is not None
    bad = bad.model_copy(update={"invocation": bad.invocation.model_copy(update={"answer": "\ud800"})})
    with RunStore.create(tmp_path, manifest(SUITE)) as store:
        with pytest.raises(TraceError):
            store.append(bad)
        assert store.done == frozenset()
    assert (tmp_path / TRACES).read_bytes() == b""


def test_a_stopped_run_is_gone_on_with(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, manifest(SUITE)) as store:
        store.append(trace("a", SUITE))
        store.append(trace("b", SUITE, error=failure()))
    with pytest.raises(StoreError, match="the run is not finished; go on with --resume"):
        Run.open(tmp_path)
    with resume(tmp_path) as store:
        assert store.done == {("a", 0), ("b", 0)}
        store.append(trace("c", SUITE))
        made = store.finish(LATER).manifest
    assert (made.started_at, made.resumed_at, made.finished_at) == (NOW, (LATER,), LATER)
    assert made.counts is not None
    assert (made.counts.traces, made.counts.errors) == (3, 1)
    assert [each.case for each in Run.open(tmp_path, SUITE).traces()] == ["a", "b", "c"]
    with pytest.raises(StoreError, match="nothing is missing"):
        resume(tmp_path)


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unfinished")
    with RunStore.create(folder, manifest(SUITE)) as store:
        for case in SUITE.cases:
            store.append(trace(case, SUITE))
    return folder


@given(st.data())
def test_a_run_that_broke_at_any_byte_is_gone_on_with(unfinished: Path, data: st.DataObject) -> None:
    raw = (unfinished / TRACES).read_bytes()
    cut = data.draw(st.integers(0, len(raw)))
    folder = unfinished.parent / "broken"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(unfinished, folder)
    (folder / TRACES).write_bytes(raw[:cut])
    whole = raw[:cut].count(b"\n")
    with resume(folder) as store:
        assert store.done == {(case, 0) for case in list(SUITE.cases)[:whole]}
        for case in SUITE.cases:
            if (case, 0) not in store.done:
                store.append(trace(case, SUITE))
        store.finish(LATER)
    assert (folder / TRACES).read_bytes() == raw


@given(st.data())
def test_a_finished_run_cut_or_changed_at_any_byte_is_refused(unfinished: Path, data: st.DataObject) -> None:
    folder = unfinished.parent / "finished"
    shutil.rmtree(folder, ignore_errors=True)
    raw = (stored(folder, SUITE) / TRACES).read_bytes()
    at = data.draw(st.integers(0, len(raw) - 1))
    other = data.draw(
        st.just(raw[:at]) | st.integers(1, 255).map(lambda n: raw[:at] + bytes([raw[at] ^ n]) + raw[at + 1 :])
    )
    (folder / TRACES).write_bytes(other)
    with pytest.raises(StoreError) as caught:
        Run.open(folder)
    torn = bool(other) and not other.endswith(b"\n")
    assert (caught.value.file, caught.value.line) == (folder / TRACES, other.count(b"\n") + 1 if torn else 0)
    assert caught.value.field == ("" if torn else "traces_digest")


def sealed(folder: Path, *lines: bytes, **fields: Any) -> Path:
    """A finished run whose traces were written by another hand, digest included."""
    stored(folder, SUITE, **fields)
    (folder / TRACES).write_bytes(b"".join(lines))
    digest = sha256(b"".join(lines)).hexdigest()
    changed(folder / MANIFEST, lambda value: value.update(traces_digest=digest))
    return folder


A, B = trace("a", SUITE).line(), trace("b", SUITE).line()


@pytest.mark.parametrize(
    ("lines", "line", "field", "reason"),
    [
        ((A, B, A), 3, "case", "'a' has a trace already"),
        ((A, trace("b", suite("b", digest="c" * 64)).line()), 2, "suite", "is a trace of another suite"),
        ((A, trace("b", SUITE, repeat=1).line()), 2, "repeat", "is 1, of 1 that count from 0"),
        ((A, B.replace(b'"attempts":1', b'"attempts":NaN')), 2, "attempts", "not finite"),
        ((A, B.replace(b'"schema_version":"1"', b'"schema_version":"2"')), 2, "schema_version", "this build reads"),
        ((A, b"\n"), 2, "", "not JSON"),
        ((A, B[:-1]), 2, "", "torn"),
    ],
)
def test_a_trace_that_does_not_belong_is_named(
    tmp_path: Path, lines: tuple[bytes, ...], line: int, field: str, reason: str
) -> None:
    with pytest.raises(StoreError) as caught:
        Run.open(sealed(tmp_path, *lines))
    assert (caught.value.file, caught.value.line, caught.value.field) == (tmp_path / TRACES, line, field)
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"traces": 2, "errors": 0}, "counts.traces: is 2, and the run has 3"),
        ({"traces": 3, "errors": 1}, "counts.errors: is 1, and the run has 0"),
        (None, "the run is not finished"),
    ],
)
def test_a_manifest_that_miscounts_is_refused(tmp_path: Path, counts: object, said: str) -> None:
    stored(tmp_path, SUITE)
    changed(tmp_path / MANIFEST, lambda value: value.update(counts=counts))
    with pytest.raises(StoreError, match=said):
        Run.open(tmp_path)


def test_resuming_refuses_what_does_not_belong(tmp_path: Path) -> None:
    def begun(name: str, *lines: bytes) -> Path:
        with RunStore.create(tmp_path / name, manifest(SUITE)):
            (tmp_path / name / TRACES).write_bytes(b"".join(lines))
        return tmp_path / name

    with pytest.raises(StoreError, match=r"line 2, case: 'a' has a trace already"):
        resume(begun("twice", A, A))
    with pytest.raises(StoreError, match=r"line 1, case: the suite has no case 'z'"):
        resume(begun("foreign", trace("z", SUITE).line()))
    with pytest.raises(StoreError, match=r"line 1: not JSON"):
        resume(begun("torn in the middle", A[:9] + b"\n", A))
    with pytest.raises(StoreError, match=r'system: double 1 {"top":3} was run, not double 2 {"top":3}'):
        resume(begun("system"), version="2")
    with pytest.raises(StoreError, match=r"the suite 'small' is not the one that was run"):
        resume(begun("suite"), suite("a", "b", "c", digest="c" * 64))
    with pytest.raises(StoreError, match="repeats: is 1 in this run, not 2"):
        RunStore.resume(begun("repeats"), SUITE, SYSTEM, LATER, repeats=2)


def test_a_run_without_its_files(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"holds no run: there is no manifest\.json"):
        Run.open(tmp_path)
    with pytest.raises(StoreError, match="holds no run"):
        resume(tmp_path)
    assert list(tmp_path.iterdir()) == []
    stored(tmp_path, SUITE)
    (tmp_path / TRACES).unlink()
    with pytest.raises(StoreError, match=r"traces\.jsonl: is not there"):
        Run.open(tmp_path)


def test_a_run_killed_before_its_first_trace_is_gone_on_with(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, manifest(SUITE)):
        pass
    (tmp_path / TRACES).unlink()
    with resume(tmp_path) as store:
        assert store.done == frozenset()


@pytest.mark.parametrize(
    ("field", "value", "where", "reason"),
    [
        ("schema_version", "2", "schema_version", "is 2; this build reads 1"),
        ("schema_version", None, "schema_version", "is None"),
        ("added_later", 1, "added_later", "Extra inputs"),
        ("repeats", 0, "repeats", "greater than or equal to 1"),
        ("repeats", "1", "repeats", "valid integer"),
        ("traces_digest", "x", "traces_digest", "match pattern"),
    ],
)
def test_a_manifest_that_is_none_is_refused(tmp_path: Path, field: str, value: Any, where: str, reason: str) -> None:
    stored(tmp_path, SUITE)
    changed(tmp_path / MANIFEST, lambda found: found.update({field: value}))
    with pytest.raises(StoreError) as caught:
        Run.open(tmp_path)
    assert (caught.value.file, caught.value.field) == (tmp_path / MANIFEST, where)
    assert reason in caught.value.reason


def test_a_torn_manifest_is_refused(tmp_path: Path) -> None:
    stored(tmp_path, SUITE)
    (tmp_path / MANIFEST).write_bytes((tmp_path / MANIFEST).read_bytes()[:50])
    with pytest.raises(StoreError, match=r"manifest\.json: not JSON"):
        Run.open(tmp_path)


def test_another_suite_or_a_changed_corpus_is_refused(tmp_path: Path) -> None:
    stored(tmp_path, SUITE)
    for field, other in (
        ("suite.digest", suite("a", "b", "c", digest="c" * 64)),
        ("suite.corpus_digest", suite("a", "b", "c", corpus_digest="c" * 64)),
    ):
        with pytest.raises(StoreError, match="is not the one that was run") as caught:
            Run.open(tmp_path, other)
        assert caught.value.field == field


def test_the_manifest_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunStore.create(tmp_path, manifest(SUITE)) as store:
        for case in SUITE.cases:
            store.append(trace(case, SUITE))
        before = (tmp_path / MANIFEST).read_bytes()
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(5, "Input/output error")))
            with pytest.raises(OSError, match="Input/output"):
                store.finish(NOW)
        assert (tmp_path / MANIFEST).read_bytes() == before
        store.finish(NOW)
    Run.open(tmp_path, SUITE)


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunStore.create(tmp_path, manifest(SUITE)) as store:
        file = store._file

        class Full:
            def write(self, line: bytes) -> int:
                return file.write(line[:10])

        monkeypatch.setattr(store, "_file", Full())
        with pytest.raises(OSError, match="No space left"):
            store.append(trace("a", SUITE))
        assert store.done == frozenset()
        file.close()
        monkeypatch.undo()
    with resume(tmp_path) as store:
        assert (tmp_path / TRACES).read_bytes() == b""


def test_a_trace_is_one_write(tmp_path: Path) -> None:
    """What another process reads meanwhile is whole lines."""
    answers: list[Trace] = []
    with RunStore.create(tmp_path, manifest(SUITE)) as store:
        for case in SUITE.cases:
            answers.append(trace(case, SUITE))
            store.append(answers[-1])
            assert (tmp_path / TRACES).read_bytes() == b"".join(each.line() for each in answers)
