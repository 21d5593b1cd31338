"""Exports as bytes of Protobuf: whole ones, and such as no exporter makes."""

from __future__ import annotations

import base64
import json

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def binary(body: bytes) -> bytes:
    """The same export in Protobuf."""
    value = json.loads(body)
    for resource_spans in value["resourceSpans"]:
        for scope_spans in resource_spans["scopeSpans"]:
            for each in scope_spans["spans"]:
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in each:
                        each[name] = base64.b64encode(bytes.fromhex(each[name])).decode()
    made: bytes = ParseDict(value, ExportTraceServiceRequest()).SerializeToString()
    return made


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field."""
    size, length = b"", len(content)
    while length > 127:
        size += bytes([length & 127 | 128])
        length >>= 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + content
