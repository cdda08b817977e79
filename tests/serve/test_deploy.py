"""The container and the manifests: as a cluster would take them, and in agreement with the service they start."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.manifest_schemas import CORE_VERSIONS
from support.services import ALICE
from ullage.cli.app import _command
from ullage.errors import InputError
from ullage.serve.server import make_service
from ullage.serve.settings import ServeSettings
from ullage.serve.tokens import read_tokens

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
DOCUMENTS = [each for file in sorted(FOLDER.glob("*.yaml")) for each in yaml.safe_load_all(file.read_text())]


def refused(document: dict[str, Any]) -> list[str]:
    import kubernetes_validate  # type: ignore[import-untyped]

    found = []
    for version in CORE_VERSIONS:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            found.append(str(error.message))
    return found


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = [each for each in DOCUMENTS if each["kind"] == kind]
    return copy.deepcopy(found)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_a_cluster_takes_it(document: dict[str, Any]) -> None:
    assert refused(document) == []


def test_a_misspelt_field_would_be_found() -> None:
    wrong = of_kind("Deployment")
    wrong["spec"]["template"]["spec"]["containers"][0]["readyProbe"] = {}
    assert refused(wrong)


def test_what_is_started_is_what_there_is() -> None:
    container = of_kind("Deployment")["spec"]["template"]["spec"]["containers"][0]
    known = {name for each in _command("serve").params for name in each.opts}
    assert container["args"][0] == "serve"
    assert {each for each in container["args"] if each.startswith("--")} <= known
    port = container["ports"][0]["containerPort"]
    assert str(port) in container["args"]
    routes = {getattr(each, "path", "") for each in _routes()}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"] in routes


def _routes() -> Any:
    service = make_service(ServeSettings(folder=Path("/nonexistent")))
    return service.app.routes.routes


def test_every_volume_secret_and_claim_that_is_named_is_there() -> None:
    pod = of_kind("Deployment")["spec"]["template"]["spec"]
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert {each["name"] for each in pod["containers"][0]["volumeMounts"]} == set(volumes)
    secrets = {each["metadata"]["name"] for each in DOCUMENTS if each["kind"] == "Secret"}
    assert volumes["tokens"]["secret"]["secretName"] in secrets
    assert pod["containers"][0]["env"][0]["valueFrom"]["secretKeyRef"]["name"] in secrets
    assert (
        volumes["ledger"]["persistentVolumeClaim"]["claimName"] == of_kind("PersistentVolumeClaim")["metadata"]["name"]
    )
    labels = of_kind("Deployment")["spec"]["selector"]["matchLabels"]
    assert (
        labels
        == of_kind("Service")["spec"]["selector"]
        == of_kind("NetworkPolicy")["spec"]["podSelector"]["matchLabels"]
    )


def test_the_example_of_tokens_lets_nobody_in_until_it_is_filled(tmp_path: Path) -> None:
    (secret,) = [each for each in DOCUMENTS if each["metadata"]["name"] == "ullage-tokens"]
    text = secret["stringData"]["tokens"]
    file = tmp_path / "tokens"
    for written in (text, text.replace("# ", "")):
        file.write_text(written)
        file.chmod(0o440)
        with pytest.raises(InputError):
            read_tokens(file)
    file.chmod(0o600)
    file.write_text(text.replace("# ", "").replace("alice plan CHANGE-ME", f"alice plan {ALICE}").split("grafana")[0])
    file.chmod(0o440)
    assert read_tokens(file).find(f"Bearer {ALICE}") is not None


def test_the_container_copies_files_that_are_there_and_runs_as_nobody() -> None:
    text = (ROOT / "deploy" / "Containerfile").read_text()
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        for each in sources.split():
            assert (ROOT / each).exists(), each
    assert "USER 65532" in text
    assert "--require-hashes" in text
    locked = (ROOT / "requirements" / "serve.txt").read_text()
    for name in ("fastapi", "uvicorn", "psycopg", "hatchling"):
        assert re.search(rf"^{name}==", locked, re.MULTILINE), name
