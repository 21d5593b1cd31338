"""From the body of an OTLP export to the spans in it, as much as the door needs of them.

https://opentelemetry.io/docs/specs/otlp/: binary Protobuf, or its JSON mapping with ids in hexadecimal.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.json_format import MessageToJson, ParseDict, ParseError
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan
from opentelemetry.proto.trace.v1.trace_pb2 import SpanFlags, Status

PROTOBUF = "application/x-protobuf"
JSON = "application/json"

MAX_SPANS = 50_000
"""Spans (with their resources and scopes) in one export: an empty one takes 2 bytes to send and hundreds to read."""

_ATTRIBUTES = (
    *("gen_ai.", "llm.", "openinference.", "input.", "output.", "retrieval.", "reranker.", "traceloop."),
    *("session.id", "user.id", "service.name", "glassbox."),
)
"""How the names of the attributes begin that are read; embeddings, for one, are not."""
_EVENTS = ("gen_ai.", "db.query.result")


class Malformed(ValueError):
    """The body is no export; the message says where, and quotes nothing."""


class TooMany(ValueError):
    """It inflates to more than may be, or holds more spans."""


@dataclass(frozen=True)
class Span:
    """A span as it came. Ids are hexadecimal; `parent_id` is empty at a root. `remote_parent`: another process made the
    parent (as far as the SDK says). `start`, `end`: ns since the epoch, as the sender's clock has it. `cut`: the SDK
    dropped attributes. Attributes and events: those that the door reads."""

    trace_id: str
    span_id: str
    parent_id: str
    remote_parent: bool
    start: int
    end: int
    failed: bool
    cut: bool
    attributes: Mapping[str, Any]
    events: tuple[tuple[str, Mapping[str, Any]], ...]
    resource: Mapping[str, Any]


def inflate(raw: bytes, most: int) -> bytes:
    """What gzip made small. Raises `TooMany` beyond `most` bytes, before they are in memory; `Malformed`."""
    parts, size = [], 0
    while raw:
        stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        try:
            parts.append(stream.decompress(raw, most - size + 1))
        except zlib.error:
            raise Malformed("the body is not gzip") from None
        size += len(parts[-1])
        if size > most:
            raise TooMany(f"at most {most} bytes when inflated")
        if not stream.eof:
            raise Malformed("the gzip body ends too early")
        raw = stream.unused_data
    return b"".join(parts)


def spans(body: bytes, kind: str) -> Iterator[Span | None]:
    """The spans of an `ExportTraceServiceRequest`; None stands for one whose ids are not 16 and 8 bytes.

    `kind`: `PROTOBUF` or `JSON`. Raises `Malformed` or `TooMany`.
    """
    read = _of_protobuf if kind == PROTOBUF else _of_json
    try:
        for resource, wire in read(body, iter(range(MAX_SPANS))):
            yield _span(wire, resource)
    except DecodeError:
        raise Malformed("a span is not Protobuf") from None


def response(rejected: int, message: str, kind: str) -> bytes:
    """An `ExportTraceServiceResponse`; with nothing rejected and nothing to say an empty one."""
    made = ExportTraceServiceResponse()
    if rejected or message:
        made.partial_success.rejected_spans = rejected
        made.partial_success.error_message = message
    body: bytes = made.SerializeToString() if kind == PROTOBUF else MessageToJson(made, indent=None).encode()
    return body


Read = tuple[Mapping[str, Any], WireSpan]
"""The attributes of a resource, and a span of it."""


def _of_protobuf(body: bytes, budget: Iterator[int]) -> Iterator[Read]:
    """Span by span: so that a body which would be large as a whole never is."""
    for resource_spans in _all(1, memoryview(body), budget):
        resource = Resource()
        for content in _all(1, resource_spans, budget):
            resource.MergeFromString(bytes(content))
        named = _attributes(resource.attributes)
        for scope_spans in _all(2, resource_spans, budget):
            for content in _all(2, scope_spans, budget):
                yield named, WireSpan.FromString(bytes(content))


def _all(field: int, data: memoryview, budget: Iterator[int]) -> Iterator[memoryview]:
    """The length-delimited fields of this number in a Protobuf message
    (https://protobuf.dev/programming-guides/encoding/)."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        size = 0
        match tag & 7:
            case 0:
                _, at = _varint(data, at)
            case 1:
                size = 8
            case 2:
                size, at = _varint(data, at)
            case 5:
                size = 4
            case _:
                raise Malformed("the body is not Protobuf")
        if size > end - at:
            raise Malformed("the body ends too early")
        if tag == field << 3 | 2:
            _spend(budget)
            yield data[at : at + size]
        at += size


def _spend(budget: Iterator[int]) -> None:
    if next(budget, None) is None:
        raise TooMany(f"at most {MAX_SPANS} spans an export")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at == len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise Malformed("the body is not Protobuf")


def _of_json(body: bytes, budget: Iterator[int]) -> Iterator[Read]:
    try:
        value = json.loads(body)
    except RecursionError:
        raise Malformed("nested too deeply") from None
    except ValueError:
        raise Malformed("the body is not JSON") from None
    if not isinstance(value, dict):
        raise Malformed("must be a JSON object")
    for resource_spans in _objects("resourceSpans", value, budget):
        named = _attributes(_parsed(resource_spans.get("resource", {}), Resource(), "resource").attributes)
        for scope_spans in _objects("scopeSpans", resource_spans, budget):
            for each in _objects("spans", scope_spans, budget):
                ids = {name: _base64(each.get(name)) for name in ("traceId", "spanId", "parentSpanId")}
                fields = {name: item for name, item in each.items() if name not in ("links", *ids)}
                yield named, _parsed({**fields, **ids}, WireSpan(), "spans")


def _objects(name: str, value: Mapping[str, Any], budget: Iterator[int]) -> Iterator[dict[str, Any]]:
    items = value.get(name)
    if items is None:
        return
    if not isinstance(items, list):
        raise Malformed(f"{name}: must be a list")
    for item in items:
        if not isinstance(item, dict):
            raise Malformed(f"{name}: must hold objects")
        _spend(budget)
        yield item


def _parsed(value: Any, message: Any, name: str) -> Any:
    try:
        return ParseDict(value, message, ignore_unknown_fields=True)
    except (ParseError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        raise Malformed(f"{name}: not as OTLP has it") from None


def _base64(hexadecimal: Any) -> str:
    """An id as Protobuf's own JSON has it; what is no id becomes one of no length that is right."""
    try:
        return base64.b64encode(binascii.unhexlify(hexadecimal or "")).decode()
    except (TypeError, ValueError):
        return base64.b64encode(b"?").decode()


def _span(wire: WireSpan, resource: Mapping[str, Any]) -> Span | None:
    trace_id, span_id, parent_id = wire.trace_id, wire.span_id, wire.parent_span_id
    if len(trace_id) != 16 or len(span_id) != 8 or not any(trace_id) or not any(span_id):
        return None
    if len(parent_id) not in (0, 8):
        return None
    remote = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK | SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
    return Span(
        trace_id.hex(),
        span_id.hex(),
        parent_id.hex() if any(parent_id) else "",
        wire.flags & remote == remote,
        wire.start_time_unix_nano,
        wire.end_time_unix_nano,
        wire.status.code == Status.STATUS_CODE_ERROR,
        wire.dropped_attributes_count > 0,
        _attributes(wire.attributes),
        tuple((each.name, _attributes(each.attributes, _ANY)) for each in wire.events if each.name.startswith(_EVENTS)),
        resource,
    )


_ANY = ("",)


def _attributes(pairs: Iterable[KeyValue], wanted: tuple[str, ...] = _ATTRIBUTES) -> dict[str, Any]:
    return {pair.key: _plain(pair.value) for pair in pairs if pair.key.startswith(wanted)}


def _plain(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    match kind:
        case "string_value" | "bool_value" | "int_value" | "double_value":
            return getattr(value, kind)
        case "array_value":
            return [_plain(item) for item in value.array_value.values]
        case "kvlist_value":
            return {pair.key: _plain(pair.value) for pair in value.kvlist_value.values}
        case _:
            return None
