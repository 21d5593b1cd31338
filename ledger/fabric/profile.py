"""How a Fabric network is reached and as whom: from this project's variables, those of the Fabric samples, or a
connection profile. Whatever is missing or wrong is one sentence that names the variable or file.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ledger.fabric.identity import FileSigner, ProfileError, Signer

PREFIX = "GLASSBOX_FABRIC_"
CHANNEL = "glassbox"
CHAINCODE = "scorecards"

_PLAIN, _TLS = "grpc://", "grpcs://"


@dataclass(frozen=True)
class Peer:
    """A gateway peer. `endpoint`: host:port. `tls_ca`: the CA certificates (PEM) it is checked against, None for a
    connection without TLS. `host_alias`: the name in its certificate where that is not the endpoint's host."""

    endpoint: str
    tls_ca: bytes | None = None
    host_alias: str | None = None


@dataclass(frozen=True)
class ClientTls:
    """What this client shows peers that ask for a TLS certificate (mTLS): certificate chain and key, PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class Profile:
    """A channel and its chaincode, the peers that lead there (the first that answers is used), and who calls."""

    channel: str
    chaincode: str
    peers: tuple[Peer, ...]
    signer: Signer
    client_tls: ClientTls | None = None

    def __post_init__(self) -> None:
        if not self.peers:
            raise ProfileError("a Fabric profile names no peer: name at least one gateway peer (host:port)")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Profile":
        """Read a profile from variables (docs/fabric.md lists them). Raises ProfileError.

        GLASSBOX_FABRIC_* come first, then the Fabric samples' names: CHANNEL_NAME, CHAINCODE_NAME, MSP_ID,
        CRYPTO_PATH, KEY_DIRECTORY_PATH, CERT_DIRECTORY_PATH, TLS_CERT_PATH, PEER_ENDPOINT and PEER_HOST_ALIAS.
        """
        env = _Environment(environment)
        channel = env.get("CHANNEL", "CHANNEL_NAME") or CHANNEL
        chaincode = env.get("CHAINCODE", "CHAINCODE_NAME") or CHAINCODE
        signer = _signer(env)
        path = env.get("CONNECTION_PROFILE")
        if path is not None:
            return cls.from_connection_profile(
                Path(path), signer, channel=channel, chaincode=chaincode, client_tls=_client_tls(env)
            )
        return cls(channel, chaincode, _peers(env), signer, _client_tls(env))

    @classmethod
    def from_connection_profile(
        cls,
        path: Path,
        signer: Signer,
        *,
        channel: str = CHANNEL,
        chaincode: str = CHAINCODE,
        client_tls: ClientTls | None = None,
    ) -> "Profile":
        """The peers of the client's organisation in a connection profile, JSON or YAML, of the Fabric samples.

        `signer` must be of that organisation. Raises ProfileError.
        """
        document = _document(path)
        try:
            name = document["client"]["organization"]
            organization = document["organizations"][name]
            msp_id = organization["mspid"]
            peers = tuple(_described_peer(path, peer, document["peers"][peer]) for peer in organization["peers"])
        except (KeyError, TypeError) as error:
            raise ProfileError(f"the connection profile {path} lacks {error}, or it is not where it belongs") from None
        if msp_id != signer.msp_id:
            raise ProfileError(f"the connection profile {path} is of {msp_id}, the identity of {signer.msp_id}")
        return cls(channel, chaincode, peers, signer, client_tls)


def orderers_from_environment(environment: Mapping[str, str]) -> tuple[Peer, ...]:
    """The channel's orderers, for a client that hands transactions to them itself (hfc). Raises ProfileError.

    GLASSBOX_FABRIC_ORDERERS, with _ORDERER_TLS_CA_FILE where it is not the peers' CA and _ORDERER_HOST_ALIAS.
    """
    env = _Environment(environment)
    endpoints = env.need("host:port of an orderer, several separated by commas", "ORDERERS")
    tls_ca = env.read("ORDERER_TLS_CA_FILE") or env.read("TLS_CA_FILE", "TLS_CERT_PATH")
    alias = env.get("ORDERER_HOST_ALIAS")
    return tuple(_peer(url.strip(), tls_ca, alias, env.name("ORDERERS")) for url in endpoints.split(","))


class _Environment:
    """Looks a fact up under our name, then under the samples'. An empty variable is an unset one."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def name(self, ours: str, samples: str | None = None) -> str:
        """The variable that is set, else the one to set."""
        return next((name for name in (PREFIX + ours, samples) if name and self._values.get(name)), PREFIX + ours)

    def get(self, ours: str, samples: str | None = None) -> str | None:
        return self._values.get(self.name(ours, samples)) or None

    def need(self, what: str, ours: str, samples: str | None = None) -> str:
        value = self.get(ours, samples)
        if value is None:
            other = f" (or {samples})" if samples else ""
            raise ProfileError(f"{PREFIX}{ours}{other} is not set: {what}")
        return value

    def read(self, ours: str, samples: str | None = None) -> bytes | None:
        path = self.get(ours, samples)
        return None if path is None else _read(Path(path), self.name(ours, samples))


def _signer(env: _Environment) -> FileSigner:
    identity = env.get("IDENTITY")
    if identity is not None and Path(identity).is_file():
        return FileSigner.from_wallet_file(Path(identity))
    msp_id = env.need("the MSP id of this client's organisation, such as Org1MSP", "MSP_ID", "MSP_ID")
    if identity is not None:
        return FileSigner.from_msp_folder(msp_id, Path(identity))
    certificates, keys = (
        env.get("CERTIFICATE_FOLDER", "CERT_DIRECTORY_PATH"),
        env.get("KEY_FOLDER", "KEY_DIRECTORY_PATH"),
    )
    crypto = env.get("CRYPTO_FOLDER", "CRYPTO_PATH")
    if crypto is not None:
        user = Path(crypto) / "users" / f"User1@{Path(crypto).name}" / "msp"
        certificates, keys = certificates or str(user / "signcerts"), keys or str(user / "keystore")
    if certificates is None or keys is None:
        raise ProfileError(
            f"{PREFIX}IDENTITY is not set: name an MSP folder (signcerts, keystore) or a wallet's .id file "
            "(or set CRYPTO_PATH, or CERT_DIRECTORY_PATH and KEY_DIRECTORY_PATH)"
        )
    return FileSigner.from_folders(msp_id, Path(certificates), Path(keys))


def _peers(env: _Environment) -> tuple[Peer, ...]:
    endpoints = env.need("host:port of a gateway peer, several separated by commas", "PEERS", "PEER_ENDPOINT")
    variable = env.name("PEERS", "PEER_ENDPOINT")
    tls_ca = env.read("TLS_CA_FILE", "TLS_CERT_PATH")
    crypto = env.get("CRYPTO_FOLDER", "CRYPTO_PATH")
    if tls_ca is None and crypto is not None:
        organization = Path(crypto).name
        tls_ca = _read(Path(crypto) / "peers" / f"peer0.{organization}" / "tls" / "ca.crt", "CRYPTO_PATH")
    alias = env.get("HOST_ALIAS", "PEER_HOST_ALIAS")
    return tuple(_peer(url.strip(), tls_ca, alias, variable) for url in endpoints.split(","))


def _peer(url: str, tls_ca: bytes | None, alias: str | None, source: str) -> Peer:
    plain = url.startswith(_PLAIN)
    endpoint = url.removeprefix(_PLAIN).removeprefix(_TLS)
    host, colon, port = endpoint.rpartition(":")
    if not host or not colon or not port.isdecimal():
        raise ProfileError(f"{source}: {url!r} is not host:port")
    if plain:
        return Peer(endpoint, None, None)
    if tls_ca is None:
        raise ProfileError(
            f"{source}: nothing says by which CA the peer {endpoint} is known: set {PREFIX}TLS_CA_FILE (or "
            f"TLS_CERT_PATH), or write {_PLAIN}{endpoint} for a peer without TLS"
        )
    return Peer(endpoint, tls_ca, alias)


def _client_tls(env: _Environment) -> ClientTls | None:
    certificate, key = env.read("TLS_CERTIFICATE_FILE"), env.read("TLS_KEY_FILE")
    if (certificate is None) != (key is None):
        raise ProfileError(f"{PREFIX}TLS_CERTIFICATE_FILE and {PREFIX}TLS_KEY_FILE go together: set both or neither")
    return None if certificate is None or key is None else ClientTls(certificate, key)


def _document(path: Path) -> Any:
    text = _read(path, "the connection profile")
    try:
        if path.suffix not in (".yaml", ".yml"):
            return json.loads(text)
    except ValueError:
        raise ProfileError(f"the connection profile {path} is not JSON; name it .yaml if it is YAML") from None
    try:
        import yaml
    except ModuleNotFoundError:
        raise ProfileError(
            f"{path} is YAML, which needs PyYAML: pip install 'glassbox[fabric]', or give the JSON profile"
        ) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise ProfileError(f"the connection profile {path} is not YAML") from None


def _described_peer(path: Path, name: str, description: Mapping[str, Any]) -> Peer:
    options = description.get("grpcOptions") or {}
    alias = options.get("ssl-target-name-override") or options.get("hostnameOverride")
    certificates = description.get("tlsCACerts") or {}
    tls_ca: bytes | None = None
    if "pem" in certificates:
        pem = certificates["pem"]
        tls_ca = ("\n".join(pem) if isinstance(pem, list) else str(pem)).encode()
    elif "path" in certificates:
        tls_ca = _read(path.parent / str(certificates["path"]), f"tlsCACerts of {name} in {path}")
    return _peer(str(description["url"]), tls_ca, alias, f"{path}, peers.{name}")


def _read(path: Path, source: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ProfileError(f"{source}: {path} cannot be read: {error.strerror}") from None
