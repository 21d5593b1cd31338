"""Settings: wiring from the environment (`GLASSBOX_*`), policies from `glassbox.toml`.

What neither names is found where `glassbox up` left it (`DATA_DIR/up.json`) or is made on first start.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from glassbox.contract.policy import Policy, PolicyError, load_policies, nearest
from glassbox.contract.spending import TABLES, Spending, load_spending

if TYPE_CHECKING:
    from glassbox.contract.agreement import AgreementCard
    from glassbox.contract.documents import DocumentRules
    from glassbox.gateway.callbacks.addresses import CallbackRules
    from judges.llm import Endpoint
    from judges.port import Models
    from ledger.checkpoint import Signer
    from streams.clients import Broker
    from streams.security import Security

PREFIX = "GLASSBOX_"
_BUCKET = re.compile(r"s3://[A-Za-z0-9._-]+(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*/?")
_TABLES = ("policy", *TABLES)
"""Top-level tables of glassbox.toml."""


class SettingsError(ValueError):
    """Settings that cannot be used: one sentence that names the setting and the next step."""


class Settings(BaseSettings):
    """The wiring of one process. Each field is the environment variable of its name with `GLASSBOX_` before it,
    except `broker_address`, which is `GLASSBOX_BROKER`. Use `load()`, which explains what is wrong."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", env_ignore_empty=True)

    broker_address: Annotated[str | None, Field(validation_alias="GLASSBOX_BROKER")] = None
    partitions: Annotated[int, Field(ge=1, le=1024)] = 4
    replication: Annotated[int, Field(ge=1, le=16)] = 1
    broker_security: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    broker_sasl_mechanism: Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"] = "SCRAM-SHA-512"
    broker_sasl_username: str | None = None
    broker_sasl_password: SecretStr | None = None
    broker_tls_ca: Path | None = None
    broker_tls_cert: Path | None = None
    broker_tls_key: Path | None = None
    broker_tls_key_password: SecretStr | None = None
    production: bool = False

    data_dir: Path = Path(".glassbox")
    config: Path = Path("glassbox.toml")
    policy: str = "default"

    llm_base_url: str | None = None
    llm_model: str | None = None
    llm_api_key: SecretStr | None = None
    embedding_model: str | None = None
    llm_concurrency: Annotated[int, Field(ge=1, le=4096)] = 64
    llm_call_limit_s: Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)] = 60.0

    sut_base_url: str | None = None
    sut_model: str | None = None
    sut_api_key: SecretStr | None = None

    sentence_model: str | None = None
    entity_model: str | None = None
    relation_model: str | None = None
    device: str = "auto"

    ledger: Literal["merkle", "fabric", "merkle,fabric", "fabric,merkle"] = "merkle"
    ledger_origin: str | None = None
    signing_key_file: Path | None = None
    id_key_file: Path | None = None
    evidence_url: str | None = None
    documents_url: str | None = None
    document_max_bytes: Annotated[int, Field(ge=1)] = 16 * 1024 * 1024
    documents_max_bytes: Annotated[int, Field(ge=1)] = 64 * 1024 * 1024

    tenant_rate: Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)] = 10.0
    tenant_burst: Annotated[int, Field(ge=1, le=1_000_000_000)] = 100

    worker_pool: Annotated[int, Field(ge=1, le=4096)] = 64
    metrics_host: str = "127.0.0.1"
    metrics_port: Annotated[int, Field(ge=0, le=65535)] = 0

    fabric_peers: str | None = None
    fabric_channel: str | None = None
    fabric_chaincode: str | None = None
    fabric_msp_id: str | None = None
    fabric_identity: Path | None = None
    fabric_admin_identity: Path | None = None
    fabric_certificate_folder: Path | None = None
    fabric_key_folder: Path | None = None
    fabric_crypto_folder: Path | None = None
    fabric_connection_profile: Path | None = None
    fabric_tls_ca_file: Path | None = None
    fabric_tls_certificate_file: Path | None = None
    fabric_tls_key_file: Path | None = None
    fabric_host_alias: str | None = None
    fabric_orderers: str | None = None
    fabric_orderer_tls_ca_file: Path | None = None
    fabric_orderer_host_alias: str | None = None
    fabric_hfc_python: Path | None = None
    fabric_bin: Path | None = None
    anchor_interval_s: Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)] = 60.0

    catalogue_url: SecretStr | None = None
    catalogue_retention_days: Annotated[int | None, Field(ge=1, le=36500)] = None
    gateway_host: str = "127.0.0.1"
    gateway_port: Annotated[int, Field(ge=0, le=65535)] = 0
    gateway_max_bytes: Annotated[int, Field(ge=2 * 1024 * 1024)] = 64 * 1024 * 1024
    gateway_max_requests: Annotated[int, Field(ge=1, le=65536)] = 256
    gateway_trace_wait_s: Annotated[float, Field(gt=0, le=900, allow_inf_nan=False)] = 120.0
    api_keys_file: Path | None = None
    oidc_issuer: str | None = None
    oidc_audience: str | None = None
    oidc_jwks_url: str | None = None
    oidc_tenant_claim: str = "tenant"
    oidc_scope_claim: str = "scope"
    callback_hosts: str | None = None
    callback_allow_http: bool = False
    callback_allow_private: bool = False
    callback_attempts: Annotated[int, Field(ge=1, le=100)] = 10
    callback_keys_file: Path | None = None

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_format: Literal["auto", "json", "text"] = "auto"

    @field_validator(
        *("data_dir", "config", "signing_key_file", "id_key_file", "api_keys_file", "callback_keys_file"),
        *("fabric_identity", "fabric_admin_identity", "fabric_certificate_folder", "fabric_key_folder"),
        *("fabric_crypto_folder", "fabric_connection_profile", "fabric_bin", "fabric_hfc_python"),
        *("fabric_tls_ca_file", "fabric_tls_certificate_file", "fabric_tls_key_file"),
        "fabric_orderer_tls_ca_file",
        *("broker_tls_ca", "broker_tls_cert", "broker_tls_key"),
    )
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        return value.expanduser().absolute() if value else None

    @field_validator("sentence_model", "entity_model", "relation_model")
    @classmethod
    def _same_everywhere(cls, value: str | None) -> str | None:
        """A folder by its absolute path, for processes that run in another."""
        folder = Path(value).expanduser() if value else None
        return str(folder.absolute()) if folder and folder.is_dir() else value

    @field_validator("llm_base_url", "sut_base_url", "oidc_issuer", "oidc_jwks_url")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        if value is not None and urlsplit(value).scheme not in ("http", "https"):
            raise ValueError("must be an http or https address such as http://127.0.0.1:8000/v1")
        return value

    @field_validator("broker_address")
    @classmethod
    def _addresses(cls, value: str | None) -> str | None:
        for address in value.split(",") if value else []:
            _, _, port = address.strip().rpartition(":")
            if not port.isdecimal() or "/" in address:
                raise ValueError("must be HOST:PORT, or several with commas between them")
        return value

    @field_validator("callback_hosts")
    @classmethod
    def _hosts(cls, value: str | None) -> str | None:
        from glassbox.gateway.callbacks.addresses import allowed_hosts

        allowed_hosts(value or "")
        return value

    @field_validator("evidence_url", "documents_url")
    @classmethod
    def _places(cls, value: str | None, info: ValidationInfo) -> str | None:
        """A folder by its absolute path, for processes that run in another. Documents may have several places."""
        if value is None:
            return None
        places = value.split(",") if info.field_name == "documents_url" else [value]
        return ",".join(map(_place, places))

    @model_validator(mode="after")
    def _whole_security(self) -> Settings:
        protocol = f"{PREFIX}BROKER_SECURITY is {self.broker_security}"
        sasl, tls = self.broker_security.startswith("SASL"), self.broker_security.endswith("SSL")
        for needed, prefix, wanted in ((sasl, "broker_sasl_", "SASL_SSL"), (tls, "broker_tls_", "SSL or SASL_SSL")):
            idle = [name for name in sorted(self.model_fields_set) if name.startswith(prefix)]
            if idle and not needed:
                raise ValueError(f"{variable(idle[0])} is set, but {protocol}; set that to {wanted}, or neither")
        for name in ("broker_sasl_username", "broker_sasl_password"):
            if sasl and getattr(self, name) is None:
                raise ValueError(f"{protocol}, but {variable(name)} is not set")
        if (self.broker_tls_cert is None) != (self.broker_tls_key is None):
            raise ValueError(f"set both {PREFIX}BROKER_TLS_CERT and {PREFIX}BROKER_TLS_KEY, or neither")
        if self.broker_sasl_mechanism == "PLAIN" and self.broker_security == "SASL_PLAINTEXT":
            raise ValueError(f"{protocol}: with PLAIN the password would be readable on the way; set that to SASL_SSL")
        return self

    @model_validator(mode="after")
    def _whole_endpoint(self, info: ValidationInfo) -> Settings:
        details = {name: getattr(self, name) for name in ("llm_model", "embedding_model", "llm_api_key")}
        given = [name for name, value in details.items() if value is not None]
        if self.llm_base_url is None and given:
            raise ValueError(f"{PREFIX}LLM_BASE_URL is not set, but {variable(given[0])} is; set both or neither")
        missing = [name for name in ("llm_model", "embedding_model") if details[name] is None]
        if self.llm_base_url is not None and missing:
            raise ValueError(
                f"{variable(missing[0])} is not set: name the model that {PREFIX}LLM_BASE_URL is to be asked for"
            )
        return self

    @model_validator(mode="after")
    def _whole_provider(self) -> Settings:
        if (self.oidc_issuer is None) != (self.oidc_audience is None):
            raise ValueError(f"set both {PREFIX}OIDC_ISSUER and {PREFIX}OIDC_AUDIENCE, or neither")
        return self

    @classmethod
    def load(cls) -> Settings:
        """The settings of this process's environment. Raises `SettingsError`."""
        known = [variable(name) for name in cls.model_fields]
        for key in os.environ:
            if key.startswith(PREFIX) and key not in known:
                raise SettingsError(f"{key}: there is no such setting{nearest(key, known)}")
        try:
            return cls()
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            reason = first["msg"].removeprefix("Value error, ")
            where = f"{variable(str(first['loc'][0]))}: " if first["loc"] else ""
            raise SettingsError(where + reason) from None

    def broker(self) -> Broker:
        """Where the log is: the environment's, else that of the `glassbox up` that runs in the data folder."""
        from streams.clients import Broker

        local = (self.up or {}).get("broker")
        address = self.broker_address or (local and local["address"])
        if not address:
            raise SettingsError(
                f"no broker is known: run `glassbox up` {self._place_of_up()}, or set {PREFIX}BROKER to HOST:PORT"
            )
        if local and address == local["address"]:
            return Broker(address, local["partitions"], self.replication, embedded=local["embedded"])
        return Broker(address, self.partitions, self.replication, security=self.security())

    def _place_of_up(self) -> str:
        """Where, or with which setting, `glassbox up` has this data folder."""
        usual = self.data_dir.name == str(type(self).model_fields["data_dir"].default)
        return f"in {self.data_dir.parent}" if usual else f"with {variable('data_dir')}={self.data_dir}"

    def security(self) -> Security:
        """How clients of a broker that is not the embedded one prove who they are. Raises `SettingsError`."""
        from streams.security import Security

        password, key_password = self.broker_sasl_password, self.broker_tls_key_password
        security = Security(
            protocol=self.broker_security,
            mechanism=self.broker_sasl_mechanism,
            username=self.broker_sasl_username,
            password=password.get_secret_value() if password else None,
            ca=self.broker_tls_ca,
            certificate=self.broker_tls_cert,
            key=self.broker_tls_key,
            key_password=key_password.get_secret_value() if key_password else None,
        )
        try:
            security.ssl_context()
        except OSError as error:
            names = [name for name in ("broker_tls_ca", "broker_tls_cert", "broker_tls_key") if getattr(self, name)]
            raise SettingsError(f"{', '.join(map(variable, names))}: not usable as PEM files ({error})") from None
        return security

    def endpoint(self, lexical_url: str | None = None) -> Endpoint:
        """Which model judges: the environment's, else the lexical model at `lexical_url`, by default that of the
        `glassbox up` that runs in the data folder."""
        from judges.lexical import CHAT_MODEL, EMBEDDING_MODEL
        from judges.llm import Endpoint

        url, model, embedding, key = self.llm_base_url, self.llm_model, self.embedding_model, self.llm_api_key
        if url is None:
            url = lexical_url or (self.up or {}).get("llm")
            model, embedding = CHAT_MODEL, EMBEDDING_MODEL
        if not (url and model and embedding):
            raise SettingsError(
                f"no model is known: run `glassbox up` {self._place_of_up()}, or set {PREFIX}LLM_BASE_URL, "
                f"{PREFIX}LLM_MODEL and {PREFIX}EMBEDDING_MODEL"
            )
        return Endpoint(
            base_url=url,
            model=model,
            embedding_model=embedding,
            api_key=key.get_secret_value() if key else "",
            concurrency=self.llm_concurrency,
            call_limit_s=self.llm_call_limit_s,
        )

    def models(self) -> Models:
        """The models that judge in this process beside the endpoint."""
        from judges.port import Models

        return Models(self.sentence_model, self.entity_model, self.relation_model, self.device)

    @cached_property
    def up(self) -> dict[str, Any] | None:
        """What the `glassbox up` that runs in the data folder wrote to `up.json`; None where none runs."""
        return read_up(self.data_dir)

    def policies(self) -> dict[str, Policy]:
        """Name -> policy: those shipped and those of the configuration file. Raises `SettingsError`."""
        text = self._configuration()
        try:
            policies = load_policies(text)
            for table in tomllib.loads(text):
                if table not in _TABLES:
                    raise SettingsError(f"{self.config}: no table [{table}]{nearest(table, _TABLES)}")
        except PolicyError as error:
            raise SettingsError(f"{self.config}: {error}") from None
        if self.policy not in policies:
            raise SettingsError(f"{PREFIX}POLICY: no policy {self.policy!r}{nearest(self.policy, policies)}")
        return policies

    def spending(self) -> Spending:
        """Which requests are judged and what that may take, by the configuration file. Raises `SettingsError`."""
        try:
            return load_spending(self._configuration())
        except PolicyError as error:
            raise SettingsError(f"{self.config}: {error}") from None

    def _configuration(self) -> str:
        """The text of the configuration file, empty where there is none and none is named."""
        if self.config.exists() or "config" in self.model_fields_set:
            return _read(self.config, f"{PREFIX}CONFIG")
        return ""

    def cards(self) -> dict[str, AgreementCard]:
        """Digest -> agreement card, for every card that a configured policy names. Raises `SettingsError` where one is
        not in the data folder or says nothing of the part."""
        from glassbox.contract.agreement import CardError, read_card

        cards: dict[str, AgreementCard] = {}
        for policy in self.policies().values():
            for part, settings in policy.parts().items():
                digest = settings.agreement
                if digest is None:
                    continue
                where, path = f"policy {policy.name}: {part}.agreement", self.cards_path / f"{digest}.json"
                if not path.is_file():
                    raise SettingsError(
                        f"{where}: no card {digest} in {self.cards_path}; copy it there as {digest}.json, or measure "
                        "anew with `glassbox agreement FILE --card CARD.json` and name the digest that it prints"
                    )
                try:
                    card = read_card(path.read_bytes())
                except (CardError, OSError) as error:
                    raise SettingsError(f"{where}: {path} is no agreement card ({error})") from None
                if card.digest() != digest:
                    raise SettingsError(f"{where}: {path} is another card ({card.digest()}) or was changed")
                if card.part(part) is None:
                    raise SettingsError(f"{where}: card {digest} says nothing of {part}")
                cards[digest] = card
        return cards

    def signing_key(self) -> Signer:
        """The ledger's Ed25519 key, named like its log; made on first start. Raises `SettingsError`."""
        from ledger.checkpoint import KeyFormatError, create_key_file, load_key_file

        path = self.signing_key_path
        name = self.ledger_origin or f"glassbox-{secrets.token_hex(4)}"
        try:
            signer = load_key_file(path) if path.exists() else create_key_file(path, name)
        except KeyFormatError as error:
            raise SettingsError(str(error)) from None
        except OSError as error:
            raise _unusable(path, error) from None
        if self.ledger_origin not in (None, signer.name):
            raise SettingsError(
                f"{PREFIX}LEDGER_ORIGIN is {self.ledger_origin!r}, but the key in {path} is that of {signer.name!r}: "
                "a log keeps its name and its key; set both right, or begin a new data folder"
            )
        return signer

    def id_key(self) -> bytes:
        """The 32-byte key under which ids are derived, session ids hidden and prompts fenced; made on first start."""
        path = self.id_key_path
        try:
            text = path.read_text() if path.exists() else _make_once(path, secrets.token_hex(32) + "\n")
            key = bytes.fromhex(text.strip())
        except ValueError:
            raise SettingsError(f"{path} holds no key (64 hexadecimal digits): restore it from a backup") from None
        except OSError as error:
            raise _unusable(path, error) from None
        if len(key) < 16:
            raise SettingsError(f"{path} holds a key of {len(key)} bytes; 32 are expected: restore it from a backup")
        return key

    @property
    def signing_key_path(self) -> Path:
        return self.signing_key_file or self.data_dir / "keys" / "signing.key"

    @property
    def id_key_path(self) -> Path:
        return self.id_key_file or self.data_dir / "keys" / "id.key"

    @property
    def ledgers(self) -> tuple[str, ...]:
        """The ledgers that keep every record; the first one's receipts are published."""
        return tuple(self.ledger.split(","))

    @property
    def ledger_path(self) -> Path:
        """The folder of the Merkle ledger."""
        return self.data_dir / "ledger"

    @property
    def fabric_pending_path(self) -> Path:
        """The file of the Fabric transactions that are on their way."""
        return self.data_dir / "fabric-pending.sqlite"

    @property
    def cards_path(self) -> Path:
        """The folder of agreement cards, each named by its digest."""
        return self.data_dir / "cards"

    @property
    def suites_path(self) -> Path:
        """The folder of the replay suites that cases are added to."""
        return self.data_dir / "suites"

    @property
    def runs_path(self) -> Path:
        """The folder of the replay runs that the gateway shows."""
        return self.data_dir / "runs"

    @property
    def catalogue(self) -> str:
        """The address of the catalogue's database; it may hold a password."""
        given = self.catalogue_url
        return given.get_secret_value() if given else f"sqlite:///{self.data_dir / 'catalogue.sqlite'}"

    @property
    def api_keys_path(self) -> Path:
        return self.api_keys_file or self.data_dir / "keys" / "api-keys.json"

    @property
    def callback_keys_path(self) -> Path:
        return self.callback_keys_file or self.data_dir / "keys" / "callback-keys.json"

    def callback_rules(self) -> CallbackRules:
        """Who may be called back."""
        from glassbox.gateway.callbacks.addresses import CallbackRules, allowed_hosts

        hosts = allowed_hosts(self.callback_hosts or "")
        return CallbackRules(hosts, self.callback_allow_http, self.callback_allow_private)

    @property
    def evidence(self) -> str:
        """The evidence store: a folder's path, or `s3://BUCKET/PREFIX`."""
        return self.evidence_url or str(self.data_dir / "evidence")

    def documents(self) -> DocumentRules:
        """Which texts requests may refer to; `glassbox submit` puts them in the first place."""
        from glassbox.contract.documents import DocumentRules

        places = (self.documents_url or str(self.data_dir / "documents")).split(",")
        locations = tuple((place if place.startswith("s3:") else f"file://{place}") + "/" for place in places)
        return DocumentRules(locations, self.document_max_bytes, self.documents_max_bytes)

    def make_data_dir(self) -> Path:
        """The data folder, made if it is not there, closed to others. Raises `SettingsError`."""
        try:
            self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.access(self.data_dir, os.W_OK | os.X_OK):
                raise PermissionError(13, "Permission denied")
        except OSError as error:
            raise _unusable(self.data_dir, error) from None
        return self.data_dir

    def environment(self) -> dict[str, str]:
        """The variables that give another process these settings, wherever it runs: paths are absolute."""
        values = {name: getattr(self, name) for name in self.model_fields_set | {"data_dir"}}
        if self.config.exists():
            values["config"] = self.config
        return {
            variable(name): value.get_secret_value() if isinstance(value, SecretStr) else str(value)
            for name, value in values.items()
            if value is not None
        }

    def described(self) -> Iterator[tuple[str, str, str]]:
        """(environment variable, effective value with secrets masked, where it came from) of every setting."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            source = "environment" if name in self.model_fields_set else "default"
            if value is None and (found := self._found(name)):
                value, source = found
            yield variable(name), "" if value is None else str(value), source

    def _found(self, name: str) -> tuple[Any, str] | None:
        keys = self.data_dir / "keys"
        made = {
            "signing_key_file": keys / "signing.key",
            "id_key_file": keys / "id.key",
            "evidence_url": self.evidence,
            "documents_url": self.data_dir / "documents",
            "api_keys_file": self.api_keys_path,
            "callback_keys_file": self.callback_keys_path,
        }
        if name in made:
            return made[name], "default"
        up = self.up or {}
        running = {"broker_address": up.get("broker", {}).get("address"), "llm_base_url": up.get("llm")}
        return (running[name], str(self.data_dir / "up.json")) if running.get(name) else None


def variable(field: str) -> str:
    """The environment variable of a settings field."""
    alias = Settings.model_fields[field].validation_alias if field in Settings.model_fields else field
    return alias if isinstance(alias, str) else PREFIX + field.upper()


def read_up(data_dir: Path) -> dict[str, Any] | None:
    """`up.json` of a data folder, or None unless the `glassbox up` that wrote it still runs."""
    try:
        with (data_dir / "up.lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None  # nobody holds it: what a killed `up` left behind is not to be believed
    except BlockingIOError:
        pass
    except OSError:
        return None
    try:
        found = json.loads((data_dir / "up.json").read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


@contextmanager
def up_lock(data_dir: Path) -> Iterator[None]:
    """Held by the one `glassbox up` of a data folder. Raises `SettingsError` where another holds it."""
    path = data_dir / "up.lock"
    try:
        lock = path.open("ab")
    except OSError as error:
        raise _unusable(path, error) from None
    with lock:
        for last in (False, False, True):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if last:
                    raise SettingsError(
                        f"`glassbox up` runs already in {data_dir}; stop it, or set {PREFIX}DATA_DIR to another folder"
                    ) from None
                time.sleep(0.1)  # it may be no more than a client that looks whether `up` runs
        yield


def _place(place: str) -> str:
    place = place.strip()
    if place.startswith("s3://"):
        if not _BUCKET.fullmatch(place):
            raise ValueError("must be s3://BUCKET or s3://BUCKET/PREFIX, of A-Z a-z 0-9 . _ -")
        return place.rstrip("/")
    if urlsplit(place).scheme not in ("", "file"):
        raise ValueError("must be a folder (a path or file:///path) or an S3-compatible bucket (s3://BUCKET/PREFIX)")
    return str(Path(place.removeprefix("file://")).expanduser().absolute())


def _make_once(path: Path, text: str) -> str:
    """Write `text` to a file of mode 600 unless it is there; returns what stands in it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)  # whole or not there: another process may start at the same moment
    except FileExistsError:
        return path.read_text()
    finally:
        temporary.unlink()
    return text


def _read(path: Path, setting: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{setting}: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{setting}: {path} is not UTF-8 text") from None


def _unusable(path: Path, error: OSError) -> SettingsError:
    return SettingsError(
        f"{path} cannot be used: {error.strerror}; make it accessible, or set {PREFIX}DATA_DIR to another folder"
    )
