"""The compose file runs a hub, PostgreSQL and an S3 store; checked without Docker."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from strop_hub.settings import PREFIX, Settings
from tests.architecture.tree import ROOT

TEXT = (ROOT / "docker-compose.yml").read_text()
SERVICES: dict[str, Any] = yaml.safe_load(TEXT)["services"]


def test_hub_database_and_store_are_healthy_before_who_needs_them() -> None:
    assert set(SERVICES) == {"hub", "database", "store"}
    assert all("healthcheck" in service for service in SERVICES.values())
    assert all(service["restart"] == "unless-stopped" for service in SERVICES.values())
    assert SERVICES["hub"]["depends_on"] == {
        "database": {"condition": "service_healthy"},
        "store": {"condition": "service_healthy"},
    }


def test_every_service_keeps_its_contents_in_a_volume_that_is_declared() -> None:
    used = {volume.split(":")[0] for each in SERVICES.values() for volume in each["volumes"]}

    assert used == set(yaml.safe_load(TEXT)["volumes"])


def test_the_hub_gets_settings_that_it_knows_and_that_fit_the_others() -> None:
    environment = SERVICES["hub"]["environment"]
    known = {PREFIX + field.name.upper() for field in fields(Settings)}
    given = {name: value for name, value in environment.items() if name.startswith(PREFIX)}
    assert set(given) <= known

    plain = {name: re.sub(r"\$\{[^}]*\}", "x", value) for name, value in given.items()}
    settings = Settings.read(plain, data="/data")

    assert settings.database == "postgresql://hub:x@database/hub"
    assert SERVICES["database"]["environment"]["POSTGRES_USER"] == "hub"
    assert settings.storage_url == "s3://hub"
    assert "-bucket=hub" in SERVICES["store"]["command"]
    assert settings.s3_endpoint_url == "http://store:8333"
    assert "-s3.port=8333" in SERVICES["store"]["command"]


def test_no_password_has_a_default_and_nothing_but_the_hub_is_reachable() -> None:
    secrets = re.findall(r"\$\{(STROP_[A-Z_]*(?:PASSWORD|SECRET))(.)", TEXT)

    assert secrets
    assert {after for _, after in secrets} == {":"}
    assert not re.findall(r"(?:PASSWORD|SECRET):-", TEXT)
    assert "ports" not in SERVICES["database"]
    assert "ports" not in SERVICES["store"]
    assert all(port.startswith("127.0.0.1:") for port in SERVICES["hub"]["ports"])


def test_the_image_has_what_the_compose_file_needs() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()

    assert dockerfile.count("hub,postgres,s3") == 2


def test_the_stores_telemetry_is_off_and_its_options_are_known() -> None:
    command = SERVICES["store"]["command"]
    assert "-master.telemetry=false" in command
    weed = Path(sys.executable).with_name("weed")
    answer = subprocess.run([weed, "mini", "-h"], capture_output=True, text=True)
    known = answer.stdout + answer.stderr

    for option in command[1:]:
        assert re.search(rf"^\s+{re.escape(option.partition('=')[0])}\b", known, re.MULTILINE), (
            option
        )


@pytest.mark.parametrize("name", ["hub", "database", "store"])
def test_every_image_or_build_is_named(name: str) -> None:
    assert ("image" in SERVICES[name]) != ("build" in SERVICES[name])
