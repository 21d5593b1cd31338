"""A Fabric network for tests: peers of one or two organisations in front of the real chaincode process."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from glassbox.cli.children import free_ports
from ledger.fabric.identity import FileSigner
from ledger.fabric.profile import PREFIX, ClientTls, Profile
from ledger.fabric.profile import Peer as KnownPeer
from tests.ledger.fabric.chaincode_process import ChaincodeProcess
from tests.ledger.fabric.peer.chaincode import ChaincodeClient
from tests.ledger.fabric.peer.channel import Channel, Definition
from tests.ledger.fabric.peer.faults import OrdererFaults, PeerFaults
from tests.ledger.fabric.peer.msp import Membership
from tests.ledger.fabric.peer.orderer import BatchSize
from tests.ledger.fabric.peer.organization import Organization
from tests.ledger.fabric.peer.peer import Peer

PACKAGE_ID = "scorecards_1:" + "0" * 64


class TestNetwork:
    """Starts on entry, ends on exit with everything it started.

    `folder` receives the certificates (…/peerOrganizations, as cryptogen writes them) and the chaincode's log.
    `policy`: whether any one organisation's endorsement suffices, or all must endorse.
    `mutual_tls`: clients must show a TLS certificate too.
    """

    __test__ = False  # pytest: this is no test

    def __init__(
        self,
        binary: Path,
        folder: Path,
        *,
        orgs: Literal[1, 2] = 1,
        policy: Literal["any", "all"] = "all",
        channel: str = "glassbox",
        chaincode: str = "scorecards",
        mutual_tls: bool = False,
        batches: BatchSize = BatchSize(),  # noqa: B008  # frozen
    ) -> None:
        self.folder = folder
        self.definition = Definition(channel, chaincode, endorsements=orgs if policy == "all" else 1)
        self.orderer_faults = OrdererFaults()
        self.organizations = [Organization.create(number, folder) for number in range(1, orgs + 1)]
        self.chaincode = ChaincodeProcess(binary, PACKAGE_ID, folder)
        self._batches, self._mutual_tls = batches, mutual_tls
        self._membership = Membership({one.msp_id: one.ca.root.certificate for one in self.organizations})
        self._ports = free_ports(orgs)
        self._cleanup = ExitStack()

    def __enter__(self) -> TestNetwork:
        with ExitStack() as started:
            self.channel = self._new_channel()
            started.callback(lambda: self.channel.close())
            self.chaincode.start()
            started.callback(self.chaincode.close)
            self.peers = [
                Peer(
                    one,
                    ChaincodeClient(self.chaincode.address, PACKAGE_ID),
                    self.channel,
                    port,
                    self._mutual_tls,
                )
                for one, port in zip(self.organizations, self._ports, strict=True)
            ]
            for peer in self.peers:
                peer.others = [other for other in self.peers if other is not peer]
                peer.start()
                started.callback(peer.close)
            self._cleanup = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    @property
    def faults(self) -> PeerFaults:
        """Of the first peer, which clients talk to unless they fail over."""
        return self.peers[0].faults

    @property
    def endpoint(self) -> str:
        return self.peers[0].endpoint

    def fresh(self) -> TestNetwork:
        """The same network with an empty ledger, no faults, and everything up: as good as a new one for a test."""
        self.channel.close()
        self.orderer_faults = OrdererFaults()
        self.channel = self._new_channel()
        for peer in self.peers:
            peer.faults, peer.channel = PeerFaults(), self.channel
            if not peer.running:
                peer.start()
        if not self.chaincode.running:
            self.chaincode.start()
        return self

    def enrol(
        self,
        name: str,
        unit: str | None = "client",
        *,
        org: int = 1,
        attributes: Mapping[str, str] | None = None,
        expired: bool = False,
    ) -> str:
        """Make a user of an organisation, beside User1 and Admin; answers the name.

        `unit`: client | admin | peer, or None for a certificate without a role. `attributes` as Fabric CA grants
        them. `expired`: its certificate ran out a minute ago.
        """
        self.organizations[org - 1].enrol(name, unit, attributes=attributes, expired=expired)
        return name

    def profile(self, user: str = "User1", *, org: int = 1) -> Profile:
        """How a client of the organisation reaches every peer, its own organisation's first."""
        organization = self.organizations[org - 1]
        tls = organization.tls_folder(user)
        return Profile(
            channel=self.definition.channel,
            chaincode=self.definition.chaincode,
            peers=tuple(KnownPeer(endpoint, self._tls_roots) for endpoint in self._endpoints(org)),
            signer=FileSigner.from_msp_folder(organization.msp_id, organization.msp_folder(user)),
            client_tls=ClientTls((tls / "client.crt").read_bytes(), (tls / "client.key").read_bytes())
            if self._mutual_tls
            else None,
        )

    def environment(self, user: str = "User1", *, org: int = 1) -> dict[str, str]:
        """The same as variables for a child process."""
        organization = self.organizations[org - 1]
        tls_ca = self.folder / "tls-ca.pem"
        tls_ca.write_bytes(self._tls_roots)
        variables = {
            "CHANNEL": self.definition.channel,
            "CHAINCODE": self.definition.chaincode,
            "MSP_ID": organization.msp_id,
            "IDENTITY": str(organization.msp_folder(user)),
            "ADMIN_IDENTITY": str(organization.msp_folder("Admin")),
            "PEERS": ",".join(self._endpoints(org)),
            "TLS_CA_FILE": str(tls_ca),
        }
        if self._mutual_tls:
            variables["TLS_CERTIFICATE_FILE"] = str(organization.tls_folder(user) / "client.crt")
            variables["TLS_KEY_FILE"] = str(organization.tls_folder(user) / "client.key")
        return {PREFIX + name: value for name, value in variables.items()}

    @property
    def _tls_roots(self) -> bytes:
        return b"".join(one.tls_ca.root.certificate_pem for one in self.organizations)

    def _endpoints(self, org: int) -> list[str]:
        own = self.peers[org - 1]
        return [peer.endpoint for peer in (own, *own.others)]

    def _new_channel(self) -> Channel:
        return Channel(self.definition, self._membership, self.orderer_faults, self._batches)
