"""An organisation of the test network, written to disk in the layout of Fabric's cryptogen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.ledger.fabric.peer.certificates import Authority, KeyPair

CLIENT_UNITS = {"User1": "client", "Admin": "admin"}
"""The users that cryptogen makes, with the node role of each."""


@dataclass(frozen=True)
class Organization:
    """One organisation: its roots, its peer and its users below `folder` (…/peerOrganizations/DOMAIN)."""

    msp_id: str
    domain: str
    folder: Path
    ca: Authority
    tls_ca: Authority
    peer: KeyPair
    peer_tls: KeyPair

    @classmethod
    def create(cls, number: int, root: Path) -> Organization:
        """OrgNMSP with peer0, User1 and Admin, all certificates written below `root`/peerOrganizations."""
        domain = f"org{number}.example.com"
        ca, tls_ca = Authority.create(f"ca.{domain}"), Authority.create(f"tlsca.{domain}")
        host = f"peer0.{domain}"
        made = cls(
            msp_id=f"Org{number}MSP",
            domain=domain,
            folder=root / "peerOrganizations" / domain,
            ca=ca,
            tls_ca=tls_ca,
            peer=ca.issue(host, "peer"),
            peer_tls=tls_ca.issue(host, hosts=[host, "localhost", "127.0.0.1"]),
        )
        made._write_peer()
        for name, unit in CLIENT_UNITS.items():
            made.add_user(name, made.ca.issue(f"{name}@{domain}", unit))
        return made

    @property
    def peer_host(self) -> str:
        """The name that the peer's TLS certificate carries."""
        return f"peer0.{self.domain}"

    @property
    def tls_root_file(self) -> Path:
        return self.folder / "peers" / self.peer_host / "tls" / "ca.crt"

    def msp_folder(self, user: str) -> Path:
        return self.folder / "users" / f"{user}@{self.domain}" / "msp"

    def tls_folder(self, user: str) -> Path:
        """The user's client.crt, client.key and ca.crt for mutual TLS."""
        return self.folder / "users" / f"{user}@{self.domain}" / "tls"

    def enrol(
        self,
        name: str,
        unit: str | None = "client",
        *,
        attributes: Mapping[str, str] | None = None,
        expired: bool = False,
    ) -> Path:
        """Make a user with its own certificate; answers its MSP folder."""
        return self.add_user(name, self.ca.issue(f"{name}@{self.domain}", unit, attributes=attributes, expired=expired))

    def add_user(self, name: str, identity: KeyPair) -> Path:
        folder = self.msp_folder(name)
        self._write_msp(folder, identity)
        tls = self.tls_ca.issue(f"{name}@{self.domain}")
        _write(self.tls_folder(name) / "client.crt", tls.certificate_pem)
        _write(self.tls_folder(name) / "client.key", tls.key_pem)
        _write(self.tls_folder(name) / "ca.crt", self.tls_ca.root.certificate_pem)
        return folder

    def _write_peer(self) -> None:
        _write(self.folder / "ca" / f"ca.{self.domain}-cert.pem", self.ca.root.certificate_pem)
        peer = self.folder / "peers" / self.peer_host
        self._write_msp(peer / "msp", self.peer)
        _write(peer / "tls" / "server.crt", self.peer_tls.certificate_pem)
        _write(peer / "tls" / "server.key", self.peer_tls.key_pem)
        _write(self.tls_root_file, self.tls_ca.root.certificate_pem)

    def _write_msp(self, folder: Path, identity: KeyPair) -> None:
        common_name = identity.certificate.subject.rfc4514_string().split("CN=")[1].split(",")[0]
        _write(folder / "signcerts" / f"{common_name}-cert.pem", identity.certificate_pem)
        _write(folder / "keystore" / "priv_sk", identity.key_pem)
        _write(folder / "cacerts" / f"ca.{self.domain}-cert.pem", self.ca.root.certificate_pem)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
