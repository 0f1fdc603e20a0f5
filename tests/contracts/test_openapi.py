"""The API's document is a snapshot: a change of it is a change that clients see."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from strop_hub.app import create_app
from strop_hub.settings import Settings

SNAPSHOT = Path(__file__).with_name("openapi.json")
UPDATE = "UPDATE_SNAPSHOTS"


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    app = create_app(Settings(data=tmp_path / "hub"))
    try:
        return app.openapi()
    finally:
        app.state.hub.close()


def test_the_document_is_the_committed_one(
    document: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    document["info"]["version"] = "snapshot"
    current = json.dumps(document, indent=1, sort_keys=True) + "\n"
    if os.environ.get(UPDATE):
        SNAPSHOT.write_text(current)

    assert current == SNAPSHOT.read_text(), f"{UPDATE}=1 pytest {__file__} writes it anew"


def test_every_operation_has_a_name_of_its_own_a_tag_and_a_summary(
    document: dict[str, Any],
) -> None:
    operations = [
        operation for methods in document["paths"].values() for operation in methods.values()
    ]
    names = [operation["operationId"] for operation in operations]

    assert len(set(names)) == len(names)
    for operation in operations:
        assert operation["operationId"].isidentifier()
        assert operation["operationId"].islower()
        assert operation["tags"]
        assert operation["description"]


def test_pages_for_people_are_not_in_the_document(document: dict[str, Any]) -> None:
    known = ("/api/v1/", "/legacy/", "/owners/{owner}/legacy/", "/healthz", "/readyz")

    assert [path for path in document["paths"] if not path.startswith(known)] == []
