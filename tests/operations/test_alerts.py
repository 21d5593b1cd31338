"""The alert rules as shipped: what promtool says of them, and that each can be acted on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from glassbox.gateway.problems import CODES
from streams.roles import DOORS, ROLES
from tests.operations.prometheus import CONFIG, RULES, alerts, promtool
from tests.pipeline import ROOT

RUNBOOKS = ROOT / "docs" / "operations.md"
UNIT_TESTS = sorted(Path(__file__).parent.glob("alerts*_test.yml"))


@pytest.mark.usefixtures("prometheus_installed")
def test_prometheus_takes_configuration_and_rules() -> None:
    promtool("check", "config", str(CONFIG))
    promtool("check", "rules", "--lint-fatal", str(RULES))


@pytest.mark.usefixtures("prometheus_installed")
def test_each_alert_fires_when_it_should_and_only_then() -> None:
    promtool("test", "rules", *map(str, UNIT_TESTS))


def test_every_alert_has_a_unit_test_and_says_where_its_runbook_is() -> None:
    tested = {
        case["alertname"]
        for path in UNIT_TESTS
        for test in yaml.safe_load(path.read_text())["tests"]
        for case in test["alert_rule_test"]
        if case["exp_alerts"]
    }
    assert tested == {alert["alert"] for alert in alerts()}
    for alert in alerts():
        assert alert["annotations"]["runbook_url"] == f"docs/operations.md#{alert['alert'].lower()}"
        assert alert["labels"]["severity"] in ("page", "ticket")


def test_every_alert_has_a_runbook() -> None:
    headings = {line.lstrip("# ") for line in RUNBOOKS.read_text().splitlines() if line.startswith("#")}
    assert {alert["alert"] for alert in alerts()} - headings == set(), f"{RUNBOOKS.name} lacks a section for these"


def test_what_the_gateway_turns_callers_away_for_has_a_line_in_the_runbook() -> None:
    (alert,) = (each for each in alerts() if each["alert"] == "GlassBoxGatewayRefusing")
    found = re.search(r'reason=~"([^"]+)"', alert["expr"])
    assert found is not None
    alerting = {code for code in CODES if re.fullmatch(found[1], code)}
    assert alerting == {code for code, (status, _) in CODES.items() if status >= 500} | {"too_busy"}
    section = RUNBOOKS.read_text().split("### GlassBoxGatewayRefusing")[1].split("\n###")[0]
    assert {code for code in alerting if f"`{code}`" not in section} == set()


def test_prometheus_looks_at_every_role() -> None:
    (job,) = yaml.safe_load(CONFIG.read_text())["scrape_configs"]
    (found,) = job["dns_sd_configs"]
    assert set(found["names"]) == {*ROLES, *DOORS}
