"""How a gateway asks an endorser, and how it reads an answer that is no success (gateway/apiutils.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import grpc
from fabric_protos.peer.proposal_pb2 import SignedProposal
from fabric_protos.peer.proposal_response_pb2 import ProposalResponse

from tests.ledger.fabric.peer.endorser import ProposalRefused, check_time

if TYPE_CHECKING:
    from tests.ledger.fabric.peer.peer import Peer

Code = grpc.StatusCode
SUCCESSFUL = range(200, 400)


class Failure(NamedTuple):
    """Why an endorser gave nothing. `retry`: whether another endorser is worth asking."""

    code: grpc.StatusCode
    message: str
    retry: bool


def connection_refused(endpoint: str) -> str:
    """What gRPC for Go says of an address where nobody listens."""
    refused = f"transport: Error while dialing: dial tcp {endpoint}: connect: connection refused"
    return f'rpc error: code = Unavailable desc = connection error: desc = "{refused}"'


def propose(peer: Peer, signed: SignedProposal, *, local: bool) -> ProposalResponse | Failure:
    """Ask a peer to endorse. `local`: it is the gateway's own, so that no connection lies between."""
    if not peer.running:
        return Failure(Code.UNAVAILABLE, connection_refused(peer.endpoint), retry=True)
    try:
        if not local:
            check_time(peer.channel, signed)
        answer = peer.endorser.process(peer.channel, signed)
    except ProposalRefused as refusal:
        if local:
            return Failure(Code.FAILED_PRECONDITION, str(refusal), retry=False)
        return Failure(Code.UNAVAILABLE, f"rpc error: code = Unknown desc = {refusal}", retry=True)
    status, message = answer.response.status, answer.response.message
    if status in SUCCESSFUL:
        return answer
    if status == 500 and not answer.payload:
        return Failure(Code.ABORTED, message, retry=True)
    return Failure(Code.UNKNOWN, f"chaincode response {status}, {message}", retry=False)
