"""OpenTelemetry: one trace an evaluation, carried from role to role by W3C Trace Context in the messages' headers, and
an event for each part of what stands on the ledger.

On only where the standard variables ask for it (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_TRACES_EXPORTER`, …; not under
`OTEL_SDK_DISABLED=true`); without them nothing of OpenTelemetry is imported, and a trace is passed on as it came.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Thread
from typing import TYPE_CHECKING, Any

from structlog.contextvars import bind_contextvars, bound_contextvars

from streams.ports import Record

if TYPE_CHECKING:
    from opentelemetry._logs import Logger
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext, Tracer

    from streams.acks import Token
    from streams.reading import Handler

PRODUCER = "glassbox"
"""Key of the `tracestate` member that carries the id of the producer's span to the ledger's end."""

RESULT = "gen_ai.evaluation.result"
"""Name of the event, and below of its attributes, by OpenTelemetry's GenAI semantic conventions."""

Carrier = Mapping[str, str]
"""`traceparent` and `tracestate`, where they are there."""

_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-((?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2})(-.*)?")
_STATE_MAX = 512
"""Characters of `tracestate` that W3C asks everybody to pass on."""
_STOP_S = 3.0
"""How long the last spans may take to be sent when the process ends."""


class TracingError(Exception):
    """The variables ask for what GlassBox does not do; the message names them and the next step."""


class _Tracing:
    """What is there once tracing is on."""

    def __init__(self, tracer: Tracer | None, events: Logger | None) -> None:
        self.tracer, self.events = tracer, events


_on: _Tracing | None = None
_given: ContextVar[Carrier | None] = ContextVar("_given", default=None)
"""What the work at hand came with."""


def exporters(environment: Mapping[str, str]) -> dict[str, str]:
    """Signal (`traces`, `logs`) -> exporter (`otlp` or `console`), as the variables ask; empty: off.

    Raises `TracingError` for an exporter or a protocol that is not there.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return {}
    asked = {}
    for signal in ("traces", "logs"):
        addresses = "OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT"
        variable = f"OTEL_{signal.upper()}_EXPORTER"
        name = environment.get(variable) or ("otlp" if any(environment.get(each) for each in addresses) else "none")
        if name not in ("otlp", "console", "none"):
            raise TracingError(f"{variable} is {name!r}; set it to otlp, console or none")
        protocol = environment.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
        if name == "otlp" and protocol != "http/protobuf":
            raise TracingError(
                f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol}; GlassBox speaks http/protobuf: set that, and the endpoint "
                "to the collector's port for it (4318)"
            )
        if name != "none":
            asked[signal] = name
    return asked


def start(role: str, version: str) -> Callable[[], None]:
    """Switch tracing on where the environment asks for it. Returns what sends the rest and switches it off. Raises
    `TracingError`."""
    global _on
    asked = exporters(os.environ)
    if not asked:
        return lambda: None
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    named = Resource({"service.name": f"glassbox-{role}", "service.namespace": "glassbox", "service.version": version})
    resource = named.merge(OTELResourceDetector().detect())
    shutdowns: list[Callable[[], None]] = []
    tracer = _tracer(asked["traces"], resource, shutdowns) if "traces" in asked else None
    events = _events(asked["logs"], resource, shutdowns) if "logs" in asked else None
    _on = _Tracing(tracer, events)

    def stop() -> None:
        global _on
        _on = None
        # in threads that are left behind: while the collector is away, an exporter tries again for half a minute
        threads = [Thread(target=each, daemon=True) for each in shutdowns]
        for thread in threads:
            thread.start()
        end = time.monotonic() + _STOP_S
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))

    return stop


def _tracer(exporter: str, resource: Any, shutdowns: list[Callable[[], None]]) -> Tracer:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter() if exporter == "otlp" else ConsoleSpanExporter()))
    shutdowns.append(provider.shutdown)
    return provider.get_tracer("glassbox")


def _events(exporter: str, resource: Any, shutdowns: list[Callable[[], None]]) -> Logger:
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, ConsoleLogRecordExporter

    provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
    sink = OTLPLogExporter() if exporter == "otlp" else ConsoleLogRecordExporter()
    provider.add_log_record_processor(BatchLogRecordProcessor(sink))
    shutdowns.append(provider.shutdown)
    return provider.get_logger("glassbox")


def carried(record: Record) -> Carrier | None:
    """What a message's headers say of its trace; None where they say nothing."""
    if "traceparent" not in record.headers:
        return None
    names = ("traceparent", "tracestate")
    return {name: record.headers[name].decode("ascii", "replace") for name in names if name in record.headers}


def received(parents: Sequence[str], states: Sequence[str]) -> Carrier | None:
    """What the `traceparent` and `tracestate` headers of an HTTP request say, each as often as it came; None where it
    is not one trace. By W3C Trace Context, 3.2 and 3.3: of a later version what this one knows."""
    found = _PARENT.fullmatch(parents[0]) if len(parents) == 1 else None
    if found is None or (found[2] and parents[0].startswith("00")):
        return None
    state = ",".join(states)
    kept = 0 < len(state) <= _STATE_MAX and state.isascii() and state.isprintable()
    return {"traceparent": f"00-{found[1]}", **({"tracestate": state} if kept else {})}


def headers() -> Carrier:
    """What a message that is sent now carries on: the open span, or where we make none what the work came with."""
    if _on is None or _on.tracer is None:
        return _given.get() or {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier


@contextmanager
def work(
    name: str,
    record: Record,
    *,
    parent: Carrier | None = None,
    links: Sequence[Carrier] = (),
    since: int | None = None,
    evaluation_id: str | None = None,
    from_producer: bool = False,
) -> Iterator[None]:
    """Work on one message: log lines say which, and so does a span where tracing is on.

    `parent`: of the span, by default what the message carries; `links`: other spans that led here; `since`: when the
    span begins, ms, by default now; `from_producer`: what the message carries is the span of who sent the request.
    """
    known = {} if evaluation_id is None else {"evaluation_id": evaluation_id}
    came = parent or carried(record)
    where = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
    with (
        bound_contextvars(**where, **known),
        _span(
            name,
            "CONSUMER",
            came,
            {
                **_KAFKA,
                "messaging.destination.name": record.topic,
                "messaging.destination.partition.id": str(record.partition),
                "messaging.kafka.offset": record.offset,
                **({} if evaluation_id is None else {_EVALUATION: evaluation_id}),
            },
            links=links,
            since=since,
            from_producer=from_producer,
        ),
    ):
        yield


@contextmanager
def batch(name: str, records: Sequence[Record]) -> Iterator[None]:
    """Work on messages of many evaluations: a span of no trace of theirs, with a link to each."""
    came = {each["traceparent"]: each for record in records if (each := carried(record)) is not None}
    about_it: dict[str, str | int] = {**_KAFKA, "messaging.batch.message_count": len(records)}
    with _span(name, "CONSUMER", None, about_it, links=list(came.values())):
        yield


@contextmanager
def serving(method: str, scheme: str, came: Carrier | None) -> Iterator[Callable[[str, int], None]]:
    """The answer to an HTTP request; yields what is to be told the route's template and the status at its end. Names by
    OpenTelemetry's HTTP semantic conventions, less `url.path`, which may hold anything."""
    with _span(
        method, "SERVER", came, {"http.request.method": method, "url.scheme": scheme}, from_producer=True
    ) as span:

        def answered(route: str, status: int) -> None:
            if span is None:
                return
            from opentelemetry.trace import StatusCode

            span.update_name(f"{method} {route}")
            span.set_attributes({"http.route": route, "http.response.status_code": status})
            if status >= 500:
                span.set_attribute("error.type", str(status))
                span.set_status(StatusCode.ERROR)

        yield answered


@contextmanager
def _span(
    name: str,
    kind: str,
    came: Carrier | None,
    about_it: Mapping[str, str | int],
    *,
    links: Sequence[Carrier] = (),
    since: int | None = None,
    from_producer: bool = False,
) -> Iterator[Span | None]:
    """A span under what came, current until it ends; None where no spans are made."""
    token = _given.set(came)
    try:
        if _on is None or _on.tracer is None:
            yield None
            return
        from opentelemetry.trace import Link, SpanKind

        with _on.tracer.start_as_current_span(
            name,
            context=_context(came, from_producer),
            kind=SpanKind[kind],
            links=[Link(_span_context(_context(each))) for each in links],
            start_time=None if since is None else since * 1_000_000,
            attributes=about_it,
            record_exception=False,  # its message may quote the evaluation
            set_status_on_exception=False,
        ) as span:
            yield span
    finally:
        _given.reset(token)


def observed(name: str, handle: Handler, *, from_producer: bool = False) -> Handler:
    """A handler whose every run is `work`."""

    async def handled(record: Record, token: Token) -> None:
        with work(name, record, from_producer=from_producer):
            await handle(record, token)

    return handled


def about(evaluation_id: str) -> None:
    """From here on the work at hand is about this evaluation: so say its log lines and its span."""
    bind_contextvars(evaluation_id=evaluation_id)
    if _on is not None:
        from opentelemetry.trace import get_current_span

        get_current_span().set_attribute(_EVALUATION, evaluation_id)


def announce_results(record: Mapping[str, Any]) -> None:
    """An event for each part of a scorecard that came onto the ledger and one for its trust score, at the producer's
    span where the request named one."""
    if _on is None or _on.events is None:
        return
    context = _producer()
    for attributes in evaluation_results(record):
        _on.events.emit(event_name=RESULT, context=context, attributes=attributes)


def evaluation_results(record: Mapping[str, Any]) -> Iterator[dict[str, str | float]]:
    """The attributes of the events of a scorecard (Record v1). Labels: pass and fail (the part's target), review and
    incomplete (of the trust score alone), not_applicable; the explanation is a code of ours, never text."""
    evaluation = {_EVALUATION: str(record["evaluation_id"])}
    for part in record["parts"]:
        found: dict[str, str | float] = {f"{_NAMES}.name": part["part"], "glassbox.judge": part["judge"], **evaluation}
        if part["score"] is not None:
            found[f"{_NAMES}.score.value"] = float(part["score"])
        if part["meets_target"] is not None:
            found[f"{_NAMES}.score.label"] = "pass" if part["meets_target"] else "fail"
        if part["state"] == "not_applicable":
            found[f"{_NAMES}.score.label"] = "not_applicable"
        if part["state"] == "failed":
            found["error.type"] = part["cause"]
        if part["cause"] is not None:
            found[f"{_NAMES}.explanation"] = part["cause"]
        yield found
    whole: dict[str, str | float] = {
        f"{_NAMES}.name": "trust",
        f"{_NAMES}.score.label": record["outcome"],
        **evaluation,
    }
    if record["trust"] is not None:
        whole[f"{_NAMES}.score.value"] = float(record["trust"])
    if record["reasons"]:
        whole[f"{_NAMES}.explanation"] = ", ".join(record["reasons"])
    yield whole


_NAMES = "gen_ai.evaluation"
_EVALUATION = "glassbox.evaluation_id"
_KAFKA: Mapping[str, str] = {"messaging.system": "kafka", "messaging.operation.type": "process"}


def _context(carrier: Carrier | None, from_producer: bool = False) -> Context:
    """The context of a carrier, empty where there is none. `from_producer`: it names the producer's span, unless who
    passed it on has said already which that is."""
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanContext, format_span_id
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = TraceContextTextMapPropagator().extract(carrier or {}, Context())
    found = _span_context(context)
    if not (from_producer and found.is_valid) or PRODUCER in found.trace_state:
        return context
    state = found.trace_state.add(PRODUCER, format_span_id(found.span_id))
    return _context_of(SpanContext(found.trace_id, found.span_id, True, found.trace_flags, state))


def _context_of(span: SpanContext) -> Context:
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, set_span_in_context

    return set_span_in_context(NonRecordingSpan(span), Context())


def _span_context(context: Context | None = None) -> SpanContext:
    from opentelemetry.trace import get_current_span

    return get_current_span(context).get_span_context()


def _producer() -> Context:
    """The context of the producer's span, where the trace at hand names one; else of what is at hand."""
    from opentelemetry.trace import SpanContext

    here = _span_context(None if _on is not None and _on.tracer is not None else _context(_given.get()))
    named = here.trace_state.get(PRODUCER, "")
    if not re.fullmatch("[0-9a-f]{16}", named):
        return _context_of(here)
    return _context_of(SpanContext(here.trace_id, int(named, 16), True, here.trace_flags, here.trace_state))
