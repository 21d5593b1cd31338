"""Profiles from variables and files; each missing or wrong thing is one sentence that names it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ledger.fabric.identity import FileSigner, ProfileError
from ledger.fabric.profile import ClientTls, Peer, Profile
from tests.ledger.fabric.peer.organization import Organization


@pytest.fixture(scope="module")
def organization(tmp_path_factory: pytest.TempPathFactory) -> Organization:
    return Organization.create(1, tmp_path_factory.mktemp("crypto"))


@pytest.fixture(scope="module")
def tls_ca(organization: Organization) -> bytes:
    return organization.tls_root_file.read_bytes()


def ours(organization: Organization, **changes: str) -> dict[str, str]:
    variables = {
        "MSP_ID": "Org1MSP",
        "IDENTITY": str(organization.msp_folder("User1")),
        "PEERS": "localhost:7051",
        "TLS_CA_FILE": str(organization.tls_root_file),
        **changes,
    }
    return {f"GLASSBOX_FABRIC_{name}": value for name, value in variables.items()}


def samples(organization: Organization, **changes: str) -> dict[str, str]:
    return {
        "MSP_ID": "Org1MSP",
        "CRYPTO_PATH": str(organization.folder),
        "PEER_ENDPOINT": "localhost:7051",
        "PEER_HOST_ALIAS": "peer0.org1.example.com",
        **changes,
    }


def test_our_variables_with_their_defaults(organization: Organization, tls_ca: bytes) -> None:
    profile = Profile.from_environment(ours(organization))
    assert (profile.channel, profile.chaincode) == ("glassbox", "scorecards")
    assert profile.peers == (Peer("localhost:7051", tls_ca, None),)
    assert profile.signer.msp_id == "Org1MSP"
    assert profile.client_tls is None


def test_several_peers_an_alias_and_client_tls(organization: Organization, tls_ca: bytes) -> None:
    tls = organization.tls_folder("User1")
    changes = {
        "CHANNEL": "records",
        "CHAINCODE": "cards",
        "PEERS": "a:1, grpcs://b:2,grpc://c:3",
        "HOST_ALIAS": "peer0",
        "TLS_CERTIFICATE_FILE": str(tls / "client.crt"),
        "TLS_KEY_FILE": str(tls / "client.key"),
    }
    profile = Profile.from_environment(ours(organization, **changes))
    assert (profile.channel, profile.chaincode) == ("records", "cards")
    assert profile.peers == (Peer("a:1", tls_ca, "peer0"), Peer("b:2", tls_ca, "peer0"), Peer("c:3", None, None))
    assert profile.client_tls == ClientTls((tls / "client.crt").read_bytes(), (tls / "client.key").read_bytes())
    assert "PRIVATE" not in repr(profile)


def test_the_names_of_the_fabric_samples(organization: Organization, tls_ca: bytes) -> None:
    profile = Profile.from_environment(samples(organization, CHANNEL_NAME="mychannel", CHAINCODE_NAME="basic"))
    assert (profile.channel, profile.chaincode) == ("mychannel", "basic")
    assert profile.peers == (Peer("localhost:7051", tls_ca, "peer0.org1.example.com"),)
    user = FileSigner.from_msp_folder("Org1MSP", organization.msp_folder("User1"))
    assert profile.signer.certificate == user.certificate


def test_the_samples_single_folders_come_before_what_follows_from_the_crypto_path(organization: Organization) -> None:
    admin = organization.msp_folder("Admin")
    profile = Profile.from_environment(
        samples(
            organization,
            KEY_DIRECTORY_PATH=str(admin / "keystore"),
            CERT_DIRECTORY_PATH=str(admin / "signcerts"),
            TLS_CERT_PATH=str(organization.tls_root_file),
        )
    )
    assert profile.signer.certificate == FileSigner.from_msp_folder("Org1MSP", admin).certificate


def test_our_names_come_first_and_an_empty_one_is_unset(organization: Organization) -> None:
    both = samples(organization, CHANNEL_NAME="theirs") | ours(organization, CHANNEL="mine", CHAINCODE="")
    profile = Profile.from_environment(both)
    assert (profile.channel, profile.chaincode) == ("mine", "scorecards")


def test_a_wallet_file_brings_its_own_msp_id(organization: Organization, tmp_path: Path) -> None:
    user = organization.msp_folder("User1")
    (certificate,), (key,) = (user / "signcerts").iterdir(), (user / "keystore").iterdir()
    wallet = tmp_path / "user.id"
    credentials = {"certificate": certificate.read_text(), "privateKey": key.read_text()}
    wallet.write_text(json.dumps({"credentials": credentials, "mspId": "Org1MSP", "type": "X.509", "version": 1}))
    variables = ours(organization, IDENTITY=str(wallet))
    del variables["GLASSBOX_FABRIC_MSP_ID"]
    assert Profile.from_environment(variables).signer.msp_id == "Org1MSP"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"MSP_ID": ""}, r"GLASSBOX_FABRIC_MSP_ID \(or MSP_ID\) is not set: the MSP id"),
        ({"IDENTITY": ""}, r"GLASSBOX_FABRIC_IDENTITY is not set: name an MSP folder"),
        ({"IDENTITY": "/no/such"}, r"the folder /no/such/signcerts cannot be read"),
        ({"PEERS": ""}, r"GLASSBOX_FABRIC_PEERS \(or PEER_ENDPOINT\) is not set: host:port"),
        ({"PEERS": "localhost"}, r"GLASSBOX_FABRIC_PEERS: 'localhost' is not host:port"),
        ({"PEERS": "a:1,"}, r"GLASSBOX_FABRIC_PEERS: '' is not host:port"),
        ({"PEERS": "a:b"}, r"'a:b' is not host:port"),
        ({"TLS_CA_FILE": ""}, r"GLASSBOX_FABRIC_PEERS: nothing says by which CA the peer localhost:7051 is known: set"),
        ({"TLS_CA_FILE": "/no/ca"}, r"GLASSBOX_FABRIC_TLS_CA_FILE: /no/ca cannot be read: No such file"),
        ({"TLS_KEY_FILE": "/no/key"}, r"GLASSBOX_FABRIC_TLS_KEY_FILE: /no/key cannot be read"),
        ({"CONNECTION_PROFILE": "/no/profile"}, r"the connection profile: /no/profile cannot be read"),
    ],
)
def test_what_is_missing_is_named(organization: Organization, changes: dict[str, str], sentence: str) -> None:
    with pytest.raises(ProfileError, match=sentence):
        Profile.from_environment(ours(organization, **changes))


def test_half_of_client_tls_is_a_mistake(organization: Organization) -> None:
    certificate = str(organization.tls_folder("User1") / "client.crt")
    with pytest.raises(ProfileError, match="TLS_CERTIFICATE_FILE and GLASSBOX_FABRIC_TLS_KEY_FILE go together"):
        Profile.from_environment(ours(organization, TLS_CERTIFICATE_FILE=certificate))


def connection_profile(tls_ca: bytes) -> dict[str, Any]:
    """As the Fabric samples' test network writes it."""
    return {
        "name": "test-network-org1",
        "version": "1.0.0",
        "client": {"organization": "Org1", "connection": {"timeout": {"peer": {"endorser": "300"}}}},
        "organizations": {"Org1": {"mspid": "Org1MSP", "peers": ["peer0.org1.example.com"]}},
        "peers": {
            "peer0.org1.example.com": {
                "url": "grpcs://localhost:7051",
                "tlsCACerts": {"pem": tls_ca.decode()},
                "grpcOptions": {"ssl-target-name-override": "peer0.org1.example.com", "hostnameOverride": "other"},
            },
            "peer0.org2.example.com": {"url": "grpcs://localhost:9051"},
        },
    }


@pytest.mark.parametrize("name", ["connection-org1.json", "connection-org1.yaml"])
def test_a_connection_profile_names_its_organisations_peers(
    organization: Organization, tls_ca: bytes, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    document = connection_profile(tls_ca)
    path.write_text(json.dumps(document) if path.suffix == ".json" else yaml.safe_dump(document))
    profile = Profile.from_environment(ours(organization, CONNECTION_PROFILE=str(path), CHANNEL="mine", PEERS=""))
    assert profile.peers == (Peer("localhost:7051", tls_ca, "peer0.org1.example.com"),)
    assert (profile.channel, profile.signer.msp_id) == ("mine", "Org1MSP")


def test_a_connection_profiles_certificates_may_be_a_list_or_a_file_beside_it(
    organization: Organization, tls_ca: bytes, tmp_path: Path
) -> None:
    signer = FileSigner.from_msp_folder("Org1MSP", organization.msp_folder("User1"))
    (tmp_path / "ca.pem").write_bytes(tls_ca)
    for certificates in ({"pem": [tls_ca.decode()]}, {"path": "ca.pem"}):
        document = connection_profile(tls_ca)
        document["peers"]["peer0.org1.example.com"]["tlsCACerts"] = certificates
        path = tmp_path / "connection.json"
        path.write_text(json.dumps(document))
        assert Profile.from_connection_profile(path, signer).peers[0].tls_ca == tls_ca


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", r"connection\.json is not JSON; name it \.yaml if it is YAML"),
        ("[]", r"connection\.json lacks"),
        ('{"client": {}}', r"connection\.json lacks 'organization'"),
    ],
)
def test_another_file_is_no_connection_profile(
    organization: Organization, tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "connection.json").write_text(text)
    with pytest.raises(ProfileError, match=sentence):
        Profile.from_environment(ours(organization, CONNECTION_PROFILE=str(tmp_path / "connection.json")))


def test_a_connection_profile_of_another_organisation_or_without_peers_is_a_mistake(
    organization: Organization, tls_ca: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "connection.json"
    document = connection_profile(tls_ca)
    document["organizations"]["Org1"]["mspid"] = "Org2MSP"
    path.write_text(json.dumps(document))
    with pytest.raises(ProfileError, match=r"connection\.json is of Org2MSP, the identity of Org1MSP"):
        Profile.from_environment(ours(organization, CONNECTION_PROFILE=str(path)))
    document["organizations"]["Org1"] = {"mspid": "Org1MSP", "peers": []}
    path.write_text(json.dumps(document))
    with pytest.raises(ProfileError, match="names no peer"):
        Profile.from_environment(ours(organization, CONNECTION_PROFILE=str(path)))
