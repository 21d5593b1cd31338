"""Prometheus and promtool as Debian has them, for the tests: on the shipped files, and as a server of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from glassbox.cli.children import Child, free_ports, stop_all
from tests.pipeline import ROOT, get, until

CONFIG = ROOT / "deploy" / "prometheus" / "prometheus.yml"
RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"


def lacking() -> str | None:
    """What to install; None where both are there."""
    gone = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]
    return f"{' and '.join(gone)} not installed: apt-get install prometheus" if gone else None


def promtool(*arguments: str, given: str = "") -> str:
    """What promtool says; fails the test with it where promtool finds a fault."""
    done = subprocess.run(["promtool", *arguments], input=given, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def alerts() -> list[dict[str, Any]]:
    """The alert rules as shipped."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


class Prometheus:
    """A server that looks every few seconds at these ports (role -> port), each `for` of the rules cut to `wait`."""

    def __init__(self, folder: Path, ports: Mapping[str, int], wait: str = "2s") -> None:
        (self.port,) = free_ports(1)
        rules = yaml.safe_load(RULES.read_text())
        for group in rules["groups"]:
            for rule in group["rules"]:
                if "for" in rule:
                    rule["for"] = wait
        config = yaml.safe_load(CONFIG.read_text())
        # a busy machine may take seconds to answer, and a scrape that was given up makes its series stale
        config["global"] = {"scrape_interval": "4s", "scrape_timeout": "4s", "evaluation_interval": "1s"}
        (job,) = config["scrape_configs"]
        del job["dns_sd_configs"], job["relabel_configs"]
        job["static_configs"] = [
            {"targets": [f"127.0.0.1:{port}"], "labels": {"role": role}} for role, port in ports.items()
        ]
        (folder / "alerts.yml").write_text(yaml.safe_dump(rules))
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        command = [
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--log.level=warn",
        ]
        self._server = Child("prometheus", command, dict(os.environ), folder)

    def start(self) -> None:
        self._server.start()
        until(lambda: get(self.port, "/-/ready")[0] == 200, 60, "Prometheus is ready")

    def close(self) -> None:
        stop_all([self._server], 10)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an instant query; fails the test where Prometheus refuses it."""
        status, body = get(self.port, f"/api/v1/query?query={quote(expression)}")
        assert status == 200, f"{expression}: {body}"
        result = json.loads(body)["data"]["result"]
        assert isinstance(result, list)
        return result

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        found = json.loads(get(self.port, "/api/v1/alerts")[1])["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in found if alert["state"] == "firing"}
