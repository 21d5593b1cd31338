"""Fabric's official message types under short names, or a sentence that says what to install."""

from ledger.port import LedgerError

try:
    from fabric_protos.common import common_pb2 as common
    from fabric_protos.gateway import gateway_pb2 as gateway
    from fabric_protos.msp import identities_pb2 as identities
    from fabric_protos.orderer import ab_pb2 as orderer
    from fabric_protos.peer import chaincode_pb2 as chaincode
    from fabric_protos.peer import proposal_pb2 as proposal
    from fabric_protos.peer import proposal_response_pb2 as proposal_response
    from fabric_protos.peer import transaction_pb2 as transaction
    from google.protobuf.message import DecodeError
    from google.protobuf.timestamp_pb2 import Timestamp
    from google.rpc import status_pb2 as rpc
except ModuleNotFoundError as error:
    raise LedgerError(
        f"the Fabric ledger needs {error.name}, which is not installed: pip install 'glassbox[fabric]'"
    ) from None

__all__ = [
    "DecodeError",
    "Timestamp",
    "chaincode",
    "common",
    "gateway",
    "identities",
    "orderer",
    "proposal",
    "proposal_response",
    "rpc",
    "transaction",
]
