"""How the pipeline's clients reach a secured Kafka: one set of facts for librdkafka and for aiokafka (Faust)."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
"""Kafka's `security.protocol`."""
Mechanism = Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"]


@dataclass(frozen=True)
class Security:
    """`ca`: certificates to trust, by default the system's. `certificate` and `key`: who we are to a broker that asks
    for a client certificate (mutual TLS). All PEM files. The server's name is always checked."""

    protocol: Protocol = "PLAINTEXT"
    mechanism: Mechanism = "SCRAM-SHA-512"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    key_password: str | None = field(default=None, repr=False)

    @property
    def tls(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def sasl(self) -> bool:
        return self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    def librdkafka(self) -> dict[str, str]:
        """The settings of a confluent-kafka client."""
        wanted: dict[str, str | Path | None] = {"security.protocol": self.protocol}
        if self.sasl:
            wanted |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.username,
                "sasl.password": self.password,
            }
        if self.tls:
            wanted |= {
                "ssl.ca.location": self.ca,
                "ssl.certificate.location": self.certificate,
                "ssl.key.location": self.key,
                "ssl.key.password": self.key_password,
            }
        return {name: str(value) for name, value in wanted.items() if value is not None}

    def ssl_context(self) -> ssl.SSLContext | None:
        """For aiokafka; None without TLS. Raises `OSError` (`ssl.SSLError` is one) where a file cannot be used."""
        if not self.tls:
            return None
        context = ssl.create_default_context(cafile=self.ca)
        if self.certificate is not None:
            # without a password an encrypted key would ask for one on the terminal
            context.load_cert_chain(self.certificate, self.key, self.key_password or "")
        return context
