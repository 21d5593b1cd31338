"""What `kustomize build` makes of deploy/kubernetes, as far as those files go: resources, nameSuffix, labels, images
and JSON patches. The real one is a Go program that not every machine has; where it is, a test compares the two."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonpatch
import yaml

Resource = dict[str, Any]

_KNOWN = {"apiVersion", "kind", "resources", "nameSuffix", "labels", "images", "patches"}


def build(folder: Path) -> list[Resource]:
    """Every resource of a kustomization, patched, in the order of its files."""
    asked = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert asked.keys() <= _KNOWN, f"{folder}: this small renderer does not know {sorted(asked.keys() - _KNOWN)}"
    made = [resource for path in asked["resources"] for resource in _read(folder / path)]
    for patch in asked.get("patches", ()):
        made = [_patched(resource, patch) for resource in made]
    for resource in made:
        resource["metadata"]["name"] += asked.get("nameSuffix", "")
        for labels in asked.get("labels", ()):
            assert labels["includeSelectors"], folder
            for at in _labelled(resource):
                at.update(labels["pairs"])
    for image in asked.get("images", ()):
        for container in (each for resource in made for each in containers(resource)):
            if container["image"] == image["name"]:
                container["image"] = f"{image['newName']}:{image['newTag']}"
    return made


def containers(resource: Resource) -> list[Resource]:
    """Of a Deployment or a Job."""
    pod = resource["spec"]["template"]["spec"] if "template" in resource.get("spec", {}) else {}
    return [*pod.get("initContainers", ()), *pod.get("containers", ())]


def _read(path: Path) -> list[Resource]:
    return build(path) if path.is_dir() else list(yaml.safe_load_all(path.read_text()))


def _patched(resource: Resource, patch: Resource) -> Resource:
    target, metadata = patch["target"], resource["metadata"]
    if target["kind"] != resource["kind"] or not re.fullmatch(target.get("name", ".*"), metadata["name"]):
        return resource
    done: Resource = jsonpatch.apply_patch(resource, yaml.safe_load(patch["patch"]))
    return deepcopy(done)


def _labelled(resource: Resource) -> Iterator[dict[str, str]]:
    """Everywhere that labels and selectors of a resource stand."""
    yield resource["metadata"].setdefault("labels", {})
    spec = resource.get("spec", {})
    if resource["kind"] == "Deployment":
        yield spec["selector"]["matchLabels"]
        yield spec["template"]["metadata"]["labels"]
    elif resource["kind"] == "PodDisruptionBudget":
        yield spec["selector"]["matchLabels"]
