"""Settings: what the environment says, what is found, what is made, and the sentence when something is wrong."""

import json
import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from glassbox.settings import Settings, SettingsError, read_up, up_lock
from judges.port import Models


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for key in list(os.environ):
        if key.startswith("GLASSBOX_"):
            monkeypatch.delenv(key)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"GLASSBOX_BROKR": "x:1"}, "GLASSBOX_BROKR: there is no such setting; did you mean 'GLASSBOX_BROKER'?"),
        ({"GLASSBOX_BROKER_ADDRESS": "x:1"}, "there is no such setting"),
        ({"GLASSBOX_PARTITIONS": "many"}, "GLASSBOX_PARTITIONS: "),
        ({"GLASSBOX_PARTITIONS": "0"}, "GLASSBOX_PARTITIONS: "),
        ({"GLASSBOX_BROKER": "http://x"}, "GLASSBOX_BROKER: must be HOST:PORT"),
        ({"GLASSBOX_LLM_BASE_URL": "ftp://x"}, "GLASSBOX_LLM_BASE_URL: must be an http"),
        ({"GLASSBOX_SUT_BASE_URL": "ftp://x"}, "GLASSBOX_SUT_BASE_URL: must be an http"),
        ({"GLASSBOX_LLM_BASE_URL": "http://x/v1"}, "GLASSBOX_LLM_MODEL is not set"),
        ({"GLASSBOX_LLM_API_KEY": "k"}, "GLASSBOX_LLM_BASE_URL is not set, but GLASSBOX_LLM_API_KEY is"),
        ({"GLASSBOX_EVIDENCE_URL": "gs://x"}, "GLASSBOX_EVIDENCE_URL: must be a folder"),
        ({"GLASSBOX_EVIDENCE_URL": "s3://x/../y"}, "GLASSBOX_EVIDENCE_URL: must be s3://BUCKET"),
        ({"GLASSBOX_DOCUMENTS_URL": "s3://x,http://y"}, "GLASSBOX_DOCUMENTS_URL: must be a folder"),
        ({"GLASSBOX_LEDGER": "excel"}, "GLASSBOX_LEDGER: "),
        ({"GLASSBOX_METRICS_PORT": "70000"}, "GLASSBOX_METRICS_PORT: "),
        ({"GLASSBOX_BROKER_SECURITY": "TLS"}, "GLASSBOX_BROKER_SECURITY: "),
        ({"GLASSBOX_BROKER_SECURITY": "SASL_SSL"}, "GLASSBOX_BROKER_SASL_USERNAME is not set"),
        (
            {"GLASSBOX_BROKER_SASL_USERNAME": "intake"},
            "GLASSBOX_BROKER_SASL_USERNAME is set, but GLASSBOX_BROKER_SECURITY is PLAINTEXT; set that to SASL_SSL",
        ),
        ({"GLASSBOX_BROKER_TLS_CA": "ca.pem"}, "GLASSBOX_BROKER_TLS_CA is set, but GLASSBOX_BROKER_SECURITY is"),
        (
            {"GLASSBOX_BROKER_SECURITY": "SSL", "GLASSBOX_BROKER_TLS_CERT": "me.pem"},
            "set both GLASSBOX_BROKER_TLS_CERT and GLASSBOX_BROKER_TLS_KEY",
        ),
        (
            {
                "GLASSBOX_BROKER_SECURITY": "SASL_PLAINTEXT",
                "GLASSBOX_BROKER_SASL_MECHANISM": "PLAIN",
                "GLASSBOX_BROKER_SASL_USERNAME": "intake",
                "GLASSBOX_BROKER_SASL_PASSWORD": "sesame",
            },
            "the password would be readable on the way",
        ),
    ],
)
def test_wrong_environment_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], says: str
) -> None:
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    with pytest.raises(SettingsError) as error:
        Settings.load()
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSBOX_BROKER", "")
    assert Settings.load().broker_address is None


def test_policies_of_the_configuration_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "glassbox.toml").write_text("[policy.strict]\nthreshold = 0.9\n")
    monkeypatch.setenv("GLASSBOX_POLICY", "strict")
    assert str(Settings.load().policies()["strict"].threshold) == "0.9"
    assert {"default", "rag", "direct", "offline"} < Settings.load().policies().keys()


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("[polcy.x]\n", "no table [polcy]; did you mean 'policy'?"),
        ("[policy.x]\nthreshhold = 0.9\n", "policy.x.threshhold: no such key; did you mean 'threshold'?"),
        ("[policy.x", "not TOML"),
    ],
)
def test_wrong_configuration_names_the_key(tmp_path: Path, toml: str, says: str) -> None:
    (tmp_path / "glassbox.toml").write_text(toml)
    with pytest.raises(SettingsError) as error:
        Settings.load().policies()
    assert says in str(error.value)
    assert "glassbox.toml" in str(error.value)


def test_named_configuration_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSBOX_CONFIG", "nowhere.toml")
    with pytest.raises(SettingsError, match="cannot be read"):
        Settings.load().policies()


def test_unknown_default_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSBOX_POLICY", "ofline")
    with pytest.raises(SettingsError, match="did you mean 'offline'"):
        Settings.load().policies()


def test_keys_are_made_once_and_closed_to_others() -> None:
    settings = Settings.load()
    key, signer = settings.id_key(), settings.signing_key()
    assert len(key) == 32
    assert Settings.load().id_key() == key
    assert str(Settings.load().signing_key().verifier) == str(signer.verifier)
    for path in (settings.data_dir / "keys").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def _keys(barrier, queue) -> None:
    barrier.wait()
    queue.put((Settings.load().id_key(), str(Settings.load().signing_key().verifier)))


def test_processes_that_start_at_once_agree_on_the_keys() -> None:
    context = multiprocessing.get_context("fork")
    barrier, queue = context.Barrier(4), context.Queue()
    processes = [context.Process(target=_keys, args=(barrier, queue)) for _ in range(4)]
    for process in processes:
        process.start()
    found = {queue.get(timeout=60) for _ in processes}
    for process in processes:
        process.join()
    assert len(found) == 1


def test_damaged_id_key_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "id.key").write_text("zz")
    monkeypatch.setenv("GLASSBOX_ID_KEY_FILE", "id.key")
    with pytest.raises(SettingsError, match="restore it from a backup"):
        Settings.load().id_key()


def test_a_log_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSBOX_LEDGER_ORIGIN", "example.org/log")
    assert Settings.load().signing_key().name == "example.org/log"
    monkeypatch.setenv("GLASSBOX_LEDGER_ORIGIN", "example.org/other")
    with pytest.raises(SettingsError, match="a log keeps its name and its key"):
        Settings.load().signing_key()


def test_data_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / ".glassbox").write_text("")
    with pytest.raises(SettingsError, match="set GLASSBOX_DATA_DIR"):
        Settings.load().make_data_dir()


def test_broker_of_the_running_up(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.load()
    with pytest.raises(SettingsError, match="glassbox up"):
        settings.broker()
    folder = settings.make_data_dir()
    found = {"broker": {"address": "127.0.0.1:7", "partitions": 2, "embedded": True}, "llm": "http://127.0.0.1:8/v1"}
    with up_lock(folder):
        (folder / "up.json").write_text(json.dumps(found))
        broker = Settings.load().broker()
        assert (broker.address, broker.partitions, broker.embedded) == ("127.0.0.1:7", 2, True)
        monkeypatch.setenv("GLASSBOX_BROKER", "kafka:9092")
        assert Settings.load().broker().address == "kafka:9092"
        assert not Settings.load().broker().embedded
        with pytest.raises(SettingsError, match="runs already"), up_lock(folder):
            pass
    assert read_up(folder) is None, "what a stopped `up` left behind is not believed"


def test_how_clients_reach_a_secured_broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for key, value in {
        "GLASSBOX_BROKER": "kafka:9093",
        "GLASSBOX_BROKER_SECURITY": "SASL_SSL",
        "GLASSBOX_BROKER_SASL_USERNAME": "intake",
        "GLASSBOX_BROKER_SASL_PASSWORD": "sesame",
        "GLASSBOX_BROKER_TLS_CA": "ca.pem",
    }.items():
        monkeypatch.setenv(key, value)
    settings = Settings.load()
    assert "sesame" not in str(list(settings.described()))
    assert settings.environment()["GLASSBOX_BROKER_SASL_PASSWORD"] == "sesame", "another process needs it"
    with pytest.raises(SettingsError, match=r"GLASSBOX_BROKER_TLS_CA: not usable as PEM files .*No such file"):
        settings.broker()
    (tmp_path / "ca.pem").write_text("nonsense")
    with pytest.raises(SettingsError, match="GLASSBOX_BROKER_TLS_CA: not usable as PEM files"):
        settings.broker()
    monkeypatch.delenv("GLASSBOX_BROKER_TLS_CA")
    security = Settings.load().broker().security
    assert (security.protocol, security.mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
    assert (security.username, security.password) == ("intake", "sesame")


def test_described_masks_secrets_and_says_where_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSBOX_LLM_BASE_URL", "http://x/v1")
    monkeypatch.setenv("GLASSBOX_LLM_MODEL", "m")
    monkeypatch.setenv("GLASSBOX_EMBEDDING_MODEL", "e")
    monkeypatch.setenv("GLASSBOX_LLM_API_KEY", "sesame")
    monkeypatch.setenv("GLASSBOX_SUT_API_KEY", "sesame")
    rows = {name: (value, source) for name, value, source in Settings.load().described()}
    assert "sesame" not in str(rows)
    assert rows["GLASSBOX_LLM_API_KEY"][1] == "environment"
    assert rows["GLASSBOX_PARTITIONS"] == ("4", "default")
    assert rows["GLASSBOX_SIGNING_KEY_FILE"][0].endswith("keys/signing.key")


def test_environment_gives_another_process_the_same_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for key, value in {
        "GLASSBOX_BROKER": "kafka:9092",
        "GLASSBOX_DATA_DIR": "data",
        "GLASSBOX_LLM_BASE_URL": "http://x/v1",
        "GLASSBOX_LLM_MODEL": "m",
        "GLASSBOX_EMBEDDING_MODEL": "e",
        "GLASSBOX_LLM_API_KEY": "sesame",
        "GLASSBOX_SENTENCE_MODEL": "minilm",
        "GLASSBOX_ENTITY_MODEL": "gliner",
        "GLASSBOX_RELATION_MODEL": "owner/glirel@v1",
        "GLASSBOX_DEVICE": "cpu",
    }.items():
        monkeypatch.setenv(key, value)
    for name in ("minilm", "gliner"):
        (tmp_path / name).mkdir()
    (tmp_path / "glassbox.toml").write_text("")
    here = Settings.load()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for key, value in here.environment().items():
        monkeypatch.setenv(key, value)
    there = Settings.load()
    assert there.model_dump() == here.model_dump()
    folders = {"sentence": str(tmp_path / "minilm"), "entity": str(tmp_path / "gliner")}
    assert there.models() == Models(**folders, relation="owner/glirel@v1", device="cpu")
    monkeypatch.setenv("GLASSBOX_SENTENCE_MODEL", "owner/model@main")
    assert Settings.load().models().sentence == "owner/model@main"


def test_endpoint_is_the_environments_else_the_lexical_model(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="no model is known"):
        Settings.load().endpoint()
    assert Settings.load().endpoint("http://127.0.0.1:1/v1").family == "lexical"
    monkeypatch.setenv("GLASSBOX_LLM_BASE_URL", "http://x/v1")
    monkeypatch.setenv("GLASSBOX_LLM_MODEL", "m")
    monkeypatch.setenv("GLASSBOX_EMBEDDING_MODEL", "e")
    endpoint = Settings.load().endpoint("http://127.0.0.1:1/v1")
    assert (endpoint.base_url, endpoint.model, endpoint.family) == ("http://x/v1", "m", "llm")
