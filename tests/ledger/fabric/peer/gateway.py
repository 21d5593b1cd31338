"""The gateway service of one peer (internal/pkg/gateway of Fabric 2.5): the same status codes and sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import grpc
from fabric_protos.common.common_pb2 import SUCCESS, Status
from fabric_protos.gateway.gateway_pb2 import (
    ChaincodeEventsRequest,
    ChaincodeEventsResponse,
    CommitStatusRequest,
    CommitStatusResponse,
    EndorseRequest,
    EndorseResponse,
    ErrorDetail,
    EvaluateRequest,
    EvaluateResponse,
    SignedChaincodeEventsRequest,
    SignedCommitStatusRequest,
    SubmitRequest,
    SubmitResponse,
)
from fabric_protos.gateway.gateway_pb2_grpc import GatewayServicer
from fabric_protos.orderer.ab_pb2 import SeekPosition
from fabric_protos.peer.proposal_pb2 import SignedProposal
from fabric_protos.peer.proposal_response_pb2 import ProposalResponse
from fabric_protos.peer.transaction_pb2 import ChaincodeEndorsedAction, TxValidationCode
from google.protobuf.message import DecodeError

from tests.ledger.fabric.peer import qscc
from tests.ledger.fabric.peer.channel import Channel
from tests.ledger.fabric.peer.faults import Call
from tests.ledger.fabric.peer.ledger import Location
from tests.ledger.fabric.peer.msp import READERS
from tests.ledger.fabric.peer.orderer import ENDPOINT
from tests.ledger.fabric.peer.policy import unsatisfied_on_signed_data
from tests.ledger.fabric.peer.proposing import Failure, connection_refused, propose
from tests.ledger.fabric.peer.rejection import Rejected
from tests.ledger.fabric.peer.tamper import tampered
from tests.ledger.fabric.peer.transaction import UnpackedProposal

if TYPE_CHECKING:
    from tests.ledger.fabric.peer.peer import Peer

Code = grpc.StatusCode
Reply = TypeVar("Reply")
WAIT = 0.1
"""Seconds after which a waiting call looks whether its client is still there."""


class GatewayService(GatewayServicer):  # type: ignore[misc]  # generated without types
    """Evaluate, Endorse, Submit, CommitStatus and ChaincodeEvents of one peer."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def Evaluate(self, request: EvaluateRequest, context: grpc.ServicerContext) -> EvaluateResponse:
        return self._serve(Call.EVALUATE, context, lambda: self._evaluate(request.proposed_transaction))

    def Endorse(self, request: EndorseRequest, context: grpc.ServicerContext) -> EndorseResponse:
        return self._serve(Call.ENDORSE, context, lambda: self._endorse(request))

    def Submit(self, request: SubmitRequest, context: grpc.ServicerContext) -> SubmitResponse:
        return self._serve(Call.SUBMIT, context, lambda: self._submit(request, context))

    def CommitStatus(self, request: SignedCommitStatusRequest, context: grpc.ServicerContext) -> CommitStatusResponse:
        return self._serve(Call.COMMIT_STATUS, context, lambda: self._commit_status(request, context))

    def ChaincodeEvents(
        self, request: SignedChaincodeEventsRequest, context: grpc.ServicerContext
    ) -> Iterator[ChaincodeEventsResponse]:
        channel = self._peer.channel
        asked, start = self._serve(Call.CHAINCODE_EVENTS, context, lambda: self._events_request(channel, request))
        yield from self._events(channel, asked, start, context)

    def _serve(self, call: Call, context: grpc.ServicerContext, carry_out: Callable[[], Reply]) -> Reply:
        faults = self._peer.faults
        try:
            if call in faults.unavailable:
                raise Rejected(Code.UNAVAILABLE, f"test peer: {call.value} is unavailable")
            if call in faults.silent:
                while self._waited_for(context):
                    self._peer.stopping.wait(WAIT)
            reply = carry_out()
            if call in faults.lost_replies:
                raise Rejected(Code.UNAVAILABLE, f"test peer: the reply of {call.value} was lost")
        except Rejected as rejection:
            rejection.end(context)
        return reply

    def _waited_for(self, context: grpc.ServicerContext) -> bool:
        return context.is_active() and not self._peer.stopping.is_set()

    def _evaluate(self, signed: SignedProposal) -> EvaluateResponse:
        channel = self._peer.channel
        if not signed.proposal_bytes:
            raise _invalid("failed to unpack transaction proposal: a signed proposal is required")
        try:
            proposal = UnpackedProposal.of(signed)
        except DecodeError as error:
            raise _invalid(f"failed to unpack transaction proposal: {error}") from error
        asked, chaincode = proposal.channel.channel_id, proposal.spec.chaincode_id.name
        if not asked:
            raise _invalid("failed to unpack transaction proposal: no channel id provided")
        if not chaincode:
            raise _invalid(
                f"failed to unpack transaction proposal: no chaincode name is provided, channel id [{asked}]"
            )
        if asked != channel.definition.channel:
            raise Rejected(Code.UNAVAILABLE, _no_config(asked))
        if chaincode not in (channel.definition.chaincode, qscc.NAME):
            message = f"no peers available to evaluate chaincode {chaincode} in channel {asked}"
            raise Rejected(Code.FAILED_PRECONDITION, message)
        details: list[ErrorDetail] = []
        for peer in [self._peer, *self._peer.others]:
            answer = propose(peer, signed, local=peer is self._peer)
            if isinstance(answer, ProposalResponse):
                return EvaluateResponse(result=answer.response)
            details.append(peer.detail(answer.message))
            if not answer.retry:
                message = f"evaluate call to endorser returned error: {answer.message}"
                raise Rejected(answer.code, message, details)
        message = "failed to evaluate transaction, see attached details for more info"
        raise Rejected(answer.code, message, details)

    def _endorse(self, request: EndorseRequest) -> EndorseResponse:
        channel, signed = self._peer.channel, request.proposed_transaction
        if not signed.proposal_bytes:
            raise _invalid("the proposed transaction must contain a signed proposal")
        try:
            proposal = UnpackedProposal.of(signed)
        except DecodeError as error:
            raise _invalid(f"error unmarshalling proposal: {error}") from error
        asked, chaincode = proposal.channel.channel_id, proposal.spec.chaincode_id.name
        if (asked, chaincode) != (channel.definition.channel, channel.definition.chaincode):
            raise Rejected(
                Code.FAILED_PRECONDITION,
                "no combination of peers can be derived which satisfy the endorsement policy: "
                f"No metadata was found for chaincode {chaincode} in channel {asked}",
            )
        answers = self._collect(channel, signed, list(request.endorsing_organizations))
        action = ChaincodeEndorsedAction(
            proposal_response_payload=answers[0].payload, endorsements=[answer.endorsement for answer in answers]
        )
        envelope = proposal.prepare(action)
        how = self._peer.faults.tamper
        return EndorseResponse(prepared_transaction=envelope if how is None else tampered(envelope, how))

    def _collect(self, channel: Channel, signed: SignedProposal, organizations: list[str]) -> list[ProposalResponse]:
        """Endorsements of the organisations asked for, or else of as many as the policy demands, its own first."""
        peers = [self._peer, *(peer for peer in self._peer.others if not peer.missed)]
        by_organization = {peer.msp_id: peer for peer in peers}
        if missing := [name for name in organizations if name not in by_organization]:
            raise Rejected(Code.UNAVAILABLE, f"failed to find any endorsing peers for org(s): {', '.join(missing)}")
        wanted = organizations or list(by_organization)[: channel.definition.endorsements]
        collected: list[ProposalResponse] = []
        failures: list[ErrorDetail] = []
        for peer in (by_organization[name] for name in wanted):
            answer = propose(peer, signed, local=peer is self._peer)
            if isinstance(answer, Failure):
                failures.append(peer.detail(answer.message))
                if not organizations and peer is self._peer:  # the first endorser, by whom the others are chosen
                    raise _aborted("failed to endorse transaction, see attached details for more info", failures)
            elif collected and answer.payload != collected[0].payload:
                failures.append(peer.detail("ProposalResponsePayloads do not match"))
            else:
                collected.append(answer)
        if not organizations and len(wanted) < channel.definition.endorsements:
            raise Rejected(
                Code.FAILED_PRECONDITION,
                "no combination of peers can be derived which satisfy the endorsement policy: "
                "no peer combination can satisfy the endorsement policy",
            )
        if failures:
            message = "failed to collect enough transaction endorsements, see attached details for more info"
            raise _aborted(message, failures)
        return collected

    def _submit(self, request: SubmitRequest, context: grpc.ServicerContext) -> SubmitResponse:
        channel, envelope = self._peer.channel, request.prepared_transaction
        if not request.HasField("prepared_transaction"):
            raise _invalid("a prepared transaction is required")
        if not envelope.signature:
            raise _invalid("prepared transaction must be signed")
        if request.channel_id != channel.definition.channel:
            raise Rejected(Code.FAILED_PRECONDITION, _no_config(request.channel_id))
        no_orderer = "no orderers could successfully process transaction"
        if channel.orderer.faults.down:
            message = connection_refused(ENDPOINT)
            raise Rejected(Code.UNAVAILABLE, no_orderer, [ErrorDetail(address=ENDPOINT, message=message)])
        response = channel.orderer.broadcast(envelope)
        if 400 <= response.status < 500:
            status = Status.Name(response.status)
            message = f"received unsuccessful response from orderer: status={status}, info={response.info}"
            raise Rejected(Code.ABORTED, message)
        if response.status != SUCCESS:
            raise Rejected(Code.UNAVAILABLE, no_orderer)
        if Call.SUBMIT in self._peer.faults.lost_replies:
            self._location(channel, request.transaction_id, context)
        return SubmitResponse()

    def _commit_status(self, signed: SignedCommitStatusRequest, context: grpc.ServicerContext) -> CommitStatusResponse:
        if not signed.request:
            raise _invalid("a commit status request is required")
        try:
            request = CommitStatusRequest.FromString(signed.request)
        except DecodeError as error:
            raise _invalid(f"invalid status request: {error}") from error
        channel = self._peer.channel
        _check_reader(channel, request.channel_id, request.identity, signed.signature, signed.request)
        found = self._location(channel, request.transaction_id, context)
        if found is None:
            return CommitStatusResponse(result=TxValidationCode.NOT_VALIDATED)  # nobody is there to read it
        return CommitStatusResponse(result=found.code, block_number=found.height.block)

    def _location(self, channel: Channel, transaction_id: str, context: grpc.ServicerContext) -> Location | None:
        """Waits until the transaction is in a block, or the client or this peer has gone."""
        with channel.ledger.changed:
            while (found := channel.ledger.location(transaction_id)) is None and self._waited_for(context):
                channel.ledger.changed.wait(WAIT)
        return found

    @staticmethod
    def _events_request(channel: Channel, signed: SignedChaincodeEventsRequest) -> tuple[ChaincodeEventsRequest, int]:
        """The request, and the number of the first block to look at."""
        if not signed.request:
            raise _invalid("a chaincode events request is required")
        try:
            request = ChaincodeEventsRequest.FromString(signed.request)
        except DecodeError as error:
            raise _invalid(f"invalid chaincode events request: {error}") from error
        _check_reader(channel, request.channel_id, request.identity, signed.signature, signed.request)
        with channel.ledger.changed:
            after = channel.ledger.location(request.after_transaction_id)
            if after is not None:
                return request, after.height.block
            return request, _start_block(request.start_position, channel.ledger.height)

    def _events(
        self, channel: Channel, request: ChaincodeEventsRequest, number: int, context: grpc.ServicerContext
    ) -> Iterator[ChaincodeEventsResponse]:
        passed = not request.after_transaction_id
        while self._waited_for(context):
            with channel.ledger.changed:
                if number >= channel.ledger.height:
                    channel.ledger.changed.wait(WAIT)
                    continue
                committed = channel.ledger.committed[number]
            events = []
            for event in (one.event for one in committed if one.event is not None):
                if not passed:
                    passed = event.tx_id == request.after_transaction_id
                elif event.chaincode_id == request.chaincode_id:
                    events.append(event)
            if events:
                yield ChaincodeEventsResponse(events=events, block_number=number)
            number += 1


def _start_block(position: SeekPosition, height: int) -> int:
    match position.WhichOneof("Type"):
        case "specified":
            return position.specified.number
        case None | "next_commit":
            return height
        case other:
            raise _invalid(f"invalid start position type: *orderer.SeekPosition_{other.title()}")


def _check_reader(channel: Channel, asked: str, identity: bytes, signature: bytes, data: bytes) -> None:
    if asked != channel.definition.channel:
        raise Rejected(Code.PERMISSION_DENIED, f"Failed to get policy manager for channel [{asked}]")
    if not channel.membership.satisfied(identity, signature, data, READERS):
        raise Rejected(Code.PERMISSION_DENIED, unsatisfied_on_signed_data("Readers", asked))


def _invalid(message: str) -> Rejected:
    return Rejected(Code.INVALID_ARGUMENT, message)


def _aborted(message: str, details: list[ErrorDetail]) -> Rejected:
    return Rejected(Code.ABORTED, message, details)


def _no_config(channel: str) -> str:
    return f"failed to get config for channel [{channel}]: could not get last config for channel {channel}"
