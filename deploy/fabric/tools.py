"""Fabric's tools at work on one state folder: keys, channel, nodes, chaincode."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
import shutil
import socket
import string
import subprocess
import tarfile
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from processes import PATIENCE, Process, Trouble, wait

HERE = Path(__file__).resolve().parent
TOOLS = ("peer", "orderer", "configtxgen", "cryptogen", "osnadmin")
CHANNEL, CHAINCODE = "glassbox", "scorecards"
PORTS = ("orderer", "orderer_admin", "peer1", "operations1", "chaincode1", "peer2", "operations2", "chaincode2")
CHAINCODE_NAME = re.compile("[a-zA-Z0-9]+([-_][a-zA-Z0-9]+)*")
"""As Fabric has it (core/chaincode/lifecycle/scc.go)."""
REFUSED = "failed to invoke backing implementation"
"""In what a peer says where it refuses a definition, which the same call will not change."""
Arguments = list[str | Path]


@dataclass(frozen=True)
class Network:
    """What `up` decided, kept as network.json in the state folder; `ready` once it has been up."""

    orgs: int
    first_port: int | None
    ports: Mapping[str, int]
    batch_timeout: str
    mutual_tls: bool
    ready: bool = False

    def address(self, port: str) -> str:
        return f"127.0.0.1:{self.ports[port]}"

    @property
    def organisations(self) -> range:
        return range(1, self.orgs + 1)

    @property
    def processes(self) -> list[str]:
        """In the order in which they start."""
        return ["orderer", *(f"peer{n}" for n in self.organisations), *(f"chaincode{n}" for n in self.organisations)]

    def ports_of(self, process: str) -> dict[str, int]:
        """Where a process listens: its own port, and the second that orderer and peers have."""
        second = {"orderer": "orderer_admin"} | {f"peer{n}": f"operations{n}" for n in self.organisations}
        return {name: self.ports[name] for name in (process, second.get(process)) if name}

    @property
    def endorsement(self) -> str:
        """Every organisation must endorse."""
        return "AND({})".format(",".join(f"'Org{n}MSP.peer'" for n in self.organisations))


def tools() -> Path:
    """The folder with Fabric's tools."""
    if not (name := os.environ.get("GLASSBOX_FABRIC_BIN")):
        raise Trouble(f"set GLASSBOX_FABRIC_BIN to the folder with Fabric's tools: {', '.join(TOOLS)}")
    folder = Path(name).resolve()
    if missing := [tool for tool in TOOLS if not shutil.which(folder / tool)]:
        raise Trouble(f"GLASSBOX_FABRIC_BIN={name} lacks {', '.join(missing)}: Fabric 2.5's binaries have them")
    return folder


def chaincode_binary(state: Path) -> Path:
    """Where a state folder has its chaincode server."""
    return state / CHAINCODE


def provide_chaincode(state: Path) -> None:
    """Takes the chaincode server that CHAINCODE_BIN names, or builds it from this repository with Go."""
    binary = chaincode_binary(state)
    binary.unlink(missing_ok=True)
    if given := os.environ.get("CHAINCODE_BIN"):
        if not shutil.which(given):
            raise Trouble(f"CHAINCODE_BIN={given} is no program")
        binary.symlink_to(Path(given).resolve())
    elif go := shutil.which("go"):
        run([go, "build", "-o", binary, "./cmd/scorecards"], folder=HERE.parent.parent / "chaincode")
    else:
        raise Trouble("go is missing, which builds the chaincode: install Go, or name a built one with CHAINCODE_BIN")


def run(command: Arguments, folder: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
    """A command's output; Trouble with its last words where it fails."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines()
        raise Trouble("\n".join([f"{' '.join(map(str, command[:4]))} failed:", *words[-3:]]))
    return done.stdout


def take_port(port: int, held: contextlib.ExitStack) -> int:
    """Keeps a port of loopback (0: any that is free) until `held` ends. OSError where it cannot be had."""
    listener = held.enter_context(socket.socket())
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    return int(listener.getsockname()[1])


def free_ports(first: int | None) -> dict[str, int]:
    """A port for each of PORTS: from `first` on, or whichever are free."""
    ports = {}
    with contextlib.ExitStack() as held:
        for n, name in enumerate(PORTS):
            wanted = first + n if first else 0
            try:
                ports[name] = take_port(wanted, held)
            except OSError as error:
                raise Trouble(f"port {wanted} cannot be had ({error.strerror}): give another --first-port") from None
    return ports


class Fabric:
    """The tools at work on one state folder."""

    def __init__(self, state: Path, network: Network) -> None:
        self.state, self.network, self.bin = state, network, tools()
        self.orderer_tls = state / "crypto/ordererOrganizations/example.com/orderers/orderer.example.com/tls"

    def organisation(self, n: int) -> Path:
        return self.state / f"crypto/peerOrganizations/org{n}.example.com"

    def write_configuration(self) -> None:
        """Certificates, each node's settings and the channel's first block."""
        keys = HERE / "crypto-config.yaml"
        run([self.bin / "cryptogen", "generate", "--config", keys, "--output", self.state / "crypto"])
        values = {**self.network.ports, "state": self.state, "builder": HERE / "builder"}
        values |= {"batch_timeout": self.network.batch_timeout, "mutual_tls": str(self.network.mutual_tls).lower()}
        self.fill("configtx.yaml", self.state, values)
        self.fill("orderer.yaml", self.state / "orderer", values)
        for n in self.network.organisations:
            domain = f"org{n}.example.com"
            own = {"domain": domain, "host": f"peer0.{domain}", "msp_id": f"Org{n}MSP"}
            ports = {name: self.network.ports[f"{name}{n}"] for name in ("peer", "operations")}
            self.fill("core.yaml", self.state / f"peer{n}", {**values, **own, **ports})
        authorities = (self.organisation(n) / "msp/tlscacerts" for n in self.network.organisations)
        known = [file.read_text() for folder in authorities for file in folder.iterdir()]
        (self.state / "tls-ca.pem").write_text("".join(known))  # by which a client knows every peer
        profile = "OneOrganisation" if self.network.orgs == 1 else "TwoOrganisations"
        block: Arguments = ["-outputBlock", self.state / "channel.block"]
        command = [self.bin / "configtxgen", "-profile", profile, "-channelID", CHANNEL, *block]
        run(command, environment={**os.environ, "FABRIC_CFG_PATH": str(self.state)})

    def fill(self, name: str, folder: Path, values: Mapping[str, object]) -> None:
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(string.Template((HERE / name).read_text()).substitute(values))

    def need_ports(self, process: str) -> None:
        """Trouble where another program listens on a port of this process: it would be taken for it."""
        for name, port in self.network.ports_of(process).items():
            try:
                with contextlib.ExitStack() as held:
                    take_port(port, held)
            except OSError as error:
                raise Trouble(
                    f"port {port}, {name} of this network, cannot be had ({error.strerror}): end the program that has "
                    "it, or remove this network with down --delete and make one on other ports"
                ) from None

    def start(self, name: str) -> None:
        """Starts one process and waits until it listens."""
        self.need_ports(name)
        kind, n = name.rstrip("12"), name[-1]
        settings = {key: value for key, value in os.environ.items() if not key.startswith(("CORE_", "ORDERER_"))}
        settings |= {"FABRIC_LOGGING_SPEC": os.environ.get("FABRIC_LOGGING_SPEC", "warn")}
        command: Arguments
        if kind == "chaincode":
            command = [chaincode_binary(self.state)]
            settings["CORE_CHAINCODE_ID_NAME"] = (self.state / f"peer{n}" / "package-id").read_text()
            settings["CHAINCODE_SERVER_ADDRESS"] = self.network.address(name)
        else:
            command = [self.bin / "orderer"] if kind == "orderer" else [self.bin / "peer", "node", "start"]
            settings["FABRIC_CFG_PATH"] = str(self.state / name)
        process = Process(self.state, name)
        process.start(command, settings)
        process.listening(self.network.address("orderer_admin" if kind == "orderer" else name))

    def peer(self, n: int, *arguments: str | Path, seconds: float = 0) -> str:
        """The peer command as organisation `n`'s administrator; for some seconds again where that may help."""
        admin = self.organisation(n) / f"users/Admin@org{n}.example.com"
        settings = {
            **os.environ,
            "FABRIC_CFG_PATH": str(self.state / f"peer{n}"),
            "FABRIC_LOGGING_SPEC": "error",
            "CORE_PEER_MSPCONFIGPATH": str(admin / "msp"),
            "CORE_PEER_TLS_CLIENTCERT_FILE": str(admin / "tls/client.crt"),
            "CORE_PEER_TLS_CLIENTKEY_FILE": str(admin / "tls/client.key"),
        }
        deadline = time.monotonic() + seconds
        while True:
            try:
                return run([self.bin / "peer", *arguments], environment=settings)
            except Trouble as trouble:
                if REFUSED in str(trouble) or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def join(self) -> None:
        """Orderer and peers join the channel."""
        tls, block = self.orderer_tls, self.state / "channel.block"
        command: Arguments = [self.bin / "osnadmin", "channel", "join", "--channelID", CHANNEL, "--config-block", block]
        command += ["-o", self.network.address("orderer_admin"), "--ca-file", tls / "ca.crt"]
        answer = run([*command, "--client-cert", tls / "server.crt", "--client-key", tls / "server.key"])
        if "Status: 201" not in answer:  # it exits 0 whatever the orderer said
            raise Trouble(f"the orderer does not join the channel: {answer}")
        for n in self.network.organisations:
            self.peer(n, "channel", "join", "-b", block)

    def install(self) -> None:
        """Each peer learns where its organisation's chaincode listens."""
        for n in self.network.organisations:
            folder = self.state / f"peer{n}"
            package = folder / "scorecards.tar.gz"
            package.write_bytes(chaincode_package(self.network.address(f"chaincode{n}")))
            self.peer(n, "lifecycle", "chaincode", "install", package)
            package_id = self.peer(n, "lifecycle", "chaincode", "calculatepackageid", package)
            (folder / "package-id").write_text(package_id.strip())

    def define(self, name: str) -> None:
        """The organisations agree on a chaincode of this name: one program, and under each name a ledger of its own."""
        if not CHAINCODE_NAME.fullmatch(name):
            raise Trouble(f"{name!r} is no name for a chaincode: letters and digits, with single - or _ between them")
        orderer: Arguments = ["-o", self.network.address("orderer"), "--tls", "--cafile", self.orderer_tls / "ca.crt"]
        definition = [*orderer, "--channelID", CHANNEL, "--name", name, "--version", "1", "--sequence", "1"]
        definition += ["--signature-policy", self.network.endorsement]
        peers: Arguments = []
        for n in self.network.organisations:
            package_id = (self.state / f"peer{n}" / "package-id").read_text()
            approve = [*definition, "--package-id", package_id]  # at first the orderer may still elect itself
            self.peer(n, "lifecycle", "chaincode", "approveformyorg", *approve, seconds=PATIENCE)
            peers += ["--peerAddresses", self.network.address(f"peer{n}")]
            peers += ["--tlsRootCertFiles", self.organisation(n) / f"peers/peer0.org{n}.example.com/tls/ca.crt"]
        self.peer(1, "lifecycle", "chaincode", "commit", *definition, *peers)
        question = json.dumps({"Args": ["org.hyperledger.fabric:GetMetadata"]})
        for n in self.network.organisations:
            self.peer(n, "chaincode", "query", "-C", CHANNEL, "-n", name, "-c", question, seconds=PATIENCE)

    def acquaint(self) -> None:
        """Returns when each peer knows those of the other organisation: its gateway asks them for endorsements."""
        line = f'gossip_membership_total_peers_known{{channel="{CHANNEL}"}} {self.network.orgs - 1}'

        def knows(n: int) -> bool:
            url = f"http://{self.network.address(f'operations{n}')}/metrics"
            with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
                return line in answer.read().decode().splitlines()
            return False

        for n in self.network.organisations:
            if not wait(partial(knows, n)):
                raise Trouble(f"peer{n} does not find the other organisation's peer: see {self.state / 'logs'}")


def chaincode_package(address: str) -> bytes:
    """The package that a peer installs: no code, only where the service listens. Equal bytes for equal addresses."""
    connection = {"address": address, "dial_timeout": "10s", "tls_required": False}
    metadata = {"type": "ccaas", "label": f"{CHAINCODE}_1"}
    code = tar_gz({"connection.json": json.dumps(connection).encode()})
    return tar_gz({"metadata.json": json.dumps(metadata).encode(), "code.tar.gz": code})


def tar_gz(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)
