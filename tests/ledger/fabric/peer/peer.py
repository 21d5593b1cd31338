"""One peer: a gRPC server on a port of its own, with an endorser and a gateway over the channel's ledger."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc
from fabric_protos.gateway.gateway_pb2 import ErrorDetail
from fabric_protos.gateway.gateway_pb2_grpc import add_GatewayServicer_to_server
from fabric_protos.orderer.ab_pb2_grpc import add_AtomicBroadcastServicer_to_server
from fabric_protos.peer.events_pb2_grpc import add_DeliverServicer_to_server
from fabric_protos.peer.peer_pb2_grpc import add_EndorserServicer_to_server

from tests.ledger.fabric.peer.chaincode import CHANNEL_OPTIONS, ChaincodeClient
from tests.ledger.fabric.peer.channel import Channel
from tests.ledger.fabric.peer.endorser import Endorser
from tests.ledger.fabric.peer.faults import PeerFaults
from tests.ledger.fabric.peer.gateway import GatewayService
from tests.ledger.fabric.peer.msp import LocalSigner
from tests.ledger.fabric.peer.organization import Organization
from tests.ledger.fabric.peer.services import BroadcastService, DeliverService, EndorserService

CALLS_AT_ONCE = 256
"""Threads of a peer's server: each call that waits for a commit holds one."""


class Peer:
    """An organisation's peer. It can be stopped and started again on the same port, and keeps its ledger.

    `channel` may be replaced by an empty one while it serves.
    """

    def __init__(
        self, organization: Organization, chaincode: ChaincodeClient, channel: Channel, port: int, mutual_tls: bool
    ) -> None:
        self.organization, self.channel, self.port = organization, channel, port
        self.faults = PeerFaults()
        self.stopping = threading.Event()
        self.missed = False
        self.others: Sequence[Peer] = ()
        self.endorser = Endorser(LocalSigner(organization.msp_id, organization.peer), chaincode)
        self._chaincode, self._mutual_tls = chaincode, mutual_tls
        self._server: grpc.Server | None = None

    @property
    def msp_id(self) -> str:
        return self.organization.msp_id

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        return self._server is not None

    def detail(self, message: str) -> ErrorDetail:
        """What this peer has to say in an error of the gateway."""
        return ErrorDetail(address=self.endpoint, msp_id=self.msp_id, message=message)

    def start(self) -> None:
        self.stopping.clear()
        self.missed = False
        server = grpc.server(ThreadPoolExecutor(CALLS_AT_ONCE), options=[*CHANNEL_OPTIONS, ("grpc.so_reuseport", 0)])
        add_GatewayServicer_to_server(GatewayService(self), server)
        add_EndorserServicer_to_server(EndorserService(self), server)
        add_AtomicBroadcastServicer_to_server(BroadcastService(self), server)
        add_DeliverServicer_to_server(DeliverService(self), server)
        tls, root = self.organization.peer_tls, self.organization.tls_ca.root.certificate_pem
        server.add_secure_port(
            self.endpoint,
            grpc.ssl_server_credentials(
                [(tls.key_pem, tls.certificate_pem)],
                root_certificates=root if self._mutual_tls else None,
                require_client_auth=self._mutual_tls,
            ),
        )
        server.start()
        self._server = server

    def stop(self, *, missed: bool = False) -> None:
        """Ends every call at once and frees the port.

        `missed`: the other peers have noticed by gossip, which takes them seconds, and no longer count on it.
        """
        self.missed = missed
        server, self._server = self._server, None
        if server is not None:
            self.stopping.set()
            server.stop(None).wait()

    def close(self) -> None:
        self.stop()
        self._chaincode.close()
