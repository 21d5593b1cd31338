"""A call that ends in a gRPC status, with the details that Fabric attaches to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import grpc
from fabric_protos.gateway.gateway_pb2 import ErrorDetail
from google.rpc.status_pb2 import Status

DETAILS_KEY = "grpc-status-details-bin"
"""The trailing metadata in which gRPC carries a google.rpc.Status."""


class Rejected(Exception):
    """Ends the call. `details`: what each endorser or orderer that was asked has said."""

    def __init__(self, code: grpc.StatusCode, message: str, details: Sequence[ErrorDetail] = ()) -> None:
        super().__init__(message)
        self.code, self.message, self.details = code, message, tuple(details)

    def end(self, context: grpc.ServicerContext) -> NoReturn:
        if self.details:
            status = Status(code=self.code.value[0], message=self.message)
            for detail in self.details:
                status.details.add().Pack(detail)
            context.set_trailing_metadata(((DETAILS_KEY, status.SerializeToString()),))
        context.abort(self.code, self.message)
        raise AssertionError("abort raises")
