"""A real Fabric network for tests: `deploy/fabric/network`, with the conveniences of the test network."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from ledger.fabric.profile import PREFIX, Profile
from tests.ledger.fabric.peer.certificates import Authority, KeyPair
from tests.ledger.fabric.peer.organization import Organization

SCRIPT = Path(__file__).parents[3] / "deploy" / "fabric" / "network"
BIN = "GLASSBOX_FABRIC_BIN"
TO_SET = f"set {BIN} to the folder with Fabric's tools (docs/fabric.md): this runs on a real network"


class NativeNetwork:
    """Up on entry, down and deleted on exit. `binary`: the built chaincode. `folder`: new, for its state.

    `batch_timeout`: how long the orderer waits for a block to fill; the tests' own is short.
    """

    def __init__(
        self,
        binary: Path,
        folder: Path,
        *,
        orgs: Literal[1, 2] = 1,
        mutual_tls: bool = False,
        batch_timeout: str = "100ms",
    ) -> None:
        self.folder, self.orgs, self._binary = folder, orgs, binary
        self._up = ["--orgs", str(orgs), "--batch-timeout", batch_timeout, *(["--mutual-tls"] if mutual_tls else [])]
        self._defined = 0
        self._environments: dict[tuple[str, int], dict[str, str]] = {}
        self.chaincode = "scorecards"

    def __enter__(self) -> NativeNetwork:
        self.command("up", *self._up)
        return self

    def __exit__(self, *_: object) -> None:
        self.command("down", "--delete")

    def command(self, *arguments: str) -> str:
        """What `network ARGUMENTS` prints; RuntimeError with its sentence where it does not exit 0."""
        command = [sys.executable, str(SCRIPT), *arguments, "--state", str(self.folder)]
        environment = {**os.environ, "CHAINCODE_BIN": str(self._binary)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"network {shlex.join(arguments)} exits {done.returncode}: {done.stderr}")
        return done.stdout

    def fresh(self) -> NativeNetwork:
        """The same network with an empty ledger, which is that of another name for the chaincode."""
        self._defined += 1
        self.chaincode = f"scorecards-{self._defined}"
        self.command("define", self.chaincode)
        return self

    def stop(self, process: str) -> None:
        self.command("stop", process)

    def start(self, process: str) -> None:
        self.command("start", process)

    def enrol(
        self,
        name: str,
        unit: str | None = "client",
        *,
        org: int = 1,
        attributes: Mapping[str, str] | None = None,
        expired: bool = False,
    ) -> str:
        """As the test network's: make a user of an organisation, beside User1 and Admin; answers the name."""
        self.organization(org).enrol(name, unit, attributes=attributes, expired=expired)
        return name

    def environment(self, user: str = "User1", *, org: int = 1) -> dict[str, str]:
        """What a client runs under."""
        if (user, org) not in self._environments:
            lines = self.command("env", "--user", user, "--org", str(org)).splitlines()
            self._environments[user, org] = dict(shlex.split(line)[0].split("=", 1) for line in lines)
        return {**self._environments[user, org], f"{PREFIX}CHAINCODE": self.chaincode}

    def profile(self, user: str = "User1", *, org: int = 1) -> Profile:
        return Profile.from_environment(self.environment(user, org=org))

    @property
    def organizations(self) -> list[Organization]:
        return [self.organization(number) for number in range(1, self.orgs + 1)]

    def organization(self, number: int) -> Organization:
        """An organisation as cryptogen made it, with the keys of its authorities."""
        domain = f"org{number}.example.com"
        folder = self.folder / "crypto" / "peerOrganizations" / domain
        peer = folder / "peers" / f"peer0.{domain}"
        return Organization(
            msp_id=f"Org{number}MSP",
            domain=domain,
            folder=folder,
            ca=Authority(_pair(folder / "ca" / f"ca.{domain}-cert.pem", folder / "ca" / "priv_sk")),
            tls_ca=Authority(_pair(folder / "tlsca" / f"tlsca.{domain}-cert.pem", folder / "tlsca" / "priv_sk")),
            peer=_pair(peer / "msp" / "signcerts" / f"peer0.{domain}-cert.pem", peer / "msp" / "keystore" / "priv_sk"),
            peer_tls=_pair(peer / "tls" / "server.crt", peer / "tls" / "server.key"),
        )


def _pair(certificate: Path, key: Path) -> KeyPair:
    private = load_pem_private_key(key.read_bytes(), None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    return KeyPair(x509.load_pem_x509_certificate(certificate.read_bytes()), private)
