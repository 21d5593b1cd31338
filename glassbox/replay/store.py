"""Where runs are kept: a folder with `manifest.json` and `traces.jsonl`, checked whenever it is read.

While a run goes on its manifest has no `finished_at`; each trace is one write that ends in a line feed, so that after a
crash at most the last line is torn. `RunStore.finish` seals the run with the digest of its traces. A lock on the traces
keeps a second process from writing the same run.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from glassbox.contract.canonical import CanonicalError, canonical, sha256_hex, strict_loads
from glassbox.replay.suite import Suite
from glassbox.replay.trace import Trace, TraceError, parse_trace

MANIFEST, TRACES = "manifest.json", "traces.jsonl"
SCHEMA_VERSION: Literal["1"] = "1"

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]


class StoreError(ValueError):
    """A run that cannot be used: the file, the line (from 1, 0 for the whole file), the field and the reason."""

    def __init__(self, file: Path, line: int, field: str, reason: str) -> None:
        self.file, self.line, self.field, self.reason = file, line, field, reason
        where = ", ".join(part for part in (str(file), f"line {line}" if line else "", field) if part)
        super().__init__(f"{where}: {reason}")


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SuiteReference(_Message):
    """`columns`: case field -> CSV column, as the suite was read."""

    name: str
    digest: Digest
    corpus_digest: Digest
    cases: Annotated[int, Field(ge=1)]
    columns: dict[str, str] = Field(default_factory=dict)


class SystemReference(_Message):
    """`parameters`: whatever the answers depend on, JSON, never a key."""

    name: str
    version: str
    parameters: dict[str, Any] = Field(default_factory=dict)


class Counts(_Message):
    traces: Count
    errors: Count


class Manifest(_Message):
    """Times are RFC 3339 UTC. `repeats`: how often each case is run. `resumed_at`: when a stopped run was gone on with.
    `finished_at`, `counts` and `traces_digest` (SHA-256 of the bytes of the traces) are null until the run is whole."""

    schema_version: Literal["1"] = SCHEMA_VERSION
    run_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
    suite: SuiteReference
    system: SystemReference
    repeats: Annotated[int, Field(ge=1)] = 1
    git_revision: str | None = None
    environment: dict[str, str] = Field(default_factory=dict)
    started_at: str
    resumed_at: tuple[str, ...] = ()
    finished_at: str | None = None
    counts: Counts | None = None
    traces_digest: Digest | None = None

    def digest(self) -> str:
        """The run's digest, hex: SHA-256 of the manifest's RFC 8785 bytes, which hold the digest of the traces."""
        return sha256_hex(canonical(self.model_dump(mode="json")))


class Run:
    """A stored run. When it is opened, its traces are checked to be those of its manifest, by digest and by count.
    Traces are read as a stream. A manifest that was edited is seen only by who compares the run's digest
    (`Manifest.digest`) with the one that was told when it was made."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest

    @classmethod
    def open(cls, folder: Path, suite: Suite | None = None) -> Run:
        """Reads all traces once. Raises `StoreError` for a run that is unfinished, whose traces are not those that its
        manifest tells of, of a newer version or, where `suite` is given, of another suite."""
        manifest = read_manifest(folder)
        if manifest.finished_at is None or manifest.traces_digest is None or manifest.counts is None:
            raise StoreError(folder / MANIFEST, 0, "finished_at", "the run is not finished; go on with --resume")
        if suite is not None:
            _same_suite(folder, manifest, suite)
        path = folder / TRACES
        if not path.is_file():
            raise StoreError(path, 0, "", "is not there")
        if (digest := _file_digest(path)) != manifest.traces_digest:
            if line := _torn_line(path):
                raise StoreError(path, line, "", "the last line is torn, and the run was finished: restore it")
            changed = f"has digest {digest[:12]}…, the manifest says {manifest.traces_digest[:12]}…"
            raise StoreError(path, 0, "traces_digest", changed)
        run = cls(folder, manifest)
        found = Counter(trace.error is not None for trace in run.traces())
        for field, count, said in (
            ("counts.traces", found.total(), manifest.counts.traces),
            ("counts.errors", found[True], manifest.counts.errors),
        ):
            if count != said:
                raise StoreError(folder / MANIFEST, 0, field, f"is {said}, and the run has {count}")
        return run

    def traces(self) -> Iterator[Trace]:
        """In the order of the file. Raises `StoreError` at the first line that does not belong there."""
        seen: set[tuple[str, int]] = set()
        for line, trace in _traces(self.folder / TRACES):
            _belongs(self.folder, line, trace, self.manifest, seen)
            yield trace


class RunStore:
    """Writes one run. Used as a context manager; leaving it without `finish` leaves a run that can be resumed."""

    def __init__(self, folder: Path, manifest: Manifest, file: IO[bytes]) -> None:
        self.folder, self.manifest = folder, manifest
        self._file = file
        self._done: dict[tuple[str, int], bool] = {}

    @property
    def done(self) -> frozenset[tuple[str, int]]:
        """(case id, repeat) of the traces that stand."""
        return frozenset(self._done)

    @classmethod
    def create(cls, folder: Path, manifest: Manifest) -> RunStore:
        """A new run. Raises `StoreError` where the folder already holds one."""
        folder.mkdir(parents=True, exist_ok=True)
        file = _locked(folder)
        try:
            if (folder / MANIFEST).exists() or file.tell():
                raise StoreError(folder, 0, "", "already holds a run; name another folder, or go on with --resume")
            _write(folder, manifest)
        except BaseException:
            file.close()
            raise
        return cls(folder, manifest, file)

    @classmethod
    def resume(cls, folder: Path, suite: Suite, system: SystemReference, now: str, *, repeats: int = 1) -> RunStore:
        """An unfinished run of the same system over the same suite, as often; a torn last line is cut off. Raises
        `StoreError`."""
        read_manifest(folder)  # before the lock, which would leave a file in a folder without a run
        file = _locked(folder)
        try:
            manifest = read_manifest(folder)
            if manifest.finished_at is not None:
                raise StoreError(folder / MANIFEST, 0, "finished_at", "the run is finished: nothing is missing")
            check_same(folder, manifest, suite, system, repeats)
            _cut_torn_line(folder / TRACES)
            manifest = manifest.model_copy(update={"resumed_at": (*manifest.resumed_at, now)})
            store = cls(folder, manifest, file)
            seen: set[tuple[str, int]] = set()
            for line, trace in _traces(folder / TRACES):
                _belongs(folder, line, trace, manifest, seen)
                if trace.case not in suite.cases:
                    raise StoreError(folder / TRACES, line, "case", f"the suite has no case {trace.case!r}")
                store._done[trace.case, trace.repeat] = trace.error is not None
            _write(folder, manifest)
        except BaseException:
            file.close()
            raise
        return store

    def append(self, trace: Trace) -> None:
        """Keep one trace: a single write, on the disk before this returns. Raises `ValueError` for a second one,
        `TraceError` for one that has no line, OSError where the disk does not take it."""
        key = (trace.case, trace.repeat)
        if key in self._done:
            raise ValueError(f"case {trace.case!r} has a trace already")
        line = trace.line()
        if self._file.write(line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder / TRACES))
        os.fsync(self._file.fileno())
        self._done[key] = trace.error is not None

    def finish(self, now: str) -> Run:
        """Seal the run. Raises `ValueError` where a case has no trace."""
        missing = self.manifest.suite.cases * self.manifest.repeats - len(self._done)
        if missing:
            raise ValueError(f"{missing} traces are missing")
        counts = Counts(traces=len(self._done), errors=sum(self._done.values()))
        sealed = {"finished_at": now, "counts": counts, "traces_digest": _file_digest(self.folder / TRACES)}
        self.manifest = self.manifest.model_copy(update=sealed)
        _write(self.folder, self.manifest)
        return Run(self.folder, self.manifest)

    def __enter__(self) -> RunStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def read_document(path: Path, version: str) -> bytes:
    """The bytes of a JSON document whose `schema_version` is `version`. Raises `StoreError` for what is no strict JSON
    or of another version; OSError where it cannot be read."""
    raw = path.read_bytes()
    try:
        value = strict_loads(raw)
    except CanonicalError as error:
        raise StoreError(path, 0, error.field, error.reason) from None
    if isinstance(value, dict) and value.get("schema_version") != version:
        found = str(value.get("schema_version"))[:20]
        raise StoreError(path, 0, "schema_version", f"is {found}; this build reads {version}")
    return raw


def invalid(path: Path, error: ValidationError) -> StoreError:
    """What is wrong first with a document that does not fit its model."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return StoreError(path, 0, ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, "))


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a run as it says, finished or not. Raises `StoreError`."""
    path = folder / MANIFEST
    try:
        return Manifest.model_validate_json(read_document(path, SCHEMA_VERSION), strict=True)
    except FileNotFoundError:
        raise StoreError(folder, 0, "", f"holds no run: there is no {MANIFEST}") from None
    except ValidationError as error:
        raise invalid(path, error) from None


def _named(system: SystemReference) -> str:
    return f"{system.name} {system.version} {canonical(system.parameters).decode()}"


def check_same(folder: Path, manifest: Manifest, suite: Suite, system: SystemReference, repeats: int) -> None:
    """Raises `StoreError` where another suite, system or number of repeats was run than is asked for now."""
    _same_suite(folder, manifest, suite)
    if _named(manifest.system) != _named(system):
        raise StoreError(folder / MANIFEST, 0, "system", f"{_named(manifest.system)} was run, not {_named(system)}")
    if manifest.repeats != repeats:
        raise StoreError(folder / MANIFEST, 0, "repeats", f"is {manifest.repeats} in this run, not {repeats}")


def _same_suite(folder: Path, manifest: Manifest, suite: Suite) -> None:
    for field, ours, theirs in (
        ("suite.digest", manifest.suite.digest, suite.digest),
        ("suite.corpus_digest", manifest.suite.corpus_digest, suite.corpus_digest),
    ):
        if ours != theirs:
            what = "corpus" if "corpus" in field else "suite"
            raise StoreError(
                folder / MANIFEST,
                0,
                field,
                f"the {what} {suite.name!r} is not the one that was run ({theirs[:12]}… now, {ours[:12]}… then)",
            )


def _traces(path: Path) -> Iterator[tuple[int, Trace]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                raise StoreError(path, number, "", "the last line is torn")
            try:
                yield number, parse_trace(line)
            except TraceError as error:
                raise StoreError(path, number, error.field, error.reason) from None


def _belongs(folder: Path, line: int, trace: Trace, manifest: Manifest, seen: set[tuple[str, int]]) -> None:
    if trace.suite != manifest.suite.digest:
        raise StoreError(folder / TRACES, line, "suite", "is a trace of another suite")
    if trace.repeat >= manifest.repeats:
        raise StoreError(folder / TRACES, line, "repeat", f"is {trace.repeat}, of {manifest.repeats} that count from 0")
    if (trace.case, trace.repeat) in seen:
        raise StoreError(folder / TRACES, line, "case", f"{trace.case!r} has a trace already")
    seen.add((trace.case, trace.repeat))


def _locked(folder: Path) -> IO[bytes]:
    """The traces, to append to; this process alone until they are closed."""
    file = (folder / TRACES).open("ab", buffering=0)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise StoreError(folder, 0, "", "another process is writing this run") from None
    return file


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _torn_line(path: Path) -> int:
    """The number of the last line where it has no end, else 0."""
    with path.open("rb") as file:
        last = deque(enumerate(file, 1), maxlen=1)
    return next((number for number, line in last if not line.endswith(b"\n")), 0)


def _cut_torn_line(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(sum(len(line) for line in file if line.endswith(b"\n")))


def _write(folder: Path, manifest: Manifest) -> None:
    put_whole(folder / MANIFEST, canonical(manifest.model_dump(mode="json")) + b"\n")


def put_whole(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file as a whole or not at all, for good: beside its place, then into it. One writer at a time."""
    new = path.with_name(f"{path.name}.new")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
