"""The Kubernetes manifests are what their schemas ask for, and what the product and its topics are."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from glassbox.contract.policy import load_policies
from glassbox.contract.verdict import KINDS
from glassbox.settings import Settings, variable
from streams.access import access
from streams.faust_app import DRAIN_S
from streams.roles import DOORS, ROLES
from tests.operations.kustomize import Resource, build, containers

KUBERNETES = Path(__file__).parent.parent.parent / "deploy" / "kubernetes"
OVERLAYS = {name: build(KUBERNETES / "overlays" / name) for name in ("cpu", "gpu", "production")}
EACH_ONCE = {json.dumps(resource): resource for resources in OVERLAYS.values() for resource in resources}

SCALED_OBJECT = {  # keda.sh/docs/2.22/reference/scaledobject-spec
    *("scaleTargetRef", "pollingInterval", "cooldownPeriod", "initialCooldownPeriod", "idleReplicaCount"),
    *("minReplicaCount", "maxReplicaCount", "fallback", "advanced", "triggers"),
}
KAFKA_TRIGGER = {  # keda.sh/docs/2.22/scalers/apache-kafka
    *("bootstrapServers", "bootstrapServersFromEnv", "consumerGroup", "topic", "lagThreshold"),
    *("activationLagThreshold", "offsetResetPolicy", "allowIdleConsumers", "scaleToZeroOnInvalidOffset"),
    *("excludePersistentLag", "limitToPartitionsWithLag", "version", "partitionLimitation", "tls", "sasl"),
}
CUSTOM = {"keda.sh/v1alpha1", "monitoring.coreos.com/v1"}


def of_kind(overlay: str, kind: str) -> dict[str, Resource]:
    return {it["metadata"]["name"]: it for it in OVERLAYS[overlay] if it["kind"] == kind}


def roles(resources: Iterable[Resource]) -> list[str]:
    return sorted(it["metadata"]["labels"]["app.kubernetes.io/component"] for it in resources)


@pytest.mark.parametrize("resource", EACH_ONCE.values(), ids=lambda it: f"{it['kind']}-{it['metadata']['name']}")
def test_each_object_has_the_shape_that_kubernetes_asks_for(resource: Resource) -> None:
    assert resource["kind"] == "Namespace" or resource["metadata"]["namespace"] == "glassbox"
    if resource["apiVersion"] not in CUSTOM:
        kubernetes_validate.validate(resource, kubernetes_validate.latest_version(), strict=True)


def test_a_shape_that_is_wrong_is_seen() -> None:
    wrong = build(KUBERNETES / "overlays" / "cpu")
    deployment = next(it for it in wrong if it["kind"] == "Deployment")
    containers(deployment)[0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_names_are_given_once_and_every_reference_is_there(overlay: str) -> None:
    resources = OVERLAYS[overlay]
    names = [(it["kind"], it["metadata"]["name"]) for it in resources]
    assert len(names) == len(set(names))
    secrets = {it["metadata"]["name"] for it in yaml.safe_load_all((KUBERNETES / "secrets.example.yaml").read_text())}
    there = {("Secret", name) for name in secrets} | set(names)
    for resource in resources:
        for reference in _references(resource):
            assert reference in there, f"{resource['metadata']['name']} names {reference}"


def _references(value: Any) -> Iterable[tuple[str, str]]:
    if isinstance(value, list):
        for each in value:
            yield from _references(each)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key in ("configMap", "configMapRef"):
                yield "ConfigMap", inner["name"]
            elif key in ("secretRef", "secretKeyRef"):
                yield "Secret", inner["name"]
            elif key == "secretName":
                yield "Secret", inner
            elif key == "claimName":
                yield "PersistentVolumeClaim", inner
            elif key == "serviceAccountName":
                yield "ServiceAccount", inner
            elif key == "scaleTargetRef":
                yield "Deployment", inner["name"]
            elif key == "authenticationRef":
                yield "TriggerAuthentication", inner["name"]
            else:
                yield from _references(inner)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_role_has_a_deployment_and_a_disruption_budget(overlay: str) -> None:
    deployments, budgets = of_kind(overlay, "Deployment"), of_kind(overlay, "PodDisruptionBudget")
    assert roles(deployments.values()) == roles(budgets.values()) == sorted((*ROLES, *DOORS))
    for name, budget in budgets.items():
        assert budget["spec"]["selector"] == deployments[name]["spec"]["selector"]
        labels = deployments[name]["spec"]["template"]["metadata"]["labels"]
        assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_pod_may_do_little_and_is_asked_how_it_is(overlay: str) -> None:
    longest = max(float(policy.deadline_s) for policy in load_policies("").values())
    for name, deployment in of_kind(overlay, "Deployment").items():
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"], name
        assert container["securityContext"]["readOnlyRootFilesystem"], name
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}, name
        assert not pod["automountServiceAccountToken"], name
        assert pod["terminationGracePeriodSeconds"] >= longest + DRAIN_S, name
        assert container["livenessProbe"]["httpGet"]["path"] == "/live", name
        ready = {"tcpSocket": {"port": "http"}} if name == "glassbox-gateway" else {"httpGet": {"path": "/ready"}}
        for how, asked in ready.items():
            assert container["readinessProbe"][how].items() >= asked.items(), name
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys(), name
        assert "memory" in container["resources"]["limits"], name
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}, name


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_settings_are_known_and_fit_together(overlay: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {variable(field) for field in Settings.model_fields}
    config = of_kind(overlay, "ConfigMap")["glassbox-settings"]["data"]
    for deployment in of_kind(overlay, "Deployment").values():
        (container,) = containers(deployment)
        given = {each["name"]: each.get("value", "x") for each in container["env"]} | config
        ours = {name: value for name, value in given.items() if name.startswith("GLASSBOX_")}
        assert ours.keys() <= known
        with monkeypatch.context() as environment:
            for name, value in ours.items():
                environment.setenv(name, value)
            settings = Settings.load()
        assert str(settings.config) == config["GLASSBOX_CONFIG"]
        assert settings.metrics_port == container["ports"][0]["containerPort"]
    toml = of_kind(overlay, "ConfigMap")["glassbox-policies"]["data"]["glassbox.toml"]
    assert set(load_policies(toml)) == set(load_policies(""))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_roles_are_scaled_by_the_lag_of_their_own_group(overlay: str) -> None:
    """The committer is not: there is one. Nor is what stands beside the pipeline."""
    scaled, known = of_kind(overlay, "ScaledObject"), access()
    partitions = int(of_kind(overlay, "ConfigMap")["glassbox-settings"]["data"]["GLASSBOX_PARTITIONS"])
    assert roles(scaled.values()) == sorted(set(ROLES) - {"committer"})
    for name, it in scaled.items():
        spec, role = it["spec"], it["metadata"]["labels"]["app.kubernetes.io/component"]
        assert spec.keys() <= SCALED_OBJECT
        assert spec["scaleTargetRef"] == {"name": name}
        assert 0 <= spec["minReplicaCount"] <= spec["maxReplicaCount"] <= partitions
        assert spec["minReplicaCount"] > 0 or role in KINDS
        (trigger,) = spec["triggers"]
        assert trigger["type"] == "kafka"
        asked = trigger["metadata"]
        assert asked.keys() <= KAFKA_TRIGGER
        assert all(isinstance(value, str) for value in asked.values())
        assert asked["consumerGroup"] == known[role].group
        # without a topic it is all that the group has read
        assert asked.get("topic") == (known[role].reads[0].name if known[role].lanes == 1 else None)
        assert asked["bootstrapServersFromEnv"] == "GLASSBOX_BROKER"
        assert asked["offsetResetPolicy"] == "earliest"  # as the roles read


@pytest.mark.parametrize("path", sorted((KUBERNETES / "base" / "roles").glob("*/scaling.yaml")), ids=str)
def test_a_threshold_is_what_the_comment_above_it_computes(path: Path) -> None:
    """`lagThreshold = RATE a second x SECONDS s = NUMBER`"""
    said = re.search(r"lagThreshold = ([\d.]+) a second x ([\d.]+) s = (\d+)", path.read_text())
    assert said, path
    rate, seconds, product = map(float, said.groups())
    (trigger,) = yaml.safe_load(path.read_text())["spec"]["triggers"]
    assert math.isclose(rate * seconds, product)
    assert float(trigger["metadata"]["lagThreshold"]) == product


def test_production_asks_for_what_production_checks() -> None:
    data = of_kind("production", "ConfigMap")["glassbox-settings"]["data"]
    assert data["GLASSBOX_PRODUCTION"] == "true"
    assert int(data["GLASSBOX_REPLICATION"]) >= 3
    assert data["GLASSBOX_BROKER_SECURITY"] == "SASL_SSL"


def test_network_policies_choose_pods_that_exist() -> None:
    labels = [it["spec"]["template"]["metadata"]["labels"] for it in of_kind("cpu", "Deployment").values()]
    policies = of_kind("cpu", "NetworkPolicy")
    assert policies["glassbox-default"]["spec"]["podSelector"] == {}
    assert set(policies["glassbox-default"]["spec"]["policyTypes"]) == {"Ingress", "Egress"}
    for name, policy in policies.items():
        chosen = policy["spec"]["podSelector"]
        for key, value in chosen.get("matchLabels", {}).items():
            assert any(each.get(key) == value for each in labels), name
        for expression in chosen.get("matchExpressions", ()):
            known = {*(each[expression["key"]] for each in labels), "setup"}
            assert set(expression["values"]) <= known, name


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kustomize_makes_the_same_of_it(overlay: str) -> None:
    program = shutil.which("kustomize")
    if program is None:
        pytest.skip("kustomize is not here: go install sigs.k8s.io/kustomize/kustomize/v5@latest")
    command = [program, "build", str(KUBERNETES / "overlays" / overlay)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    made = {(it["kind"], it["metadata"]["name"]): it for it in yaml.safe_load_all(said)}
    assert made == {(it["kind"], it["metadata"]["name"]): it for it in OVERLAYS[overlay]}
